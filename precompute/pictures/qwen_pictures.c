/* qwen_pictures.c - Qwen2VLImageProcessorPil: see qwen_pictures.h */
#include "precompute/pictures/qwen_pictures.h"

#include <math.h>
#include <stdlib.h>

#include "common/os/file.h"
#include "formats/json/config.h"
#include "precompute/pictures/pillow.h"

enum { MAX_CONFIG = 1 << 20, FRAMES = 2, MAX_RATIO = 200 };
#define MAX_PIXELS 1e9
#define FILE_NAME "preprocessor_config.json"
#define WHOLE_NAME "processor_config.json"        /* of transformers 5, for all of a processor */

/* ---- the file ---- */

typedef struct fields {
    int64_t patch, merge;
    int64_t least, most;                          /* of a flat file, before `size`'s; 0: none */
    int64_t shortest, longest;
} fields;

static const vf_config_row rows[] = {
    VF_ONLY_FLAG("do_resize", true),
    VF_ONLY_INT("temporal_patch_size", FRAMES),
    VF_INT(fields, patch, "patch_size", 14, 1, 1 << 10),
    VF_INT(fields, merge, "merge_size", 2, 1, 1 << 6),
    VF_INT(fields, least, "min_pixels", 0, 1, MAX_PIXELS),
    VF_INT(fields, most, "max_pixels", 0, 1, MAX_PIXELS),
    { 0 }
};
static const vf_config_row size_rows[] = {
    VF_INT(fields, shortest, "shortest_edge", 56 * 56, 1, MAX_PIXELS),
    VF_INT(fields, longest, "longest_edge", 28 * 28 * 1280, 1, MAX_PIXELS),
    { 0 }
};

/* min_pixels and max_pixels hold where a file has them and `size` too. */
static int read_fields(qwen_pictures *p, fields *f, const cJSON *o, vc_err *err)
{
    const cJSON *size = cJSON_GetObjectItemCaseSensitive(o, "size");
    cJSON *none = cJSON_CreateObject();
    int rc = vf_config_read(f, rows, o, err);

    if (!rc)
        rc = vc_context(err, vf_config_read(f, size_rows, cJSON_IsObject(size) ? size : none, err),
                        "size");
    cJSON_Delete(none);
    if (!rc)
        rc = image_colours_read(&p->colours, o, err);
    if (rc)
        return rc;
    p->least = f->least ? f->least : f->shortest;
    p->most = f->most ? f->most : f->longest;
    return p->least <= p->most ? 0 : vc_fail(err, VC_EFORMAT, "min_pixels: %lld are more than "
                                             "max_pixels: %lld", (long long)p->least,
                                             (long long)p->most);
}

/* The fields of an image processor in dir. *whole: the object to delete; *name: the file. */
static int find_fields(const cJSON **o, cJSON **whole, const char **name, const char *dir,
                       vc_err *err)
{
    *whole = NULL;
    *name = vc_file_exists_in(dir, FILE_NAME) || !vc_file_exists_in(dir, WHOLE_NAME)
                ? FILE_NAME : WHOLE_NAME;
    int rc = vf_json_read_in(whole, dir, *name, MAX_CONFIG, err);
    const cJSON *part = rc ? NULL : cJSON_GetObjectItemCaseSensitive(*whole, "image_processor");

    *o = cJSON_IsObject(part) ? part : *whole;
    return rc;
}

int qwen_pictures_open(qwen_pictures *p, const char *dir, int patch, int merge, vc_err *err)
{
    const cJSON *o;
    cJSON *whole;
    const char *name;
    fields f = { 0 };
    int rc = find_fields(&o, &whole, &name, dir, err);

    if (!rc)
        rc = vc_context(err, read_fields(p, &f, o, err), "%s/%s", dir, name);
    cJSON_Delete(whole);
    p->side = patch * merge;
    if (!rc && (f.patch != patch || f.merge != merge))
        rc = vc_fail(err, VC_EMISMATCH, "%s/%s: %lldx%lld patches of %lld pixels (patch_size, "
                     "merge_size), but the vision tower merges %dx%d of %d: give the processor "
                     "that this model was trained with", dir, name, (long long)f.merge,
                     (long long)f.merge, (long long)f.patch, merge, merge, patch);
    return rc;
}

void qwen_pictures_hash(vf_hasher *h, const qwen_pictures *p)
{
    vf_hasher_int(h, "min_pixels", p->least);
    vf_hasher_int(h, "max_pixels", p->most);
    image_colours_hash(h, &p->colours);
}

/* ---- a picture ---- */

int qwen_pictures_size(const qwen_pictures *p, int h, int w, int *to_h, int *to_w, vc_err *err)
{
    const double side = p->side, least = (double)p->least, most = (double)p->most;
    const double area = (double)h * w;
    double y = rint(h / side) * side, x = rint(w / side) * side;

    if (h > (int64_t)MAX_RATIO * w || w > (int64_t)MAX_RATIO * h)
        return vc_fail(err, VC_EINVAL, "a picture of %dx%d pixels: the text encoder takes sides of "
                       "at most 1:%d", w, h, MAX_RATIO);
    if (y * x > most) {
        const double by = sqrt(area / most);
        y = fmax(side, floor(h / by / side) * side);
        x = fmax(side, floor(w / by / side) * side);
    } else if (y * x < least) {
        const double by = sqrt(least / area);
        y = ceil(h * by / side) * side;
        x = ceil(w * by / side) * side;
    }
    *to_h = (int)y;
    *to_w = (int)x;
    return 0;
}

int qwen_pictures_run(const qwen_pictures *p, const uint8_t *rgb, int h, int w, int to_h, int to_w,
                      float *pixels, vc_err *err)
{
    const size_t n = (size_t)to_h * (size_t)to_w * 3;
    uint8_t *bytes = malloc(n);
    const pillow_axis y = { h, to_h, 0, to_h }, x = { w, to_w, 0, to_w };
    int rc = bytes ? pillow_resize(bytes, rgb, &y, &x, PILLOW_BICUBIC, err) : vc_no_memory(err);

    if (!rc)
        image_colours_run(&p->colours, bytes, n, pixels);
    free(bytes);
    return rc;
}
