/* expr.h - conditions over named values: what `vlat select` takes.
 *
 *     width >= 512 and (fps > 20 or type = image) and caption ~ "red|blue" and not tag = draft
 *
 * or, and, not, parentheses; = != < <= > >= compare a name with a number or a text (in quotes, or one
 * word), ~ and !~ match an extended regular expression (POSIX, without regard to case). A name may
 * have several values (tags, captions): a comparison holds if it holds for one of them, != and !~
 * if they hold for all. A text is never less or greater than anything. Immutable after open: one
 * handle may serve many threads. */
#ifndef FORMATS_DATASET_EXPR_H
#define FORMATS_DATASET_EXPR_H

#include <stdbool.h>

#include "common/base/err.h"

typedef struct vf_expr vf_expr;

/* Value number k of a name. */
typedef struct vf_expr_value {
    const char *text;                        /* NULL: it is a number */
    double number;
} vf_expr_value;
/* False when the name has no value k. */
typedef bool (*vf_expr_get)(void *arg, const char *name, int k, vf_expr_value *v);

/* names: what may be asked for, NULL-ended; one that ends in a dot takes a further name behind it.
 * VC_EUSAGE says what is wrong, and where. */
int vf_expr_open(vf_expr **out, const char *text, const char *const *names, vc_err *err);
void vf_expr_close(vf_expr *e);              /* NULL is fine */
bool vf_expr_holds(const vf_expr *e, vf_expr_get get, void *arg);

#endif
