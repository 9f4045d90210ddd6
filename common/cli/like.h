/* like.h - --like TRAINER: the defaults of other trainers as values of our flags. See
 * docs/interface.md. */
#ifndef COMMON_CLI_LIKE_H
#define COMMON_CLI_LIKE_H

#include "common/cli/flags.h"

#define VC_LIKE_ALLOWED "none|videox-fun|finetrainers|diffsynth|musubi|diffusion-pipe|ttt-video"
enum { VC_LIKE_NONE, VC_LIKE_PEERS = 6 };

typedef struct vc_like {
    const char *flag;
    const char *value[VC_LIKE_PEERS];      /* in the order of VC_LIKE_ALLOWED; NULL: our default */
    const char *only;                      /* the kind of run that has it, or NULL: every run */
} vc_like;

/* Tables ended by a NULL flag. A row that others depend on comes before them. */
extern const vc_like vc_vprep_like[], vc_vtrain_like[];

/* Returns true if the row has an effect, with the options read so far. */
typedef bool vc_like_fits(const void *options, const char *flag);

/* Sets *value to the number that `like` has for a flag in this family alone, and notes it, unless
 * the flag was given. For use after the model's family is known. */
void vc_like_take_family(vc_flags *set, int like, const char *family, const char *flag,
                         double *value);

/* After vc_flags_parse: sets flags that were not given to the defaults of `like`, an index into
 * VC_LIKE_ALLOWED, and notes the table of those that differ from ours. If --like was not given and
 * the command has names that only one trainer has, a note names the defaults that would differ. */
int vc_like_take(vc_flags *set, int like, const vc_like *rows, vc_like_fits *fits,
                 const void *options, vc_err *err);

#endif
