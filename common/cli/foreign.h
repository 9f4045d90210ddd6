/* foreign.h - flags of other programs that people have in their scripts: constant tables for
 * vc_program.partner and .foreign, each ended by a NULL name. */
#ifndef COMMON_CLI_FOREIGN_H
#define COMMON_CLI_FOREIGN_H

#include "common/cli/flags.h"

extern const vc_foreign vc_vprep_flags[];      /* all flags of vprep: vtrain's partner */
extern const vc_foreign vc_vtrain_flags[];     /* all flags of vtrain: vprep's partner */
extern const vc_foreign vc_ignored_flags[];    /* of other trainers, without effect here */
extern const vc_foreign vc_refused_flags[];    /* of other trainers, whose results would differ */
extern const vc_foreign vc_program_flags[];    /* of the programs beside them */
extern const vc_renamed vc_renamed_flags[];    /* names of ttt-video: sections of its TOML files */
/* Why text encoders and a VAE are not trained, and the programs that train them. */
extern const char *const vc_only_transformer;
extern const vc_foreign *const vc_peers[];     /* the tables of other trainers, ended by NULL */

#endif
