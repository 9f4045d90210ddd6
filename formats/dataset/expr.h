/* expr.h - conditions over named values, for `vlat select`.
 *
 *     width >= 512 and (fps > 20 or type = image) and caption ~ "red|blue" and not tag = draft
 *
 * A condition has or, and, not and parentheses. = != < <= > >= compare a name with a number or a
 * text (in quotes, or one word); ~ and !~ match a regular expression without regard to case
 * (common/base/regex.h). A name may have several values (tags, captions): a comparison holds if one of
 * them fulfils it, != and !~ hold if all do. A text is never less or greater than any value. A
 * handle is immutable after open and may serve many threads. */
#ifndef FORMATS_DATASET_EXPR_H
#define FORMATS_DATASET_EXPR_H

#include <stdbool.h>

#include "common/base/err.h"

typedef struct vf_expr vf_expr;

/* A value of a name. */
typedef struct vf_expr_value {
    const char *text;                        /* NULL: the value is a number */
    double number;
} vf_expr_value;
/* Gets value k of a name; returns false if the name has fewer values. */
typedef bool (*vf_expr_get)(void *arg, const char *name, int k, vf_expr_value *v);

/* Parses a condition. `names` lists the known names, NULL-ended; a name that ends in a dot is a
 * prefix of further names. VC_EUSAGE names the fault and its place. */
int vf_expr_open(vf_expr **out, const char *text, const char *const *names, vc_err *err);
void vf_expr_close(vf_expr *e);              /* e may be NULL */
/* Sets *yes to whether the condition holds; VC_EINVAL: a regular expression takes too long. */
int vf_expr_holds(const vf_expr *e, vf_expr_get get, void *arg, bool *yes, vc_err *err);

#endif
