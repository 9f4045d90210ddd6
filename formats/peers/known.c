/* known.c - the conditions of image-to-video, as caches of other trainers have them. See
 * exchange.h */
#include <stdlib.h>
#include <string.h>

#include "common/roles.h"
#include "formats/peers/exchange.h"

/* Opens the sample's value of a role; *st stays NULL if the sample has none. */
static int open_role(vf_safetensors **st, const exchange *x, const exchange_sample *s, vc_role role,
                     vc_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(s->record, "conditions");
    const char *name = vc_roles[role].name, *hex = vlat_str(list, name);
    vf_key k;
    if (!*hex)
        return 0;
    if (!vf_key_parse(&k, hex))
        return vc_fail(err, VC_EFORMAT, "conditions: %s: 32 hex digits expected", name);
    return vc_context(err, vf_dataset_latent(x->d, k, true, st, err), "conditions: %s", name);
}

/* Makes k->clip of the mask, if `masked`, and of the mean, both on the sample's latent grid. */
static int join(exchange_known *k, const exchange *x, const exchange_sample *s,
                const vf_view *mean, const vf_view *mask, bool masked, vc_err *err)
{
    const int64_t *grid = s->mean.dim + 1, c = mean->dim[0], m = masked ? mask->dim[0] : 0;
    const size_t plane = (size_t)(grid[0] * grid[1] * grid[2]);
    if (mean->nd != 4 || mask->nd != 4 || c != s->mean.dim[0] ||
        memcmp(mean->dim + 1, grid, 3 * sizeof *grid) ||
        memcmp(mask->dim + 1, grid, 3 * sizeof *grid))
        return vc_fail(err, VC_EFORMAT, "conditions: video and mask: the latents' shape expected");
    float *f = k->own = malloc((size_t)(m + c) * plane * sizeof *f);
    if (!f)
        return vc_no_memory(err);
    vc_to_f32(f, mask->data, mask->dtype, (size_t)m * plane);
    f += (size_t)m * plane;
    vc_to_f32(f, mean->data, mean->dtype, (size_t)c * plane);
    for (int i = 0; x->normalized && i < c; i++)
        exchange_normalize(&x->norm, i, f + (size_t)i * plane, plane);
    k->clip = (vf_view){ NULL, VC_F32, 4, { m + c, grid[0], grid[1], grid[2] }, k->own,
                         4 * (size_t)(m + c) * plane };
    return 0;
}

int exchange_known_open(exchange_known *k, exchange *x, const exchange_sample *s, bool masked,
                        vc_err *err)
{
    vf_view mean, mask;
    *k = (exchange_known){ .own = NULL };
    if (strcmp(vlat_str(x->manifest, "train_mode"), vc_mode_names[VC_MODE_I2V]))
        return 0;
    int rc = open_role(&k->st[0], x, s, VC_ROLE_VIDEO, err);
    if (!rc)
        rc = open_role(&k->st[1], x, s, VC_ROLE_MASK, err);
    if (rc || !k->st[0] || !k->st[1])
        return rc;
    if (vf_safetensors_get(k->st[0], "mean", &mean, NULL))
        rc = vf_safetensors_get(k->st[0], "sample", &mean, err);
    if (!rc)
        rc = vf_safetensors_get(k->st[1], "mask", &mask, err);
    if (!rc)
        rc = join(k, x, s, &mean, &mask, masked, err);
    if (!rc)
        rc = open_role(&k->st[2], x, s, VC_ROLE_VISION, err);
    if (!rc && k->st[2])
        rc = vf_safetensors_get(k->st[2], "image_embeds", &k->vision, err);
    if (!rc && k->st[2] && k->vision.nd != 2)
        rc = vc_fail(err, VC_EFORMAT, "conditions: vision: [n,D] expected");
    if (!rc)
        x->no_conditions -= k->st[2] ? 3 : 2;
    return rc;
}

void exchange_known_close(exchange_known *k)
{
    for (int i = 0; i < 3; i++)
        vf_safetensors_close(k->st[i]);
    free(k->own);
}
