/* meet.h - watches a process until all ranks of the run are connected. Internal to common/comm.
 *
 * MPI_Init returns on no rank before all have called it, and says nothing while it waits. A thread
 * prints a line when that takes long: which ranks of this machine wait, and which are stopped or
 * have not come so far. After the patience it reports an error and ends the process, whose launcher
 * then ends the others. Of the ranks of one machine the lowest that runs prints; time counts only
 * while the process runs itself. */
#ifndef COMMON_COMM_MEET_H
#define COMMON_COMM_MEET_H

#include "common/comm/comm.h"

typedef struct vc_meet vc_meet;

/* Starts the thread, of one of `ranks` processes. o is borrowed until the end. *out is NULL on
 * failure. */
int vc_meet_begin(vc_meet **out, const vc_comm_start *o, long ranks, vc_err *err);
/* All are connected, or the process gives up by itself. NULL is fine. */
void vc_meet_end(vc_meet *m);

#endif
