/* sink_head.c - the manifest of an imported dataset, and the keys of what nobody knows: see
 * exchange_parts.h */
#include "common/roles.h"
#include "formats/dataset/parts.h"
#include "formats/peers/exchange_parts.h"
#include "formats/peers/sound.h"

/* Returns the class of text encoder i, or of the VAE (-1); NULL if the family names none. */
static const char *class_of(const exchange *x, int i)
{
    const vc_family *f = x->family;
    const vc_pipeline *p = x->pipeline ? vc_family_pipeline(f, x->pipeline) : NULL;
    return i < 0 ? f->vae : i < 3 ? vc_family_texts(f, p)[i].class : NULL;
}

vf_key exchange_made_up(const exchange *x, const char *kind, int i, int64_t width)
{
    const char *class = class_of(x, i);
    vf_hasher h;
    vf_hasher_begin(&h, kind);
    vf_hasher_str(&h, "format", x->format);
    vf_hasher_str(&h, class ? "class" : "family", class ? class : x->family->name);
    vf_hasher_int(&h, "slot", i);
    vf_hasher_int(&h, "width", width);
    if (i < 0) {
        vf_hasher_int(&h, "normalized", x->normalized);
        if (x->normalized) {                 /* the constants do not affect raw values */
            vf_hasher_bytes(&h, "scaling", &x->norm.scaling, sizeof x->norm.scaling);
            vf_hasher_bytes(&h, "shift", &x->norm.shift, sizeof x->norm.shift);
            vf_hasher_bytes(&h, "mean", x->norm.mean, sizeof x->norm.mean);
            vf_hasher_bytes(&h, "std", x->norm.std, sizeof x->norm.std);
        }
    }
    return vf_hasher_end(&h);
}

vf_key exchange_text_key(const exchange_sink *s, int i, const char *prompt, const void *data,
                       size_t n)
{
    vf_hasher h;
    vf_hasher_begin(&h, "imported-text");
    vf_hasher_str(&h, "prompt", prompt);
    vf_hasher_bytes(&h, "encoder", &s->text[i].fingerprint, sizeof(vf_key));
    if (*prompt)
        vf_hasher_bytes(&h, "value", data, n);
    return vf_hasher_end(&h);
}

void exchange_add_key(cJSON *o, const char *field, vf_key k)
{
    char hex[VF_KEY_HEX];
    cJSON_AddStringToObject(o, field, vf_key_hex(hex, k));
}

static void add_norm(cJSON *o, const char *field, const exchange_norm *n, bool invert)
{
    cJSON *e = cJSON_AddObjectToObject(o, field);
    cJSON_AddNumberToObject(e, "scaling_factor", n->scaling);
    cJSON_AddNumberToObject(e, "shift_factor", n->shift);
    cJSON_AddItemToObject(e, "mean", n->per_channel ? cJSON_CreateDoubleArray(n->mean, n->channels)
                                                    : cJSON_CreateNull());
    cJSON_AddItemToObject(e, "std", n->per_channel ? cJSON_CreateDoubleArray(n->std, n->channels)
                                                   : cJSON_CreateNull());
    cJSON_AddBoolToObject(e, "invert_scale_latents", invert);
}

static void add_encoders(const exchange *x, cJSON *o)
{
    if (x->sink->texts) {
        cJSON_AddItemToObject(o, "text_encoders",
                              cJSON_Duplicate(exchange_texts_encoders(x->sink->texts), true));
        return;
    }
    cJSON *list = cJSON_AddArrayToObject(o, "text_encoders"), *e;
    for (int i = 0; i < x->sink->n_text; i++) {
        const struct exchange_encoder *t = &x->sink->text[i];
        const char *class = class_of(x, i);
        cJSON_AddItemToArray(list, e = cJSON_CreateObject());
        cJSON_AddStringToObject(e, "slot", vc_text_slots[i]);
        cJSON_AddStringToObject(e, "class", class ? class : "unknown");
        exchange_add_key(e, "fingerprint", t->fingerprint);
        exchange_add_key(e, "tokenizer", exchange_made_up(x, "imported-tokenizer", i, 0));
        cJSON_AddStringToObject(e, "dtype", vc_dtype_name(t->dtype));
        vf_json_add_int(e, "max_length", t->max_length);
        vf_json_add_int(e, "width", t->width);
        exchange_add_key(e, "empty", exchange_text_key(x->sink, i, "", NULL, 0));
    }
}

cJSON *exchange_head(const exchange *x)
{
    static const char *const stores[] = { "mode", "moments", "sample" };
    const exchange_sink *s = x->sink;
    const vc_family *f = x->family;
    cJSON *o = cJSON_CreateObject(), *e;
    cJSON_AddStringToObject(o, "family", f->name);
    cJSON_AddStringToObject(o, "train_mode",
                            vc_mode_names[s->edit ? VC_MODE_EDIT : VC_MODE_NORMAL]);
    e = cJSON_AddObjectToObject(o, "vae");
    cJSON_AddStringToObject(e, "class", f->vae);
    exchange_add_key(e, "fingerprint", exchange_made_up(x, "imported-vae", -1, s->channels));
    cJSON_AddStringToObject(e, "dtype", vc_dtype_name(s->peer_dtype));
    vf_json_add_int(e, "channels", s->channels);
    cJSON_AddItemToObject(e, "ratio", cJSON_CreateIntArray(f->ratio, 3));
    add_norm(o, "normalization", &x->norm, f->invert);
    exchange_sound_head(x, o);
    add_encoders(x, o);
    cJSON_AddStringToObject(o, "latent_store", stores[s->store]);
    cJSON_AddStringToObject(o, "dtype", vc_dtype_name(s->dtype));
    cJSON_AddObjectToObject(o, "sampling");
    e = cJSON_AddObjectToObject(o, "imported");
    cJSON_AddStringToObject(e, "source_format", x->format);
    cJSON_AddStringToObject(e, "latents", x->normalized ? "normalized" : "raw");
    cJSON_AddStringToObject(e, "values", stores[s->store]);
    cJSON_AddStringToObject(e, "dtype", vc_dtype_name(s->peer_dtype));
    if (x->normalized)
        add_norm(e, "constants", &x->norm, false);
    if (s->texts)
        cJSON_AddStringToObject(e, "texts", exchange_texts_root(s->texts));
    return o;
}
