/* rules.c - defaults and checks of the sampling flags: see buckets.h */
#include "buckets/choose.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

void vb_rules_default(vb_rules *r, const vc_family *family)
{
    *r = (vb_rules){
        .family = family,
        .enable_bucket = true,
        .video_sample_size = 512,
        .image_sample_size = 512,
        .token_sample_size = 512,
        .stride = 4,
        .n_frames = 17,
        .frame_rule = VB_RULE_DOC,
        .max_upscale = 1.25,
        .on_small = VB_SMALL_ENLARGE,
    };
}

void vb_rules_peer(vb_rules *r)
{
    r->peer = true;
    r->frame_rule = VB_RULE_PEER;
    r->frame_count = VB_COUNT_PEER;
    r->start_rule = VB_START_PEER;
    r->fit = VB_FIT_STRETCH;
    r->metric = VB_METRIC_PEER;
    r->allow_upscale = true;
}

/* Receives the faults: err gets the first, `report` gets each. */
typedef struct faults {
    vb_report *report;
    void *arg;
    vc_err *err;
    int rc;
} faults;

__attribute__((format(printf, 2, 3)))
static void fault(faults *f, const char *fmt, ...)
{
    vc_err e;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e.text, sizeof e.text, fmt, ap);
    va_end(ap);
    if (!f->rc)
        f->rc = vc_fail(f->err, VC_EUSAGE, "%s", e.text);
    if (f->report)
        f->report(f->arg, e.text);
}

static void check_ranges(const vb_rules *r, faults *f)
{
    const int64_t q = r->family->multiple, least = r->max_pixels ? q * q : 0;
    const struct { const char *flag; int64_t value, lo, hi; } rows[] = {
        { "video_sample_size",     r->video_sample_size, q, VB_MAX_SAMPLE_SIZE },
        { "image_sample_size",     r->image_sample_size, q, VB_MAX_SAMPLE_SIZE },
        { "token_sample_size",     r->token_sample_size, q, VB_MAX_SAMPLE_SIZE },
        { "video_sample_n_frames", r->n_frames,          1, VB_MAX_FRAMES },
        { "video_sample_stride",   r->stride,            1, VB_MAX_STRIDE },
        { "max_pixels",            r->max_pixels,        least, VB_MAX_PIXELS },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].value < rows[i].lo || rows[i].value > rows[i].hi)
            fault(f, "--%s %" PRId64 ": %" PRId64 " to %" PRId64 " are allowed",
                  rows[i].flag, rows[i].value, rows[i].lo, rows[i].hi);
    if (!(r->max_upscale >= 0.01 && r->max_upscale <= 100))
        fault(f, "--max_upscale %g: 0.01 to 100 are allowed", r->max_upscale);
}

static void check_fixed(const vb_rules *r, faults *f)
{
    const int q = r->family->ratio[1] * r->family->patch;

    if (r->fix_h < q || r->fix_w < q || r->fix_h > VB_MAX_SAMPLE_SIZE
            || r->fix_w > VB_MAX_SAMPLE_SIZE)
        fault(f, "--fix_sample_size %" PRId64 " %" PRId64 ": height and width of %d to %d are "
              "allowed", r->fix_h, r->fix_w, q, VB_MAX_SAMPLE_SIZE);
}

/* Checks that the lists of options fit a vb_draw. Sizes out of range were reported before and make
 * no list. */
static void check_lists(const vb_rules *r, faults *f)
{
    const int64_t v = r->video_sample_size, i = r->image_sample_size, k = r->family->ratio[0];

    if (r->random_frame_crop && r->family->max_frames != 1 && r->n_frames <= VB_MAX_FRAMES
            && (r->n_frames - 2 + k) / k > VB_MAX_OPTIONS)
        fault(f, "--video_sample_n_frames %" PRId64 ": at most %" PRId64 " are allowed with "
              "--random_frame_crop", r->n_frames, k * VB_MAX_OPTIONS + 1);
    if (v < r->family->multiple || i < r->family->multiple || v > VB_MAX_SAMPLE_SIZE
            || i > VB_MAX_SAMPLE_SIZE)
        return;
    if (r->enable_bucket && !r->fix_h && !r->max_pixels && i < v && !r->allow_upscale)
        fault(f, "--image_sample_size %" PRId64 " is below --video_sample_size %" PRId64
              ": give %" PRId64 " or more, or --allow_upscale", i, v, v);
    else if (r->enable_bucket && r->random_hw_adapt && r->token_length
             && vb_size_list_length(r) > VB_MAX_OPTIONS)
        fault(f, "--image_sample_size %" PRId64 ": more than %d sizes in steps of 128 from "
              "--video_sample_size %" PRId64 "; at most %" PRId64 " is allowed with it",
              i, VB_MAX_OPTIONS, v, v + 128 * (VB_MAX_OPTIONS - 1));
}

static const char *idle_flags(const vb_rules *r)
{
    if (!r->enable_bucket
            && (r->fix_h || r->max_pixels || r->random_hw_adapt || r->random_ratio_crop))
        return "fix_sample_size, max_pixels, random_hw_adapt and random_ratio_crop change nothing "
               "without buckets: leave --no_enable_bucket out";
    if (r->fix_h && r->max_pixels)
        return "max_pixels changes nothing with a fixed size: leave it out";
    if (r->token_length && !r->random_hw_adapt)
        return "training_with_video_token_length changes nothing without random_hw_adapt: add "
               "--random_hw_adapt";
    return NULL;
}

int vb_rules_check_all(vb_rules *r, const char **warning, vb_report *report, void *arg,
                       vc_err *err)
{
    faults f = { .report = report, .arg = arg, .err = err };

    if (warning)
        *warning = NULL;
    if (!r->family) {
        fault(&f, "sampling: no model family");
        return f.rc;
    }
    check_ranges(r, &f);
    if (r->enable_bucket && (r->fix_h || r->fix_w)) {
        check_fixed(r, &f);
        int64_t longer = r->fix_h > r->fix_w ? r->fix_h : r->fix_w;
        if (r->video_sample_size < longer)
            r->video_sample_size = longer;
        if (r->image_sample_size < longer)
            r->image_sample_size = longer;
    }
    if (r->enable_bucket && (r->fix_h || r->max_pixels))
        r->random_hw_adapt = r->token_length = false;
    check_lists(r, &f);
    if (!f.rc && warning)
        *warning = idle_flags(r);
    return f.rc;
}

int vb_rules_check(vb_rules *r, const char **warning, vc_err *err)
{
    return vb_rules_check_all(r, warning, NULL, NULL, err);
}
