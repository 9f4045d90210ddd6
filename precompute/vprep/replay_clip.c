/* replay_clip.c - reads the clip of a plan's line, and checks that it can be made; see
 * plan_lines.h */
#include "precompute/vprep/plan_lines.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int pair(const cJSON *o, const char *field, int *a, int *b, vc_err *err)
{
    const cJSON *v;
    int rc = vf_json_arr(o, field, &v, err);
    if (rc)
        return rc;
    const cJSON *x = cJSON_GetArrayItem(v, 0), *y = cJSON_GetArrayItem(v, 1);
    if (cJSON_GetArraySize(v) != 2 || !cJSON_IsNumber(x) || !cJSON_IsNumber(y) ||
        fabs(x->valuedouble) > 1e6 || fabs(y->valuedouble) > 1e6)
        return vc_fail(err, VC_EFORMAT, "%s: expected two integers", field);
    *a = (int)x->valuedouble;
    *b = (int)y->valuedouble;
    return 0;
}

static int plan_frames(const vprep *p, const vprep_item *it, const cJSON *o, vprep_clip *clip,
                       vc_err *err)
{
    const cJSON *a, *v;
    int rc = vf_json_arr(o, "frames", &a, err);
    if (rc)
        return rc;
    int n = cJSON_GetArraySize(a), i = 0;
    int64_t last = 0;
    if (n < 1 || (n - 1) % p->rules.family->ratio[0])
        return vc_fail(err, VC_EINVAL, "frames: %d of them; %s takes %dj+1", n,
                       p->rules.family->name, p->rules.family->ratio[0]);
    clip->frames = malloc((size_t)n * sizeof *clip->frames);
    if (!clip->frames)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d frames", n);
    cJSON_ArrayForEach(v, a)
    {
        double x = cJSON_IsNumber(v) ? v->valuedouble : -1;
        if (x != floor(x) || x < (double)last || x >= (double)p->list.sources[it->row].frames)
            return vc_fail(err, VC_EINVAL, "frames: entry %d must be an integer from %lld to %lld",
                           i, (long long)last, (long long)p->list.sources[it->row].frames - 1);
        clip->frames[i++] = last = (int64_t)x;
    }
    clip->choice.frames = n;
    clip->choice.start = clip->frames[0];
    return 0;
}

/* --sampling peer: one side may be a pixel short of the target, and is filled with black. */
static bool is_short(const vb_choice *c)
{
    int h = c->target_h - c->resize_h, w = c->target_w - c->resize_w;
    return (h == 1 && w <= 0 && c->top == 0 && c->left >= 0 && c->left <= -w)
        || (w == 1 && h <= 0 && c->left == 0 && c->top >= 0 && c->top <= -h);
}

static int check_loaded(const vprep *p, const vprep_source *s, const vb_choice *c, vc_err *err)
{
    if (!c->load_h && !c->load_w)
        return 0;
    if (!p->rules.peer)
        return vc_fail(err, VC_EINVAL, "load: only --sampling peer resizes a picture twice");
    if (c->load_h < 1 || c->load_w < 1 || c->load_h > s->h || c->load_w > s->w)
        return vc_fail(err, VC_EINVAL, "load: %d %d: at least 1 and at most the source's %d %d",
                       c->load_h, c->load_w, s->h, s->w);
    return 0;
}

/* Checks the numbers of a line, which may have been edited by hand. */
static int check_geometry(const vprep *p, const vprep_source *s, vb_choice *c, vc_err *err)
{
    const vc_family *f = p->rules.family;
    const int q = f->ratio[1] * f->patch;
    const int most = VB_MAX_RESIZED_SIDE;
    int rc = check_loaded(p, s, c, err);

    if (rc)
        return rc;
    if (c->target_h < q || c->target_w < q || c->target_h % q || c->target_w % q)
        return vc_fail(err, VC_EINVAL, "target: %d %d: sides must be multiples of %d", c->target_h,
                       c->target_w, q);
    if (c->resize_h < 1 || c->resize_w < 1 || c->resize_h > most || c->resize_w > most)
        return vc_fail(err, VC_EINVAL, "resize: %d %d: sides of 1 to %d are allowed", c->resize_h,
                       c->resize_w, most);
    if (!(p->rules.peer && is_short(c)) &&
        (c->top < 0 || c->left < 0 || c->top + c->target_h > c->resize_h ||
         c->left + c->target_w > c->resize_w))
        return vc_fail(err, VC_EINVAL, "crop: %d %d of target %d %d leaves the resized %d %d",
                       c->top, c->left, c->target_h, c->target_w, c->resize_h, c->resize_w);
    c->latent_f = (c->frames - 1) / f->ratio[0] + 1;
    c->latent_h = c->target_h / f->ratio[1];
    c->latent_w = c->target_w / f->ratio[1];
    if (c->latent_f > 1 && c->latent_f % f->patch_t)
        return vc_fail(err, VC_EINVAL, "frames: %d give %d latent frames, which must be a "
                       "multiple of %d", c->frames, c->latent_f, f->patch_t);
    c->tokens = (int64_t)(c->latent_f + f->patch_t - 1) / f->patch_t * (c->latent_h / f->patch) *
                (c->latent_w / f->patch);
    return 0;
}

/* Draws are written again as they are, so each must be an object, with a list of its options. */
static int check_draws(const cJSON *draws, vc_err *err)
{
    const cJSON *d;

    if (!draws || cJSON_IsNull(draws))
        return 0;
    if (!cJSON_IsArray(draws))
        return vc_fail(err, VC_EFORMAT, "draws: expected a list");
    cJSON_ArrayForEach(d, draws) {
        const cJSON *options = cJSON_GetObjectItemCaseSensitive(d, "options");
        if (!cJSON_IsObject(d) || (options && !cJSON_IsArray(options)))
            return vc_fail(err, VC_EFORMAT, "draws: expected objects, whose options are lists");
    }
    return 0;
}

int plan_replayed_clip(const vprep *p, const vprep_item *it, vprep_clip *clip, vc_err *err)
{
    const char *at = (const char *)p->plan.file.data + it->line - 1;
    size_t left = p->plan.file.size - (size_t)(it->line - 1);
    const char *nl = memchr(at, '\n', left), *status = "ok", *reason = "dropped by the plan", *key;
    vb_choice *c = &clip->choice;
    cJSON *o;
    int rc = vf_json_parse(&o, at, nl ? (size_t)(nl - at) : left, err);

    c->upscale = 1;
    c->stride = p->c.sample_fps > 0 ? 1 : p->rules.stride;
    if (!rc)
        rc = vf_json_str_opt(o, "status", &status, err);
    if (!rc && strcmp(status, "ok")) {
        c->drop = true;
        rc = vf_json_str_opt(o, "reason", &reason, err);
        snprintf(c->reason, sizeof c->reason, "%s", reason);
        cJSON_Delete(o);
        return rc;
    }
    if (!rc)
        rc = vf_json_str(o, "key", &key, err);
    if (!rc)
        rc = pair(o, "target", &c->target_h, &c->target_w, err);
    if (!rc && cJSON_HasObjectItem(o, "load"))
        rc = pair(o, "load", &c->load_h, &c->load_w, err);
    if (!rc)
        rc = pair(o, "resize", &c->resize_h, &c->resize_w, err);
    if (!rc)
        rc = pair(o, "crop", &c->top, &c->left, err);
    if (!rc)
        rc = vf_json_bool_opt(o, "flip", &c->flip, err);
    if (!rc)
        rc = vf_json_num_opt(o, "upscale", &c->upscale, err);
    if (!rc)
        rc = vf_json_num_opt(o, "fps", &clip->fps, err);
    if (!rc)
        rc = plan_frames(p, it, o, clip, err);
    if (!rc) {
        clip->draws = cJSON_DetachItemFromObjectCaseSensitive(o, "draws");
        snprintf(c->key, sizeof c->key, "%s", key);
        rc = check_draws(clip->draws, err);
    }
    if (!rc)
        rc = check_geometry(p, &p->list.sources[it->row], c, err);
    cJSON_Delete(o);
    return vc_context(err, rc, "%s: sample %u, variant %u", p->c.plan, it->number, it->variant);
}
