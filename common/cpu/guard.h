/* guard.h - the last words of a library that does not survive when memory is out.
 *
 * oneDNN is C++: where malloc gives nothing, an exception leaves its C functions, which ends in abort();
 * where mmap gives nothing for its machine code, it writes to address 0. Nothing can go on after that.
 * While a thread is between the two calls below, those signals of its own or of OpenMP's workers print a
 * line that says what to do and end the process with status 1, as any error does. Elsewhere they do what
 * they did before. */
#ifndef COMMON_CPU_GUARD_H
#define COMMON_CPU_GUARD_H

/* what: "oneDNN multiplies": a string that stays. Guards do not nest. */
void cpu_guard_begin(const char *what);
void cpu_guard_end(void);

#endif
