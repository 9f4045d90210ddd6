/* manifest.c - the head of the manifest: how the dataset is made; see vprep.h, docs/format.md */
#include <stdio.h>

#include "precompute/encode/conditions.h"

static cJSON *numbers(const double *v, int n)
{
    return v ? cJSON_CreateDoubleArray(v, n) : cJSON_CreateNull();
}

/* Of models that see pictures. */
static void add_vision(cJSON *o, const vprep *p)
{
    char hex[VF_KEY_HEX];
    const vision_info *v = &p->encoders.vision;

    if (!p->encoders.sees)
        return;
    cJSON *e = cJSON_AddObjectToObject(o, "image_encoder");
    cJSON_AddStringToObject(e, "class", v->class);
    cJSON_AddStringToObject(e, "fingerprint", vf_key_hex(hex, v->fingerprint));
    cJSON_AddStringToObject(e, "dtype", vc_dtype_name(p->encoders.vision_part.opts.dtype));
    vf_json_add_int(e, "tokens", vprep_seen_tokens(p));
    vf_json_add_int(e, "width", v->width);
}

/* Of models with sound. The statistics are of a frame's channels * bins numbers. */
static void add_audio(cJSON *o, const vprep *p)
{
    char hex[VF_KEY_HEX];
    const audio_info *a = &p->encoders.audio;

    if (!p->encoders.audio_part.dir)
        return;
    cJSON *e = cJSON_AddObjectToObject(o, "audio_vae");
    cJSON_AddStringToObject(e, "class", a->class);
    cJSON_AddStringToObject(e, "fingerprint", vf_key_hex(hex, a->fingerprint));
    cJSON_AddStringToObject(e, "dtype", vc_dtype_name(p->encoders.audio_part.opts.dtype));
    vf_json_add_int(e, "channels", a->channels);
    vf_json_add_int(e, "bins", a->bins);
    vf_json_add_int(e, "rate", a->mel.rate);
    vf_json_add_int(e, "hop", a->mel.hop * a->ratio);
    cJSON_AddItemToObject(e, "mean", numbers(a->mean, a->channels * a->bins));
    cJSON_AddItemToObject(e, "std", numbers(a->std, a->channels * a->bins));
}

static void add_encoders(cJSON *o, const vprep *p)
{
    char hex[VF_KEY_HEX];
    const vae_info *v = &p->encoders.vae;
    cJSON *e = cJSON_AddObjectToObject(o, "vae"), *list;

    cJSON_AddStringToObject(e, "class", v->class);
    cJSON_AddStringToObject(e, "fingerprint", vf_key_hex(hex, v->fingerprint));
    cJSON_AddStringToObject(e, "dtype", vc_dtype_name(p->encoders.vae_part.opts.dtype));
    if (p->encoders.vae_part.opts.tiling)
        cJSON_AddStringToObject(e, "tiling", "spatial");
    if (v->window)
        vf_json_add_int(e, "window", v->window);
    vf_json_add_int(e, "channels", v->channels);
    cJSON_AddItemToObject(e, "ratio", cJSON_CreateIntArray(v->ratio, 3));

    e = cJSON_AddObjectToObject(o, "normalization");
    cJSON_AddNumberToObject(e, "scaling_factor", v->scaling_factor);
    cJSON_AddNumberToObject(e, "shift_factor", v->shift_factor);
    cJSON_AddItemToObject(e, "mean", numbers(v->per_channel ? v->mean : NULL, v->channels));
    cJSON_AddItemToObject(e, "std", numbers(v->per_channel ? v->std : NULL, v->channels));
    cJSON_AddBoolToObject(e, "invert_scale_latents", v->invert_scale_latents);

    add_audio(o, p);
    add_vision(o, p);
    list = cJSON_AddArrayToObject(o, "text_encoders");
    for (int i = 0; i < p->encoders.n_text; i++) {
        const text_info *t = &p->encoders.text[i];
        cJSON_AddItemToArray(list, e = cJSON_CreateObject());
        cJSON_AddStringToObject(e, "slot", vc_text_slots[i]);
        cJSON_AddStringToObject(e, "class", t->class);
        cJSON_AddStringToObject(e, "fingerprint", vf_key_hex(hex, t->fingerprint));
        cJSON_AddStringToObject(e, "tokenizer", vf_key_hex(hex, t->tokenizer));
        cJSON_AddStringToObject(e, "dtype", vc_dtype_name(p->encoders.text_part[i].opts.dtype));
        vf_json_add_int(e, "max_length", t->rows);
        if (t->rule.interleave)
            vf_json_add_int(e, "image_embed_interleave", t->rule.interleave);
        vf_json_add_int(e, "width", t->rule.pooled_only ? t->pooled : t->width);
        cJSON_AddStringToObject(e, "empty", vf_key_hex(hex, vprep_text_key(p, i, "", NULL)));
    }
}

static void add_hash(cJSON *o, const char *component, const prep_part *part)
{
    char hex[VF_KEY_HEX];

    if (part->dir)
        cJSON_AddStringToObject(o, component, vf_key_hex(hex, part->opts.weights));
}

/* Hashes of the weights, for a trainer, which has no encoders. They follow from the fingerprints,
 * and datasets are not compared by them, since older datasets have none. */
static void add_weights(cJSON *o, const vprep *p)
{
    if (!p->encoders.family.from_files)
        return;
    cJSON *w = cJSON_AddObjectToObject(o, "weights");
    add_hash(w, "vae", &p->encoders.vae_part);
    add_hash(w, "audio_vae", &p->encoders.audio_part);
    if (p->encoders.sees)
        add_hash(w, "image_encoder", &p->encoders.vision_part);
    for (int i = 0; i < p->encoders.n_text; i++)
        add_hash(w, vc_text_slots[i], &p->encoders.text_part[i]);
}

/* Switches that differ from their defaults, so that older datasets can be continued. */
static void add_switches(cJSON *s, const vb_rules *r)
{
    if (r->peer)
        cJSON_AddStringToObject(s, "sampling", "peer");
    if (r->frame_count != VB_COUNT_ALL)
        cJSON_AddStringToObject(s, "frame_count", "peer");
    if (r->start_rule != VB_START_WHOLE)
        cJSON_AddStringToObject(s, "start_rule", r->start_rule == VB_START_PEER ? "peer" : "first");
    if (r->fit != VB_FIT_CROP)
        cJSON_AddStringToObject(s, "fit", "stretch");
    if (r->metric != VB_METRIC_PEER)
        cJSON_AddStringToObject(s, "bucket_metric", "log");
    if (r->max_pixels)
        vf_json_add_int(s, "max_pixels", r->max_pixels);
}

static void add_sampling(cJSON *o, const vprep *p)
{
    static const char *const rule_names[] = { "doc", "peer", "tokens" };
    const vb_rules *r = &p->rules;
    cJSON *s = cJSON_AddObjectToObject(o, "sampling");

    add_switches(s, r);
    if (p->c.tonemap)
        cJSON_AddStringToObject(s, "tonemap", media_tonemap_names[p->c.tonemap]);
    if (p->c.ttt_segments)
        vf_json_add_int(s, "ttt_segments", p->c.ttt_segments);
    cJSON_AddBoolToObject(s, "enable_bucket", r->enable_bucket);
    vf_json_add_int(s, "video_sample_size", r->video_sample_size);
    vf_json_add_int(s, "image_sample_size", r->image_sample_size);
    vf_json_add_int(s, "token_sample_size", r->token_sample_size);
    cJSON_AddItemToObject(s, "fix_sample_size",
                          cJSON_CreateIntArray((int[]){ (int)r->fix_h, (int)r->fix_w }, 2));
    cJSON_AddBoolToObject(s, "random_hw_adapt", r->random_hw_adapt);
    cJSON_AddBoolToObject(s, "training_with_video_token_length", r->token_length);
    cJSON_AddBoolToObject(s, "random_ratio_crop", r->random_ratio_crop);
    cJSON_AddBoolToObject(s, "random_frame_crop", r->random_frame_crop);
    vf_json_add_int(s, "video_sample_stride", r->stride);
    vf_json_add_int(s, "video_sample_n_frames", r->n_frames);
    cJSON_AddNumberToObject(s, "sample_fps", p->c.sample_fps);
    cJSON_AddStringToObject(s, "frame_rule", rule_names[r->frame_rule]);
    cJSON_AddNumberToObject(s, "max_upscale", r->max_upscale);
    cJSON_AddStringToObject(s, "on_small", r->on_small == VB_SMALL_DROP ? "drop" : "enlarge");
    cJSON_AddBoolToObject(s, "random_flip", r->random_flip);
    cJSON_AddStringToObject(s, "variants", p->c.variants ? p->c.variants : "1");
    vf_json_add_int(s, "video_repeat", p->c.video_repeat);
    vf_json_add_int(s, "seed", p->c.seed);
}

/* How the mode's conditions were made; the records have the fields that readers need. */
static void add_conditions(cJSON *o, const vprep *p)
{
    cJSON *c = cJSON_AddObjectToObject(o, "conditions");

    const vc_family *f = p->encoders.family.is;

    if (vc_role_of_mode(VC_ROLE_IMAGE_NOISED, f, p->c.train_mode) && !f->clean_images)
        vf_json_add_int(c, "image_noise_variants", p->c.noise_variants);
    if (p->encoders.black)
        cJSON_AddStringToObject(c, "masked", "black");
    if (vprep_takes_masks(p)) {
        cJSON_AddStringToObject(c, "mask_shapes", p->c.mask_shapes ? "all_frames" : "first_frame");
        cJSON_AddBoolToObject(c, "pixel_noise", p->encoders.mask_noise);
        if (p->c.without_mask)
            cJSON_AddStringToObject(c, "without_mask", "all");
        if (p->c.unmasked_probability > 0)
            cJSON_AddNumberToObject(c, "unmasked_probability", p->c.unmasked_probability);
    }
}

cJSON *vprep_manifest_head(const vprep *p)
{
    static const char *const stores[] = { "auto", "moments", "sample", "mode" };
    cJSON *o = cJSON_CreateObject();

    cJSON_AddStringToObject(o, "family", p->encoders.family.is->name);
    if (p->list.parts > 1) {
        char part[32];
        snprintf(part, sizeof part, "%u/%u", p->list.part + 1, p->list.parts);
        cJSON_AddStringToObject(o, "part", part);
    }
    cJSON_AddStringToObject(o, "train_mode", vc_mode_names[p->c.train_mode]);
    if (p->c.train_mode != PREP_NORMAL)
        add_conditions(o, p);
    add_encoders(o, p);
    add_weights(o, p);
    cJSON_AddStringToObject(o, "latent_store", stores[p->c.latent_store]);
    cJSON_AddStringToObject(o, "dtype", vc_dtype_name(p->c.dtype));
    add_sampling(o, p);
    return o;
}
