/* launch.h - a program starts itself again as the ranks of a run, as other trainers' launchers
 * do. */
#ifndef COMMON_COMM_LAUNCH_H
#define COMMON_COMM_LAUNCH_H

#include <stdint.h>

#include "common/base/err.h"

/* Returns the line that starts n ranks of the command, malloc'ed: by srun in a job of Slurm, else
 * by mpirun. NULL: out of memory. */
char *vc_launch_line(int64_t n, char *const *argv);
/* Returns 0 if vc_launch can start n ranks on this machine. VC_EUSAGE, with the line to type: this
 * is a job of Slurm; the program was built without MPI; there is no mpirun; or the program was
 * started by vc_launch already, and MPI did not connect it. */
int vc_launch_check(int64_t n, char *const *argv, vc_err *err);
/* Replaces this process by mpirun with n ranks of the command, which are not bound to cores. The
 * process has used no MPI. Returns only after a failure. */
int vc_launch(int64_t n, char *const *argv, vc_err *err);

#endif
