/* clip.c - from an item to its clip; see plan.h */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/encode/conditions.h"
#include "precompute/vprep/plan_lines.h"
#include "precompute/vprep/segments.h"

int vprep_segments(const vprep *p, const vprep_item *it)
{
    return p->c.ttt_segments ? (int)p->c.ttt_segments : p->list.meta.rows[it->row].segments;
}

/* Whether a word begins with "left" or "right": "leftmost" does, "bright" does not. */
static bool says_side(const char *s)
{
    for (const char *at = s; (at = strpbrk(at, "lLrR")); at++)
        if ((at == s || !isalpha((unsigned char)at[-1]))
                && (!strncasecmp(at, "left", 4) || !strncasecmp(at, "right", 5)))
            return true;
    return false;
}

/* The rate of the timeline that frames are counted on: --sample_fps, of clips of segments else
 * VPREP_SEGMENT_FPS, or a variable-rate clip's own average; 0: the file's frames are counted, as
 * VideoX-Fun does in every case. */
static double timeline_fps(const vprep *p, const vprep_item *it)
{
    const vprep_source *s = &p->list.sources[it->row];

    if (!s->is_video || s->frames < 2 || s->fps <= 0)
        return 0;
    if (p->c.sample_fps > 0)
        return p->c.sample_fps;
    if (vprep_segments(p, it))
        return VPREP_SEGMENT_FPS;
    return s->times && !p->rules.peer ? s->fps : 0;
}

static double frame_time(const vprep_source *s, int64_t i)
{
    return s->times ? s->times[i] : (double)i / s->fps;
}

/* Points of the timeline from 0 to the last frame's time. */
static int64_t timeline_length(const vprep_source *s, double fps)
{
    double n = floor(frame_time(s, s->frames - 1) * fps + 1e-6) + 1;
    return n < 1 ? 1 : n > 1e12 ? (int64_t)1e12 : (int64_t)n;
}

/* The frame nearest in time, the earlier one of two that are equally near. */
static int64_t frame_at(const vprep_source *s, double t)
{
    int64_t lo = 0, hi = s->frames - 1;

    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (frame_time(s, mid) <= t)
            lo = mid;
        else
            hi = mid;
    }
    return frame_time(s, hi) - t < t - frame_time(s, lo) ? hi : lo;
}

static int fill_frames(const vprep *p, const vprep_item *it, vprep_clip *clip, vc_err *err)
{
    const vprep_source *s = &p->list.sources[it->row];
    const vb_choice *c = &clip->choice;
    double fps = timeline_fps(p, it);

    if (c->drop)
        return 0;
    clip->frames = malloc((size_t)c->frames * sizeof *clip->frames);
    if (!clip->frames)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d frames", c->frames);
    for (int i = 0; i < c->frames; i++) {
        int64_t at = c->start + i * c->stride;
        clip->frames[i] = fps > 0 ? frame_at(s, (double)at / fps) : at;
    }
    clip->fps = !s->is_video ? 0 : (fps > 0 ? fps : s->fps) / (double)(c->stride ? c->stride : 1);
    return 0;
}

const cJSON *plan_mask_draw(const vprep_clip *clip)
{
    const cJSON *d;
    cJSON_ArrayForEach(d, clip->draws)
    {
        const char *purpose = "";
        if (!vf_json_str_opt(d, "purpose", &purpose, NULL) && !strcmp(purpose, "mask"))
            return d;
    }
    return NULL;
}

/* Makes the mask of image-to-video, which keeps the first frame. The mask of a still covers
 * everything, as in VideoX-Fun. */
static int keep_first(const vprep *p, vprep_clip *clip, vc_err *err)
{
    const vb_choice *c = &clip->choice;
    int rc = mask_keep(&clip->mask, c->frames, c->target_h, c->target_w, p->encoders.ends, err);

    if (c->frames == 1) {
        clip->mask.kind = MASK_ALL;
        clip->mask.n = 0;
    }
    return rc;
}

/* Whether a sample's mask is drawn, is that of the row's mask_file_path, or covers everything, as
 * where a row of VACE has a clip to edit or references and no mask. The draw is of a purpose that
 * masks of files do not use otherwise. */
static mask_kind mask_source(const vprep *p, const vprep_item *it)
{
    const vf_row *row = &p->list.meta.rows[it->row];
    vc_draws d = vc_draws_of((uint64_t)p->c.seed, row->id, it->variant, VC_DRAW_MASK_KIND);

    const bool whole = p->c.train_mode == VC_MODE_VACE &&
                       (vprep_masked_from(p, it) != VF_BESIDE || row->n_references > 0);
    if (!row->beside[VF_MASK].path)
        return p->c.without_mask || whole ? MASK_ALL : MASK_KINDS;
    return vc_draw_unit(&d) < p->c.unmasked_probability ? MASK_ALL : MASK_FILE;
}

/* The mask of the plan's line if it has one, else that of the row, else a drawn one. */
static int settle_mask(const vprep *p, const vprep_item *it, vprep_clip *clip, vc_err *err)
{
    const vb_choice *c = &clip->choice;
    const cJSON *replayed = plan_mask_draw(clip);
    uint64_t seed = (uint64_t)p->c.seed, id = p->list.meta.rows[it->row].id;
    int rc;

    if (c->drop || !vc_role_of_mode(VC_ROLE_MASK, p->encoders.family.is, p->c.train_mode))
        return 0;
    if (!vprep_takes_masks(p)) {
        rc = keep_first(p, clip, err);
    } else if (replayed) {
        rc = mask_parse(&clip->mask, replayed, c->frames, c->target_h, c->target_w, err);
    } else if (mask_source(p, it) != MASK_KINDS) {
        clip->mask = (mask){ .kind = mask_source(p, it), .f = c->frames, .h = c->target_h,
                             .w = c->target_w };
        rc = 0;
    } else {
        vc_draws kind = vc_draws_of(seed, id, it->variant, VC_DRAW_MASK_KIND);
        vc_draws numbers = vc_draws_of(seed, id, it->variant, VC_DRAW_MASK);
        bool loaded = p->rules.peer && p->encoders.family.is->loaded_masks && !it->line;
        rc = mask_draw(&clip->mask, loaded ? c->loaded : c->frames, c->target_h, c->target_w,
                       p->c.mask_shapes == 1,
                       &kind, &numbers, err);
        if (!rc)
            mask_cut(&clip->mask, c->frames);
    }
    clip->mask_all = !rc && mask_is_all(&clip->mask);
    return rc;
}

/* Drops a clip whose captions are not one for each of its n segments, or whose `frames` frames do
 * not hold n segments. */
static void check_segments(const vprep *p, const vprep_item *it, int64_t frames, int n,
                           vb_choice *c)
{
    const vf_row *row = &p->list.meta.rows[it->row];
    const int captions = row->segments ? row->segments : 1;
    const int64_t has = (frames - 1) / VPREP_SEGMENT_FRAMES, fit = n * VPREP_SEGMENT_FRAMES + 1;

    if (p->c.ttt_segments && captions != n)
        snprintf(c->reason, sizeof c->reason, "%d captions in text_chunks, --ttt_segments %d: give "
                 "%d captions, or --ttt_segments %d", captions, n, n, captions);
    else if (frames < fit)
        snprintf(c->reason, sizeof c->reason, "too short: %lld frames at %g a second hold %lld "
                 "segments of %d frames; %d captions (text_chunks) need %lld frames",
                 (long long)frames, timeline_fps(p, it), (long long)has, VPREP_SEGMENT_FRAMES, n,
                 (long long)fit);
    else if (!p->c.ttt_segments && has != n)
        snprintf(c->reason, sizeof c->reason, "%d captions in text_chunks, the clip has %lld "
                 "segments: give a caption for each, or --ttt_segments %d", n, (long long)has, n);
    c->drop = *c->reason != 0;
}

/* Makes the rules of a clip of n segments: its first frames, one after the other. */
static void take_segments(vb_rules *rules, int n)
{
    rules->n_frames = n * VPREP_SEGMENT_FRAMES + 1;
    rules->stride = 1;
    rules->start_rule = VB_START_FIRST;
    rules->random_frame_crop = rules->token_length = false;
}

/* Drops a clip, chosen or of a replayed plan, that has another number of frames than its n segments
 * need; n 0: it has none. */
static void check_frames(vb_choice *c, int n)
{
    if (!n || c->drop || c->frames == n * VPREP_SEGMENT_FRAMES + 1)
        return;
    c->drop = true;
    snprintf(c->reason, sizeof c->reason, "%d segments are %d frames, but the flags, the model "
             "or the plan give clips of %d", n, n * VPREP_SEGMENT_FRAMES + 1, c->frames);
}

static int chosen_clip(const vprep *p, const vprep_item *it, vprep_clip *clip, vc_err *err)
{
    const vf_row *row = &p->list.meta.rows[it->row];
    const vprep_source *s = &p->list.sources[it->row];
    const int segments = vprep_segments(p, it);
    double fps = timeline_fps(p, it);
    vb_source src = { .is_video = s->is_video, .w = s->w, .h = s->h,
                      .frames = fps > 0 ? timeline_length(s, fps) : s->frames };
    vb_rules rules = p->rules;
    if (p->c.sample_fps > 0)
        rules.stride = 1;
    for (int i = 0; i < row->n_captions; i++)
        src.lr_caption |= says_side(row->captions[i]);

    uint64_t seed = (uint64_t)p->c.seed;
    if (segments) {
        *clip->choice.reason = 0;
        check_segments(p, it, src.frames, segments, &clip->choice);
        take_segments(&rules, segments);
    }
    if (clip->choice.drop)
        return 0;
    if (it->size)
        vb_choose_size(&clip->choice, &rules, &src, row->id, it->variant, seed, it->size);
    else
        vb_choose(&clip->choice, &rules, &src, row->id, it->variant, seed);
    return fill_frames(p, it, clip, err);
}

/* Drops a clip that no record can hold, before anything is encoded. */
static void check_limits(vprep_clip *clip)
{
    vb_choice *c = &clip->choice;
    const int longest = c->latent_h > c->latent_w ? c->latent_h : c->latent_w;

    if (c->drop || (clip->fps >= 0 && clip->fps <= MEDIA_MAX_FPS && c->tokens <= UINT32_MAX &&
                    longest <= UINT16_MAX && c->latent_f <= UINT16_MAX))
        return;
    c->drop = true;
    snprintf(c->reason, sizeof c->reason,
             "%g frames a second, latents of %dx%dx%d: more than a record holds",
             clip->fps, c->latent_f, c->latent_h, c->latent_w);
}

int vprep_clip_of(const vprep *p, const vprep_item *it, vprep_clip *clip, vc_err *err)
{
    memset(clip, 0, offsetof(vprep_clip, choice.draws));
    int rc = it->line ? plan_replayed_clip(p, it, clip, err) : chosen_clip(p, it, clip, err);
    if (p->list.sources[it->row].hdr)
        clip->tonemap = (media_tonemap)p->c.tonemap;
    if (!rc)
        check_frames(&clip->choice, vprep_segments(p, it));
    if (!rc)
        check_limits(clip);
    if (!rc)
        rc = vc_context(err, settle_mask(p, it, clip, err), "sample %u, variant %u", it->number,
                        it->variant);
    if (rc)
        vprep_clip_free(clip);
    return rc;
}
