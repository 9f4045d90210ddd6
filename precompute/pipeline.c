/* pipeline.c - decode workers -> encoder -> writer, with bounded queues between them.
 *
 *   worker 1..W   decode and resize one clip each      \ queue `decoded`: at most QUEUE_CLIPS clips
 *   main thread   VAE, packing                         / and QUEUE_BYTES bytes
 *   writer        LMDB, in the order things arrive       queue `encoded`, the same bounds
 *
 * The encoder takes any clip that is ready, so it is never idle while one waits. Memory: one clip
 * of target pixels per worker, the two queues, one clip in the encoder; never a source as a whole.
 * The first error that ends the run cancels both queues; every thread then leaves by itself. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/queue.h"
#include "common/rng.h"
#include "precompute/media_write.h"
#include "precompute/vprep.h"

enum { QUEUE_CLIPS = 16 };
#define QUEUE_BYTES ((size_t)512 << 20)

/* A clip on its way. Decoded: pixels. Encoded: value. Each stage frees what it has used. */
typedef struct job {
    const vprep_item *item;
    vprep_clip clip;
    vf_key key;
    uint8_t *pixels;                 /* [frames,h,w,3] */
    size_t pixel_bytes;
    uint8_t *value;                  /* safetensors */
    size_t value_bytes;
    uint8_t *thumb;
    size_t thumb_bytes;
} job;

typedef struct line {                /* the pipeline's own state */
    vprep *p;
    vae *vae;
    vc_queue *decoded, *encoded;
    uint32_t *todo;                  /* items to be encoded */
    uint32_t n_todo, next;           /* next: taken by workers, atomically */
    int ended;                       /* atomic: an error ends the run */
    pthread_mutex_t lock;            /* guards err, done, failed */
    vc_err err;                      /* the first such error */
    uint64_t done, failed;
    float *pixels_f32, *mean, *logvar;
    size_t pixels_room, latent_room;
} line;

static void job_free(job *j)
{
    if (!j)
        return;
    vprep_clip_free(&j->clip);
    free(j->pixels);
    free(j->value);
    free(j->thumb);
    free(j);
}

/* Remembers the first error and wakes everybody up. */
static void line_fail(line *l, const vc_err *e)
{
    pthread_mutex_lock(&l->lock);
    if (!l->err.code)
        l->err = *e;
    pthread_mutex_unlock(&l->lock);
    __atomic_store_n(&l->ended, 1, __ATOMIC_RELEASE);
    vc_queue_cancel(l->decoded);
    vc_queue_cancel(l->encoded);
}

static void line_done(line *l, bool ok)
{
    char extra[80];

    pthread_mutex_lock(&l->lock);
    l->done++;
    l->failed += !ok;
    snprintf(extra, sizeof extra, "%llu encoded, %llu reused, %llu skipped",
             (unsigned long long)(l->done - l->failed), (unsigned long long)l->p->reused,
             (unsigned long long)l->failed);
    vc_progress_at(l->p->progress, l->done, extra);
    pthread_mutex_unlock(&l->lock);
}

/* A clip that failed: noted, and the run goes on unless it must not. */
static void job_failed(line *l, job *j, const char *stage, const vc_err *why)
{
    const vf_row *row = &l->p->meta.rows[j->item->row];
    vc_err e = { 0 };

    if (vprep_note(l->p, row->row, row->path, stage, why, &e))
        line_fail(l, &e);
    line_done(l, false);
    job_free(j);
}

/* ---- keys and records ---- */

vf_key vprep_latent_key(const vprep *p, const vprep_item *it, const vprep_clip *clip)
{
    const vb_choice *c = &clip->choice;
    const vprep_source *s = &p->sources[it->row];
    vf_hasher h;

    vf_hasher_begin(&h, "latent");
    vf_hasher_bytes(&h, "source", s->hash.b, sizeof s->hash.b);
    for (int i = 0; i < c->frames; i++)
        vf_hasher_int(&h, "frame", clip->frames[i]);
    vf_hasher_int(&h, "resize_h", c->resize_h);
    vf_hasher_int(&h, "resize_w", c->resize_w);
    vf_hasher_int(&h, "top", c->top);
    vf_hasher_int(&h, "left", c->left);
    vf_hasher_int(&h, "target_h", c->target_h);
    vf_hasher_int(&h, "target_w", c->target_w);
    vf_hasher_int(&h, "flip", c->flip);
    vf_hasher_bytes(&h, "vae", p->vae.fingerprint.b, sizeof p->vae.fingerprint.b);
    vf_hasher_str(&h, "precision", "f32");
    vf_hasher_str(&h, "tiling", "none");
    vf_hasher_str(&h, "dtype", vc_dtype_name(p->c.dtype));
    vf_hasher_int(&h, "store", p->c.latent_store);
    if (p->c.latent_store == STORE_SAMPLE) {
        vf_hasher_int(&h, "seed", p->c.seed);
        vf_hasher_int(&h, "id", (int64_t)p->meta.rows[it->row].id);
        vf_hasher_int(&h, "variant", it->variant);
    }
    return vf_hasher_end(&h);
}

/* The stored record: the plan line without status, captions with their keys, and what was added. */
static cJSON *record_of(const vprep *p, const vprep_item *it, const vprep_clip *clip, vf_key key)
{
    const vf_row *row = &p->meta.rows[it->row];
    char hex[VF_KEY_HEX];
    cJSON *o = vprep_plan_line(p, it, clip), *captions = cJSON_CreateArray();

    if (!o || !captions) {
        cJSON_Delete(o);
        cJSON_Delete(captions);
        return NULL;
    }
    cJSON_DeleteItemFromObject(o, "status");
    for (int i = 0; i < row->n_captions; i++) {
        cJSON *c = cJSON_CreateObject(), *keys;
        cJSON_AddStringToObject(c, "text", row->captions[i]);
        keys = cJSON_AddArrayToObject(c, "keys");
        for (int e = 0; e < p->n_text; e++)
            cJSON_AddItemToArray(keys, cJSON_CreateString(
                                     vf_key_hex(hex, vprep_text_key(p, e, row->captions[i]))));
        cJSON_AddItemToArray(captions, c);
    }
    cJSON_ReplaceItemInObject(o, "captions", captions);
    cJSON_AddStringToObject(o, "source_hash", vf_key_hex(hex, p->sources[it->row].hash));
    cJSON_AddStringToObject(o, "latent_key", vf_key_hex(hex, key));
    cJSON_AddObjectToObject(o, "conditions");
    cJSON *tags = cJSON_AddArrayToObject(o, "tags");
    for (int i = 0; i < row->n_tags; i++)
        cJSON_AddItemToArray(tags, cJSON_CreateString(row->tags[i]));
    bool repeats = p->c.video_repeat > 1 && p->sources[it->row].is_video;
    cJSON_AddNumberToObject(o, "weight", row->weight * (repeats ? (double)p->c.video_repeat : 1));
    return o;
}

/* ---- decoding ---- */

static int decode(line *l, job *j, vc_err *err)
{
    const vb_choice *c = &j->clip.choice;
    const vf_row *row = &l->p->meta.rows[j->item->row];
    size_t frame = (size_t)c->target_h * (size_t)c->target_w * 3;
    media_fit fit = { c->resize_h, c->resize_w, c->top, c->left, c->target_h, c->target_w, c->flip };
    int64_t *index = malloc((size_t)c->frames * sizeof *index);
    int n = 0;
    media *m = NULL;
    media_info info;

    j->pixel_bytes = frame * (size_t)c->frames;
    j->pixels = malloc(j->pixel_bytes);
    if (!index || !j->pixels) {
        free(index);
        return vc_fail(err, VC_ENOMEM, "out of memory for %d frames of %dx%d", c->frames,
                       c->target_w, c->target_h);
    }
    for (int i = 0; i < c->frames; i++)          /* a repeated frame is decoded once */
        if (!n || index[n - 1] != j->clip.frames[i])
            index[n++] = j->clip.frames[i];

    int rc = media_open(&m, row->file, &info, err);
    if (!rc) rc = media_read(m, j->pixels, index, n, &fit, vc_stop_flag(), err);
    media_close(m);
    for (int i = c->frames - 1; !rc && i >= 0; i--) {
        while (index[n - 1] != j->clip.frames[i])
            n--;
        if (n - 1 != i)
            memcpy(j->pixels + (size_t)i * frame, j->pixels + (size_t)(n - 1) * frame, frame);
    }
    free(index);
    return rc;
}

static void *decode_worker(void *arg)
{
    line *l = arg;

    for (;;) {
        uint32_t i = __atomic_fetch_add(&l->next, 1, __ATOMIC_RELAXED);
        if (i >= l->n_todo || __atomic_load_n(&l->ended, __ATOMIC_ACQUIRE))
            break;
        vc_err why = { 0 };
        job *j = calloc(1, sizeof *j);
        if (!j) {
            vc_fail(&why, VC_ENOMEM, "out of memory");
            line_fail(l, &why);
            break;
        }
        j->item = &l->p->items[l->todo[i]];
        int rc = *vc_stop_flag() ? vc_fail(&why, VC_ESTOP, "stopped")
                                 : vprep_clip_of(l->p, j->item, &j->clip, &why);
        if (!rc) {
            j->key = vprep_latent_key(l->p, j->item, &j->clip);
            rc = decode(l, j, &why);
        }
        if (rc)
            job_failed(l, j, "decode", &why);
        else if (!vc_queue_put(l->decoded, j, j->pixel_bytes))
            job_free(j);
    }
    vc_queue_close(l->decoded);
    return NULL;
}

/* ---- encoding ---- */

static int grow(float **a, size_t *room, size_t n, vc_err *err)
{
    if (n <= *room)
        return 0;
    free(*a);
    *a = malloc(n * sizeof **a);
    *room = *a ? n : 0;
    return *a ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for %zu values", n);
}

static int thumbnail(line *l, job *j, vc_err *err)
{
    const vb_choice *c = &j->clip.choice;
    int side = (int)l->p->c.thumbnails, h, w;
    uint8_t *small;

    if (!side)
        return 0;
    int rc = media_shrink(&small, &h, &w, j->pixels, c->target_h, c->target_w, side, err);
    if (!rc) rc = media_jpeg(&j->thumb, &j->thumb_bytes, small, h, w, 85, err);
    free(small);
    return rc;
}

/* mean, logvar or sample -> one safetensors value */
static int pack_latent(line *l, job *j, bool logvar, vc_err *err)
{
    const vprep *p = l->p;
    const vb_choice *c = &j->clip.choice;
    bool sample = p->c.latent_store == STORE_SAMPLE;
    int64_t dim[4] = { p->vae.channels, c->latent_f, c->latent_h, c->latent_w };
    size_t n = (size_t)(dim[0] * dim[1] * dim[2] * dim[3]);
    vf_view t[2] = { { .name = sample ? "sample" : "mean", .nd = 4 }, { .name = "logvar", .nd = 4 } };
    const float *values[2] = { l->mean, l->logvar };
    void *data[2] = { 0 };
    int count = p->c.latent_store == STORE_MOMENTS ? 2 : 1, rc = 0;

    if (sample && logvar) {
        float *noise = malloc(n * sizeof *noise);
        if (!noise)
            return vc_fail(err, VC_ENOMEM, "out of memory for %zu values", n);
        vc_draw_normals(noise, n, (uint64_t)p->c.seed, p->meta.rows[j->item->row].id,
                        j->item->variant, VC_DRAW_POSTERIOR);
        for (size_t i = 0; i < n; i++)
            l->mean[i] += expf(0.5f * l->logvar[i]) * noise[i];
        free(noise);
    }
    for (size_t i = 0; i < n; i++)
        if (!isfinite(l->mean[i]) || (count > 1 && !isfinite(l->logvar[i])))
            return vc_fail(err, VC_ENUMERIC, "the encoder gave a value that is not finite");
    for (int i = 0; !rc && i < count; i++) {
        memcpy(t[i].dim, dim, sizeof dim);
        rc = vprep_pack_dtype(&t[i].dtype, &data[i], values[i], n, p->c.dtype, err);
        t[i].data = data[i];
        t[i].bytes = n * vc_dtype_size(t[i].dtype);
    }
    if (!rc) rc = vf_safetensors_pack(&j->value, &j->value_bytes, t, count, NULL, 0, 1, err);
    free(data[0]);
    free(data[1]);
    return rc;
}

static int trace(line *l, job *j, vc_err *err);

static int encode(line *l, job *j, vc_err *err)
{
    const vb_choice *c = &j->clip.choice;
    const vprep *p = l->p;
    size_t n = (size_t)p->vae.channels * (size_t)c->latent_f * (size_t)c->latent_h *
               (size_t)c->latent_w, room = l->latent_room;
    bool logvar = p->vae.has_logvar || p->c.latent_store == STORE_MOMENTS || p->c.trace_dir;

    int rc = grow(&l->pixels_f32, &l->pixels_room, j->pixel_bytes, err);
    if (!rc) rc = grow(&l->mean, &room, n, err);
    if (!rc) rc = grow(&l->logvar, &l->latent_room, n, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < j->pixel_bytes; i++)
        l->pixels_f32[i] = (float)j->pixels[i] / 127.5f - 1.0f;
    rc = p->family->vae->encode(l->vae, l->pixels_f32, c->frames, c->target_h, c->target_w, l->mean,
                                logvar ? l->logvar : NULL, err);
    if (!rc && p->c.trace_dir) rc = trace(l, j, err);
    if (!rc) rc = pack_latent(l, j, logvar, err);
    if (!rc) rc = thumbnail(l, j, err);
    free(j->pixels);
    j->pixels = NULL;
    return rc;
}

/* DIR/000000000042-000.safetensors: what the encoders got and gave. */
static int trace(line *l, job *j, vc_err *err)
{
    const vprep *p = l->p;
    const vb_choice *c = &j->clip.choice;
    const vf_row *row = &p->meta.rows[j->item->row];
    int64_t dim[4] = { p->vae.channels, c->latent_f, c->latent_h, c->latent_w };
    size_t bytes = (size_t)(dim[0] * dim[1] * dim[2] * dim[3]) * 4;
    vf_view t[3 + 3 * 4] = {
        { "pixels", VC_U8, 4, { c->frames, c->target_h, c->target_w, 3 }, j->pixels, j->pixel_bytes },
        { "moments.mean", VC_F32, 4, { dim[0], dim[1], dim[2], dim[3] }, l->mean, bytes },
        { "moments.logvar", VC_F32, 4, { dim[0], dim[1], dim[2], dim[3] }, l->logvar, bytes },
    };
    vf_safetensors *text[3] = { 0 };
    int n = 3, rc = 0;

    for (int e = 0; !rc && e < p->n_text; e++) {
        char hex[VF_KEY_HEX];
        char *path = vc_format("%s/.text-%s.safetensors", p->c.trace_dir,
                               vf_key_hex(hex, vprep_text_key(p, e, row->captions[0])));
        rc = path ? vf_safetensors_open(&text[e], path, err) : vc_fail(err, VC_ENOMEM, "out of memory");
        for (int i = 0; !rc && i < vf_safetensors_count(text[e]); i++)
            t[n++] = *vf_safetensors_at(text[e], i);
        free(path);
    }
    char *path = vc_format("%s/%012u-%03u.safetensors", p->c.trace_dir, j->item->number,
                           j->item->variant);
    if (!rc) rc = path ? vf_safetensors_write(path, t, n, NULL, 0, err)
                       : vc_fail(err, VC_ENOMEM, "out of memory");
    free(path);
    for (int e = 0; e < p->n_text; e++)
        vf_safetensors_close(text[e]);
    return rc;
}

/* ---- writing ---- */

static void *write_worker(void *arg)
{
    line *l = arg;
    job *j;

    while ((j = vc_queue_get(l->encoded))) {
        vc_err e = { 0 };
        cJSON *record = record_of(l->p, j->item, &j->clip, j->key);
        int rc = record ? 0 : vc_fail(&e, VC_ENOMEM, "out of memory for a record");
        if (!rc) rc = vf_writer_put_latent(l->p->writer, j->key, j->value, j->value_bytes, &e);
        if (!rc) rc = vf_writer_put_sample(l->p->writer, j->item->number, j->item->variant, record,
                                           j->thumb, j->thumb_bytes, &e);
        cJSON_Delete(record);
        job_free(j);
        if (rc) {
            line_fail(l, &e);
            break;
        }
        line_done(l, true);
    }
    return NULL;
}

/* What is stored already and unchanged is kept; a record that changed alone is written anew. */
static int settle_stored(line *l, vc_err *err)
{
    vprep *p = l->p;
    int rc = 0;

    for (uint32_t i = 0; !rc && i < p->n_items; i++) {
        const vprep_item *it = &p->items[i];
        vprep_clip clip;
        if (it->drop)
            continue;
        rc = vprep_clip_of(p, it, &clip, err);
        vf_key key = rc ? (vf_key){ { 0 } } : vprep_latent_key(p, it, &clip);
        const char *stored = rc ? NULL : vf_writer_sample(p->writer, it->number, it->variant);
        if (stored && vf_writer_has_latent(p->writer, key) && !p->c.trace_dir) {
            cJSON *record = record_of(p, it, &clip, key);
            rc = record ? vf_writer_put_sample(p->writer, it->number, it->variant, record, NULL, 0,
                                               err)
                        : vc_fail(err, VC_ENOMEM, "out of memory for a record");
            cJSON_Delete(record);
            p->reused++;
        } else if (!rc) {
            l->todo[l->n_todo++] = i;
        }
        vprep_clip_free(&clip);
        if (!rc && *vc_stop_flag())
            rc = vc_fail(err, VC_ESTOP, "stopped");
    }
    return rc;
}

static void encode_all(line *l)
{
    job *j;

    while ((j = vc_queue_get(l->decoded))) {
        vc_err why = { 0 };
        if (encode(l, j, &why))
            job_failed(l, j, "encode", &why);
        else if (!vc_queue_put(l->encoded, j, j->value_bytes))
            job_free(j);
    }
    vc_queue_close(l->encoded);
}

static int run_threads(line *l, vc_err *err)
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
    for (int i = started; i < workers; i++)      /* those that did not start close their share */
        vc_queue_close(l->decoded);
    if (!started) {
        vc_err e;
        vc_fail(&e, VC_EFAIL, "cannot start a decode thread");
        line_fail(l, &e);
    }
    encode_all(l);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    pthread_join(writer, NULL);
    free(thread);
    for (job *j; (j = vc_queue_try(l->decoded));)
        job_free(j);
    for (job *j; (j = vc_queue_try(l->encoded));)
        job_free(j);
    if (l->err.code)
        *err = l->err;
    return l->err.code;
}

int vprep_clips(vprep *p, vc_err *err)
{
    line l = { .p = p };
    encoder_opts o = { .dir = NULL, .dtype = VC_F32, .device = p->c.device };
    vae_info info;

    pthread_mutex_init(&l.lock, NULL);
    l.todo = malloc((p->n_items ? p->n_items : 1) * sizeof *l.todo);
    int rc = l.todo ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for %u samples", p->n_items);
    if (!rc) rc = settle_stored(&l, err);
    if (!rc && l.n_todo) {
        rc = p->family->vae->open(&l.vae, &o, &info, err);
        if (!rc) rc = vc_queue_open(&l.decoded, QUEUE_CLIPS, QUEUE_BYTES, err);
        if (!rc) rc = vc_queue_open(&l.encoded, QUEUE_CLIPS, QUEUE_BYTES, err);
        if (!rc) {
            vc_progress_begin(p->progress, "clips", "clips", l.n_todo);
            rc = run_threads(&l, err);
            vc_progress_end(p->progress);
        }
    }
    p->encoded = l.done - l.failed;
    vc_queue_free(l.decoded);
    vc_queue_free(l.encoded);
    p->family->vae->close(l.vae);
    free(l.pixels_f32);
    free(l.mean);
    free(l.logvar);
    free(l.todo);
    pthread_mutex_destroy(&l.lock);
    return rc;
}
