/* stages.h - the run of vprep: from checked settings to a finished dataset, or to the plan alone
 * with --dry_run. */
#ifndef PRECOMPUTE_VPREP_STAGES_H
#define PRECOMPUTE_VPREP_STAGES_H

#include "precompute/run/vprep.h"

/* Collective (precompute/run/share.h). p->c, p->encoders and p->rules are settled. VC_ESTOP: the
 * user asked for an end; what was made is kept, and the same command continues. */
int vprep_run(vprep *p, vc_err *err);

#endif
