/* ignored.c - collects the files of a folder or tar that are no rows, for the line that reports
 * them; see parts.h */
#include "formats/metadata/parts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/buf.h"

enum { MAX_KINDS = 64, SHOWN = 12 };

/* The first file by name is the example, since the order of a folder's entries is arbitrary. */
static int use_example(metadata_ignored *i, const char *path, vc_err *err)
{
    if (i->first && strcmp(i->first, path) <= 0)
        return 0;
    char *copy = strdup(path);
    if (!copy)
        return vc_no_memory(err);
    free(i->first);
    i->first = copy;
    return 0;
}

static bool same(const metadata_ignored *i, const char *what, const char *why)
{
    return !strcasecmp(i->what, what) && !i->why == !why && (!why || !strcmp(i->why, why));
}

int metadata_ignore(metadata_list *l, const char *what, const char *path, const char *why,
                    vc_err *err)
{
    int i = 0;

    what = *what ? what : path;
    while (i < l->n_ignored && !same(&l->ignored[i], what, why))
        i++;
    if (i == MAX_KINDS) {
        l->more_ignored++;
        return 0;
    }
    if (!l->ignored && !(l->ignored = calloc(MAX_KINDS, sizeof *l->ignored)))
        return vc_no_memory(err);
    if (i == l->n_ignored) {
        if (!(l->ignored[i].what = strdup(what)))
            return vc_no_memory(err);
        for (char *c = l->ignored[i].what; *what == '.' && *c; c++)
            *c = (char)tolower((unsigned char)*c);
        l->ignored[i].why = why;
        l->n_ignored++;
    }
    l->ignored[i].n++;
    return use_example(&l->ignored[i], path, err);
}

static void clear(metadata_ignored *i)
{
    free(i->what);
    free(i->first);
}

void metadata_unignore(metadata_list *l, const char *what)
{
    int kept = 0;

    for (int i = 0; i < l->n_ignored; i++)
        if (strcmp(l->ignored[i].what, what))
            l->ignored[kept++] = l->ignored[i];
        else
            clear(&l->ignored[i]);
    l->n_ignored = kept;
}

void metadata_forget_ignored(metadata_list *l)
{
    for (int i = 0; i < l->n_ignored; i++)
        clear(&l->ignored[i]);
    free(l->ignored);
    l->ignored = NULL;
    l->n_ignored = 0;
    l->more_ignored = 0;
}

/* Files with a reason come first, as they may be media or captions; then larger numbers. */
static int by_weight(const void *a, const void *b)
{
    const metadata_ignored *x = a, *y = b;
    int d = !x->why - !y->why;

    d = d ? d : (x->n < y->n) - (x->n > y->n);
    return d ? d : strcmp(x->what, y->what);
}

int metadata_say_ignored(metadata_list *l, vc_err *err)
{
    vc_buf b = { 0 };
    int64_t more = l->more_ignored;

    if (!l->n_ignored)
        return 0;
    qsort(l->ignored, (size_t)l->n_ignored, sizeof *l->ignored, by_weight);
    for (int i = 0; i < l->n_ignored; i++) {
        const metadata_ignored *x = &l->ignored[i];
        if (i >= SHOWN) {
            more += x->n;
            continue;
        }
        vc_buf_printf(&b, "%s%.60s %lld (", i ? ", " : "", x->what, (long long)x->n);
        vc_buf_printf(&b, "%.100s%s%s%s)", x->first, x->n > 1 ? ", ..." : "", x->why ? ": " : "",
                      x->why ? x->why : "");
    }
    if (more)
        vc_buf_printf(&b, ", others %lld", (long long)more);
    l->list.ignored = vc_buf_take(&b);
    return l->list.ignored ? 0 : vc_no_memory(err);
}
