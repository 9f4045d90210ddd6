/* image_processor.c - CLIPImageProcessor, SiglipImageProcessor, and the colours of all processors:
 * see image_processor.h */
#include "precompute/pictures/image_processor.h"

#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/json/config.h"
#include "precompute/pictures/pillow.h"

#define FILE_NAME "preprocessor_config.json"
enum { MAX_CONFIG = 1 << 20, MAX_SIDE = 1 << 12, BICUBIC = 3 };

/* ---- the file ---- */

typedef struct colours {
    image_colours of;
    int n_mean, n_std;
} colours;

static const vf_config_row colour_rows[] = {
    VF_ONLY_FLAG("do_rescale", true),
    VF_ONLY_FLAG("do_normalize", true),
    VF_ONLY_INT("resample", BICUBIC),
    VF_NUM(colours, of.rescale, "rescale_factor", 1 / 255.0, VF_ABOVE_0, 1),
    VF_NUMS(colours, of.mean, n_mean, "image_mean", 3, -1e3, 1e3),
    VF_NUMS(colours, of.std, n_std, "image_std", 3, VF_ABOVE_0, 1e3),
    { 0 }
};
static const vf_config_row rows[] = { VF_ONLY_FLAG("do_resize", true), { 0 } };
static const vf_config_row cut_rows[] = { VF_ONLY_FLAG("do_center_crop", true), { 0 } };
static const vf_config_row whole_rows[] = { VF_ONLY_FLAG("do_center_crop", false), { 0 } };

int image_colours_read(image_colours *to, const cJSON *o, vc_err *err)
{
    colours c = { .of = { .mean = { 0.48145466, 0.4578275, 0.40821073 },
                          .std = { 0.26862954, 0.26130258, 0.27577711 } } };   /* CLIP's */
    int rc = vf_config_read(&c, colour_rows, o, err);

    *to = c.of;
    return rc;
}

void image_colours_hash(vf_hasher *h, const image_colours *c)
{
    vf_hasher_bytes(h, "rescale_factor", &c->rescale, sizeof c->rescale);
    vf_hasher_bytes(h, "image_mean", c->mean, sizeof c->mean);
    vf_hasher_bytes(h, "image_std", c->std, sizeof c->std);
}

void image_colours_run(const image_colours *c, const uint8_t *rgb, size_t n, float *pixels)
{
    for (size_t i = 0; i < n; i++) {
        const float v = (float)(rgb[i] * c->rescale);
        pixels[i] = (v - (float)c->mean[i % 3]) / (float)c->std[i % 3];
    }
}

/* A size is a number, or an object with the number under each of two names. */
static int read_size(const cJSON *o, const char *field, const char *const name[2], int *v,
                     vc_err *err)
{
    const cJSON *size = cJSON_GetObjectItemCaseSensitive(o, field);
    int64_t n[2] = { 0, 0 };
    int rc = 0;

    if (cJSON_IsObject(size)) {
        for (int i = 0; !rc && i < 2; i++)
            rc = vf_json_int(size, name[i], &n[i], err);
    } else {
        rc = vf_json_int(o, field, &n[0], err);
        n[1] = n[0];
    }
    if (!rc && (n[0] != n[1] || n[0] < 1 || n[0] > MAX_SIDE))
        rc = vc_fail(err, VC_EFORMAT, "%lld by %lld: a square of 1 to %d pixels is expected",
                     (long long)n[0], (long long)n[1], MAX_SIDE);
    *v = (int)n[0];
    return vc_context(err, rc, "%s", field);
}

static int read_fields(image_processor *p, const cJSON *o, vc_err *err)
{
    static const char *const edges[2] = { "shortest_edge", "shortest_edge" };
    static const char *const sides[2] = { "height", "width" };
    int rc = vf_config_read(NULL, rows, o, err);

    if (!rc)
        rc = vf_config_read(NULL, p->whole ? whole_rows : cut_rows, o, err);
    if (!rc)
        rc = image_colours_read(&p->colours, o, err);
    if (!rc && p->whole)
        return read_size(o, "size", sides, &p->side, err);
    if (!rc)
        rc = read_size(o, "size", edges, &p->size, err);
    if (!rc)
        rc = read_size(o, "crop_size", sides, &p->side, err);
    if (!rc && p->size < p->side)
        rc = vc_fail(err, VC_EFORMAT, "size: %d is less than crop_size: %d", p->size, p->side);
    return rc;
}

/* The class's own constants, for pictures of this side. */
static int make_default(image_processor *p, int side, vc_err *err)
{
    char *text = vc_format(p->whole ? "{\"size\":%d,\"image_mean\":[0.5,0.5,0.5],"
                                      "\"image_std\":[0.5,0.5,0.5]}"
                                    : "{\"size\":%d,\"crop_size\":%d}", side, side);
    cJSON *o = text ? cJSON_Parse(text) : NULL;
    int rc = o ? read_fields(p, o, err) : vc_no_memory(err);

    cJSON_Delete(o);
    free(text);
    return rc;
}

int image_processor_open(image_processor *p, const char *dir, int side, bool whole, vc_err *err)
{
    cJSON *o;

    *p = (image_processor){ .whole = whole };
    if (!dir)
        return make_default(p, side, err);
    int rc = vf_json_read_in(&o, dir, FILE_NAME, MAX_CONFIG, err);
    if (!rc)
        rc = vc_context(err, read_fields(p, o, err), "%s/" FILE_NAME, dir);
    cJSON_Delete(o);
    if (!rc && p->side != side)
        rc = vc_fail(err, VC_EMISMATCH, "%s/" FILE_NAME ": %s: pictures of %d pixels a side, the "
                     "vision model takes %d: give the image processor that this model was trained "
                     "with", dir, whole ? "size" : "crop_size", p->side, side);
    return rc;
}

void image_processor_hash(vf_hasher *h, const image_processor *p)
{
    vf_hasher_int(h, "size", p->size);
    vf_hasher_int(h, "crop_size", p->side);
    image_colours_hash(h, &p->colours);
}

/* ---- a picture ---- */

/* The middle of an axis whose shorter neighbour becomes `size`. */
static pillow_axis axis_of(const image_processor *p, int in, int shorter)
{
    if (p->whole)
        return (pillow_axis){ in, p->side, 0, p->side };
    int out = (int)((double)p->size * in / shorter);

    return (pillow_axis){ in, out, (out - p->side) / 2, p->side };
}

int image_processor_run(const image_processor *p, const uint8_t *rgb, int h, int w, float *pixels,
                        vc_err *err)
{
    const int shorter = h < w ? h : w;
    const pillow_axis y = axis_of(p, h, shorter), x = axis_of(p, w, shorter);
    const size_t all = 3 * (size_t)p->side * (size_t)p->side;
    uint8_t *cut = malloc(all);
    int rc = cut ? pillow_resize(cut, rgb, &y, &x, PILLOW_BICUBIC, err) : vc_no_memory(err);

    if (!rc)
        image_colours_run(&p->colours, cut, all, pixels);
    free(cut);
    return rc;
}
