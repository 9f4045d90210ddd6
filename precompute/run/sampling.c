/* sampling.c - the rules (buckets/buckets.h) from the sampling flags; see vprep.h */
#include "precompute/run/vprep.h"

#include <string.h>

#include "buckets/choose.h"

enum { PEER = 1 };

/* --sampling peer sets a switch, unless its own flag, or a --like with that flag, is given. */
static bool counts(const vprep *p, const char *flag)
{
    return p->c.sampling != PEER || vc_flags_decided(p->flags, flag);
}

static void take_switches(const vprep *p, vb_rules *r)
{
    const vprep_config *c = &p->c;

    if (c->sampling == PEER)
        vb_rules_peer(r);
    if (counts(p, "frame_rule"))
        r->frame_rule = (vb_frame_rule)c->frame_rule;
    if (counts(p, "frame_count"))
        r->frame_count = (vb_frame_count)c->frame_count;
    if (counts(p, "start_rule") || c->num_frames)
        r->start_rule = (vb_start_rule)c->start_rule;
    if (counts(p, "fit"))
        r->fit = (vb_fit)c->fit;
    if (counts(p, "bucket_metric"))
        r->metric = (vb_metric)c->bucket_metric;
    if (counts(p, "allow_upscale"))
        r->allow_upscale = c->allow_upscale;
}

/* A default of one kind of media never contradicts the size that was given for the other: with
 * --video_sample_size alone stills have at least its size, with --image_sample_size alone clips at
 * most. */
static void match_sizes(const vprep *p, vb_rules *r)
{
    const bool image = vc_flags_given(p->flags, "image_sample_size");
    const bool video = vc_flags_given(p->flags, "video_sample_size");
    const bool stills = r->family->max_frames == 1;
    const bool free = p->c.fix_size[0] || p->c.max_pixels || r->allow_upscale || !r->enable_bucket;

    if (counts(p, "image_sample_size") && !image && r->image_sample_size < r->video_sample_size)
        r->image_sample_size = r->video_sample_size;
    if (video || r->video_sample_size <= r->image_sample_size || (!stills && (!image || free)))
        return;
    r->video_sample_size = r->image_sample_size;
    if (!stills)
        vc_say(p->progress, "--image_sample_size %lld without --video_sample_size: clips have size "
               "%lld too", (long long)r->image_sample_size, (long long)r->video_sample_size);
}

static void take_sizes(const vprep *p, vb_rules *r)
{
    const vprep_config *c = &p->c;

    r->video_sample_size = c->video_sample_size;
    r->image_sample_size = c->image_sample_size;
    r->token_sample_size = c->token_sample_size;
    match_sizes(p, r);
    r->fix_h = c->fix_size[0];
    r->fix_w = c->fix_size[1];
    r->max_pixels = r->fix_h ? 0 : c->max_pixels;
}

static const char frames[] = "--video_sample_n_frames";

/* The flag that the number of frames was given by. */
static const char *frames_flag(const vprep *p)
{
    bool first = p->c.num_frames && !vc_flags_given(p->flags, "video_sample_n_frames");
    return first ? "--num_frames" : frames;
}

/* Prints the numbers of the flags that had to be rounded. */
static void say_rounding(const vprep *p)
{
    const vb_rules *r = &p->rules;
    const int q = r->family->ratio[1] * r->family->patch;
    int64_t n = vb_align_frames(r->family, r->n_frames), h = r->fix_h / q * q, w = r->fix_w / q * q;

    if (n != r->n_frames && r->family->max_frames != 1)
        vc_say(p->progress, "%s %lld: clips of %s have %lld frames at most, since its VAE takes "
               "%d n + 1", frames_flag(p), (long long)r->n_frames, r->family->name, (long long)n,
               r->family->ratio[0] * (r->family->patch_t > 1 ? r->family->patch_t : 1));
    if (r->enable_bucket && (h != r->fix_h || w != r->fix_w))
        vc_say(p->progress, "--fix_sample_size %lld %lld: rounded to %lld %lld, multiples of %d",
               (long long)r->fix_h, (long long)r->fix_w, (long long)h, (long long)w, q);
}

static void add_error(void *arg, const char *text)
{
    const vprep *p = arg;
    size_t n = strncmp(text, frames, sizeof frames - 1) ? 0 : sizeof frames - 1;
    vc_flags_wrong(p->flags, "%s%s", n ? frames_flag(p) : "", text + n);
}

int vprep_rules(vprep *p, const vc_family *sizes, vc_err *err)
{
    const vprep_config *c = &p->c;
    vb_rules *r = &p->rules;
    const char *warning = NULL;

    vb_rules_default(r, sizes);
    take_switches(p, r);
    r->enable_bucket = c->enable_bucket;
    take_sizes(p, r);
    r->random_hw_adapt = c->random_hw_adapt;
    r->token_length = c->token_length;
    r->random_ratio_crop = c->random_ratio_crop;
    r->random_frame_crop = c->random_frame_crop;
    r->stride = c->stride;
    r->n_frames = c->n_frames;
    r->max_upscale = c->max_upscale;
    r->on_small = (vb_on_small)c->on_small;
    r->random_flip = c->random_flip;

    int rc = vb_rules_check_all(r, &warning, add_error, p, err);
    if (rc)
        return rc == VC_EUSAGE ? 0 : rc;
    if (warning)
        vc_warn(p->progress, "%s", warning);
    say_rounding(p);
    return 0;
}
