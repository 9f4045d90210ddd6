/* report.c - plan.jsonl, and the table of buckets that answers what will be made; see vprep.h */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "precompute/conditions.h"

typedef struct bucket {
    char key[16];
    int h, w, frames, f, lh, lw;
    int64_t tokens;
    uint64_t samples;
} bucket;

typedef struct table {
    bucket *b;
    size_t n, room;
    uint64_t dropped;
    double bytes, enlarged;
} table;

static int add_to_table(table *t, const vprep *p, const vb_choice *c, vc_err *err)
{
    size_t i = 0;
    while (i < t->n && (t->b[i].h != c->target_h || t->b[i].w != c->target_w ||
                        t->b[i].frames != c->frames || strcmp(t->b[i].key, c->key)))
        i++;
    if (i == t->n) {
        if (t->n == t->room) {
            t->room = t->room ? 2 * t->room : 64;
            bucket *grown = realloc(t->b, t->room * sizeof *grown);
            if (!grown)
                return vc_fail(err, VC_ENOMEM, "out of memory for the table of buckets");
            t->b = grown;
        }
        t->b[t->n] = (bucket){ .h = c->target_h, .w = c->target_w, .frames = c->frames,
                               .f = c->latent_f, .lh = c->latent_h, .lw = c->latent_w,
                               .tokens = c->tokens };
        memcpy(t->b[t->n++].key, c->key, sizeof c->key);
    }
    t->b[i].samples++;
    t->enlarged += c->upscale > 1;
    for (int v = 0; v < VALUES; v++)
        t->bytes += vprep_values(p) & VALUE_BIT(v) ? vprep_value_bytes(p, c, v) : 0;
    return 0;
}

static int by_size(const void *a, const void *b)
{
    const bucket *x = a, *y = b;
    if (x->tokens != y->tokens)
        return (x->tokens > y->tokens) - (x->tokens < y->tokens);
    int64_t d = (int64_t)x->h * 100000 + x->w - ((int64_t)y->h * 100000 + y->w);
    return d ? (d > 0) - (d < 0) : strcmp(x->key, y->key);
}

static void print_table(const table *t, FILE *out)
{
    char num[32], bytes[32];
    uint64_t samples = 0;

    fprintf(out, "bucket    height  width  frames    latent        tokens   samples\n");
    for (size_t i = 0; i < t->n; i++) {
        const bucket *b = &t->b[i];
        char latent[32];
        snprintf(latent, sizeof latent, "%dx%dx%d", b->f, b->lh, b->lw);
        fprintf(out, "%-9s %6d %6d %7d    %-12s %7lld %9s\n", b->key, b->h, b->w, b->frames, latent,
                (long long)b->tokens, vc_human_count(num, b->samples));
        samples += b->samples;
    }
    fprintf(out, "%s samples", vc_human_count(num, samples));
    fprintf(out, ", about %s of latents", vc_human_bytes(bytes, t->bytes));
    if (t->enlarged > 0)
        fprintf(out, "; %.0f enlarged", t->enlarged);
    if (t->dropped)
        fprintf(out, "; %s dropped", vc_human_count(num, t->dropped));
    fprintf(out, "\n");
}

static int note_drop(vprep *p, const vprep_item *it, const vprep_clip *clip, FILE *out, vc_err *err)
{
    const vf_row *row = &p->meta.rows[it->row];
    vc_err why;
    vc_fail(&why, VC_EINVAL, "%s", clip->choice.reason);
    if (p->c.dry_run)
        fprintf(out, "dropped: row %lld, %s: %s\n", (long long)row->row, row->path, why.text);
    return vprep_note(p, row->row, row->path, "select", &why, err);
}

static int write_line(FILE *f, const vprep *p, const vprep_item *it, const vprep_clip *clip,
                      vc_err *err)
{
    cJSON *o = vprep_plan_line(p, it, clip);
    char *line = o ? vf_json_line(o) : NULL;
    int rc = line ? 0 : vc_fail(err, VC_ENOMEM, "plan.jsonl: out of memory");

    if (!rc && fprintf(f, "%s\n", line) < 0)
        rc = vc_fail_errno(err, "plan.jsonl");
    free(line);
    cJSON_Delete(o);
    return rc;
}

/* Streams into a temporary file and renames: a plan of a million lines is never in memory. */
static int write_plan(vprep *p, FILE *f, table *t, FILE *out, vc_err *err)
{
    int rc = 0;

    for (uint32_t i = 0; !rc && i < p->n_items; i++) {
        const vprep_item *it = &p->items[i];
        vprep_clip clip;
        rc = vprep_clip_of(p, it, &clip, err);
        if (!rc) rc = write_line(f, p, it, &clip, err);
        if (!rc && clip.choice.drop) {
            t->dropped++;
            rc = note_drop(p, it, &clip, out, err);
        } else if (!rc) {
            rc = add_to_table(t, p, &clip.choice, err);
        }
        vprep_clip_free(&clip);
        if (!rc && *vc_stop_flag())
            rc = vc_fail(err, VC_ESTOP, "stopped");
    }
    if (!rc && (fflush(f) || fsync(fileno(f))))
        rc = vc_fail_errno(err, "plan.jsonl");
    return rc;
}

int vprep_report(vprep *p, FILE *out, vc_err *err)
{
    table t = { 0 };
    char *path = vc_path_join(p->c.out, "plan.jsonl"), *tmp = NULL;
    FILE *f = NULL;
    int rc = path && (tmp = vc_format("%s.tmp", path)) ? 0 : vc_fail(err, VC_ENOMEM, "out of memory");

    if (!rc && !(f = fopen(tmp, "we")))
        rc = vc_fail_errno(err, "%s", path);
    if (!rc) rc = write_plan(p, f, &t, out, err);
    if (f && fclose(f) && !rc)
        rc = vc_fail_errno(err, "%s", path);
    if (!rc && rename(tmp, path))
        rc = vc_fail_errno(err, "%s", path);
    if (rc && tmp)
        unlink(tmp);
    if (!rc && t.n)
        qsort(t.b, t.n, sizeof *t.b, by_size);
    if (!rc)
        print_table(&t, out);
    free(t.b);
    free(tmp);
    free(path);
    return rc;
}
