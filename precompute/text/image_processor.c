/* image_processor.c - CLIPImageProcessor: see image_processor.h
 *
 * Pillow resizes columns first, then rows. Each pass sums in fixed point and rounds to bytes. */
#include "precompute/text/image_processor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/json/config.h"

#define FILE_NAME "preprocessor_config.json"
enum { MAX_CONFIG = 1 << 20, MAX_SIDE = 1 << 12, BICUBIC = 3 };

/* ---- the file ---- */

typedef struct colours {
    double rescale, mean[3], std[3];
    int n_mean, n_std;
} colours;

static const vf_config_row rows[] = {
    VF_ONLY_FLAG("do_resize", true),
    VF_ONLY_FLAG("do_center_crop", true),
    VF_ONLY_FLAG("do_rescale", true),
    VF_ONLY_FLAG("do_normalize", true),
    VF_ONLY_INT("resample", BICUBIC),
    VF_NUM(colours, rescale, "rescale_factor", 1 / 255.0, VF_ABOVE_0, 1),
    VF_NUMS(colours, mean, n_mean, "image_mean", 3, -1e3, 1e3),
    VF_NUMS(colours, std, n_std, "image_std", 3, VF_ABOVE_0, 1e3),
    { 0 }
};

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
    colours c = { .mean = { 0.48145466, 0.4578275, 0.40821073 },
                  .std = { 0.26862954, 0.26130258, 0.27577711 } };     /* CLIP's */
    int rc = vf_config_read(&c, rows, o, err);

    if (!rc)
        rc = read_size(o, "size", edges, &p->size, err);
    if (!rc)
        rc = read_size(o, "crop_size", sides, &p->side, err);
    if (!rc && p->size < p->side)
        rc = vc_fail(err, VC_EFORMAT, "size: %d is less than crop_size: %d", p->size, p->side);
    p->rescale = c.rescale;
    memcpy(p->mean, c.mean, sizeof p->mean);
    memcpy(p->std, c.std, sizeof p->std);
    return rc;
}

/* CLIP's own constants, for pictures of this side. */
static int make_default(image_processor *p, int side, vc_err *err)
{
    char *text = vc_format("{\"size\":%d,\"crop_size\":%d}", side, side);
    cJSON *o = text ? cJSON_Parse(text) : NULL;
    int rc = o ? read_fields(p, o, err) : vc_no_memory(err);
    cJSON_Delete(o);
    free(text);
    return rc;
}

int image_processor_open(image_processor *p, const char *dir, int side, vc_err *err)
{
    cJSON *o;

    if (!dir)
        return make_default(p, side, err);
    int rc = vf_json_read_in(&o, dir, FILE_NAME, MAX_CONFIG, err);
    if (!rc)
        rc = vc_context(err, read_fields(p, o, err), "%s/" FILE_NAME, dir);
    cJSON_Delete(o);
    if (!rc && p->side != side)
        rc = vc_fail(err, VC_EMISMATCH, "%s/" FILE_NAME ": crop_size: pictures of %d pixels a "
                     "side, the vision model takes %d: give the image processor that this model "
                     "was trained with", dir, p->side, side);
    return rc;
}

void image_processor_hash(vf_hasher *h, const image_processor *p)
{
    vf_hasher_int(h, "size", p->size);
    vf_hasher_int(h, "crop_size", p->side);
    vf_hasher_bytes(h, "rescale_factor", &p->rescale, sizeof p->rescale);
    vf_hasher_bytes(h, "image_mean", p->mean, sizeof p->mean);
    vf_hasher_bytes(h, "image_std", p->std, sizeof p->std);
}

/* ---- resizing ---- */

enum { PRECISION = 22 };                          /* bits behind the point of a weight */

/* One axis of `in` pixels that is resized to `out`, of which n pixels from `first` on are made. */
typedef struct axis {
    int in, out, first, n;
} axis;

/* Keys 1981, with a = -0.5. */
static double bicubic(double x)
{
    const double a = -0.5;

    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/* The weights of output pixel i: *n of them, from input pixel *from on. */
static void weights_of(const axis *a, int i, int32_t *weight, double *exact, int *from, int *n)
{
    const double scale = (double)a->in / a->out, wide = scale < 1 ? 1 : scale, support = 2 * wide;
    const double centre = (i + 0.5) * scale;
    int begin = (int)(centre - support + 0.5), end = (int)(centre + support + 0.5);
    double sum = 0;

    begin = begin < 0 ? 0 : begin;
    end = end > a->in ? a->in : end;
    for (int k = begin; k < end; k++)
        sum += exact[k - begin] = bicubic((k - centre + 0.5) * (1 / wide));
    for (int k = 0; k < end - begin; k++) {
        double w = exact[k] / sum * (1 << PRECISION);
        weight[k] = (int32_t)(w < 0 ? w - 0.5 : w + 0.5);
    }
    *from = begin;
    *n = end - begin;
}

/* One pass: `lines` lines whose pixels are `step` bytes apart. Line i begins at byte
 * i / group * stride + i % group, with strides from[0] in src and from[1] in dst. */
static int pass(uint8_t *dst, const uint8_t *src, const axis *a, size_t lines, size_t group,
                const size_t stride[2], size_t step, vc_err *err)
{
    const size_t most = (size_t)a->in < 16 ? 16 : (size_t)a->in;
    int32_t *weight = malloc(most * sizeof *weight);
    double *exact = malloc(most * sizeof *exact);
    int from, n;

    for (int i = 0; weight && exact && i < a->n; i++) {
        weights_of(a, a->first + i, weight, exact, &from, &n);
        for (size_t line = 0; line < lines; line++) {
            const uint8_t *s = src + line / group * stride[0] + line % group + (size_t)from * step;
            int64_t sum = 1 << (PRECISION - 1);
            for (int k = 0; k < n; k++)
                sum += (int64_t)weight[k] * s[(size_t)k * step];
            sum >>= PRECISION;
            dst[line / group * stride[1] + line % group + (size_t)i * step] =
                (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
        }
    }
    int rc = weight && exact ? 0 : vc_no_memory(err);
    free(weight);
    free(exact);
    return rc;
}

/* The middle of an axis whose shorter neighbour becomes `size`. */
static axis axis_of(const image_processor *p, int in, int shorter)
{
    int out = (int)((double)p->size * in / shorter);
    return (axis){ in, out, (out - p->side) / 2, p->side };
}

int image_processor_run(const image_processor *p, const uint8_t *rgb, int h, int w, float *pixels,
                        vc_err *err)
{
    const int shorter = h < w ? h : w;
    const axis x = axis_of(p, w, shorter), y = axis_of(p, h, shorter);
    const size_t row = 3 * (size_t)p->side, all = row * (size_t)p->side;
    uint8_t *wide = malloc((size_t)h * row), *cut = malloc(all);
    int rc = wide && cut ? 0 : vc_no_memory(err);

    if (!rc)
        rc = pass(wide, rgb, &x, 3 * (size_t)h, 3, (size_t[]){ 3 * (size_t)w, row }, 3, err);
    if (!rc)
        rc = pass(cut, wide, &y, row, row, (size_t[]){ 0, 0 }, row, err);
    for (size_t i = 0; !rc && i < all; i++) {
        const float v = (float)(cut[i] * p->rescale);
        pixels[i] = (v - (float)p->mean[i % 3]) / (float)p->std[i % 3];
    }
    free(wide);
    free(cut);
    return rc;
}
