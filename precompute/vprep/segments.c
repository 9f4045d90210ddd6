/* segments.c - see segments.h */
#include "precompute/vprep/segments.h"

#include <stdlib.h>
#include <string.h>

/* ---- keys ---- */

int prep_prompt_row(vf_row *row, const cJSON *o, bool negative, vc_err *err)
{
    static const char *const list[2] = { "segments", "negative_segments" };
    static const char *const one[2] = { "prompt", "negative_prompt" };
    const cJSON *texts = cJSON_GetObjectItemCaseSensitive(o, list[negative]), *text;
    char *whole = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, one[negative]));
    const int n = texts ? cJSON_GetArraySize(texts) : 0;

    *row = (vf_row){ .segments = n, .captions = malloc((size_t)(n + 1) * sizeof *row->captions) };
    if (!row->captions)
        return vc_no_memory(err);
    if (!n && whole)
        row->captions[row->n_captions++] = whole;
    cJSON_ArrayForEach(text, texts)
        row->captions[row->n_captions++] = text->valuestring;
    return 0;
}

int vprep_check_segments(const vprep *p, const vf_row *row, vc_err *err)
{
    for (int i = 0; row->segments && i < p->encoders.n_text; i++) {
        const text_info *t = &p->encoders.text[i];
        if (t->pooled || t->rule.interleave || t->rule.pooled_only)
            return vc_fail(err, VC_EINVAL, "text_chunks: texts of %s are not a sequence of tokens "
                           "alone, so the captions of %d segments cannot be joined: give one "
                           "caption in the column text", t->class, row->segments);
    }
    return 0;
}

/* ---- places ---- */

void prep_segments_free(prep_segments *s)
{
    vf_keymap_free(&s->at);
    free(s->text);
    *s = (prep_segments){ 0 };
}

int prep_segments_note(prep_segments *s, const vprep *p, int encoder, const vf_row *row,
                       vc_err *err)
{
    int rc = 0;

    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        vf_key *more = realloc(s->text, room * sizeof *more);
        if (!more)
            return vc_no_memory(err);
        s->text = more;
        s->room = room;
    }
    s->text[s->n] = vprep_row_key(p, encoder, row, 0, NULL);
    for (int i = 0; !rc && i < row->segments; i++) {
        const vf_key key = vprep_caption_key(p, encoder, row, i, NULL);
        if (!vf_keymap_get(&s->at, key, NULL))
            rc = vf_keymap_put(&s->at, key, s->n << 8 | (uint64_t)i, err);
    }
    s->n++;
    return rc;
}

/* ---- joined texts ---- */

/* A text that is being joined. */
typedef struct joining {
    prep_segments *s;
    vprep *p;
    int encoder;
    const vf_row *row;
    const prep_segment_maker *maker;
    size_t rows, width;              /* of a segment */
    float *embeds;                   /* [segments * rows, width] */
    bool rounded;                    /* a copied segment was stored in 16 bits */
} joining;

/* Copies segment k from the text that has it. VC_ENOENT: it is to be made. */
static int copy_segment(joining *j, int k, vc_err *err)
{
    const vf_key key = vprep_caption_key(j->p, j->encoder, j->row, k, NULL);
    const size_t all = j->rows * j->width;
    uint64_t at;
    void *bytes = NULL;
    size_t n;
    vf_safetensors *st = NULL;
    vf_view v;

    if (!vf_keymap_get(&j->s->at, key, &at))
        return VC_ENOENT;
    int rc = vf_writer_read_text(j->p->writer, j->s->text[at >> 8], &bytes, &n, err);
    if (!rc)
        rc = vf_safetensors_parse(&st, bytes, n, err);
    if (!rc)
        rc = vf_safetensors_check(st, err);
    if (!rc)
        rc = vf_safetensors_get(st, "prompt_embeds", &v, err);
    if (!rc && (size_t)vf_view_count(&v) < ((at & 0xff) + 1) * all)
        rc = VC_ENOENT;              /* a text of one segment, stored without padding */
    if (!rc) {
        vf_view_f32(j->embeds + (size_t)k * all, &v, (at & 0xff) * all, all);
        j->rounded |= v.dtype != VC_F32;
    }
    vf_safetensors_close(st);
    free(bytes);
    return rc && rc != VC_ENOMEM ? VC_ENOENT : rc;
}

static int make_segment(joining *j, int k, vc_err *err)
{
    float *to = j->embeds + (size_t)k * j->rows * j->width;
    text_result r;
    int rc = j->maker->make(j->maker->arg, j->row, k, &r, err);

    if (!rc && ((size_t)r.n > j->rows || (size_t)r.width != j->width))
        rc = vc_fail(err, VC_EMISMATCH, "a text of %d rows of %d; %zu of %zu expected", r.n,
                     r.width, j->rows, j->width);
    if (rc)
        return rc;
    const size_t own = (size_t)r.n * j->width;
    memcpy(to, r.embeds, own * sizeof *to);
    memset(to + own, 0, (j->rows * j->width - own) * sizeof *to);
    return 0;
}

/* Copies segment k from an earlier segment of the row that has its caption. */
static bool repeat_segment(const joining *j, int k)
{
    const size_t n = j->rows * j->width;
    int i = 0;

    while (i < k && strcmp(j->row->captions[i], j->row->captions[k]))
        i++;
    if (i < k)
        memcpy(j->embeds + (size_t)k * n, j->embeds + (size_t)i * n, n * sizeof *j->embeds);
    return i < k;
}

static int fill(joining *j, bool copies, vc_err *err)
{
    int rc = 0;

    for (int k = 0; !rc && k < j->row->segments; k++) {
        if (repeat_segment(j, k))
            continue;
        rc = copies ? copy_segment(j, k, err) : VC_ENOENT;
        if (rc == VC_ENOENT)
            rc = vc_context(err, make_segment(j, k, err), "segment %d", k + 1);
    }
    return rc;
}

int prep_segments_put(prep_segments *s, vprep *p, int encoder, const vf_row *row,
                      const prep_segment_maker *maker, vc_err *err)
{
    const text_info *t = &p->encoders.text[encoder];
    joining j = { .s = s, .p = p, .encoder = encoder, .row = row, .maker = maker,
                  .rows = (size_t)t->rows, .width = (size_t)t->width };
    const size_t n = (size_t)row->segments * j.rows * j.width;

    j.embeds = malloc(n * sizeof *j.embeds);
    if (!j.embeds)
        return vc_fail(err, VC_ENOMEM, "out of memory for a text of %d segments", row->segments);
    int rc = fill(&j, !p->c.trace_dir, err);
    /* Values beyond f16 make the whole text f32, in which copies of f16 would be rounded. */
    if (!rc && j.rounded && !vprep_fits(p->c.dtype, j.embeds, n))
        rc = fill(&j, false, err);
    const text_result all = { .n = (int)(n / j.width), .width = t->width, .embeds = j.embeds };
    if (!rc)
        rc = vprep_put_text(p, vprep_row_key(p, encoder, row, 0, NULL), &all, err);
    if (!rc)
        rc = prep_segments_note(s, p, encoder, row, err);
    free(j.embeds);
    return rc;
}
