/* pipeline.c - decode workers -> encoder -> writer, with bounded queues between them.
 *
 *   worker 1..W   decode and resize one clip each      \ queue `decoded`: at most QUEUE_CLIPS clips
 *   main thread   VAE, packing                         / and QUEUE_BYTES bytes
 *   writer        LMDB, in the order of the plan         turns `encoded`: WINDOW samples and
 *                                                        QUEUE_BYTES bytes
 *
 * The encoder takes any clip that is ready, so it is never idle while one waits. What it made waits
 * for its turn: samples are written in the order of the plan, so that the same plan makes the same
 * shards. While one clip takes long to decode, those after it go on up to the window. A sample
 * without values to be made, after the first that has some, waits for its turn too.
 * A worker decodes the first range of a clip's frames (encode/clip_frames.h). While the VAE encodes
 * a range, a thread of the clip decodes the next one: a worker may be waiting for room in the
 * queue, which only the encoder makes. Memory: one range per worker, the queue and the turns, two
 * ranges in the encoder; never a source or a long clip as a whole.
 * The first error that ends the run cancels both queues; every thread then leaves by itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/queue.h"
#include "common/os/turns.h"
#include "precompute/encode/loss_mask.h"
#include "precompute/encode/sound.h"
#include "precompute/encode/prompt_clips.h"
#include "precompute/encode/prompt_images.h"
#include "precompute/run/reuse.h"
#include "precompute/vprep/decode.h"
#include "precompute/vprep/record.h"

enum { QUEUE_CLIPS = 16, WINDOW = 256 };
_Static_assert(VC_ROLES <= 16, "roles do not fit into `need`");
#define TELL_S 0.1                   /* least seconds between reports of the clip in the VAE */
#define QUEUE_BYTES ((size_t)512 << 20)

typedef struct pending {             /* an item whose record waits for its turn */
    uint32_t item;
    uint16_t need;                   /* VC_ROLE_BITs of the values to be made */
    bool want_thumb, take_thumb;     /* a thumbnail is made, or copied from --reuse */
} pending;

typedef struct pipeline {                /* the pipeline's own state */
    vprep *p;
    prep_encoder *encoder;
    vc_queue *decoded;
    vc_turns *encoded;               /* by index into `pending` */
    pending *pending;
    int64_t sound;                   /* samples of the longest sound that is encoded */
    vb_choice largest;               /* the largest clip that the VAE encodes whole */
    unsigned roles;                  /* VC_ROLE_BITs of the values that jobs make */
    uint32_t n_pending, n_jobs;      /* n_jobs: those that have values or thumbnails to be made */
    int ended;                       /* atomic: an error ends the run */
    pthread_mutex_t lock;            /* guards err, the counts below and those of the run, and the
                                      * seconds of the workers */
    vc_err err;                      /* the error that ended the run */
    prep_place at;
    double told;                     /* seconds, when the clip in the VAE was last reported */
    double pixels;                   /* of the clips that were encoded */
} pipeline;

/* Keeps the first error and wakes all threads. */
static void pipeline_fail(pipeline *l, const vc_err *e)
{
    pthread_mutex_lock(&l->lock);
    if (!l->err.code)
        l->err = *e;
    pthread_mutex_unlock(&l->lock);
    __atomic_store_n(&l->ended, 1, __ATOMIC_RELEASE);
    vc_queue_cancel(l->decoded);
    vc_turns_cancel(l->encoded);
}

/* Counts a job that ended. A failed job counts as skipped, even if its clip was stored. */
static void pipeline_done(pipeline *l, const prep_job *j, bool ok)
{
    vprep *p = l->p;
    bool clip = j->need & VC_ROLE_BIT(VC_ROLE_CLIP);

    pthread_mutex_lock(&l->lock);
    l->at.done++;
    l->at.failed += !ok;
    l->at.waiting -= ok;
    p->count.encoded += ok && clip;
    l->pixels += ok && clip ? vprep_clip_pixels(&j->clip.choice) : 0;
    p->count.reused -= !ok && !clip;
    vprep_share_progress(p, &l->at, false);
    pthread_mutex_unlock(&l->lock);
}

static void pipeline_begin(pipeline *l, int frames)
{
    pthread_mutex_lock(&l->lock);
    l->at.frames = frames;
    pthread_mutex_unlock(&l->lock);
}

/* Reports the clip in the VAE; the last chunk is reported with the clip. */
static void pipeline_share(void *arg, double share)
{
    pipeline *l = arg;
    const double now = vc_seconds();

    if (now - l->told < TELL_S || share >= 1)
        return;
    l->told = now;
    pthread_mutex_lock(&l->lock);
    l->at.share = share;
    vprep_share_progress(l->p, &l->at, false);
    pthread_mutex_unlock(&l->lock);
}

/* Notes that the VAE is through with its clip. */
static void pipeline_encoded(pipeline *l, bool ok)
{
    pthread_mutex_lock(&l->lock);
    l->at.share = 0;
    l->at.waiting += ok;
    pthread_mutex_unlock(&l->lock);
}

/* Notes a clip that failed; the run continues unless a signal, --on_error or a change in place ends
 * the run, which then skipped nothing. */
static void job_failed(pipeline *l, prep_job *j, const char *stage, const vc_err *why)
{
    vc_err e = { 0 };

    if (vprep_item_failed(l->p, j->item, stage, why, &e))
        pipeline_fail(l, &e);
    else
        pipeline_done(l, j, false);
    vc_turns_put(l->encoded, j->turn, NULL, 0);
    prep_job_free(j);
}

/* ---- records ---- */

static int put_record(vprep *p, const prep_job *j, vc_err *err)
{
    vc_buf b = { 0 };

    vprep_record(&b, p, j);
    int rc = b.failed ? vc_fail(err, VC_ENOMEM, "out of memory for a record")
                      : vf_writer_put_record(p->writer, j->item->number, j->item->variant, b.data,
                                             b.n, j->thumb, j->thumb_bytes, err);
    vc_buf_free(&b);
    return rc;
}

/* ---- jobs ---- */

/* Copies the thumbnail from a dataset of --reuse; else the job makes the thumbnail. */
static int take_thumb(vprep *p, prep_job *j, vc_err *err)
{
    const void *jpeg;
    size_t n;
    int rc = prep_reuse_thumb(p, j->key[VC_ROLE_CLIP], &jpeg, &n, err);

    if (rc)
        return rc == VC_ENOENT ? 0 : rc;
    j->thumb = malloc(n ? n : 1);
    if (!j->thumb)
        return vc_fail(err, VC_ENOMEM, "out of memory for a thumbnail");
    memcpy(j->thumb, jpeg, n);
    j->thumb_bytes = n;
    j->want_thumb = false;
    return 0;
}

/* Fills j, except its pixels, with the values and the thumbnail of an item that are to be made.
 * Values of the datasets of --reuse are copied. */
static int settle_job(vprep *p, const vprep_item *it, prep_job *j, vc_err *err)
{
    const unsigned in_thumb = VC_ROLE_BIT(VC_ROLE_CLIP) | VC_ROLE_BIT(VC_ROLE_AUDIO);
    unsigned values = vprep_values(p, &p->list.meta.rows[it->row]);

    prep_job_begin(j, it);
    int rc = vprep_clip_of(p, it, &j->clip, err);
    if (rc)
        return rc;
    prep_job_settle(p, j);
    for (int v = 0; !rc && v < VC_ROLES; v++) {
        if (!(values & VC_ROLE_BIT(v)))
            continue;
        rc = p->c.trace_dir ? VC_ENOENT : prep_reuse_take(p, false, j->key[v], err);
        if (rc == VC_ENOENT) {
            j->need |= VC_ROLE_BIT(v);
            rc = 0;
        }
    }
    const vf_key *shown = vf_writer_clip_of(p->writer, it->number, it->variant);
    bool same = shown && !memcmp(shown, &j->key[VC_ROLE_CLIP], sizeof *shown);
    j->want_thumb = p->c.thumbnails && (!same || j->need & in_thumb);
    if (!rc && j->want_thumb && !j->need)
        rc = take_thumb(p, j, err);
    return rc;
}

static void note_decoded(pipeline *l, double seconds)
{
    pthread_mutex_lock(&l->lock);
    l->p->profile.span[PREP_SPAN_DECODE] += seconds;
    pthread_mutex_unlock(&l->lock);
}

/* Whether a job's sound is read: for its value, or for the wave in its thumbnail alone. */
static bool wants_sound(const vprep *p, const prep_job *j)
{
    const unsigned values = vprep_values(p, &p->list.meta.rows[j->item->row]);
    return (j->need | (j->want_thumb ? values : 0)) & VC_ROLE_BIT(VC_ROLE_AUDIO);
}

static int decode_job(pipeline *l, prep_job *j, vc_err *err)
{
    const unsigned divided = VC_ROLE_BIT(VC_ROLE_VIDEO) | VC_ROLE_BIT(VC_ROLE_REACTIVE);
    const vf_beside from = vprep_masked_from(l->p, j->item);
    double begin = vc_seconds();

    prep_job_settle(l->p, j);
    int rc = prep_frames_open(&j->pixels, l->p, j->item, &j->clip, VF_BESIDE, j->frames, err);
    if (!rc && j->need & VC_ROLE_BIT(VC_ROLE_LOSS_MASK))
        rc = vprep_loss_mask(l->p, j->item, &j->clip, &j->loss_mask, err);
    if (!rc && wants_sound(l->p, j))
        rc = prep_sound_read(l->p, j, err);
    if (!rc && j->clip.mask.kind == MASK_FILE &&
        j->need & (VC_ROLE_BIT(VC_ROLE_MASK) | divided))
        rc = vprep_mask_file(l->p, j->item, &j->clip, err);
    if (!rc && j->need & divided && from != VF_BESIDE)
        rc = prep_frames_open(&j->filled, l->p, j->item, &j->clip, from, j->clip.choice.frames,
                              err);
    if (!rc && j->need & VC_ROLE_BIT(VC_ROLE_CONTROL))
        rc = prep_frames_open(&j->control, l->p, j->item, &j->clip, VF_CONTROL,
                              j->clip.choice.frames, err);
    if (!rc)
        rc = prep_job_references(l->p, j, err);
    note_decoded(l, vc_seconds() - begin);
    return rc;
}

/* Whether a job has values or a thumbnail to be made; else only its record is written. */
static bool works(const prep_job *j)
{
    return j->need || j->want_thumb;
}

/* Makes the job of l->pending[turn], with its frames; NULL after a failure, which was noted. */
static prep_job *begin_job(pipeline *l, uint32_t turn)
{
    const pending *t = &l->pending[turn];
    vc_err why = { 0 };
    prep_job *j = calloc(1, sizeof *j);

    if (!j) {
        vc_no_memory(&why);
        pipeline_fail(l, &why);
        return NULL;
    }
    j->item = &l->p->plan.items[t->item];
    j->turn = turn;
    j->need = t->need;
    j->want_thumb = t->want_thumb;
    int rc = *vc_stop_flag() ? vc_fail(&why, VC_ESTOP, "stopped")
                             : vprep_clip_of(l->p, j->item, &j->clip, &why);
    if (!rc && works(j))
        rc = decode_job(l, j, &why);
    else if (!rc)
        prep_job_settle(l->p, j);
    if (!rc)
        return j;
    job_failed(l, j, "decode", &why);
    return NULL;
}

static void *decode_worker(void *arg)
{
    pipeline *l = arg;
    uint32_t turn;

    while (vc_turns_begin(l->encoded, &turn)) {
        prep_job *j = begin_job(l, turn);
        if (!j)
            continue;
        if (works(j) ? !vc_queue_put(l->decoded, j, prep_job_pixels(j))
                     : !vc_turns_put(l->encoded, turn, j, 0))
            prep_job_free(j);
    }
    vc_queue_close(l->decoded);
    return NULL;
}

/* ---- writing ---- */

static int put_job(pipeline *l, prep_job *j, vc_err *err)
{
    int rc = l->pending[j->turn].take_thumb ? take_thumb(l->p, j, err) : 0;
    for (int v = 0; !rc && v < VC_ROLES; v++)
        if (j->value[v])
            rc = vf_writer_put_latent(l->p->writer, j->key[v], j->value[v], j->value_bytes[v], err);
    return rc ? rc : put_record(l->p, j, err);
}

static void *write_worker(void *arg)
{
    pipeline *l = arg;
    prep_job *j;

    while ((j = vc_turns_get(l->encoded))) {
        vc_err e = { 0 };
        double begin = vc_seconds();
        int rc = put_job(l, j, &e);
        l->p->profile.span[PREP_SPAN_WRITE] += vc_seconds() - begin;
        if (rc)
            pipeline_fail(l, &e);
        else if (works(j))
            pipeline_done(l, j, true);
        prep_job_free(j);
        if (rc)
            break;
    }
    return NULL;
}

/* Notes the values that a job makes, and the largest clip that the VAE encodes whole. */
static void note_job(pipeline *l, const prep_job *j)
{
    bool whole = false;
    l->n_jobs += works(j);
    l->roles |= j->need;
    for (int v = 0; v < VC_ROLES; v++)
        whole |= j->need & VC_ROLE_BIT(v) && vprep_is_whole((vc_role)v);
    const int64_t sound = j->need & VC_ROLE_BIT(VC_ROLE_AUDIO)
                          ? vprep_sound_samples(l->p, &j->clip) : 0;
    if (sound > l->sound)
        l->sound = sound;
    if (whole && vprep_clip_pixels(&j->clip.choice) > vprep_clip_pixels(&l->largest))
        l->largest = j->clip.choice;
}

/* Lists the items from the first on that has values to be made, and writes the records of those
 * before it. */
static int settle_stored(pipeline *l, vc_err *err)
{
    vprep *p = l->p;
    int rc = 0;

    for (uint32_t i = 0; !rc && i < p->plan.n_items; i++) {
        const vprep_item *it = &p->plan.items[i];
        prep_job j;
        if (it->drop || !vprep_owns(p, i))
            continue;
        p->count.reused += it->stored;
        if (it->stored)
            continue;
        rc = settle_job(p, it, &j, err);
        const bool waits = l->n_pending || works(&j);
        if (!rc && waits)
            l->pending[l->n_pending++] = (pending){ i, (uint16_t)j.need, j.want_thumb,
                                                    j.thumb != NULL };
        if (!rc)
            note_job(l, &j);
        if (!rc && !waits)
            rc = put_record(p, &j, err);
        p->count.reused += !rc && !(j.need & VC_ROLE_BIT(VC_ROLE_CLIP));
        vprep_clip_free(&j.clip);
        free(j.thumb);
        if (!rc && *vc_stop_flag())
            rc = vc_fail(err, VC_ESTOP, "stopped");
    }
    return rc;
}

/* Prints the memory of the largest clip before hours of encoding. */
static int say_memory(pipeline *l, vc_err *err)
{
    const vb_choice *c = &l->largest;
    char model[32], pixels[32], picture[32], also[80] = "", ranges[40] = "";
    prep_memory m;

    if (!c->frames)
        return 0;
    int rc = prep_encoder_memory(l->encoder, c, &m, err);
    if (m.vision)
        snprintf(also, sizeof also, ", and its pictures take %s in the vision model",
                 vc_human_bytes(picture, (double)m.vision));
    if (c->frames > PREP_RANGE)
        snprintf(ranges, sizeof ranges, ", decoded %d frames at a time", PREP_RANGE);
    if (!rc)
        vc_say(l->p->progress, "the largest of the clips, %d frames of %dx%d, takes %s in the "
               "VAE%s; its pixels take %s%s", c->frames, c->target_w, c->target_h,
               vc_human_bytes(model, (double)m.vae), also,
               vc_human_bytes(pixels, (double)m.pixels), ranges);
    return rc;
}

/* The same of the longest sound. */
static int say_sound(pipeline *l, vc_err *err)
{
    char text[32];
    size_t bytes;
    int rc = l->sound ? prep_sound_memory(l->encoder, l->sound, &bytes, err) : 0;

    if (!rc && l->sound)
        vc_say(l->p->progress, "the longest sound, %.2f s, takes %s in its autoencoder",
               (double)l->sound / l->p->encoders.audio.mel.rate,
               vc_human_bytes(text, (double)bytes));
    return rc;
}

static void encode_all(pipeline *l)
{
    prep_job *j;
    uint64_t conditions;

    while ((j = vc_queue_get(l->decoded))) {
        vc_err why = { 0 };
        size_t bytes = 0;
        double begin = vc_seconds();
        pipeline_begin(l, j->clip.choice.frames);
        int rc = prep_encode(l->encoder, j, &conditions, &why);
        pipeline_encoded(l, !rc);
        l->p->profile.span[PREP_SPAN_PACK] += vc_seconds() - begin;
        note_decoded(l, j->pixels.seconds + j->control.seconds);
        if (rc) {
            job_failed(l, j, prep_job_unread(j) ? "decode" : "encode", &why);
            continue;
        }
        l->p->count.conditions += conditions;
        for (int v = 0; v < VC_ROLES; v++)
            bytes += j->value_bytes[v];
        if (!vc_turns_put(l->encoded, j->turn, j, bytes))
            prep_job_free(j);
    }
}

/* Divides the main thread's time in the stage of the clips, which took `seconds`. */
static void note_profile(pipeline *l, double seconds)
{
    prep_profile *f = &l->p->profile;
    const double took = prep_encoder_seconds(l->encoder) - f->span[PREP_SPAN_VAE];

    f->clips = seconds;
    f->clips_vae = took;
    f->span[PREP_SPAN_VAE] += took;
    f->span[PREP_SPAN_PACK] -= took;
    f->span[PREP_SPAN_WAIT_CLIPS] = vc_queue_look(l->decoded).get_wait;
    f->span[PREP_SPAN_WAIT_WRITER] = vc_turns_put_wait(l->encoded);
}

static int run_threads(pipeline *l, vc_err *err)
{
    int workers = (int)l->p->c.workers, started = 0;
    pthread_t *thread = calloc((size_t)workers + 1, sizeof *thread), writer;

    if (!thread)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d workers", workers);
    vc_queue_producers(l->decoded, workers);
    if (pthread_create(&writer, NULL, write_worker, l)) {
        free(thread);
        return vc_fail(err, VC_EFAIL, "cannot start a thread");
    }
    while (started < workers && !pthread_create(&thread[started], NULL, decode_worker, l))
        started++;
    for (int i = started; i < workers; i++)      /* in place of workers that did not start */
        vc_queue_close(l->decoded);
    if (!started) {
        vc_err e;
        vc_fail(&e, VC_EFAIL, "cannot start a decode thread");
        pipeline_fail(l, &e);
    }
    encode_all(l);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    pthread_join(writer, NULL);
    free(thread);
    for (prep_job *j; (j = vc_queue_try(l->decoded));)
        prep_job_free(j);
    for (prep_job *j; (j = vc_turns_try(l->encoded));)
        prep_job_free(j);
    if (l->err.code)
        *err = l->err;
    return l->err.code;
}

/* Stores the rate for forecasts, also after a stop. */
static int run_timed(pipeline *l, vc_err *err)
{
    double begin = vc_seconds();
    int rc = run_threads(l, err);
    vprep_rate rate = { l->pixels * l->p->ranks.n, vc_seconds() - begin };

    note_profile(l, rate.seconds);
    if ((rc && rc != VC_ESTOP) || rate.pixels <= 0)
        return rc;
    int kept = vf_writer_hint_put(l->p->writer, VPREP_RATE, &rate, sizeof rate, rc ? NULL : err);
    return rc ? rc : kept;
}

static int encode_pending(pipeline *l, vc_err *err)
{
    int rc = vc_queue_open(&l->decoded, QUEUE_CLIPS, QUEUE_BYTES, err);
    if (!rc)
        rc = vc_turns_open(&l->encoded, l->n_pending, WINDOW, QUEUE_BYTES, err);
    return rc ? rc : run_timed(l, err);
}

int vprep_clips(vprep *p, vc_err *err)
{
    pipeline l = { .p = p };

    pthread_mutex_init(&l.lock, NULL);
    l.pending = malloc((p->plan.n_items ? p->plan.n_items : 1) * sizeof *l.pending);
    int rc = l.pending ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for %u samples",
                                     p->plan.n_items);
    unsigned images = 0;
    if (!rc)
        rc = settle_stored(&l, err);
    if (!rc && p->ranks.rank == 0)
        rc = vprep_prompt_images_settle(p, &l.largest, &images, err);
    if (!rc && p->ranks.rank == 0)
        rc = vprep_prompt_clips_settle(p, &l.largest, &images, err);
    double begin = vc_seconds();
    if (!rc && (l.n_pending || images))
        rc = prep_encoder_open(&l.encoder, p, l.roles | images, err);
    p->profile.span[PREP_SPAN_OPEN] += vc_seconds() - begin;
    if (!rc && p->encoders.family.from_files)
        rc = say_memory(&l, err);
    if (!rc)
        rc = say_sound(&l, err);
    if (!rc && images)
        rc = vprep_prompt_images_encode(p, l.encoder, err);
    if (!rc && images)
        rc = vprep_prompt_clips_encode(p, l.encoder, err);
    if (l.encoder)
        p->profile.span[PREP_SPAN_VAE] = prep_encoder_seconds(l.encoder);
    const uint64_t total = rc ? 0 : l.n_jobs + p->ranks.others_clips;
    if (total)
        vc_progress_begin(p->progress, "clips", "clips", total);
    if (l.encoder)
        prep_encoder_watch(l.encoder, pipeline_share, &l);
    if (!rc && l.n_pending)
        rc = encode_pending(&l, err);
    if (!rc && l.encoder)
        rc = prep_part_unchanged(&p->encoders.vae_part, err);
    if (!rc && l.encoder)
        rc = prep_part_unchanged(&p->encoders.audio_part, err);
    if (!rc && l.encoder)
        rc = prep_part_unchanged(&p->encoders.vision_part, err);
    if ((!rc || rc == VC_ESTOP) && (total || p->ranks.rank))     /* rank 0 waits for each rank's */
        vprep_share_progress(p, &l.at, true);
    vc_progress_end(p->progress);
    vc_queue_free(l.decoded);
    vc_turns_free(l.encoded);
    prep_encoder_close(l.encoder);
    free(l.pending);
    pthread_mutex_destroy(&l.lock);
    return rc;
}
