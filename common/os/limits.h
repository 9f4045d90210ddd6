/* limits.h - what control groups leave this process: those of a container, of a job of Slurm or of
 * a service. Neither the number of processors nor MemAvailable of /proc/meminfo tells of them: a
 * process that takes more time of processors is halted for the rest of each tenth of a second, all
 * threads at a barrier with it, and one that takes more memory is killed.
 *
 * Both versions of control groups are read, from the process's group up to the mount, and the least
 * limit counts. Thread-safe: no state. */
#ifndef COMMON_OS_LIMITS_H
#define COMMON_OS_LIMITS_H

#include <stdint.h>

typedef struct vc_limits {
    double processors;                       /* quota of their time, 2.5: that of two and a half; 0:
                                              * none */
    int64_t memory;                          /* bytes; INT64_MAX: no limit */
    int64_t memory_left;                     /* bytes that nothing of the group uses; pages of files
                                              * count as unused; INT64_MAX: no limit */
} vc_limits;

/* Reads the limits. `root` stands before the paths of /proc and of the mounts: "" but in tests.
 * What cannot be read is no limit. */
vc_limits vc_limits_read(const char *root);

/* Returns n, the number of processors there are, or those of the quota, rounded up, if fewer. */
int vc_within_quota(int n);

#endif
