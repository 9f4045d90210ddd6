/* text.c - encodes every distinct prompt with each text encoder, once; see vprep.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/keys/keymap.h"
#include "precompute/encode/prompt_clips.h"
#include "precompute/encode/prompt_images.h"
#include "precompute/run/reuse.h"
#include "precompute/text/prompt.h"
#include "precompute/vprep/decode.h"
#include "precompute/vprep/segments.h"

/* The pictures of texts: those of an item, or of a validation prompt. Neither: none. */
typedef struct text_source {
    const vprep_item *item;
    int prompt;                                   /* -1: none */
    prep_pictures is;
    text_picture picture[VC_REFERENCES];          /* rgb NULL: it was not read yet */
    uint8_t *rgb[VC_REFERENCES];                  /* owned */
} text_source;

static void free_pictures(text_source *from)
{
    for (int k = 0; k < VC_REFERENCES; k++)
        free(from->rgb[k]);
}

static char *default_negative(const vprep *p)
{
    return p->c.negative_prompt ? p->c.negative_prompt : (char *)"";
}

/* A prompt that waits until a batch is full. */
enum { MAX_BATCH = 16 };
typedef struct waiting {
    vf_key key;
    const char *prompt;
    text_source *from;                            /* NULL: no picture; else the batch is 1 */
    const vprep_item *item;                       /* NULL: the text is not an item's */
} waiting;

typedef struct text_job {
    vprep *p;
    const text_class *class;
    text_enc *enc;
    int encoder;
    const vprep_item *item;                       /* whose captions are being encoded, or NULL */
    waiting queue[MAX_BATCH];
    int queued;
    /* Called for each prompt that the run needs. from NULL: the text has no picture. An error of an
     * item's text drops the item; one that is returned ends the run. */
    int (*one)(struct text_job *j, const char *prompt, text_source *from, vc_err *err);
    /* The same for each row that has segments. */
    int (*joined)(struct text_job *j, const vf_row *row, vc_err *err);
    prep_segments segments;                       /* of the texts that the dataset has */
    vf_keymap counted;                            /* in a forecast */
    uint64_t n[3];                                /* prompts by prep_reuse_place */
} text_job;

static vf_key key_of(const text_job *j, const char *prompt, const text_source *from)
{
    return vprep_text_key(j->p, j->encoder, prompt, from ? &from->is : NULL);
}

/* Reads picture k of a text that is to be encoded. */
static int read_picture(const text_job *j, text_source *from, int k, vc_err *err)
{
    text_picture *t = &from->picture[k];
    const bool first = vprep_sees(j->p, j->encoder) == PREP_SEES_FIRST;
    int rc;

    if (t->rgb)
        return 0;
    t->key = from->is.key[k];
    if (first)
        rc = from->item ? vprep_first_frame(j->p, from->item, &from->rgb[k], &t->h, &t->w, err)
                        : vprep_prompt_picture(j->p, from->prompt, &from->rgb[k], &t->h, &t->w,
                                               err);
    else
        rc = from->item ? vprep_look_read(j->p, from->item, k, &from->rgb[k], t, err)
                        : vprep_prompt_look(j->p, from->prompt, k, &from->rgb[k], t, err);
    t->rgb = from->rgb[k];
    return first ? vc_context(err, rc, "the first frame") : rc;
}

static int read_pictures(const text_job *j, text_source *from, vc_err *err)
{
    int rc = 0;
    for (int k = 0; from && !rc && k < from->is.n; k++)
        rc = read_picture(j, from, k, err);
    return rc;
}

/* Opens the encoder for the first prompt that is to be encoded. */
static int open_encoder(text_job *j, vc_err *err)
{
    const prep_part *part = &j->p->encoders.text_part[j->encoder];
    const text_info *was = &j->p->encoders.text[j->encoder];
    text_info info;
    double begin = vc_seconds();
    int rc = text_open(&j->enc, j->class, &part->opts, &info, err);
    j->p->profile.span[PREP_SPAN_OPEN] += vc_seconds() - begin;

    if (!rc && (memcmp(&info.fingerprint, &was->fingerprint, sizeof was->fingerprint) ||
                memcmp(&info.tokenizer, &was->tokenizer, sizeof was->tokenizer)))
        rc = vc_fail(err, VC_EMISMATCH, "%s: changed while this ran: start again",
                     part->dir ? part->dir : was->class);
    return rc ? rc : prep_part_unchanged(part, err);
}

/* Encodes n waiting prompts. */
static int encode(text_job *j, const waiting *w, int n, text_result *r, vc_err *err)
{
    text_input in[MAX_BATCH];
    int rc = 0;

    for (int i = 0; !rc && i < n; i++) {
        const int pictures = w[i].from ? w[i].from->is.n : 0;
        in[i] = (text_input){ w[i].prompt, pictures ? w[i].from->picture : NULL, pictures };
        rc = read_pictures(j, w[i].from, err);
    }
    if (!rc && !j->enc)
        rc = open_encoder(j, err);
    double begin = vc_seconds();
    if (!rc)
        rc = text_encode(j->enc, in, n, r, err);
    j->p->profile.span[PREP_SPAN_TEXT] += vc_seconds() - begin;
    return rc;
}

static int put(text_job *j, vf_key key, const text_result *r, vc_err *err)
{
    int rc = j->p->c.trace_dir ? vprep_trace_text(j->p, j->encoder, key, r, err) : 0;

    if (!rc && vf_writer_has_text(j->p->writer, key)) {
        j->p->count.texts_reused++;
        return 0;
    }
    if (!rc)
        rc = vprep_put_text(j->p, key, r, err);
    j->p->count.texts_encoded += !rc;
    return rc;
}

/* Drops the item of a text that failed, with all variants of its row. An error of a text that is no
 * item's ends the run. */
static int text_failed(text_job *j, const vprep_item *item, const vc_err *why, vc_err *err)
{
    vprep_item *all = j->p->plan.items;

    if (!item) {
        *err = *why;
        return why->code;
    }
    int rc = vprep_item_failed(j->p, item, "text", why, err);
    if (rc)
        return rc;
    size_t i = (size_t)(item - all);
    while (i > 0 && all[i - 1].row == item->row)
        i--;
    for (; i < j->p->plan.n_items && all[i].row == item->row; i++)
        all[i].drop = all[i].failed = true;
    return 0;
}

/* Encodes n waiting prompts and puts them into the dataset. If they fail together, each is encoded
 * alone, so that the error is that of its own text. */
static int encode_waiting(text_job *j, const waiting *w, int n, vc_err *err)
{
    text_result r[MAX_BATCH];
    vc_err why = { 0 };
    int rc = encode(j, w, n, r, &why);

    if (rc && n > 1) {
        for (rc = 0; !rc && n > 0; n--, w++)
            rc = encode_waiting(j, w, 1, err);
        return rc;
    }
    if (rc)
        return text_failed(j, w->item, &why, err);
    for (int i = 0; !rc && i < n; i++) {
        rc = put(j, w[i].key, &r[i], &why);
        if (rc)
            rc = text_failed(j, w[i].item, &why, err);
    }
    return rc;
}

static int encode_queue(text_job *j, vc_err *err)
{
    int n = j->queued;

    j->queued = 0;
    return n ? encode_waiting(j, j->queue, n, err) : 0;
}

static bool waits(const text_job *j, vf_key key)
{
    for (int i = 0; i < j->queued; i++)
        if (!memcmp(&j->queue[i].key, &key, sizeof key))
            return true;
    return false;
}

/* Puts a prompt into the queue, unless the dataset has it. */
static int one_prompt(text_job *j, const char *prompt, text_source *from, vc_err *err)
{
    vf_key key = key_of(j, prompt, from);
    const int batch = j->p->encoders.text[j->encoder].batch;
    vc_err why = { 0 };

    if (*vc_stop_flag())
        return vc_fail(err, VC_ESTOP, "stopped");
    if (!vprep_owns_key(j->p, key))
        return 0;
    int rc = waits(j, key) ? encode_queue(j, err) : 0;
    if (rc)
        return rc;
    rc = j->p->c.trace_dir ? VC_ENOENT : prep_reuse_take(j->p, true, key, &why);
    j->p->count.texts_reused += !rc;
    if (rc != VC_ENOENT)
        return rc ? text_failed(j, j->item, &why, err) : 0;
    j->queue[j->queued++] = (waiting){ key, prompt, from, j->item };
    return j->queued < batch && j->queued < MAX_BATCH ? 0 : encode_queue(j, err);
}

/* Makes the caption of one segment. */
static int make_segment(void *arg, const vf_row *row, int k, text_result *r, vc_err *err)
{
    text_job *j = arg;

    if (*vc_stop_flag())
        return vc_fail(err, VC_ESTOP, "stopped");
    const waiting w = { .prompt = row->captions[k] };
    int rc = encode(j, &w, 1, r, err);
    if (!rc && j->p->c.trace_dir)
        rc = vprep_trace_text(j->p, j->encoder,
                              vprep_caption_key(j->p, j->encoder, row, k, NULL), r, err);
    j->p->count.texts_encoded += !rc;
    return rc;
}

/* Puts the text of all segments of a row into the dataset. */
static int put_joined(text_job *j, const vf_row *row, vf_key key, vc_err *err)
{
    const prep_segment_maker maker = { make_segment, j };
    int rc = j->p->c.trace_dir ? VC_ENOENT : prep_reuse_take(j->p, true, key, err);

    if (rc == VC_ENOENT)
        return prep_segments_put(&j->segments, j->p, j->encoder, row, &maker, err);
    j->p->count.texts_reused += !rc;
    return rc ? rc : prep_segments_note(&j->segments, j->p, j->encoder, row, err);
}

static int one_joined(text_job *j, const vf_row *row, vc_err *err)
{
    vf_key key = vprep_row_key(j->p, j->encoder, row, 0, NULL);
    vc_err why = { 0 };
    int rc;

    if (!vprep_owns_key(j->p, key))
        return 0;
    if (row->segments == 1 && !j->p->encoders.text[j->encoder].padded) {
        rc = one_prompt(j, row->captions[0], NULL, err);
        if (!rc)
            rc = encode_queue(j, err);
        if (rc || (j->item && j->item->drop))
            return rc;
        return prep_segments_note(&j->segments, j->p, j->encoder, row, err);
    }
    rc = encode_queue(j, err);                   /* texts are put in the order of the list */
    if (rc)
        return rc;
    rc = put_joined(j, row, key, &why);
    return rc ? text_failed(j, j->item, &why, err) : 0;
}

/* Notes the texts of segments that the dataset has before the first text is made. */
static int note_segments(text_job *j, vc_err *err)
{
    const vf_metadata *m = &j->p->list.meta;
    int rc = 0;

    for (int64_t i = 0; !rc && i < m->n; i++) {
        const vf_row *row = &m->rows[i];
        if (row->segments && !row->bad &&
            vf_writer_has_text(j->p->writer, vprep_row_key(j->p, j->encoder, row, 0, NULL)))
            rc = prep_segments_note(&j->segments, j->p, j->encoder, row, err);
    }
    return rc;
}

static int count_key(text_job *j, vf_key key, vc_err *err)
{
    if (*vc_stop_flag())
        return vc_fail(err, VC_ESTOP, "stopped");
    if (vf_keymap_get(&j->counted, key, NULL))
        return 0;
    j->n[prep_reuse_find(j->p, true, key)]++;
    return vf_keymap_put(&j->counted, key, 0, err);
}

static int count_prompt(text_job *j, const char *prompt, text_source *from, vc_err *err)
{
    return count_key(j, key_of(j, prompt, from), err);
}

static int count_joined(text_job *j, const vf_row *row, vc_err *err)
{
    return count_key(j, vprep_row_key(j->p, j->encoder, row, 0, NULL), err);
}

/* Whether the text of a prompt has the prompt's pictures: a negative text has references. */
static bool has_pictures(prep_sees sees, bool negative)
{
    return sees == PREP_SEES_REFERENCES || (sees == PREP_SEES_FIRST && !negative);
}

/* The text of prompt i, or its negative text. Texts of references have the default negative text
 * with the pictures of each prompt. */
static int validation_prompt(text_job *j, int i, bool negative, vc_err *err)
{
    vprep *p = j->p;
    const prep_sees sees = vprep_sees(p, j->encoder);
    text_source from = { .prompt = i };
    vf_row row;

    if (has_pictures(sees, negative))
        vprep_prompt_pictures_of(p, i, &from.is);
    int rc = prep_prompt_row(&row, p->prompts.row[i], negative, err);
    if (!rc && negative && !row.n_captions && from.is.n)
        row.captions[row.n_captions++] = default_negative(p);
    if (!rc)
        rc = vc_context(err, vprep_check_segments(p, &row, err), "--validation_prompts");
    if (!rc && row.segments)
        rc = j->joined(j, &row, err);
    else if (!rc && row.n_captions)
        rc = j->one(j, row.captions[0], from.is.n ? &from : NULL, err);
    if (!rc)
        rc = encode_queue(j, err);               /* the queue borrows `from` */
    free(row.captions);
    free_pictures(&from);
    return rc;
}

static int validation_prompts(text_job *j, vc_err *err)
{
    int rc = 0;

    for (int i = 0; !rc && i < j->p->prompts.n; i++) {
        rc = validation_prompt(j, i, false, err);
        if (!rc)
            rc = validation_prompt(j, i, true, err);
    }
    return rc;
}

/* The keys of the pictures in an item's texts. */
static int pictures_of(const text_job *j, const vprep_item *it, prep_pictures *is, vc_err *err)
{
    const prep_sees sees = vprep_sees(j->p, j->encoder);
    vprep_clip clip;
    int rc = sees == PREP_SEES_FIRST ? vprep_clip_of(j->p, it, &clip, err) : 0;

    if (!rc && sees)
        vprep_pictures_of(j->p, it, &clip, is);
    if (!rc && sees == PREP_SEES_FIRST)
        vprep_clip_free(&clip);
    return rc;
}

/* The captions of an item, and its empty prompt where that has its references. */
static int captions(text_job *j, const vprep_item *it, vc_err *err)
{
    const vf_row *row = &j->p->list.meta.rows[it->row];
    text_source from = { .item = it, .prompt = -1 };
    int rc = pictures_of(j, it, &from.is, err);
    text_source *const seen = from.is.n ? &from : NULL;

    j->item = it;
    if (!rc && row->segments)
        rc = j->joined(j, row, err);
    for (int k = 0; !rc && !it->drop && !row->segments && k < row->n_captions; k++)
        rc = j->one(j, row->captions[k], seen, err);
    for (int k = 0; !rc && !it->drop && row->preserved && k < row->n_captions; k++)
        rc = j->one(j, row->preserved[k], seen, err);
    if (!rc && !it->drop && seen && vprep_sees(j->p, j->encoder) == PREP_SEES_REFERENCES)
        rc = j->one(j, "", seen, err);
    if (!rc && seen)
        rc = encode_queue(j, err);
    j->item = NULL;
    free_pictures(&from);
    return rc;
}

static uint64_t texts_of(const vf_row *row)
{
    return (uint64_t)vprep_row_texts(row) * (row->preserved ? 2 : 1);
}

/* Variants of a row have one text, unless each has a picture of its own. Where a text fails, all
 * variants of the row are dropped. */
static int items(text_job *j, vc_err *err)
{
    vprep *p = j->p;
    int rc = 0;

    for (uint32_t i = 0, first = 0; !rc && i < p->plan.n_items; i++) {
        vprep_item *it = &p->plan.items[i];
        if (it->row != p->plan.items[first].row)
            first = i;
        it->drop |= p->plan.items[first].drop && p->plan.items[first].failed;
        bool done = it->drop || (i > first && !vprep_sees(p, j->encoder));
        if (!done && it->stored)
            p->count.texts_reused += texts_of(&p->list.meta.rows[it->row]);
        else if (!done)
            rc = captions(j, it, err);
        vc_progress_at(p->progress, i + 1, NULL);
    }
    return rc;
}

static int all_prompts(text_job *j, vc_err *err)
{
    int rc = j->one(j, "", NULL, err);

    if (!rc && j->p->c.negative_prompt)
        rc = j->one(j, j->p->c.negative_prompt, NULL, err);
    if (!rc)
        rc = validation_prompts(j, err);
    return rc ? rc : items(j, err);
}

static int add_keys(cJSON *o, const char *field, const vprep *p, const vf_row *row,
                    const prep_pictures *pictures)
{
    cJSON *keys = cJSON_AddArrayToObject(o, field);
    for (int e = 0; keys && e < p->encoders.n_text; e++) {
        char hex[VF_KEY_HEX];
        cJSON_AddItemToArray(keys, cJSON_CreateString(
            vf_key_hex(hex, vprep_row_key(p, e, row, 0, pictures))));
    }
    return keys ? 0 : -1;
}

/* Adds the keys of prompt i's picture: a first frame as `image`, other values by role, and the clips
 * beside it by their names. */
static int add_pictures(cJSON *o, const vprep *p, int i)
{
    const vf_key *key;
    const unsigned has = vprep_prompt_values(p, i, &key);
    const vf_key *clip[VPREP_PROMPT_CLIPS];
    const char *name[VPREP_PROMPT_CLIPS];
    char hex[VF_KEY_HEX];
    bool beside = has & ~VC_ROLE_BIT(VC_ROLE_IMAGE);
    for (int k = 0; k < VPREP_PROMPT_CLIPS; k++)
        beside |= (clip[k] = vprep_prompt_clip_key(p, i, k, &name[k])) != NULL;
    cJSON *conditions = beside ? cJSON_AddObjectToObject(o, "conditions") : NULL;
    for (int k = 0; k < VPREP_PROMPT_CLIPS; k++)
        if (clip[k] && !cJSON_AddStringToObject(conditions, name[k], vf_key_hex(hex, *clip[k])))
            return -1;
    for (int v = 0; v < VC_ROLES; v++) {
        cJSON *to = v == VC_ROLE_IMAGE ? o : conditions;
        if (has & VC_ROLE_BIT(v) &&
            !cJSON_AddStringToObject(to, vc_roles[v].name, vf_key_hex(hex, key[v])))
            return -1;
    }
    return 0;
}

/* The record of prompt i; without a negative text of its own it has --negative_prompt's. */
static int put_validation(vprep *p, int i, vc_err *err)
{
    const bool negatives_see = has_pictures(vprep_texts_see(p), true);
    prep_pictures pictures;
    cJSON *o = cJSON_Duplicate(p->prompts.row[i], true);
    vf_row row, negative = { 0 };
    int rc = prep_prompt_row(&row, p->prompts.row[i], false, err);

    if (!rc)
        rc = prep_prompt_row(&negative, p->prompts.row[i], true, err);
    if (!rc && !negative.n_captions)
        negative.captions[negative.n_captions++] = default_negative(p);
    vprep_prompt_pictures_of(p, i, &pictures);
    if (!rc && (!o || add_keys(o, "keys", p, &row, &pictures) ||
                add_keys(o, "negative_keys", p, &negative, negatives_see ? &pictures : NULL) ||
                add_pictures(o, p, i)))
        rc = vc_no_memory(err);
    if (!rc)
        rc = vf_writer_put_validation(p->writer, (uint32_t)i, o, err);
    free(row.captions);
    free(negative.captions);
    cJSON_Delete(o);
    return rc;
}

int vprep_put_validations(vprep *p, vc_err *err)
{
    int rc = 0;

    for (int i = 0; !rc && i < p->prompts.n; i++)
        rc = put_validation(p, i, err);
    return rc;
}

/* Puts the trigger word into the prompts, where they have a place for it. */
static int name_trigger(vprep *p, const char *trigger, vc_err *err)
{
    int rc = 0;

    for (int i = 0; i < p->prompts.n && !rc; i++) {
        cJSON *v = cJSON_GetObjectItemCaseSensitive(p->prompts.row[i], "prompt");
        char *text = cJSON_IsString(v) ? strdup(v->valuestring) : NULL;
        if (text)
            rc = vf_word_trigger(&text, trigger, err);
        if (text && !rc && !cJSON_SetValuestring(v, text))
            rc = vc_no_memory(err);
        free(text);
    }
    return rc;
}

int vprep_prompts_load(vprep *p, vc_err *err)
{
    const char *list = p->c.validation_prompts, *trigger = p->c.wording.trigger;
    int rc = list ? vprep_prompts_read(&p->prompts, list, err) : 0;
    return !rc && trigger && *trigger ? name_trigger(p, trigger, err) : rc;
}

int vprep_text_forecast(vprep *p, uint64_t *reuse, uint64_t *encode, uint64_t *copy, vc_err *err)
{
    int rc = 0;

    *reuse = *encode = *copy = 0;
    for (int e = 0; !rc && e < p->encoders.n_text; e++) {
        text_job j = { .p = p, .encoder = e, .one = count_prompt,
                       .joined = count_joined };
        rc = all_prompts(&j, err);
        vf_keymap_free(&j.counted);
        *reuse += j.n[REUSE_OUT] + j.n[REUSE_OTHER];
        *encode += j.n[REUSE_NONE];
        *copy += j.n[REUSE_OTHER];
    }
    return rc;
}

int vprep_text(vprep *p, vc_err *err)
{
    int rc = 0;

    for (int e = 0; !rc && e < p->encoders.n_text; e++) {
        text_job j = { .p = p, .class = p->encoders.family.text[e], .encoder = e,
                       .one = one_prompt, .joined = one_joined };
        vc_progress_begin(p->progress, "text", "samples", p->plan.n_items);
        rc = note_segments(&j, err);
        if (!rc)
            rc = all_prompts(&j, err);
        if (!rc)
            rc = encode_queue(&j, err);
        if (!rc && j.enc)
            rc = prep_part_unchanged(&p->encoders.text_part[e], err);
        vc_progress_end(p->progress);
        text_close(j.enc);
        prep_segments_free(&j.segments);
    }
    return rc ? rc : vf_writer_commit(p->writer, err);
}
