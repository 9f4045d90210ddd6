/* transfer.c - see transfer.h
 *
 * Threads take the shards in the manifest's order, each with connections of its own. The first
 * failure stops the others. */
#include "formats/vlat/transfer.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/cksum.h"
#include "common/os/file.h"
#include "formats/dataset/parts.h"

#define REPLACED VLAT_COMING "/replaced.json"    /* the old manifest while shards are replaced */

typedef struct transfer {
    const vlat *v;
    const char *from, *to;
    vlat_place *source, *target;             /* of the main thread */
    vf_manifest want, have;                  /* of the source; of the target, maybe empty */
    char *text;                              /* the source's manifest */
    size_t text_n;
    char **name, **coming;                   /* [n_shards] files of the target */
    bool *present;                           /* [n_shards] the target has the shard in place */
    bool has_manifest, replaces;             /* the target's; a shard replaces another file */
    bool prepared;                           /* the target is locked */
    pthread_mutex_t lock;                    /* of all below */
    int next;                                /* first shard that no thread has taken */
    uint64_t done, came;                     /* bytes that are there; that this transfer brought */
    int rc;                                  /* the first failure, which sets limits.stop */
    vc_err err;
    vlat_limits limits;
} transfer;

/* ---- one file ---- */

typedef struct worker {
    transfer *t;
    vlat_place *from, *to;
    vf_hasher hash;
    vc_cksum sum;
    uint64_t at, most;                       /* bytes so far; of the whole file */
    bool sends;                              /* else the bytes are there and only hashed */
} worker;

static void count(transfer *t, uint64_t n, bool sent)
{
    pthread_mutex_lock(&t->lock);
    t->done += n;
    t->came += sent ? n : 0;
    vc_progress_at(t->v->progress, t->done, "");
    pthread_mutex_unlock(&t->lock);
}

static int take(void *arg, const void *data, size_t n, vc_err *err)
{
    worker *w = arg;
    if (n > w->most - w->at)
        return vc_fail(err, VC_EFORMAT, "the file has more than the %" PRIu64 " bytes of the "
                       "manifest: is that copy damaged?", w->most);
    vf_hasher_add(&w->hash, data, n);
    if (!w->to->kind->near)
        vc_cksum_add(&w->sum, data, n);
    int rc = w->sends ? w->to->kind->put(w->to, data, n, err) : 0;
    w->at += n;
    count(w->t, n, w->sends);
    return rc;
}

/* Hashes the bytes that an earlier attempt has brought, where reading them is cheap. */
static int take_up(worker *w, const vf_shard_info *s, char *coming, vc_err *err)
{
    int64_t size;
    bool again;
    int rc = w->to->kind->sizes(w->to, &coming, 1, &size, err);
    if (!rc && size > s->bytes) {
        rc = w->to->kind->remove(w->to, &coming, 1, err);
        size = 0;
    }
    uint64_t there = size > 0 ? (uint64_t)size : 0;
    if (rc || there == w->at)
        return rc;
    vf_hasher_plain(&w->hash);
    w->sum = (vc_cksum){ 0 };
    w->at = 0;
    if (!there)
        return 0;
    vlat_place *p = w->to->kind->near ? w->to : w->from;
    return p->kind->get(p, p == w->to ? coming : s->file, 0, there, &(vlat_sink){ take, w },
                        &again, err);
}

static bool has_hash(vf_hasher *hash, const vf_key *want)
{
    const vf_key sum = vf_hasher_end(hash);
    return !memcmp(sum.b, want->b, sizeof want->b);
}

static int check_hash(worker *w, const vf_shard_info *s, vc_err *err)
{
    if (w->at == w->most && has_hash(&w->hash, &s->hash))
        return 0;
    return vc_fail(err, VC_EFORMAT, "%s/%s: %" PRIu64 " bytes came whose checksum is not that of "
                   "the manifest, of %" PRId64 " bytes: is that copy damaged?", w->from->shown,
                   s->file, w->at, s->bytes);
}

/* Gets the rest of a file. *again: another attempt may get more. */
static int attempt(worker *w, const vf_shard_info *s, char *coming, bool *again, vc_err *err)
{
    bool damaged = false;
    *again = false;
    int rc = take_up(w, s, coming, err);
    if (!rc)
        rc = w->to->kind->put_begin(w->to, coming, w->at, err);
    w->sends = true;
    if (!rc && w->at < w->most)
        rc = vc_context(err, w->from->kind->get(w->from, s->file, w->at, UINT64_MAX,
                                                &(vlat_sink){ take, w }, again, err),
                        "%s", s->file);
    w->sends = false;
    if (!rc) {
        rc = check_hash(w, s, err);
        damaged = rc;
    }
    uint32_t sum = vc_cksum_end(&w->sum);
    int end = w->to->kind->put_end(w->to, rc ? NULL : &sum, rc ? NULL : err);
    damaged |= end == VC_EMISMATCH;
    if (damaged)                             /* the next transfer begins this file anew */
        w->to->kind->remove(w->to, &coming, 1, NULL);
    rc = rc ? rc : end;
    *again |= rc == VC_EIO && !w->to->kind->near;
    return rc;
}

vlat_limits vlat_limits_of(const vlat *v)
{
    const vlat_options *o = v->o;
    return (vlat_limits){ .lowest_speed = o->lowest_speed, .timeout = o->timeout,
                          .max_time = o->max_time, .ui = v->progress,
                          .end = o->max_time ? vc_seconds() + (double)o->max_time : 0 };
}

static int bring(worker *w, int i, vc_err *err)
{
    const vf_shard_info *s = &w->t->want.shard[i];
    vlat_tries tries = vlat_tries_of(w->from, 0);
    bool again;
    int rc;
    w->at = 0;
    w->most = (uint64_t)s->bytes;
    w->sum = (vc_cksum){ 0 };
    vf_hasher_plain(&w->hash);
    do {
        vc_err e = { 0 };
        rc = attempt(w, s, w->t->coming[i], &again, &e);
        if (rc)
            *err = e;
    } while (rc && again && vlat_try_again(&tries, w->at));
    return rc;
}

/* ---- the threads ---- */

/* Takes the next shard that is missing, or -1. */
static int next_shard(transfer *t)
{
    pthread_mutex_lock(&t->lock);
    while (t->next < t->want.n_shards && t->present[t->next])
        t->next++;
    int i = t->next < t->want.n_shards && !t->rc ? t->next++ : -1;
    pthread_mutex_unlock(&t->lock);
    return i;
}

static void fail(transfer *t, int rc, const vc_err *err)
{
    pthread_mutex_lock(&t->lock);
    if (!t->rc) {
        t->rc = rc;
        t->err = *err;
    }
    t->limits.stop = 1;
    pthread_mutex_unlock(&t->lock);
}

static void *work(void *arg)
{
    transfer *t = arg;
    vc_err err = { 0 };
    worker w = { .t = t };
    int rc = vlat_place_open(&w.from, t->from, &t->limits, &err);
    if (!rc)
        rc = vlat_place_open(&w.to, t->to, &t->limits, &err);
    for (int i; !rc && (i = next_shard(t)) >= 0;)
        rc = bring(&w, i, &err);
    if (rc)
        fail(t, rc, &err);
    vlat_place_close(w.from);
    vlat_place_close(w.to);
    return NULL;
}

static int bring_all(transfer *t, vc_err *err)
{
    int missing = 0, started = 0, most = (int)t->v->o->connections;
    for (int i = 0; i < t->want.n_shards; i++)
        missing += !t->present[i];
    pthread_t *thread = calloc((size_t)most, sizeof *thread);
    if (!thread)
        return vc_no_memory(err);
    while (started < most && started < missing && !pthread_create(&thread[started], NULL, work, t))
        started++;
    if (missing && !started)
        work(t);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    free(thread);
    if (t->rc && err)
        *err = t->err;
    return t->rc;
}

/* ---- the plan ---- */

typedef struct incoming {
    vc_buf buf;
    size_t most;
} incoming;

static int take_text(void *arg, const void *data, size_t n, vc_err *err)
{
    incoming *t = arg;
    if (n > t->most - t->buf.n)
        return vc_fail(err, VC_EFORMAT, "more than %zu bytes", t->most);
    vc_buf_add(&t->buf, data, n);
    return t->buf.failed ? vc_no_memory(err) : 0;
}

int vlat_fetch_text(vlat_place *p, const char *name, size_t most, char **out, size_t *n,
                    vc_err *err)
{
    incoming t = { .most = most };
    vlat_tries tries = vlat_tries_of(p, 0);
    bool again;
    int rc;
    do {
        vc_err e = { 0 };
        t.buf.n = 0;
        rc = p->kind->get(p, name, 0, UINT64_MAX, &(vlat_sink){ take_text, &t }, &again, &e);
        if (rc && err)
            *err = e;
    } while (rc && again && vlat_try_again(&tries, 0));
    *n = t.buf.n;
    *out = vc_buf_take(&t.buf);
    return rc || *out ? rc : vc_no_memory(err);
}

static int read_manifest(vlat_place *p, const char *name, vf_manifest *m, char **text, size_t *n,
                         vc_err *err)
{
    int rc = vlat_fetch_text(p, name, VF_MAX_LIST, text, n, err);
    return rc ? rc : vf_manifest_parse(m, *text, *n, p->shown, err);
}

/* Reads both manifests. A target without one has no shard. */
static int read_manifests(transfer *t, vc_err *err)
{
    char *old = NULL;
    size_t n;
    int rc = read_manifest(t->source, VF_MANIFEST, &t->want, &t->text, &t->text_n, err);
    if (!rc && !t->want.complete)
        rc = vc_fail(err, VC_EINVAL, "%s: vprep has not finished this dataset", t->source->shown);
    if (!rc)
        rc = t->target->kind->prepare(t->target, err);
    t->prepared = !rc;
    if (!rc) {
        vc_err e = { 0 };
        rc = read_manifest(t->target, VF_MANIFEST, &t->have, &old, &n, &e);
        t->has_manifest = rc != VC_ENOENT;
        if (rc == VC_ENOENT) {
            free(old);
            rc = read_manifest(t->target, REPLACED, &t->have, &old, &n, &e);
        }
        if (rc == VC_ENOENT)
            rc = 0;
        else if (rc && err)
            *err = e;
    }
    free(old);
    return rc;
}

static const vf_shard_info *listed(const vf_manifest *m, const char *file)
{
    for (int i = 0; i < m->n_shards; i++)
        if (!strcmp(m->shard[i].file, file))
            return &m->shard[i];
    return NULL;
}

static int hash_only(void *arg, const void *data, size_t n, vc_err *err)
{
    (void)err;
    vf_hasher_add(arg, data, n);
    return 0;
}

/* Finds whether the target's file of a shard's name, which its manifest does not list so, is that
 * shard, as after a kill between the renames. */
static int is_shard(transfer *t, const vf_shard_info *s, bool *same, vc_err *err)
{
    bool again;
    vf_hasher hash;
    vf_hasher_plain(&hash);
    int rc = t->target->kind->get(t->target, s->file, 0, UINT64_MAX,
                                  &(vlat_sink){ hash_only, &hash }, &again, err);
    *same = !rc && has_hash(&hash, &s->hash);
    return rc;
}

static int plan_shard(transfer *t, int i, int64_t size, vc_err *err)
{
    const vf_shard_info *s = &t->want.shard[i], *old = listed(&t->have, s->file);
    bool known = old && !memcmp(&old->hash, &s->hash, sizeof s->hash);
    int rc = 0;
    t->present[i] = known && size == s->bytes;
    if (size >= 0 && !known) {
        if (size == s->bytes)
            rc = is_shard(t, s, &t->present[i], err);
        t->replaces |= !t->present[i];
        if (!rc && !t->present[i] && !t->v->o->remove)
            rc = vc_fail(err, VC_EMISMATCH, "%s/%s is another file than that of %s: give another "
                         "folder, or --delete to replace it", t->target->shown, s->file,
                         t->source->shown);
    }
    if (t->present[i])
        t->done += (uint64_t)s->bytes;
    return rc;
}

static int plan(transfer *t, vc_err *err)
{
    size_t n = (size_t)t->want.n_shards;
    int64_t *size = calloc(n + 1, sizeof *size);
    char hex[VF_KEY_HEX];
    t->name = calloc(n + 1, sizeof *t->name);
    t->coming = calloc(n + 1, sizeof *t->coming);
    t->present = calloc(n + 1, sizeof *t->present);
    int rc = size && t->name && t->coming && t->present ? 0 : vc_no_memory(err);
    for (size_t i = 0; !rc && i < n; i++) {
        vf_shard_info *s = &t->want.shard[i];
        t->name[i] = s->file;
        t->coming[i] = vc_format(VLAT_COMING "/%s.%s", s->file, vf_key_hex(hex, s->hash));
        rc = t->coming[i] ? 0 : vc_no_memory(err);
    }
    if (!rc)
        rc = t->target->kind->sizes(t->target, t->name, (int)n, size, err);
    for (int i = 0; !rc && i < (int)n; i++)
        rc = plan_shard(t, i, size[i], err);
    free(size);
    return rc;
}

/* ---- the end ---- */

/* Counts the shards of the old manifest that the new one does not list, or removes them. */
static int drop_others(transfer *t, vc_err *err)
{
    int n = 0, rc = 0;
    char **file = calloc((size_t)t->have.n_shards + 1, sizeof *file);
    if (!file)
        return vc_no_memory(err);
    for (int i = 0; i < t->have.n_shards; i++)
        if (!listed(&t->want, t->have.shard[i].file))
            file[n++] = t->have.shard[i].file;
    if (n && t->v->o->remove)
        rc = t->target->kind->remove(t->target, file, n, err);
    else if (n)
        vc_say(t->v->progress, "%s: %d files are no part of the dataset any more (%s%s): --delete "
               "removes them", t->target->shown, n, file[0], n > 1 ? ", ..." : "");
    free(file);
    return rc;
}

static int put_manifest(transfer *t, char *name, vc_err *err)
{
    vc_cksum sum = { 0 };
    vc_cksum_add(&sum, t->text, t->text_n);
    uint32_t crc = vc_cksum_end(&sum);
    int rc = t->target->kind->put_begin(t->target, name, 0, err);
    if (!rc)
        rc = t->target->kind->put(t->target, t->text, t->text_n, err);
    int end = t->target->kind->put_end(t->target, rc ? NULL : &crc, rc ? NULL : err);
    return rc ? rc : end;
}

/* Renames the shards that came, and the manifest last. Where a shard replaces another file the old
 * manifest goes first, so that nobody reads a mixture. */
static int place(transfer *t, vc_err *err)
{
    const vlat_place_kind *k = t->target->kind;
    char *manifest = (char *)(uintptr_t)VF_MANIFEST, coming[] = VLAT_COMING "/" VF_MANIFEST;
    char *made = coming, old[] = REPLACED, *replaced = old;
    int n = 0;
    for (int i = 0; i < t->want.n_shards; i++)
        if (!t->present[i]) {
            char *swap = t->coming[n];
            t->coming[n] = t->coming[i];
            t->coming[i] = swap;
            t->name[n++] = t->want.shard[i].file;
        }
    int rc = put_manifest(t, made, err);
    if (!rc && t->replaces && t->has_manifest)
        rc = k->rename(t->target, &manifest, &replaced, 1, err);
    if (!rc)
        rc = k->rename(t->target, t->coming, t->name, n, err);
    if (!rc)
        rc = k->rename(t->target, &made, &manifest, 1, err);
    return rc ? rc : drop_others(t, err);
}

static int run(transfer *t, vc_err *err)
{
    uint64_t all = 0;
    char a[32];
    int rc = vlat_place_open(&t->source, t->from, &t->limits, err);
    if (!rc)
        rc = vlat_place_open(&t->target, t->to, &t->limits, err);
    if (!rc && !t->target->kind->put)
        rc = vc_fail(err, VC_EUSAGE, "%s: vlat writes to a folder or to USER@HOST:FOLDER only",
                     t->target->shown);
    if (!rc)
        rc = read_manifests(t, err);
    if (!rc)
        rc = plan(t, err);
    for (int i = 0; i < t->want.n_shards; i++)
        all += (uint64_t)t->want.shard[i].bytes;
    vc_progress_begin(t->v->progress, "copying", "B", all);
    vc_progress_at(t->v->progress, t->done, "");
    if (!rc)
        rc = bring_all(t, err);
    vc_progress_end(t->v->progress);
    if (!rc)
        rc = place(t, err);
    if (t->prepared) {
        int end = t->target->kind->release(t->target, !rc, rc ? NULL : err);
        rc = rc ? rc : end;
    }
    if (!rc)
        vc_say(t->v->progress, "%s has the %" PRId64 " samples of %s; %s came",
               t->target->shown, t->want.samples, t->source->shown,
               vc_human_bytes(a, (double)t->came));
    if (!rc && vf_dataset_there(t->target->shown))     /* here, not in another place */
        vlat_say_next(t->v, t->target->shown);
    else if (!rc)
        vc_say(t->v->progress, "next: vlat pull %s --out FOLDER, on another machine",
               t->target->shown);
    return rc;
}

int vlat_transfer(const vlat *v, const char *from, const char *to, vc_err *err)
{
    transfer t = { .v = v, .from = from, .to = to, .lock = PTHREAD_MUTEX_INITIALIZER,
                   .limits = vlat_limits_of(v) };
    int rc = run(&t, err);
    for (int i = 0; t.coming && i < t.want.n_shards; i++)
        free(t.coming[i]);
    free(t.coming);
    free(t.name);
    free(t.present);
    free(t.text);
    vf_manifest_free(&t.want);
    vf_manifest_free(&t.have);
    vlat_place_close(t.source);
    vlat_place_close(t.target);
    return rc;
}
