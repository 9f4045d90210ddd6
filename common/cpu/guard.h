/* guard.h - an error message for a library that crashes when memory is out.
 *
 * oneDNN is C++: if malloc fails, an exception leaves its C functions, which ends in abort(); if
 * mmap fails for its machine code, it writes to address 0. The process cannot continue after
 * either. While a thread is between the two calls below, SIGABRT and SIGSEGV of this thread or of
 * OpenMP's workers print a line with the remedy and end the process with status 1, as any error
 * does. Elsewhere the signals reach their previous handlers. */
#ifndef COMMON_CPU_GUARD_H
#define COMMON_CPU_GUARD_H

/* call names the work in the message, as "oneDNN multiplies", and must outlive the guard. Guards do
 * not nest. */
void cpu_guard_begin(const char *call);
void cpu_guard_end(void);

#endif
