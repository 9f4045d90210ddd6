/* like.h - --like TRAINER: what other trainers take for a setting that is left out, as
 * values of our flags. See docs/interface.md. */
#ifndef COMMON_CLI_LIKE_H
#define COMMON_CLI_LIKE_H

#include "common/cli/flags.h"

#define VC_LIKE_ALLOWED "none|videox-fun|finetrainers|diffsynth|musubi|diffusion-pipe"
enum { VC_LIKE_NONE, VC_LIKE_PEERS = 5 };

typedef struct vc_like {
    const char *flag;
    const char *value[VC_LIKE_PEERS];      /* in the order of VC_LIKE_ALLOWED; NULL: as ours */
    const char *only;                      /* what it is for, where not for every run, or NULL */
} vc_like;

/* Each ended by a NULL flag. Rows that others depend on come first. */
extern const vc_like vc_vprep_like[], vc_vtrain_like[];

/* Whether a row has a job, with what the options say so far. */
typedef bool vc_like_fits(const void *options, const char *flag);

/* After vc_flags_parse: takes the defaults of `like`, an index into VC_LIKE_ALLOWED, for what was
 * not given, and notes the table of those that differ. Of VC_LIKE_NONE, unless that was given, a
 * command with names that one of the trainers alone has is told in a line which would differ. */
int vc_like_take(vc_flags *set, int like, const vc_like *rows, vc_like_fits *fits,
                 const void *options, vc_err *err);

#endif
