/* text.c - encodes every distinct prompt with each text encoder, once; see vprep.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/keys/keymap.h"
#include "precompute/encode/prompt_images.h"
#include "precompute/run/reuse.h"
#include "precompute/text/prompt.h"

vf_key vprep_text_key(const vprep *p, int encoder, const char *prompt)
{
    return text_prompt_key(&p->encoders.text[encoder], p->encoders.text_part[encoder].opts.dtype,
                           p->c.dtype, &(text_input){ .prompt = prompt });
}

int vprep_pack_dtype(vc_dtype *dtype, void **data, const float *v, size_t n, vc_dtype want,
                     vc_err *err)
{
    *dtype = want;
    for (size_t i = 0; want == VC_F16 && i < n; i++)
        if (!(v[i] >= -65504.0f && v[i] <= 65504.0f))
            *dtype = want = VC_F32;
    *data = malloc(n * vc_dtype_size(want) + 1);
    if (!*data)
        return vc_fail(err, VC_ENOMEM, "out of memory for %zu values", n);
    vc_from_f32(*data, want, v, n);
    return 0;
}

static int put_result(vprep *p, vf_key key, const text_result *r, vc_err *err)
{
    const vf_view all[2] = {
        { .name = "prompt_embeds", .nd = 2, .dim = { r->n, r->width }, .data = r->embeds },
        { .name = "pooled", .nd = 1, .dim = { r->pooled_width }, .data = r->pooled },
    };
    vf_view t[2];
    int n = 0, rc = 0;
    void *data[2] = { 0 };
    uint8_t *packed = NULL;
    size_t size = 0;

    for (int i = 0; !rc && i < 2; i++) {
        size_t count = (size_t)vf_view_count(&all[i]);
        if (!count)
            continue;
        t[n] = all[i];
        rc = vprep_pack_dtype(&t[n].dtype, &data[n], all[i].data, count, p->c.dtype, err);
        t[n].data = data[n];
        t[n].bytes = count * vc_dtype_size(t[n].dtype);
        n++;
    }
    if (!rc)
        rc = vf_safetensors_pack(&packed, &size, t, n, NULL, 0, 1, err);
    if (!rc)
        rc = vf_writer_put_text(p->writer, key, packed, size, err);
    free(packed);
    free(data[0]);
    free(data[1]);
    return rc;
}

/* Writes the trace of a prompt, kept beside the traces until the clips are written. */
static int trace_text(const vprep *p, int encoder, vf_key key, const text_result *r, vc_err *err)
{
    char hex[VF_KEY_HEX], names[4][32];
    snprintf(names[0], sizeof names[0], "input_ids_%d", encoder + 1);
    snprintf(names[1], sizeof names[1], "attention_mask_%d", encoder + 1);
    snprintf(names[2], sizeof names[2], "prompt_embeds_%d", encoder + 1);
    snprintf(names[3], sizeof names[3], "pooled_%d", encoder + 1);
    vf_view t[4] = {
        { names[0], VC_I64, 1, { r->length }, r->ids, (size_t)r->length * 8 },
        { names[1], VC_I64, 1, { r->length }, r->mask, (size_t)r->length * 8 },
    };
    int n = 2;
    if (r->n)
        t[n++] = (vf_view){ names[2], VC_F32, 2, { r->n, r->width }, r->embeds,
                            (size_t)r->n * (size_t)r->width * 4 };
    if (r->pooled_width)
        t[n++] = (vf_view){ names[3], VC_F32, 1, { r->pooled_width }, r->pooled,
                            (size_t)r->pooled_width * 4 };
    char *path = vc_format("%s/.text-%s.safetensors", p->c.trace_dir, vf_key_hex(hex, key));
    int rc = path ? vf_safetensors_write(path, t, n, NULL, 0, err) : vc_no_memory(err);
    free(path);
    return rc;
}

typedef struct text_job {
    vprep *p;
    const text_class *class;
    text_enc *enc;
    int encoder;
    /* Called for each prompt that the run needs. */
    int (*one)(struct text_job *j, const char *prompt, vc_err *err);
    vf_keymap counted;                            /* in a forecast */
    uint64_t n[3];                                /* prompts by prep_reuse_place */
} text_job;

/* Opens the encoder for the first prompt that is to be encoded. */
static int open_encoder(text_job *j, vc_err *err)
{
    const prep_part *part = &j->p->encoders.text_part[j->encoder];
    const text_info *was = &j->p->encoders.text[j->encoder];
    text_info info;
    int rc = j->class->open(&j->enc, &part->opts, &info, err);

    if (!rc && (memcmp(&info.fingerprint, &was->fingerprint, sizeof was->fingerprint) ||
                memcmp(&info.tokenizer, &was->tokenizer, sizeof was->tokenizer)))
        rc = vc_fail(err, VC_EMISMATCH, "%s: changed while this ran: start again",
                     part->dir ? part->dir : was->class);
    return rc ? rc : prep_part_unchanged(part, err);
}

static int one_prompt(text_job *j, const char *prompt, vc_err *err)
{
    vf_key key = vprep_text_key(j->p, j->encoder, prompt);
    text_result r;

    if (*vc_stop_flag())
        return vc_fail(err, VC_ESTOP, "stopped");
    if (!vprep_owns_key(j->p, key))
        return 0;
    int rc = j->p->c.trace_dir ? VC_ENOENT : prep_reuse_take(j->p, true, key, err);
    j->p->count.texts_reused += !rc;
    if (rc != VC_ENOENT)
        return rc;
    rc = j->enc ? 0 : open_encoder(j, err);
    if (!rc)
        rc = j->class->encode(j->enc, &(text_input){ .prompt = prompt }, &r, err);
    if (!rc && j->p->c.trace_dir)
        rc = trace_text(j->p, j->encoder, key, &r, err);
    if (!rc && vf_writer_has_text(j->p->writer, key)) {
        j->p->count.texts_reused++;
        return 0;
    }
    if (!rc)
        rc = put_result(j->p, key, &r, err);
    j->p->count.texts_encoded += !rc;
    return rc;
}

static int count_prompt(text_job *j, const char *prompt, vc_err *err)
{
    vf_key key = vprep_text_key(j->p, j->encoder, prompt);

    if (*vc_stop_flag())
        return vc_fail(err, VC_ESTOP, "stopped");
    if (vf_keymap_get(&j->counted, key, NULL))
        return 0;
    j->n[prep_reuse_find(j->p, true, key)]++;
    return vf_keymap_put(&j->counted, key, 0, err);
}

static int all_prompts(text_job *j, vc_err *err)
{
    vprep *p = j->p;
    const vprep_prompts *v = &p->prompts;
    uint32_t failed = UINT32_MAX;
    int rc = j->one(j, "", err);

    if (!rc && p->c.negative_prompt)
        rc = j->one(j, p->c.negative_prompt, err);
    for (int i = 0; !rc && i < v->n; i++) {
        const char *negative = NULL;
        rc = j->one(j, cJSON_GetObjectItem(v->row[i], "prompt")->valuestring, err);
        if (!rc)
            rc = vf_json_str_opt(v->row[i], "negative_prompt", &negative, err);
        if (!rc && negative)
            rc = j->one(j, negative, err);
    }
    for (uint32_t i = 0; !rc && i < p->plan.n_items; i++) {
        vprep_item *it = &p->plan.items[i];
        const vf_row *row = &p->list.meta.rows[it->row];
        vc_err why = { 0 };
        if (i && it->row == failed)                           /* a further variant of the row */
            it->drop = true;
        bool done = it->drop || (i && p->plan.items[i - 1].row == it->row);
        if (!done && it->stored) {
            p->count.texts_reused += (uint64_t)row->n_captions;
            done = true;
        }
        for (int k = 0; !rc && !done && k < row->n_captions; k++)
            if (j->one(j, row->captions[k], &why)) {
                rc = vprep_note(p, row->row, row->path, "text", &why, err);
                it->drop = done = true;
                failed = it->row;
            }
        vc_progress_at(p->progress, i + 1, NULL);
    }
    return rc;
}

static int add_keys(cJSON *o, const char *field, const vprep *p, const char *prompt)
{
    cJSON *keys = cJSON_AddArrayToObject(o, field);
    for (int e = 0; keys && e < p->encoders.n_text; e++) {
        char hex[VF_KEY_HEX];
        cJSON_AddItemToArray(keys, cJSON_CreateString(
            vf_key_hex(hex, vprep_text_key(p, e, prompt))));
    }
    return keys ? 0 : -1;
}

/* Adds the keys of prompt i's picture: a first frame as `image`, other values by role. */
static int add_pictures(cJSON *o, const vprep *p, int i)
{
    const vf_key *key;
    const unsigned has = vprep_prompt_values(p, i, &key);
    char hex[VF_KEY_HEX];
    if (!has)
        return 0;
    cJSON *to = has & VC_ROLE_BIT(VC_ROLE_IMAGE) ? o : cJSON_AddObjectToObject(o, "conditions");
    for (int v = 0; v < VC_ROLES; v++)
        if (has & VC_ROLE_BIT(v) &&
            !cJSON_AddStringToObject(to, vc_roles[v].name, vf_key_hex(hex, key[v])))
            return -1;
    return 0;
}

int vprep_put_validations(vprep *p, vc_err *err)
{
    const vprep_prompts *v = &p->prompts;
    int rc = 0;

    for (int i = 0; !rc && i < v->n; i++) {
        const char *negative = p->c.negative_prompt ? p->c.negative_prompt : "";
        cJSON *o = cJSON_Duplicate(v->row[i], true);
        vf_json_str_opt(o, "negative_prompt", &negative, NULL);
        const char *prompt = cJSON_GetObjectItem(v->row[i], "prompt")->valuestring;
        if (!o || add_keys(o, "keys", p, prompt) || add_keys(o, "negative_keys", p, negative) ||
            add_pictures(o, p, i))
            rc = vc_no_memory(err);
        if (!rc)
            rc = vf_writer_put_validation(p->writer, (uint32_t)i, o, err);
        cJSON_Delete(o);
    }
    return rc;
}

int vprep_prompts_load(vprep *p, vc_err *err)
{
    const char *list = p->c.validation_prompts;
    int rc = list ? vprep_prompts_read(&p->prompts, list, err) : 0;
    return rc ? rc : vprep_prompt_images_find(p, err);
}

int vprep_text_forecast(vprep *p, uint64_t *reuse, uint64_t *encode, uint64_t *copy, vc_err *err)
{
    int rc = 0;

    *reuse = *encode = *copy = 0;
    for (int e = 0; !rc && e < p->encoders.n_text; e++) {
        text_job j = { .p = p, .encoder = e, .one = count_prompt };
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
                       .one = one_prompt };
        vc_progress_begin(p->progress, "text", "samples", p->plan.n_items);
        rc = all_prompts(&j, err);
        if (!rc && j.enc)
            rc = prep_part_unchanged(&p->encoders.text_part[e], err);
        vc_progress_end(p->progress);
        j.class->close(j.enc);
    }
    return rc ? rc : vf_writer_commit(p->writer, err);
}
