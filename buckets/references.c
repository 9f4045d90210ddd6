/* references.c - see references.h */
#include "buckets/references.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The nearest ratio; of two that are equally near, the first. */
static void take_listed(vb_choice *c, const vc_references *r, int w, int h)
{
    double least = INFINITY;

    for (int i = 0; i < r->n_sizes; i++) {
        const int th = r->sizes[i][0], tw = r->sizes[i][1];
        const double off = fabs((double)w / h - (double)tw / th);
        if (off >= least)
            continue;
        least = off;
        c->target_h = c->resize_h = th;
        c->target_w = c->resize_w = tw;
    }
}

static int rounded(double side, int multiple)
{
    const int n = (int)floor(side / multiple + 0.5);
    return (n ? n : 1) * multiple;
}

static void take_area(vb_choice *c, double side, int multiple, int w, int h)
{
    c->target_w = c->resize_w = rounded(side * sqrt((double)w / h), multiple);
    c->target_h = c->resize_h = rounded(side * sqrt((double)h / w), multiple);
}

/* Resizes to h x w, and cuts equally much at both edges. */
static void take_cut(vb_choice *c, int multiple, int w, int h)
{
    c->target_h = h / multiple * multiple;
    c->target_w = w / multiple * multiple;
    c->resize_h = h;
    c->resize_w = w;
    c->top = (h - c->target_h) / 2;
    c->left = (w - c->target_w) / 2;
}

/* Flux2ImageProcessor: a picture above the area is resized to it, its sides rounded down. */
static void take_limited(vb_choice *c, double side, int multiple, int w, int h)
{
    const double scale = sqrt(side * side / ((double)w * h));

    if (scale < 1)
        take_cut(c, multiple, (int)(w * scale), (int)(h * scale));
    else
        take_cut(c, multiple, w, h);
}

static const vc_references *references_of(const vb_reference_rule *r)
{
    return r->references ? r->references : &r->family->references;
}

/* As WanVACEPipeline of diffusers: sides become multiples of the autoencoder's ratio first. */
static void take_frame(vb_choice *c, const vb_choice *clip, int ratio, int w, int h)
{
    c->load_h = h > ratio ? h - h % ratio : ratio;
    c->load_w = w > ratio ? w - w % ratio : ratio;
    const double scale = fmin((double)clip->target_h / c->load_h,
                              (double)clip->target_w / c->load_w);

    c->resize_h = (int)fmax(c->load_h * scale, 1);
    c->resize_w = (int)fmax(c->load_w * scale, 1);
    c->framed = true;
    c->target_h = clip->target_h;
    c->target_w = clip->target_w;
    c->top = -((c->target_h - c->resize_h) / 2);
    c->left = -((c->target_w - c->resize_w) / 2);
}

void vb_reference(vb_choice *c, const vb_reference_rule *r, int w, int h)
{
    const vc_references *is = references_of(r);
    const int token = r->family->ratio[1] * r->family->patch;
    const double side = r->side ? (double)r->side : is->side;

    memset(c, 0, offsetof(vb_choice, draws));
    if (is->framed && r->clip)
        take_frame(c, r->clip, r->family->ratio[1], w, h);
    else if (r->as_is || is->framed)
        take_cut(c, token, w, h);
    else if (is->limit)
        take_limited(c, side, token, w, h);
    else if (r->side || !is->sizes)
        take_area(c, side, r->side ? token : is->multiple, w, h);
    else
        take_listed(c, is, w, h);
    c->lanczos = !is->framed && (c->resize_h != h || c->resize_w != w);
    c->frames = c->latent_f = 1;
    c->latent_h = c->target_h / r->family->ratio[1];
    c->latent_w = c->target_w / r->family->ratio[2];
    c->upscale = fmax(1, fmax((double)c->resize_h / h, (double)c->resize_w / w));
    c->tokens = (int64_t)(c->target_h / token) * (c->target_w / token);
    c->drop = !c->tokens || c->latent_h > UINT16_MAX || c->latent_w > UINT16_MAX;
    if (c->drop)
        snprintf(c->reason, sizeof c->reason, "%dx%d pixels: sides from %d to %d are possible",
                 w, h, token, UINT16_MAX * r->family->ratio[1]);
}

void vb_reference_look(vb_choice *c, const vb_reference_rule *r, int w, int h)
{
    const vc_references *is = references_of(r);

    vb_reference(c, r, w, h);
    if (c->drop || !is->look)
        return;
    take_area(c, is->look, is->multiple, w, h);
    c->resize_h = c->target_h;
    c->resize_w = c->target_w;
    c->top = c->left = 0;
}
