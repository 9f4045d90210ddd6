/* fit.c - reads how datasets were made from their manifests, and compares them. See parts.h */
#include "train/data/parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/json/config.h"

/* Limits far above any model, which bound the memory that a hostile manifest can request. */
enum { MAX_CHANNELS = 4096, MAX_WIDTH = 1 << 16, MAX_TOKENS = 1 << 14, MAX_RATIO = 4096,
       MAX_CONFIG = 16 << 20 };

/* ---- reading ---- */

static int int_in(const cJSON *o, const char *field, int64_t hi, int64_t *v, vc_err *err)
{
    int rc = vf_json_int(o, field, v, err);
    if (!rc && (*v < 1 || *v > hi))
        rc = vc_fail(err, VC_EFORMAT, "%s: %" PRId64 " is not in 1..%" PRId64, field, *v, hi);
    return rc;
}

static int read_vae(vtrain_head *h, const cJSON *manifest, vc_err *err)
{
    const cJSON *o, *ratio, *x;
    int64_t channels;
    int n = 0, rc = vf_json_obj(manifest, "vae", &o, err);
    if (rc)
        return rc;
    if ((rc = vf_json_str(o, "class", &h->vae_class, err)) ||
        (rc = vf_json_str(o, "fingerprint", &h->vae_fingerprint, err)) ||
        (rc = int_in(o, "channels", MAX_CHANNELS, &channels, err)) ||
        (rc = vf_json_arr(o, "ratio", &ratio, err)))
        return vc_context(err, rc, "vae");
    h->channels = (int)channels;
    cJSON_ArrayForEach(x, ratio) {
        if (n == 3 || !cJSON_IsNumber(x) || !(x->valuedouble >= 1) || x->valuedouble > MAX_RATIO)
            return vc_fail(err, VC_EFORMAT, "vae: ratio: three numbers of 1..%d expected",
                           MAX_RATIO);
        h->ratio[n++] = (int)x->valuedouble;
    }
    return n == 3 ? 0 : vc_fail(err, VC_EFORMAT, "vae: ratio: three numbers expected");
}

/* Reads the field, an array of `channels` finite numbers; leaves *v if it is missing or null. */
static int read_vector(const cJSON *o, const char *field, int channels, bool positive,
                       const cJSON **v, vc_err *err)
{
    const cJSON *a = cJSON_GetObjectItemCaseSensitive(o, field), *x;
    if (!a || cJSON_IsNull(a))
        return 0;
    if (!cJSON_IsArray(a) || cJSON_GetArraySize(a) != channels)
        return vc_fail(err, VC_EFORMAT, "%s: %d numbers expected", field, channels);
    cJSON_ArrayForEach(x, a)
        if (!cJSON_IsNumber(x) || !isfinite(x->valuedouble) || (positive && !(x->valuedouble > 0)))
            return vc_fail(err, VC_EFORMAT, "%s: %s numbers expected", field,
                           positive ? "positive" : "finite");
    *v = a;
    return 0;
}

static int read_norm(vtrain_norm_fields *f, const cJSON *o, const char *mean, const char *std,
                     int channels, vc_err *err)
{
    const vf_config_row rows[] = {
        VF_NUM(vtrain_norm_fields, scaling, "scaling_factor", f->scaling, VF_ABOVE_0, INFINITY),
        VF_NUM(vtrain_norm_fields, shift, "shift_factor", f->shift, -INFINITY, INFINITY),
        VF_FLAG(vtrain_norm_fields, invert, "invert_scale_latents", f->invert),
        { 0 }
    };
    int rc = vf_config_read(f, rows, o, err);
    if (!rc)
        rc = read_vector(o, mean, channels, false, &f->mean, err);
    return rc ? rc : read_vector(o, std, channels, true, &f->std, err);
}

/* Checks a slot's name, which is also a folder of --model. */
static bool is_slot(const char *name)
{
    return *name && !name[strspn(name, "abcdefghijklmnopqrstuvwxyz_0123456789")];
}

static int read_slot(vtrain_head *h, int i, const cJSON *o, vc_err *err)
{
    vtrain_slot *s = &h->slot[i];
    const char *name, *empty;
    int rc;
    if ((rc = vf_json_str(o, "slot", &name, err)) ||
        (rc = vf_json_str(o, "fingerprint", &h->text_fingerprint[i], err)) ||
        (rc = vf_json_str(o, "tokenizer", &h->tokenizer[i], err)) ||
        (rc = vf_json_str_opt(o, "class", &h->text_class[i], err)) ||
        (rc = int_in(o, "max_length", MAX_TOKENS, &s->max_length, err)) ||
        (rc = int_in(o, "width", MAX_WIDTH, &s->width, err)) ||
        (rc = vf_json_str(o, "empty", &empty, err)))
        return rc;
    if (strlen(name) >= sizeof s->name)
        return vc_fail(err, VC_EFORMAT, "slot: longer than %zu bytes", sizeof s->name - 1);
    if (!is_slot(name))
        return vc_fail(err, VC_EFORMAT, "slot: \"%s\" is no name like text_encoder_2", name);
    if ((rc = vf_json_int_opt(o, "image_embed_interleave", &s->interleave, err)))
        return rc;
    if (!vf_key_parse(&h->empty[i], empty))
        return vc_fail(err, VC_EFORMAT, "empty: 32 hex digits expected");
    snprintf(s->name, sizeof s->name, "%s", name);
    return 0;
}

/* Other trainers' caches do not record how their texts were made. */
static int read_slots(vtrain_head *h, const cJSON *manifest, vc_err *err)
{
    const bool imported = cJSON_HasObjectItem(manifest, "imported");
    const cJSON *list, *o;
    int rc = vf_json_arr(manifest, "text_encoders", &list, err);
    if (rc)
        return rc;
    cJSON_ArrayForEach(o, list) {
        if (h->n_slots == VTRAIN_TEXTS)
            return vc_fail(err, VC_EFORMAT, "text_encoders: more than %d", VTRAIN_TEXTS);
        h->slot[h->n_slots].interleave = imported ? -1 : 0;
        if ((rc = read_slot(h, h->n_slots, o, err)))
            return vc_context(err, rc, "text_encoders[%d]", h->n_slots);
        h->n_slots++;
    }
    return 0;
}

/* Checks the hashes of the VAE's and the slots' weights. Older datasets, imports and built-in
 * encoders have none. */
static int check_weights(const cJSON *manifest, vc_err *err)
{
    const cJSON *all, *w;
    vf_key k;
    if (!cJSON_HasObjectItem(manifest, "weights"))
        return 0;
    int rc = vf_json_obj(manifest, "weights", &all, err);
    if (rc)
        return rc;
    cJSON_ArrayForEach(w, all)
        if (!cJSON_IsString(w) || !vf_key_parse(&k, w->valuestring))
            return vc_fail(err, VC_EFORMAT, "weights: %.40s: 32 hex digits expected", w->string);
    return 0;
}

/* The colour of masked pixels, where it is not the family's. */
static int read_masked(vtrain_head *h, const cJSON *manifest, vc_err *err)
{
    const cJSON *c = cJSON_GetObjectItemCaseSensitive(manifest, "conditions");
    const char *masked = "";
    int rc = c ? vf_json_str_opt(c, "masked", &masked, err) : 0;
    h->black = !strcmp(masked, "black");
    return rc;
}

int vtrain_head_read(vtrain_head *h, const cJSON *manifest, vc_err *err)
{
    const cJSON *norm;
    int rc;
    *h = (vtrain_head){ .train_mode = "normal", .norm = { .scaling = 1 } };
    if ((rc = vf_json_str(manifest, "family", &h->family, err)) ||
        (rc = vf_json_str_opt(manifest, "train_mode", &h->train_mode, err)) ||
        (rc = read_vae(h, manifest, err)) || (rc = check_weights(manifest, err)) ||
        (rc = vf_json_obj(manifest, "normalization", &norm, err)))
        return rc;
    if ((rc = read_masked(h, manifest, err)))
        return vc_context(err, rc, "conditions");
    const cJSON *vision = cJSON_GetObjectItemCaseSensitive(manifest, "image_encoder");
    if (vision && (rc = vf_json_str(vision, "fingerprint", &h->vision_fingerprint, err)))
        return vc_context(err, rc, "image_encoder");
    rc = read_norm(&h->norm, norm, "mean", "std", h->channels, err);
    return rc ? vc_context(err, rc, "normalization") : read_slots(h, manifest, err);
}

/* ---- comparing ---- */

static int same_text(const char *what, const char *a, const char *b, const char *remedy,
                     vc_err *err)
{
    return !strcmp(a, b) ? 0 : vc_fail(err, VC_EMISMATCH, "%s: \"%.64s\" here, \"%.64s\" there%s",
                                       what, b, a, remedy);
}

static int same_int(const char *what, int64_t a, int64_t b, vc_err *err)
{
    return a == b ? 0 : vc_fail(err, VC_EMISMATCH, "%s: %" PRId64 " here, %" PRId64 " there", what,
                                b, a);
}

static int compare_slot(const vtrain_head *a, const vtrain_head *b, int i, bool allow, vc_err *err)
{
    const char *remedy = " (--allow_mismatch takes both)";
    int rc;
    if ((rc = same_text("slot", a->slot[i].name, b->slot[i].name, "", err)) ||
        (rc = same_int("width", a->slot[i].width, b->slot[i].width, err)) ||
        (rc = same_int("max_length", a->slot[i].max_length, b->slot[i].max_length, err)) ||
        allow)
        return rc;
    rc = same_text("fingerprint", a->text_fingerprint[i], b->text_fingerprint[i], remedy, err);
    return rc ? rc : same_text("tokenizer", a->tokenizer[i], b->tokenizer[i], remedy, err);
}

static bool same_vector(const cJSON *a, const cJSON *b)
{
    return a == b || (a && b && cJSON_Compare(a, b, true));
}

__attribute__((format(printf, 2, 3))) static void add(char text[400], const char *fmt, ...)
{
    size_t n = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text + n, 400 - n, fmt, ap);
    va_end(ap);
}

/* Compares numbers in f32, in which training uses them. */
int vtrain_norm_compare(const vtrain_norm_fields *a, const vtrain_norm_fields *b, vc_err *err)
{
    char text[400] = "";
    if ((float)a->scaling != (float)b->scaling)
        add(text, "; scaling_factor %.9g here, %.9g there", b->scaling, a->scaling);
    if ((float)a->shift != (float)b->shift)
        add(text, "; shift_factor %.9g here, %.9g there", b->shift, a->shift);
    if (a->invert != b->invert)
        add(text, "; invert_scale_latents %s here, %s there", b->invert ? "true" : "false",
            a->invert ? "true" : "false");
    if (!same_vector(a->mean, b->mean))
        add(text, "; mean %s", !b->mean ? "only there" : !a->mean ? "only here" : "differs");
    if (!same_vector(a->std, b->std))
        add(text, "; std %s", !b->std ? "only there" : !a->std ? "only here" : "differs");
    return *text ? vc_fail(err, VC_EMISMATCH, "normalization: %s (--allow_mismatch takes it)",
                           text + 2) : 0;
}

int vtrain_head_compare(const vtrain_head *a, const vtrain_head *b, bool allow, bool same_norm,
                        vc_err *err)
{
    int rc;
    if ((rc = same_text("vae: class", a->vae_class, b->vae_class, "", err)) ||
        (rc = same_int("vae: channels", a->channels, b->channels, err)) ||
        (rc = same_int("text encoders", a->n_slots, b->n_slots, err)))
        return rc;
    for (int i = 0; i < 3 && !rc; i++)
        rc = same_int("vae: ratio", a->ratio[i], b->ratio[i], err);
    if (!rc && !allow)
        rc = same_text("vae: fingerprint", a->vae_fingerprint, b->vae_fingerprint,
                       " (--allow_mismatch takes both)", err);
    if (!rc && !allow && a->vision_fingerprint && b->vision_fingerprint)
        rc = same_text("image_encoder: fingerprint", a->vision_fingerprint, b->vision_fingerprint,
                       " (--allow_mismatch takes both)", err);
    for (int i = 0; i < a->n_slots && !rc; i++)
        rc = vc_context(err, compare_slot(a, b, i, allow, err), "text encoder %d", i + 1);
    return rc || !same_norm ? rc : vtrain_norm_compare(&a->norm, &b->norm, err);
}

/* ---- text encoders of a model ---- */

/* The length of the architecture's name in a class of transformers: classes with and without a head
 * have the same encoder, and files of either name the one that wrote them. */
static size_t architecture(const char *class)
{
    static const char *const ends[] = { "ForConditionalGeneration", "ForCausalLM", "EncoderModel",
                                        "Model" };
    const size_t n = strlen(class);

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t k = strlen(ends[i]);
        if (n > k && !strcmp(class + n - k, ends[i]))
            return n - k;
    }
    return n;
}

static bool same_architecture(const char *a, const char *b)
{
    const size_t n = architecture(a);
    return n == architecture(b) && !strncmp(a, b, n);
}

/* Compares the class in `architectures` of the encoder's config.json, which transformers writes. */
static int check_text(const vtrain_head *h, int i, const char *dir, vc_err *err)
{
    cJSON *config;
    int rc = vf_json_read_in_opt(&config, dir, "config.json", MAX_CONFIG, err);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(config, "architectures");
    const cJSON *class = cJSON_IsArray(list) ? list->child : NULL;
    if (!rc && cJSON_IsString(class) && !same_architecture(class->valuestring, h->text_class[i]))
        rc = vc_fail(err, VC_EMISMATCH, "%s/config.json: a %.64s, the dataset's texts are of a "
                     "%.64s: encode the captions with this model (vprep --model), or give the "
                     "model that they are of (--allow_mismatch takes them)", dir,
                     class->valuestring, h->text_class[i]);
    cJSON_Delete(config);
    return rc;
}

int vtrain_texts_check(const vtrain_head *h, const char *model_dir, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < h->n_slots; i++) {
        /* of an import, or of an encoder that was left out */
        if (!h->text_class[i] || !strcmp(h->text_class[i], "unknown") ||
            !strcmp(h->text_class[i], VC_NO_TEXT))
            continue;
        char *dir = vc_path_join(model_dir, h->slot[i].name);
        rc = dir ? check_text(h, i, dir, err)
                 : vc_fail(err, VC_ENOMEM, "%s: out of memory", model_dir);
        free(dir);
    }
    return rc;
}

/* ---- normalisation ---- */

static int apply_config(vtrain_norm_fields *f, const cJSON *config, const vtrain_head *h,
                        vc_err *err)
{
    const char *class = h->vae_class;
    int rc = vf_json_str_opt(config, "_class_name", &class, err);
    if (rc)
        return rc;
    if (strcmp(class, h->vae_class))
        return vc_fail(err, VC_EMISMATCH, "_class_name: \"%.64s\", the dataset's latents are of a "
                       "\"%.64s\": encode the clips with this model (vprep --model), or give "
                       "the model that they are of", class, h->vae_class);
    return read_norm(f, config, "latents_mean", "latents_std", h->channels, err);
}

int vtrain_norm_config(vtrain_norm_fields *f, const char *model_dir, const vtrain_head *h,
                       cJSON **config, vc_err *err)
{
    static const char file[] = "vae/config.json";
    *config = NULL;
    int rc = model_dir ? vf_json_read_in_opt(config, model_dir, file, MAX_CONFIG, err) : 0;
    if (!rc && *config)
        rc = vc_context(err, apply_config(f, *config, h, err), "%s/%s", model_dir, file);
    return rc;
}

int vtrain_norm_alloc(vtrain_norm *norm, int channels, vc_err *err)
{
    float *sub = malloc(2 * (size_t)channels * sizeof *sub);

    *norm = (vtrain_norm){ .channels = channels, .sub = sub };
    if (!sub)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d channels", channels);
    norm->mul = sub + channels;
    return 0;
}

int vtrain_norm_make(vtrain_norm *norm, const vtrain_norm_fields *f, int channels, vc_err *err)
{
    const cJSON *mean = f->mean ? f->mean->child : NULL, *std = f->std ? f->std->child : NULL;
    int rc = vtrain_norm_alloc(norm, channels, err);
    if (rc)
        return rc;
    for (int c = 0; c < channels; c++) {
        norm->sub[c] = (float)(f->shift + (mean ? mean->valuedouble : 0));
        norm->mul[c] = (float)(f->scaling / (std ? std->valuedouble : 1));
        if (!isfinite(norm->sub[c]) || !isfinite(norm->mul[c]) || norm->mul[c] == 0)
            return vc_fail(err, VC_EFORMAT, "normalization: channel %d: (z - %g) * %g", c,
                           (double)norm->sub[c], (double)norm->mul[c]);
        mean = mean ? mean->next : NULL;
        std = std ? std->next : NULL;
    }
    return 0;
}
