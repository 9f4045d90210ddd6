/* like.h - --like TRAINER: the defaults of other trainers as values of our flags, and the hint
 * where a command looks like another trainer's. See docs/switching.md. */
#ifndef COMMON_CLI_LIKE_H
#define COMMON_CLI_LIKE_H

#include "common/cli/flags.h"

/* The trainers: this list makes the values of --like, the enum and the names in messages. */
#define VC_LIKE_LIST(X) \
    X(VIDEOX_FUN, "videox-fun") X(FINETRAINERS, "finetrainers") X(DIFFSYNTH, "diffsynth") \
    X(MUSUBI, "musubi") X(DIFFUSION_PIPE, "diffusion-pipe") X(TTT_VIDEO, "ttt-video") \
    X(AI_TOOLKIT, "ai-toolkit") X(LTX_TRAINER, "ltx-trainer")
#define VC_LIKE_WORD(id, name) "|" name
#define VC_LIKE_ALLOWED "none" VC_LIKE_LIST(VC_LIKE_WORD)
#define VC_LIKE_ID(id, name) VC_LIKE_##id,
enum { VC_LIKE_NONE, VC_LIKE_LIST(VC_LIKE_ID) VC_LIKE_END };

/* A default of a trainer that is not ours. */
typedef struct vc_like {
    int like;                              /* VC_LIKE_*; 0 ends the table */
    const char *flag;
    const char *value;                     /* NULL: vc_like_of_family has it, at this place among
                                            * the flags */
    const char *only;                      /* the kind of run that has it, or NULL: every run */
} vc_like;

/* A value that a trainer has in one family of models, or in a variant of it, where it differs from
 * ours. It takes precedence over vc_like.value, and later rows over earlier ones. */
typedef struct vc_like_of_family {
    int like;                              /* VC_LIKE_*; 0 ends the table */
    const char *family, *flag, *value;
} vc_like_of_family;

/* like_rows.c: the tables, the rows of a trainer together. A row that others depend on comes before
 * them. */
extern const vc_like vc_vprep_like[], vc_vtrain_like[];
extern const vc_like_of_family vc_vtrain_like_of_family[];
extern const char *const vc_like_signs[VC_LIKE_END];   /* names of flags that only one trainer
                                                        * uses, separated by blanks */

/* Returns true if the row has an effect, with these options. */
typedef bool vc_like_fits(const void *options, const char *flag);

/* After vc_flags_parse: sets flags that were not given to the defaults of `like`, an index into
 * VC_LIKE_ALLOWED. */
int vc_like_take(vc_flags *set, int like, const vc_like *rows, vc_like_fits *fits,
                 const void *options, vc_err *err);

/* A run whose family is known, or nearly. */
typedef struct vc_like_run {
    const vc_like *rows;
    const vc_like_of_family *of_family;    /* NULL: none */
    const char *family;                    /* NULL: not known, nor are the family's defaults */
    const char *variant;                   /* another name that rows of the family may have, or
                                            * NULL */
    const void *options;                   /* as the run has them without --like, with the family's
                                            * defaults */
    void *scratch;                         /* a copy of the options, which is overwritten */
    vc_like_fits *fits;                    /* is given `scratch`; NULL: every row has an effect */
} vc_like_run;

/* Sets the values that `like` has in the run's family alone in `options`, a struct as the
 * program's, for flags that were not given. */
int vc_like_take_family(vc_flags *set, int like, const vc_like_run *run, void *options,
                        vc_err *err);
/* Notes the table of the values of `like` that differ from the run's without --like. */
int vc_like_say(vc_flags *set, int like, const vc_like_run *run, vc_err *err);
/* If --like was not given and the command has names that only one trainer has, notes which of its
 * defaults differ from what the run does, each once, leaving out flags that the command decides.
 * Beside errors of the flags the note is one of them. */
int vc_like_hint(vc_flags *set, const vc_like_run *run, vc_err *err);

#endif
