/* foreign.h - flags that people have in their scripts and that a program does not act on itself:
 * rows for vc_program.foreign, each table ended by a NULL name. Constant. */
#ifndef COMMON_CLI_FOREIGN_H
#define COMMON_CLI_FOREIGN_H

#include "common/cli/flags.h"

extern const vc_foreign vc_vprep_flags[];      /* act in vprep: vtrain accepts them with a line */
extern const vc_foreign vc_vtrain_flags[];     /* act in vtrain: vprep accepts them with a line */
extern const vc_foreign vc_jobless_flags[];    /* of other trainers, without a job in this design */
extern const vc_foreign vc_refused_flags[];    /* whose absence would change what is done */

#endif
