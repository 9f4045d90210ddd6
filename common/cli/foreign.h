/* foreign.h - flags that people have in their scripts and that a program does not act on itself:
 * tables for vc_program.partner and .foreign, each ended by a NULL name. Constant. */
#ifndef COMMON_CLI_FOREIGN_H
#define COMMON_CLI_FOREIGN_H

#include "common/cli/flags.h"

extern const vc_foreign vc_vprep_flags[];      /* all flags of vprep: vtrain's partner */
extern const vc_foreign vc_vtrain_flags[];     /* all flags of vtrain: vprep's partner */
extern const vc_foreign vc_jobless_flags[];    /* of other trainers, without a job in this design */
extern const vc_foreign vc_refused_flags[];    /* of other trainers: the result would differ */
extern const vc_foreign *const vc_peers[];     /* the last two, ended by NULL */

#endif
