/* loader_fill.c - fills a batch: reads its records, its texts and its rows. See loader.h */
#include "train/data/loader_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/os/map.h"
#include "train/data/kinds.h"

typedef vtrain_loader_slot slot;

/* ---- checksums, compared once for each sample ---- */

static int check_keys(const vtrain_data *d, uint32_t sample, const vf_key *key, int segments,
                      vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < d->n_slots; i++) {
        vtrain_text_value v;
        rc = vtrain_text_of(d, sample, i, key[i], segments, true, &v, err);
        vf_safetensors_close(v.st);
    }
    return rc;
}

static int check_texts(const vtrain_data *d, uint32_t sample, const cJSON *record, vc_err *err)
{
    const cJSON *captions = NULL;
    int segments, rc = vtrain_segments_read(&segments, record, err);
    if (!rc)
        rc = vf_json_arr(record, "captions", &captions, err);
    for (int c = 0, n = cJSON_GetArraySize(captions); !rc && c < n; c++) {
        vf_key key[VTRAIN_TEXTS];
        rc = vtrain_caption_keys(d, record, c, key, err);
        if (!rc)
            rc = check_keys(d, sample, key, segments, err);
    }
    const cJSON *preserved = cJSON_GetObjectItemCaseSensitive(record, "preserved");
    for (int c = 0, n = cJSON_GetArraySize(preserved); !rc && c < n; c++) {
        vf_key key[VTRAIN_TEXTS];
        rc = vtrain_preserved_keys(d, record, c, key, err);
        if (!rc)
            rc = check_keys(d, sample, key, 0, err);
    }
    if (!rc && cJSON_GetObjectItemCaseSensitive(record, "empty")) {
        vf_key key[VTRAIN_TEXTS];
        rc = vtrain_empty_keys(d, d->sample[sample].dataset, record, key, err);
        if (!rc)
            rc = check_keys(d, sample, key, 0, err);
    }
    return rc;
}

static int check_conditions(const vtrain_loader *l, uint32_t sample, const cJSON *record,
                            vc_err *err)
{
    const vtrain_data *d = l->d;
    vtrain_conditions c;
    int rc = vtrain_conditions_read(&c, record, err);
    unsigned used = c.has & 1u << VC_ROLE_LOSS_MASK;
    if (d->clean_frames)
        used |= c.has & 1u << VC_ROLE_IMAGE;
    if (d->sound.channels)
        used |= c.has & 1u << VC_ROLE_AUDIO;

    for (int i = 0; i < VC_ROLES; i++)
        if (d->roles & 1u << i && (!vc_roles[i].own_size || c.has & 1u << i))
            used |= 1u << vtrain_loader_entry(l, d->sample[sample].dataset, (vc_role)i);
    for (int e = 0; e < VC_ROLES && !rc; e++) {
        vtrain_latent_value v;
        if (!(used & 1u << e))
            continue;
        rc = vtrain_condition_open(d, sample, &c, (vc_role)e, true, &v, err);
        vf_safetensors_close(v.st);
    }
    return rc;
}

/* Sets a sample's bit, only after the comparison, so that no thread takes a damaged value for a
 * checked one. Two threads may compare the same value, which is harmless. */
static int check_sample(vtrain_loader *l, uint32_t sample, const cJSON *record, vc_err *err)
{
    _Atomic uint32_t *word = l->checked ? &l->checked[sample / 32] : NULL;
    uint32_t bit = 1u << sample % 32;
    vtrain_latent_value v;

    if (!word || atomic_load_explicit(word, memory_order_relaxed) & bit)
        return 0;
    int rc = vtrain_latent_open(l->d, sample, true, &v, err);
    vf_safetensors_close(v.st);
    if (!rc)
        rc = check_texts(l->d, sample, record, err);
    if (!rc)
        rc = check_conditions(l, sample, record, err);
    if (!rc)
        atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
    return rc;
}

/* ---- text ---- */

/* Finds the text keys of a row: of the caption that its draws choose, or of the empty prompt. A
 * dropped caption of segments becomes zeros, of as many rows as the caption has. */
static int choose_text(vtrain_loader *l, slot *s, int row, const cJSON *record,
                       vf_key key[VTRAIN_TEXTS], vc_err *err)
{
    const int set = l->d->sample[s->row[row]].dataset;
    const bool blank = l->d->set[set].kind->blank;
    uint32_t micro = (uint32_t)s->b.micro, r = s->b.first + (uint32_t)row;
    double draw = vc_train_unit(l->o.plan.seed, 0, r, micro, VC_DRAW_CAPTION_DROP);
    bool drop = !l->o.held_out && draw < l->o.caption_dropout;

    drop |= blank;
    s->b.dropped[row] = drop && !blank;
    const cJSON *captions;
    int rc = vtrain_empty_keys(l->d, set, record, key, err), n, pick = 0;
    if (!rc)
        rc = vf_json_arr(record, "captions", &captions, err);
    if (rc || (drop && !s->segments[row]) || !(n = cJSON_GetArraySize(captions)))
        return rc;
    if (!l->o.held_out)
        pick = (int)(vc_train_unit(l->o.plan.seed, 0, r, micro, VC_DRAW_CAPTION) * n);
    return l->d->set[set].kind->preserved ? vtrain_preserved_keys(l->d, record, pick, key, err)
                                          : vtrain_caption_keys(l->d, record, pick, key, err);
}

/* Checks that the row has the segments of its bucket, which sizes the buffers. */
static int check_segments(const vtrain_group *g, int segments, vc_err *err)
{
    const int has = segments ? segments : 1, others = g->segments ? g->segments : 1;

    if (has == others)
        return 0;
    return vc_fail(err, VC_EMISMATCH, "text_chunks: %d, the other samples of bucket %s have %d: "
                   "samples of one length have one number of segments", has, g->name, others);
}

static int open_texts(vtrain_loader *l, slot *s, int row, const cJSON *record, vc_err *err)
{
    const vtrain_data *d = l->d;
    vf_key key[VTRAIN_TEXTS];
    int rc = vtrain_segments_read(&s->segments[row], record, err);
    if (!rc)
        rc = check_segments(&d->group[s->b.group], s->segments[row], err);
    if (!rc)
        rc = choose_text(l, s, row, record, key, err);
    for (int i = 0; i < d->n_slots && !rc; i++) {
        vtrain_text *t = &s->b.text[i];
        vtrain_text_value *v = &s->value[row * d->n_slots + i];
        rc = vtrain_text_of(d, s->row[row], i, key[i], s->segments[row], false, v, err);
        if (rc)
            break;
        t->length[row] = (int32_t)v->embeds.dim[0];
        if (v->embeds.dim[0] > t->n)
            t->n = v->embeds.dim[0];
    }
    return rc;
}

/* Advises the system to read a row's values ahead while other rows are read. */
static void prefetch(const vtrain_loader *l, uint32_t sample, const vtrain_conditions *c)
{
    const vtrain_sample *at = &l->d->sample[sample];
    const vf_dataset *data = l->d->set[at->dataset].data;

    vf_dataset_prefetch(data, at->index, vf_dataset_entry(data, at->index)->latent);
    if (l->d->sound.channels && c->has & 1u << VC_ROLE_AUDIO)
        vf_dataset_prefetch(data, at->index, c->key[VC_ROLE_AUDIO]);
    for (int i = 0; i < VC_ROLES; i++) {
        vc_role e = vtrain_loader_entry(l, at->dataset, (vc_role)i);
        if (l->d->roles & 1u << i && c->has & 1u << e)
            vf_dataset_prefetch(data, at->index, c->key[e]);
    }
}

/* Reads what the sample began with. All samples take the run's number of steps. */
static int open_start(const vtrain_loader *l, slot *s, int row, const cJSON *record, vc_err *err)
{
    int rc = vtrain_start_read(&s->start[row], record, err);
    const int64_t steps = s->start[row].steps;

    if (rc || !steps || steps == l->o.distill || l->o.any_steps)
        return rc;
    return vc_fail(err, VC_EMISMATCH, "extra.num_inference_steps: %" PRId64 ", but the run trains "
                   "%d steps, as its first sample has: --distill_steps N trains all samples with N",
                   steps, l->o.distill);
}

static int fill_noise(const vtrain_loader *l, slot *s, int row, vc_err *err)
{
    vtrain_batch *b = &s->b;
    const size_t n = (size_t)(b->dim[1] * b->dim[2] * b->dim[3] * b->dim[4]);
    int rc = vtrain_start_noise(b->noise + (size_t)row * n, n, &s->start[row], l->o.noise_bf16,
                                l->o.plan.seed, b->first + (uint32_t)row, (uint32_t)b->micro, err);

    return vtrain_name_sample(l->d, s->row[row], rc, err);
}

/* Reads the record of a row once, for its texts and its conditions. */
static int open_row(vtrain_loader *l, slot *s, int row, vc_err *err)
{
    uint32_t sample = s->row[row];
    const vtrain_sample *at = &l->d->sample[sample];
    cJSON *record;
    int rc = vf_dataset_sample(l->d->set[at->dataset].data, at->index, &record, err);
    if (rc)
        return rc;
    rc = vtrain_conditions_read(&s->cond[row], record, err);
    if (!rc)
        prefetch(l, sample, &s->cond[row]);
    if (!rc)
        rc = check_sample(l, sample, record, err);
    if (!rc && l->d->control_kinds)
        rc = vtrain_name_sample(l->d, sample, vtrain_kind_read(&s->b.control_kind[row], record,
                                                               l->d->control_kinds,
                                                               l->d->control_kind, err), err);
    if (!rc)
        rc = open_texts(l, s, row, record, err);
    if (!rc && l->o.distill)
        rc = open_start(l, s, row, record, err);
    cJSON_Delete(record);
    return rc;
}

/* zeros: the row's caption is dropped to zeros. */
static int copy_text(vtrain_text *t, int row, const vtrain_text_value *v, bool zeros, vc_err *err)
{
    size_t used = zeros ? 0 : (size_t)t->length[row] * (size_t)t->width;
    size_t all = (size_t)t->n * (size_t)t->width;

    if (t->embeds) {
        float *x = t->embeds + (size_t)row * all;
        vf_view_f32(x, &v->embeds, 0, used);
        memset(x + used, 0, (all - used) * sizeof *x);
        if (!vf_all_finite(x, used))
            return vc_fail(err, VC_ENUMERIC, "prompt_embeds: a value is NaN or infinite");
    }
    if (!t->pooled)
        return 0;
    size_t n = (size_t)t->pooled_width;
    vf_view_f32(t->pooled + (size_t)row * n, &v->pooled, 0, n);
    return vf_all_finite(t->pooled + (size_t)row * n, n)
               ? 0 : vc_fail(err, VC_ENUMERIC, "pooled: a value is NaN or infinite");
}

/* The fewest rows of a slot's texts in a batch of the group. */
static int64_t least_rows(const vtrain_loader *l, const vtrain_group *g, int i)
{
    const vtrain_slot *s = &l->d->slot[i];
    if (!s->embeds)
        return 0;
    if (!g->segments && s->rows)
        return s->rows;
    if (!l->o.full_texts)
        return l->o.least_rows > 1 ? l->o.least_rows : 1;
    return i == 0 && g->text_rows ? g->text_rows : vtrain_data_longest(s, g->segments, true);
}

/* Whether a row of segments has the empty prompt, which is zeros. */
static bool is_zeros(const vtrain_loader *l, const slot *s, int row)
{
    const bool blank = l->d->set[l->d->sample[s->row[row]].dataset].kind->blank;
    return (s->b.dropped[row] || blank) && s->segments[row];
}

/* A text that is none has no tokens. */
static void count_tokens(const vtrain_slot *s, vtrain_text *t, int row)
{
    if (t->embeds)
        t->length[row] = (int32_t)vtrain_slot_length(
            s, t->embeds + (size_t)row * (size_t)(t->n * t->width), t->length[row]);
}

/* Gives a text more room than the plan has for the slot's longest text (lengths.c). */
static int widen(slot *s, int i, vc_err *err)
{
    vtrain_text *t = &s->b.text[i];
    const size_t need = (size_t)s->b.rows * (size_t)(t->n * t->width);

    if (!t->embeds || need <= s->text_room[i])
        return 0;
    float *more = realloc(t->embeds, need * sizeof *more);
    if (!more)
        return vc_fail(err, VC_ENOMEM, "out of memory for texts of %" PRId64 " tokens", t->n);
    t->embeds = more;
    s->text_room[i] = need;
    return 0;
}

/* Opens the texts of all rows first, since the longest sets the batch's layout. */
static int fill_texts(vtrain_loader *l, slot *s, vc_err *err)
{
    int slots = l->d->n_slots, rc = 0, row = 0;

    for (int i = 0; i < slots; i++)
        s->b.text[i].n = least_rows(l, &l->d->group[s->b.group], i);
    for (row = 0; row < s->b.rows; row++)
        if (atomic_load(&l->stop) || (rc = open_row(l, s, row, err)))
            break;
    for (int i = 0; i < slots && row == s->b.rows && !rc; i++)
        rc = widen(s, i, err);
    for (int r = 0; r < s->b.rows && row == s->b.rows && !rc; r++)
        for (int i = 0; i < slots && !rc; i++)
            if ((rc = copy_text(&s->b.text[i], r, &s->value[r * slots + i],
                                is_zeros(l, s, r), err))) {
                vc_context(err, rc, "%s", l->d->slot[i].name);
                row = r;
            } else {
                count_tokens(&l->d->slot[i], &s->b.text[i], r);
            }
    if (rc)
        vtrain_name_sample(l->d, s->row[row], rc, err);
    for (int i = 0; i < s->b.rows * slots; i++) {
        vf_safetensors_close(s->value[i].st);
        s->value[i].st = NULL;
    }
    return rc;
}

/* ---- a batch ---- */

/* Decides for all rows of a micro-batch, since their sequences have one length, and so in the same
 * way for each of its parts. */
static bool is_alone(const vtrain_loader *l, const slot *s)
{
    return s->b.paired && !l->o.held_out &&
           vc_train_unit(l->o.plan.seed, 3, 0, (uint32_t)s->b.micro, VC_DRAW_COND_DROP) <
               l->o.reference_dropout;
}

int vtrain_loader_fill(vtrain_loader *l, vtrain_loader_slot *s)
{
    vtrain_batch *b = &s->b;
    const vtrain_group *g = &l->d->group[b->group];
    int64_t dim[5] = { b->rows, l->d->norm.channels, g->padded, g->h, g->w };

    const int64_t sound[5] = { b->rows, l->d->sound.channels, g->sound, 1, l->d->sound.bins };

    if (l->d->sound.channels)
        memcpy(b->sound_dim, sound, sizeof b->sound_dim);
    b->paired = vtrain_data_roles_of(l->d, &g->own) & VC_ROLES_REFERENCE;
    b->alone = is_alone(l, s);
    if (b->alone && l->d->references_in_front)
        dim[2] = g->f;
    memcpy(b->dim, dim, sizeof b->dim);
    b->own = b->alone ? (vtrain_own){ 0 } : g->own;
    b->base = g->base;
    b->roles = vtrain_data_roles_of(l->d, &b->own);
    b->tokens = (uint64_t)b->rows * g->tokens;
    for (int row = 0; row < b->rows; row++) {
        const vtrain_sample *at = &l->d->sample[s->row[row]];
        s->scale[row] = (float)vtrain_sample_loss(l->d, s->row[row]);
        s->held[row] = vtrain_sample_kind(l->d, s->row[row])->name != NULL;
        b->fps[row] = vf_dataset_entry(l->d->set[at->dataset].data, at->index)->fps;
        vtrain_data_key(l->d, s->row[row], b->key[row]);
    }
    int rc = fill_texts(l, s, &s->err);
    b->weighted = false;
    for (int row = 0; row < b->rows; row++)
        b->weighted |= (s->cond[row].has & 1u << VC_ROLE_LOSS_MASK) != 0;
    for (int row = 0; row < b->rows && !rc && !atomic_load(&l->stop); row++)
        rc = vtrain_loader_row(l, s, row, &s->err);
    for (int row = 0; l->o.distill && row < b->rows && !rc; row++)
        rc = fill_noise(l, s, row, &s->err);
    rc = vc_maps_check(rc, &s->err);
    return vc_context(&s->err, rc, "micro-batch %" PRIu64, b->micro);
}
