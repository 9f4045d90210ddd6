/* record.c - see record.h. Text is written straight into a buffer, since each start compares the
 * records of all samples with the stored ones. */
#include "precompute/vprep/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/vprep/plan_lines.h"
#include "precompute/vprep/segments.h"

static void put_text(vc_buf *b, const char *before, const char *text)
{
    vc_buf_str(b, before);
    vc_buf_json(b, text, strlen(text));
}

static void put_int(vc_buf *b, const char *before, int64_t v)
{
    vc_buf_str(b, before);
    vc_buf_int(b, v);
}

static void put_number(vc_buf *b, const char *before, double v)
{
    vc_buf_str(b, before);
    vc_buf_number(b, v);
}

static void put_bool(vc_buf *b, const char *before, bool v)
{
    vc_buf_str(b, before);
    vc_buf_str(b, v ? "true" : "false");
}

static void put_ints(vc_buf *b, const char *before, const int64_t *v, int n)
{
    vc_buf_str(b, before);
    for (int i = 0; i < n; i++)
        put_int(b, i ? "," : "[", v[i]);
    vc_buf_str(b, n ? "]" : "[]");
}

static void put_key(vc_buf *b, const char *before, vf_key k)
{
    char hex[VF_KEY_HEX];
    put_text(b, before, vf_key_hex(hex, k));
}

static void put_json(vc_buf *b, const cJSON *o)
{
    char *line = o ? vf_json_line(o) : NULL;
    if (line)
        vc_buf_str(b, line);
    b->failed |= !line;
    free(line);
}

/* ---- draws ---- */

/* The text of an option that is a number, and back. */
typedef struct option_text {
    char s[32];
} option_text;

static option_text text_of(double v)
{
    option_text t;
    snprintf(t.s, sizeof t.s, "%.6g", v);
    return t;
}

static bool is_number(const char *s)
{
    return *s >= '0' && *s <= '9' && !strcmp(text_of(strtod(s, NULL)).s, s);
}

/* A plan has sizes and lengths as numbers, and a ratio as the name of a bucket. Records have
 * options as texts, as in older datasets, so that the same choice makes the same record. */
static bool has_numbers(const char *purpose, bool plan)
{
    return plan && strcmp(purpose, "ratio");
}

static void put_option(vc_buf *b, const char *before, const char *text, bool number)
{
    if (number && is_number(text)) {
        vc_buf_str(b, before);
        vc_buf_str(b, text);
    } else {
        put_text(b, before, text);
    }
}

static void put_draw(vc_buf *b, const vb_draw *d, bool plan)
{
    bool number = has_numbers(d->purpose, plan);

    put_text(b, "{\"purpose\":", d->purpose);
    if (d->is_range) {
        put_ints(b, ",\"range\":", (int64_t[]){ d->lo, d->hi }, 2);
        put_int(b, ",\"pick\":", d->pick);
    } else {
        vc_buf_str(b, ",\"options\":[");
        for (int i = 0; i < d->n_options; i++)
            put_option(b, i ? "," : "", d->options[i], number);
        put_option(b, "],\"pick\":", d->options[d->picked], number);
    }
    vc_buf_str(b, "}");
}

/* An option of a replayed line in the form that is written here; NULL: in its own form. */
static cJSON *rewritten(const cJSON *o, bool number)
{
    if (number && cJSON_IsString(o) && is_number(o->valuestring))
        return cJSON_CreateNumber(strtod(o->valuestring, NULL));
    if (!number && cJSON_IsNumber(o))
        return cJSON_CreateString(text_of(o->valuedouble).s);
    return NULL;
}

/* Lines of older plans have texts where newer ones have numbers. */
static void put_replayed(vc_buf *b, const cJSON *replayed, bool plan)
{
    cJSON *copy = cJSON_Duplicate(replayed, true), *next, *other;
    cJSON *options = cJSON_GetObjectItemCaseSensitive(copy, "options");
    cJSON *pick = cJSON_GetObjectItemCaseSensitive(copy, "pick");
    const char *purpose = "";

    vf_json_str_opt(copy, "purpose", &purpose, NULL);
    bool number = has_numbers(purpose, plan);
    for (cJSON *o = options ? options->child : NULL; o; o = next) {
        next = o->next;
        if ((other = rewritten(o, number)))
            cJSON_ReplaceItemViaPointer(options, o, other);
    }
    if (options && pick && (other = rewritten(pick, number)))
        cJSON_ReplaceItemInObjectCaseSensitive(copy, "pick", other);
    put_json(b, copy);
    cJSON_Delete(copy);
}

/* The draws of this run or of a replayed line, and the mask's if the line has none. */
static void put_draws(vc_buf *b, const vprep *p, const vprep_clip *clip, bool plan)
{
    const vb_choice *c = &clip->choice;
    const cJSON *replayed = clip->draws ? clip->draws->child : NULL;
    const char *before = "";

    vc_buf_str(b, ",\"draws\":[");
    for (int i = 0; !clip->draws && i < c->n_draws; i++, before = ",") {
        vc_buf_str(b, before);
        put_draw(b, &c->draws[i], plan);
    }
    for (; replayed; replayed = replayed->next, before = ",") {
        vc_buf_str(b, before);
        put_replayed(b, replayed, plan);
    }
    if (vprep_takes_masks(p) && clip->mask.f && clip->mask.kind != MASK_FILE &&
        !plan_mask_draw(clip)) {
        cJSON *m = mask_json(&clip->mask);
        vc_buf_str(b, before);
        put_json(b, m);
        cJSON_Delete(m);
    }
    vc_buf_str(b, "]");
}

/* ---- fields of both ---- */

static void put_row(vc_buf *b, const vf_row *row, uint32_t number, uint16_t variant)
{
    char id[20];

    snprintf(id, sizeof id, "%016llx", (unsigned long long)row->id);
    put_int(b, "{\"sample\":", number);
    put_text(b, ",\"id\":", id);
    put_int(b, ",\"variant\":", variant);
    put_text(b, ",\"path\":", row->path);
}

static void put_head(vc_buf *b, const vprep *p, const vprep_item *it)
{
    put_row(b, &p->list.meta.rows[it->row], it->number, it->variant);
    put_text(b, ",\"type\":", p->list.sources[it->row].is_video ? "video" : "image");
}

static void put_choice(vc_buf *b, const vprep *p, const vprep_item *it, const vprep_clip *clip,
                       bool plan)
{
    const vprep_source *s = &p->list.sources[it->row];
    const vb_choice *c = &clip->choice;

    put_int(b, ",\"source\":{\"w\":", s->w);
    put_int(b, ",\"h\":", s->h);
    put_int(b, ",\"frames\":", s->frames);
    put_number(b, ",\"fps\":", s->fps);
    put_int(b, ",\"rotation\":", s->rotation);
    vc_buf_str(b, "}");
    put_draws(b, p, clip, plan);
    if (c->drop)
        return;
    put_text(b, ",\"key\":", c->key);
    if (c->load_h)
        put_ints(b, ",\"load\":", (int64_t[]){ c->load_h, c->load_w }, 2);
    put_ints(b, ",\"target\":", (int64_t[]){ c->target_h, c->target_w }, 2);
    put_ints(b, ",\"resize\":", (int64_t[]){ c->resize_h, c->resize_w }, 2);
    put_ints(b, ",\"crop\":", (int64_t[]){ c->top, c->left }, 2);
    put_bool(b, ",\"flip\":", c->flip);
    if (clip->tonemap)
        put_text(b, ",\"tonemap\":", media_tonemap_names[clip->tonemap]);
    put_ints(b, ",\"frames\":", clip->frames, c->frames);
    put_number(b, ",\"fps\":", clip->fps);
    put_number(b, ",\"upscale\":", c->upscale);
    put_ints(b, ",\"latent\":", (int64_t[]){ c->latent_f, c->latent_h, c->latent_w }, 3);
    put_int(b, ",\"tokens\":", c->tokens);
}

/* The reference pictures: their files, sizes, and latent sizes. */
static void put_references(vc_buf *b, const vprep *p, const vprep_item *it, const vb_choice *clip)
{
    const vf_row *row = &p->list.meta.rows[it->row];
    const vprep_source *s = &p->list.sources[it->row];

    for (int k = 0; k < s->n_references; k++) {
        const prep_beside *r = &s->references[k];
        vb_choice c;
        vprep_reference_size(p, r, clip, &c);
        put_text(b, k ? ",{\"path\":" : ",\"references\":[{\"path\":", row->references[k].path);
        put_ints(b, ",\"source\":", (int64_t[]){ r->h, r->w }, 2);
        put_ints(b, ",\"target\":", (int64_t[]){ c.target_h, c.target_w }, 2);
        put_ints(b, ",\"latent\":", (int64_t[]){ 1, c.latent_h, c.latent_w }, 3);
        vc_buf_str(b, "}");
    }
    vc_buf_str(b, s->n_references ? "]" : "");
}

/* ---- plan line and record ---- */

void vprep_plan_line(vc_buf *b, const vprep *p, const vprep_item *it, const vprep_clip *clip)
{
    const vf_row *row = &p->list.meta.rows[it->row];
    const vb_choice *c = &clip->choice;

    put_head(b, p, it);
    vc_buf_str(b, ",\"captions\":[");
    for (int i = 0; i < row->n_captions; i++)
        put_text(b, i ? "," : "", row->captions[i]);
    vc_buf_str(b, "]");
    if (row->segments)
        put_int(b, ",\"text_chunks\":", row->segments);
    put_choice(b, p, it, clip, true);
    put_references(b, p, it, c);
    put_text(b, ",\"status\":", c->drop ? "drop" : "ok");
    if (c->drop)
        put_text(b, ",\"reason\":", c->reason);
    vc_buf_str(b, "}");
}

void vprep_lost_line(vc_buf *b, const vprep *p, uint32_t row)
{
    put_row(b, &p->list.meta.rows[row], p->list.sources[row].number, 0);
    vc_buf_str(b, ",\"status\":\"drop\",\"reason\":\"not to be used: errors.jsonl says why\"}");
}

/* Columns that --extra_inputs and --data_file_keys name. */
static void put_extra(vc_buf *b, const vf_row *row)
{
    for (int i = 0; i < row->n_extra; i++) {
        put_text(b, i ? "," : ",\"extra\":{", row->extra[i].column);
        put_text(b, ":", row->extra[i].value);
    }
    vc_buf_str(b, row->n_extra ? "}" : "");
}

/* The captions of all segments as one text, a line each, and as a list. */
static void put_segments(vc_buf *b, const vf_row *row)
{
    vc_buf all = { 0 };

    for (int i = 0; i < row->segments; i++)
        vc_buf_printf(&all, "%s%s", i ? "\n" : "", row->captions[i]);
    char *text = vc_buf_take(&all);
    put_text(b, "", text ? text : "");
    b->failed |= !text;
    free(text);
    vc_buf_str(b, ",\"segments\":[");
    for (int i = 0; i < row->segments; i++)
        put_text(b, i ? "," : "", row->captions[i]);
    vc_buf_str(b, "]");
}

/* The empty prompt with the sample's pictures. */
static void put_empty(vc_buf *b, const vprep *p, const prep_pictures *pictures)
{
    vc_buf_str(b, ",\"empty\":[");
    for (int e = 0; e < p->encoders.n_text; e++)
        put_key(b, e ? "," : "", vprep_text_key(p, e, "", pictures));
    vc_buf_str(b, "]");
}

static void put_preserved(vc_buf *b, const vprep *p, const vf_row *row,
                          const prep_pictures *pictures)
{
    vc_buf_str(b, ",\"preserved\":[");
    for (int i = 0; i < row->n_captions; i++) {
        put_text(b, i ? ",{\"text\":" : "{\"text\":", row->preserved[i]);
        vc_buf_str(b, ",\"keys\":[");
        for (int e = 0; e < p->encoders.n_text; e++)
            put_key(b, e ? "," : "", vprep_text_key(p, e, row->preserved[i], pictures));
        vc_buf_str(b, "]}");
    }
    vc_buf_str(b, "]");
}

static void put_captions(vc_buf *b, const vprep *p, const prep_job *j)
{
    const vf_row *row = &p->list.meta.rows[j->item->row];
    prep_pictures pictures;

    vprep_pictures_of(p, j->item, &j->clip, &pictures);
    vc_buf_str(b, ",\"captions\":[");
    for (int i = 0; i < vprep_row_texts(row); i++) {
        vc_buf_str(b, i ? ",{\"text\":" : "{\"text\":");
        if (row->segments)
            put_segments(b, row);
        else
            put_text(b, "", row->captions[i]);
        vc_buf_str(b, ",\"keys\":[");
        for (int e = 0; e < p->encoders.n_text; e++)
            put_key(b, e ? "," : "", vprep_row_key(p, e, row, i, &pictures));
        vc_buf_str(b, "]}");
    }
    vc_buf_str(b, "]");
    if (pictures.n && vprep_texts_see(p) == PREP_SEES_REFERENCES)
        put_empty(b, p, &pictures);
    if (row->preserved)
        put_preserved(b, p, row, &pictures);
    if (row->segments)
        put_int(b, ",\"text_chunks\":", row->segments);
}

static void put_conditions(vc_buf *b, const vprep *p, const prep_job *j)
{
    unsigned values = vprep_values(p, &p->list.meta.rows[j->item->row]);
    const char *before = "";

    vc_buf_str(b, ",\"conditions\":{");
    for (int v = VC_ROLE_CLIP + 1; v < VC_ROLES; v++)
        if (values & VC_ROLE_BIT(v)) {
            put_text(b, before, vc_roles[v].name);
            put_key(b, ":", j->key[v]);
            before = ",";
        }
    vc_buf_str(b, "}");
    if (values & VC_ROLE_BIT(VC_ROLE_MASK))
        put_bool(b, ",\"mask_all\":", j->clip.mask_all);
}

void vprep_record(vc_buf *b, const vprep *p, const prep_job *j)
{
    const vf_row *row = &p->list.meta.rows[j->item->row];
    const vprep_source *s = &p->list.sources[j->item->row];
    bool repeats = p->c.video_repeat > 1 && s->is_video;

    put_head(b, p, j->item);
    put_captions(b, p, j);
    put_choice(b, p, j->item, &j->clip, false);
    put_key(b, ",\"source_hash\":", s->hash);
    put_key(b, ",\"latent_key\":", j->key[VC_ROLE_CLIP]);
    put_conditions(b, p, j);
    put_references(b, p, j->item, &j->clip.choice);
    vc_buf_str(b, ",\"tags\":[");
    for (int i = 0; i < row->n_tags; i++)
        put_text(b, i ? "," : "", row->tags[i]);
    put_number(b, "],\"weight\":", row->weight * (repeats ? (double)p->c.video_repeat : 1));
    if (row->held)
        put_text(b, ",\"held\":", row->held == VF_HELD_REG ? "reg" : "prior");
    put_extra(b, row);
    vc_buf_str(b, "}");
}
