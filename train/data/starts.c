/* starts.c - see starts.h */
#include "train/data/starts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/dtype.h"
#include "common/base/rng.h"
#include "common/base/torch_normal.h"

/* Reads a column as a whole number, which tables of numbers may have written as "7.0". *has false:
 * the record lacks it. */
static int read_whole(int64_t *v, bool *has, const cJSON *extra, const char *column, vc_err *err)
{
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(extra, column);
    char *end = NULL;
    *has = cJSON_IsString(x) && x->valuestring[0];
    if (!*has)
        return 0;
    errno = 0;
    *v = (int64_t)strtoull(x->valuestring, &end, 10);
    if (!errno && end != x->valuestring && end[strspn(end, ".0")] == 0 && (!*end || *end == '.'))
        return 0;
    return vc_fail(err, VC_EFORMAT, "extra.%s: \"%.40s\" is no whole number", column,
                   x->valuestring);
}

/* Where no device is recorded, DiffSynth-Studio's pipelines draw on the CPU. */
static int check_device(const cJSON *extra, vc_err *err)
{
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(extra, "rand_device");
    if (!cJSON_IsString(x) || !x->valuestring[0] || !strcmp(x->valuestring, "cpu"))
        return 0;
    return vc_fail(err, VC_EMISMATCH, "extra.rand_device: noise of the seed on \"%.20s\" differs "
                   "from device to device and cannot be drawn here: sample the targets with "
                   "rand_device=\"cpu\", or run vprep without seed among --extra_inputs to begin "
                   "with other noise", x->valuestring);
}

int vtrain_start_read(vtrain_start *s, const cJSON *record, vc_err *err)
{
    const cJSON *extra = cJSON_GetObjectItemCaseSensitive(record, "extra");
    int64_t seed = 0;
    bool has;
    *s = (vtrain_start){ 0 };
    int rc = read_whole(&seed, &s->seeded, extra, "seed", err);
    s->seed = (uint64_t)seed;
    if (!rc)
        rc = read_whole(&s->steps, &has, extra, "num_inference_steps", err);
    return !rc && s->seeded ? check_device(extra, err) : rc;
}

int vtrain_start_noise(float *out, size_t n, const vtrain_start *s, bool bf16, uint64_t seed,
                       uint32_t row, uint32_t micro, vc_err *err)
{
    if (!s->seeded) {
        vc_train_normals(out, 0, n, seed, row, micro, VC_DRAW_NOISE);
        return 0;
    }
    int rc = vc_torch_normals(out, n, s->seed, err);
    for (size_t i = 0; !rc && bf16 && i < n; i++)
        out[i] = vc_bf16_to_f32(vc_f32_to_bf16(out[i]));
    return rc;
}
