/* encoder_vision.c - vision models for transformers that attend to a picture: CLIP, whose states
 * before its last layer Wan 2.1's image-to-video models take, the class token's among them, and
 * SigLIP, whose last states HunyuanVideo 1.5's take. */
#include <stdlib.h>

#include "precompute/text/clip_vision.h"
#include "precompute/pictures/image_processor.h"

struct vision_enc {
    clip_vision *model;
    image_processor processor;
};

static void close_vision(vision_enc *v)
{
    if (v)
        clip_vision_close(v->model);
    free(v);
}

static vf_key fingerprint_of(const vision_enc *v, vf_key model)
{
    vf_hasher h;

    vf_hasher_begin(&h, v->processor.whole ? "SiglipVisionModel 1" : "CLIPVisionModel 1");
    vf_hasher_bytes(&h, "model", model.b, sizeof model.b);
    image_processor_hash(&h, &v->processor);
    return vf_hasher_end(&h);
}

static int open_vision(vision_enc **out, const vision_class *class, const encoder_opts *o,
                       vision_info *info, vc_err *err)
{
    const bool siglip = class == &vision_siglip;
    clip_vision_info eye;
    vision_enc *v = *out = calloc(1, sizeof *v);

    if (!v)
        return vc_no_memory(err);
    int rc = siglip ? clip_vision_open_siglip(&v->model, o, &eye, err)
                    : clip_vision_open(&v->model, o, 1, &eye, err);
    if (!rc)
        rc = image_processor_open(&v->processor, o->image_processor, eye.size, siglip, err);
    if (rc) {
        close_vision(v);
        *out = NULL;
        return rc;
    }
    *info = (vision_info){ .class = class->name, .side = eye.size, .tokens = eye.tokens,
                           .width = eye.width,
                           .fingerprint = fingerprint_of(v, eye.fingerprint) };
    return 0;
}

static int open_clip(vision_enc **out, const encoder_opts *o, vision_info *info, vc_err *err)
{
    return open_vision(out, &vision_clip, o, info, err);
}

static int open_siglip(vision_enc **out, const encoder_opts *o, vision_info *info, vc_err *err)
{
    return open_vision(out, &vision_siglip, o, info, err);
}

static int encode_vision(vision_enc *v, const uint8_t *rgb, int h, int w, float *pixels,
                         float *states, vc_err *err)
{
    int rc = image_processor_run(&v->processor, rgb, h, w, pixels, err);

    return rc ? rc : clip_vision_encode(v->model, pixels, states, NULL, err);
}

static int memory_of_vision(vision_enc *v, size_t *bytes, vc_err *err)
{
    return clip_vision_memory(v->model, bytes, err);
}

const vision_class vision_clip = { "CLIPVisionModel", open_clip, close_vision, encode_vision,
                                   memory_of_vision };
const vision_class vision_siglip = { "SiglipVisionModel", open_siglip, close_vision, encode_vision,
                                     memory_of_vision };
