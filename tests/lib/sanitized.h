/* sanitized.h - SANITIZED is 1 where the address sanitizer is compiled in. Tests leave out there
 * what finds other numbers alone, and runs no code that other rows do not run; docs/tests.md lists
 * it. */
#ifndef TESTS_LIB_SANITIZED_H
#define TESTS_LIB_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#endif
