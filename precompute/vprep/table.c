/* table.c - see table.h */
#include "precompute/vprep/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/encode/conditions.h"

typedef struct bucket {
    char key[16];
    int h, w, frames, f, lh, lw;
    int64_t tokens;
    uint64_t samples;
    double visits;                   /* an epoch */
    double low, high;                /* frames a second of its clips; 0: stills */
} bucket;

struct prep_table {
    const vprep *p;
    bucket *b;
    uint32_t n, room;
    uint32_t *slot;                  /* [slots], a power of two: place in b + 1, or 0 */
    uint32_t slots;
    uint16_t *live;                  /* of each row: variants that are not dropped */
    uint64_t enlarged, clips;
    uint64_t slow;                   /* clips that --video_sample_stride makes slower than SLOW */
    double slow_from, slow_to;       /* the first one's rates, before and after */
    double bytes;
};

static const double SLOW = 5;        /* frames a second; the families were trained on 8 to 24 */

int prep_table_open(prep_table **out, const vprep *p, vc_err *err)
{
    prep_table *t = *out = calloc(1, sizeof *t);
    if (!t || !(t->live = calloc(p->list.meta.n ? (size_t)p->list.meta.n : 1, sizeof *t->live))) {
        free(t);
        *out = NULL;
        return vc_fail(err, VC_ENOMEM, "out of memory for the table of buckets");
    }
    t->p = p;
    for (uint32_t i = 0; i < p->plan.n_items; i++) {
        const vprep_item *it = &p->plan.items[i];
        t->live[it->row] += !it->drop && t->live[it->row] < UINT16_MAX;
    }
    return 0;
}

void prep_table_close(prep_table *t)
{
    if (!t)
        return;
    free(t->b);
    free(t->slot);
    free(t->live);
    free(t);
}

/* ---- buckets by target and frame count ---- */

static uint32_t hash_of(const char *key, int h, int w, int frames)
{
    uint64_t x = ((uint64_t)h * 65537 + (uint64_t)w) * 65537 + (uint64_t)frames;
    for (; *key; key++)
        x = x * 31 + (unsigned char)*key;
    return (uint32_t)((x * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

static bool is_bucket(const bucket *b, const vb_choice *c)
{
    return b->h == c->target_h && b->w == c->target_w && b->frames == c->frames &&
           !strcmp(b->key, c->key);
}

/* The slot of c's bucket, or the free one where it belongs. */
static uint32_t *slot_of(const prep_table *t, const vb_choice *c)
{
    uint32_t i = hash_of(c->key, c->target_h, c->target_w, c->frames) & (t->slots - 1);
    while (t->slot[i] && !is_bucket(&t->b[t->slot[i] - 1], c))
        i = (i + 1) & (t->slots - 1);
    return &t->slot[i];
}

/* Twice as many buckets, and four slots for each. */
static int grow(prep_table *t, vc_err *err)
{
    uint32_t room = t->room ? 2 * t->room : 64, slots = 4 * room;
    bucket *b = realloc(t->b, room * sizeof *b);
    uint32_t *slot = calloc(slots, sizeof *slot);

    if (b)
        t->b = b;
    if (!b || !slot) {
        free(slot);
        return vc_fail(err, VC_ENOMEM, "out of memory for the table of buckets");
    }
    free(t->slot);
    t->slot = slot;
    t->slots = slots;
    t->room = room;
    for (uint32_t k = 0; k < t->n; k++) {
        uint32_t i = hash_of(b[k].key, b[k].h, b[k].w, b[k].frames) & (slots - 1);
        while (slot[i])
            i = (i + 1) & (slots - 1);
        slot[i] = k + 1;
    }
    return 0;
}

/* The visits of this variant in an epoch: none without a weight, else its share of at least one. */
static double visits(const prep_table *t, const vprep_item *it)
{
    const vprep *p = t->p;
    bool repeats = p->c.video_repeat > 1 && p->list.sources[it->row].is_video;
    double n = p->list.meta.rows[it->row].weight * (repeats ? (double)p->c.video_repeat : 1);
    return (n > 0 && n < 1 ? 1 : n) / t->live[it->row];
}

static void add_rate(prep_table *t, bucket *b, const vprep_clip *clip)
{
    const vb_choice *c = &clip->choice;
    if (clip->fps <= 0 || c->frames < 2)
        return;
    b->low = b->low > 0 ? fmin(b->low, clip->fps) : clip->fps;
    b->high = fmax(b->high, clip->fps);
    t->clips++;
    if (c->stride < 2 || clip->fps >= SLOW)
        return;
    if (!t->slow++) {
        t->slow_to = clip->fps;
        t->slow_from = clip->fps * c->stride;
    }
}

int prep_table_add(prep_table *t, const vprep_item *it, const vprep_clip *clip, vc_err *err)
{
    const vb_choice *c = &clip->choice;
    int rc = t->n == t->room ? grow(t, err) : 0;
    if (rc)
        return rc;

    uint32_t *slot = slot_of(t, c);
    if (!*slot) {
        t->b[t->n] = (bucket){ .h = c->target_h, .w = c->target_w, .frames = c->frames,
                               .f = c->latent_f, .lh = c->latent_h, .lw = c->latent_w,
                               .tokens = c->tokens };
        memcpy(t->b[t->n].key, c->key, sizeof c->key);
        *slot = ++t->n;
    }
    bucket *b = &t->b[*slot - 1];
    b->samples++;
    b->visits += visits(t, it);
    add_rate(t, b, clip);
    t->enlarged += c->upscale > 1;
    unsigned values = vprep_values(t->p, &t->p->list.meta.rows[it->row]);
    for (int v = 0; v < VC_ROLES; v++)
        t->bytes += values & VC_ROLE_BIT(v) ? vprep_value_bytes(t->p, it, c, v) : 0;
    return 0;
}

/* ---- printing ---- */

static int by_size(const void *a, const void *b)
{
    const bucket *x = a, *y = b;
    if (x->tokens != y->tokens)
        return (x->tokens > y->tokens) - (x->tokens < y->tokens);
    int64_t d = (int64_t)x->h * 100000 + x->w - ((int64_t)y->h * 100000 + y->w);
    return d ? (d > 0) - (d < 0) : strcmp(x->key, y->key);
}

typedef struct epoch {
    double steps, visits, places, tokens, padding;
} epoch;

/* Micro-batches of a bucket in an epoch. Where variants let the number of samples differ between
 * epochs, the rest is taken as any number below a batch, all equally likely. */
static double steps_of(double n, double batch)
{
    if (fabs(n - round(n)) < 1e-6)
        return ceil(round(n) / batch);
    return fmin(n, n / batch + (batch - 1) / (2 * batch));
}

/* "8", or "2-15" if the numbers differ; "-" for stills. */
static const char *range(char buf[32], double low, double high)
{
    char a[16], b[16];
    snprintf(a, sizeof a, "%.3g", low);
    snprintf(b, sizeof b, "%.3g", high);
    if (high <= 0)
        return "-";
    snprintf(buf, 32, "%s%s%s", a, strcmp(a, b) ? "-" : "", strcmp(a, b) ? b : "");
    return buf;
}

static double print_bucket(const bucket *b, double batch, int pt, epoch *e, FILE *out)
{
    char num[32], latent[32], fps[32], seconds[32];
    double steps = steps_of(b->visits, batch);
    int frames = (b->f + pt - 1) / pt * pt;

    snprintf(latent, sizeof latent, "%dx%dx%d", b->f, b->lh, b->lw);
    fprintf(out, "%-9s %6d %6d %7d    %-12s %7lld %9s %12.0f %8.4g %8s %9s\n", b->key, b->h, b->w,
            b->frames, latent, (long long)b->tokens, vc_human_count(num, b->samples),
            (double)b->tokens * batch, steps, range(fps, b->low, b->high),
            range(seconds, b->frames / (b->high > 0 ? b->high : 1),
                  b->high > 0 ? b->frames / b->low : 0));
    e->steps += steps;
    e->visits += b->visits;
    e->places += steps * batch;
    e->tokens += b->visits * (double)b->tokens;
    e->padding += b->visits * (double)b->tokens * (frames - b->f) / frames;
    return (double)b->samples;
}

static void print_epoch(const epoch *e, int64_t batch, FILE *out)
{
    double empty = e->places - e->visits;

    if (e->places <= 0)
        return;
    fprintf(out, "an epoch at --train_batch_size %lld: %.0f step%s, %.0f of %.0f places empty "
            "(%.2g%%)", (long long)batch, e->steps, vc_s(e->steps),
            empty < 0.5 ? 0 : empty, e->places, empty < 0.5 ? 0 : 100 * empty / e->places);
    if (e->padding > 0)
        fprintf(out, ", %.2g%% of tokens are padding", 100 * e->padding / e->tokens);
    fprintf(out, "\n");
}

static void print_dropped(const vprep *p, FILE *out)
{
    static const char *const stages[] = { "metadata", "probe", "select" };
    char num[32];
    const char *before = " (";

    if (!p->errors.n)
        return;
    fprintf(out, "; %s dropped", vc_human_count(num, p->errors.n));
    for (size_t s = 0; s < sizeof stages / sizeof *stages; s++) {
        uint64_t n = 0;
        for (uint32_t i = 0; i < p->errors.n; i++)
            n += !strcmp(p->errors.list[i].stage, stages[s]);
        if (!n)
            continue;
        fprintf(out, "%s%s: %s", before, stages[s], vc_human_count(num, n));
        before = ", ";
    }
    fprintf(out, ")");
}

void prep_table_print(prep_table *t, FILE *out)
{
    const vprep *p = t->p;
    char num[32], bytes[32];
    double samples = 0;
    epoch e = { 0 };

    if (t->n)
        qsort(t->b, t->n, sizeof *t->b, by_size);
    fprintf(out, "bucket    height  width  frames    latent        tokens   samples  tokens/step"
            "    steps      fps   seconds\n");
    for (uint32_t i = 0; i < t->n; i++)
        samples += print_bucket(&t->b[i], (double)p->c.train_batch_size,
                                p->rules.family->patch_t, &e, out);
    fprintf(out, "%s sample%s", vc_human_count(num, (uint64_t)samples), vc_s(samples));
    fprintf(out, ", about %s of latents", vc_human_bytes(bytes, t->bytes));
    if (t->enlarged)
        fprintf(out, "; %s enlarged", vc_human_count(num, t->enlarged));
    print_dropped(p, out);
    fprintf(out, "\n");
    print_epoch(&e, p->c.train_batch_size, out);
    if (t->slow)
        vc_say(p->progress, "--video_sample_stride %lld makes clips of %.3g frames a second into "
               "%.3g: %llu of %llu have fewer than %g; --video_sample_stride 1 keeps their rate",
               (long long)p->c.stride, t->slow_from, t->slow_to, (unsigned long long)t->slow,
               (unsigned long long)t->clips, SLOW);
}
