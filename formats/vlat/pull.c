/* pull.c - vlat pull copies a dataset from an HTTP(S) server into a folder.
 *
 * Any server of static files will do. Closed shards never change, so a pull brings only the shards
 * that the folder lacks. New files are written into OUT/pull and hashed while they come; a file
 * gets its place when its hash is the manifest's, and the manifest its own last: the folder holds
 * the old dataset or the new one at any moment. After a kill or a cut connection the next request
 * asks for the rest of the file. */
#include "formats/vlat/vlat.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/base/buf.h"
#include "common/os/file.h"
#include "formats/dataset/parts.h"

enum { TRIES = 5, IDLE_SECONDS = 60, CONNECT_SECONDS = 30, REDIRECTS = 5, HTTP_OK = 200 };

typedef struct pull {
    const vlat *v;
    CURL *curl;
    const char *url, *out;
    char *part;                              /* OUT/pull */
    vf_manifest have, want;                  /* of the folder; of the server */
    uint64_t done;                           /* bytes of new shards that are in the folder */
} pull;

/* ---- one request ---- */

/* A file or a text that arrives. */
typedef struct arrival {
    pull *p;
    int fd;                                  /* -1: into `text` */
    vc_buf text;
    uint64_t at, most;                       /* bytes so far; bytes allowed */
    XXH3_state_t *hash;
    bool started, failed;                    /* failed: err says why the transfer was ended */
    vc_err *err;
} arrival;

/* A server that knows no ranges sends the whole file, so the file begins again. */
static int restart(arrival *a)
{
    long status = 0;
    curl_easy_getinfo(a->p->curl, CURLINFO_RESPONSE_CODE, &status);
    a->started = true;
    if (status != HTTP_OK || !a->at)
        return 0;
    a->at = 0;
    XXH3_128bits_reset(a->hash);
    if (ftruncate(a->fd, 0) || lseek(a->fd, 0, SEEK_SET))
        return vc_fail_errno(a->err, "%s", a->p->part);
    return 0;
}

static int keep(arrival *a, const char *data, size_t n)
{
    int rc = a->started ? 0 : restart(a);
    if (rc)
        return rc;
    if (n > a->most - a->at)
        return vc_fail(a->err, VC_EFORMAT, "the server sends more than %" PRIu64 " bytes", a->most);
    if (a->fd < 0)
        vc_buf_add(&a->text, data, n);
    else
        XXH3_128bits_update(a->hash, data, n);
    for (size_t w = 0; a->fd >= 0 && w < n;) {
        ssize_t k = write(a->fd, data + w, n - w);
        if (k < 0 && errno != EINTR)
            return vc_fail_errno(a->err, "%s", a->p->part);
        w += k > 0 ? (size_t)k : 0;
    }
    a->at += n;
    return 0;
}

static size_t on_data(char *data, size_t size, size_t n, void *arg)
{
    arrival *a = arg;
    a->failed = keep(a, data, size * n) != 0;
    if (!a->failed && a->fd >= 0)
        vc_progress_at(a->p->v->progress, a->p->done + a->at, "");
    return a->failed ? 0 : size * n;
}

static int on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)arg, (void)a, (void)b, (void)c, (void)d;
    return *vc_stop_flag() != 0;
}

/* Returns 0, or an error of this request; *again: a further request may get the rest. */
static int request(arrival *a, const char *name, bool *again, vc_err *err)
{
    CURL *c = a->p->curl;
    char range[32], *url = vc_format("%s/%s", a->p->url, name);
    if (!url)
        return vc_no_memory(err);
    snprintf(range, sizeof range, "%" PRIu64 "-", a->at);
    a->started = a->failed = false;
    a->err = err;
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_RANGE, a->at ? range : NULL);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, a);
    CURLcode code = curl_easy_perform(c);
    long status = 0;
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    int rc = code && a->failed ? err->code : 0;
    if (*vc_stop_flag())
        rc = vc_fail(err, VC_ESTOP, "stopped");
    *again = code && !rc && status < 400;
    if (code && !rc && status >= 400)
        rc = vc_fail(err, status == 404 ? VC_ENOENT : VC_EIO, "the server answers %ld", status);
    else if (code && !rc)
        rc = vc_fail(err, VC_EIO, "%s", curl_easy_strerror(code));
    rc = vc_context(err, rc, "%s", url);
    free(url);
    return rc;
}

/* Requests the rest of a file until it is there; TRIES requests without a new byte are an error. */
static int receive(arrival *a, const char *name, vc_err *err)
{
    bool again = true;
    int rc = VC_EIO;
    for (int tries = 0; rc && again && tries < TRIES; tries++) {
        uint64_t before = a->at;
        vc_err e = { 0 };
        rc = request(a, name, &again, &e);
        if (a->at > before)
            tries = -1;
        if (rc && err)
            *err = e;
    }
    return rc;
}

/* ---- one shard ---- */

/* Hashes the bytes that an earlier pull has brought. */
static int take_up(arrival *a, vc_err *err)
{
    static char block[1 << 16];
    for (ssize_t n; (n = read(a->fd, block, sizeof block)) != 0;) {
        if (n < 0)
            return vc_fail_errno(err, "%s", a->p->part);
        XXH3_128bits_update(a->hash, block, (size_t)n);
        a->at += (uint64_t)n;
    }
    return 0;
}

static int check_hash(const arrival *a, const vf_shard_info *s, vc_err *err)
{
    vf_key k;
    XXH128_canonical_t sum;
    XXH128_canonicalFromHash(&sum, XXH3_128bits_digest(a->hash));
    memcpy(k.b, sum.digest, sizeof k.b);
    if (a->at == (uint64_t)s->bytes && !memcmp(k.b, s->hash.b, sizeof k.b))
        return 0;
    return vc_fail(err, VC_EFORMAT, "%s/%s: %" PRIu64 " bytes came whose checksum is not that of "
                   "the manifest, of %" PRId64 " bytes: is the server's copy damaged?", a->p->url,
                   s->file, a->at, s->bytes);
}

static int bring(pull *p, const vf_shard_info *s, const char *part, vc_err *err)
{
    arrival a = { .p = p, .most = (uint64_t)s->bytes, .hash = XXH3_createState() };
    a.fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    int rc = 0;
    if (!a.hash)
        rc = vc_no_memory(err);
    else if (a.fd < 0)
        rc = vc_fail_errno(err, "%s", part);
    else
        XXH3_128bits_reset(a.hash);
    if (!rc)
        rc = take_up(&a, err);
    if (!rc && a.at < a.most)
        rc = receive(&a, s->file, err);
    if (!rc && (rc = check_hash(&a, s, err)))
        unlink(part);                        /* the next pull begins this file anew */
    if (!rc && fsync(a.fd))
        rc = vc_fail_errno(err, "%s", part);
    if (a.fd >= 0)
        close(a.fd);
    XXH3_freeState(a.hash);
    return rc;
}

/* Returns 0 if the folder lacks the shard, 1 if the folder has the shard, or an error. */
static int has_shard(const pull *p, const vf_shard_info *s, const char *path, vc_err *err)
{
    vf_key k;
    if (!vc_file_exists(path))
        return 0;
    for (int i = 0; i < p->have.n_shards; i++) {
        const vf_shard_info *old = &p->have.shard[i];
        if (!strcmp(old->file, s->file) && !memcmp(&old->hash, &s->hash, sizeof s->hash))
            return 1;
    }
    int rc = vf_hash_file(&k, path, vc_stop_flag(), err);
    if (!rc && memcmp(&k, &s->hash, sizeof k))
        rc = vc_fail(err, VC_EMISMATCH, "%s is another file than that of %s: give another --out",
                     path, p->url);
    return rc ? rc : 1;
}

static int pull_shard(pull *p, const vf_shard_info *s, vc_err *err)
{
    char *path = vc_path_join(p->out, s->file), *part = vc_path_join(p->part, s->file);
    int rc = path && part ? has_shard(p, s, path, err) : vc_no_memory(err);
    if (!rc) {
        rc = bring(p, s, part, err);
        if (!rc && rename(part, path))
            rc = vc_fail_errno(err, "%s", path);
    }
    if (rc >= 0)
        p->done += (uint64_t)s->bytes;
    free(path);
    free(part);
    return rc < 0 ? rc : 0;
}

/* ---- the dataset ---- */

/* Brings the manifest into OUT/pull, where vf_manifest_read checks it. */
static int pull_manifest(pull *p, vc_err *err)
{
    arrival a = { .p = p, .fd = -1, .most = VF_MAX_LIST };
    char *path = vc_path_join(p->part, VF_MANIFEST);
    bool again;
    int rc = path ? request(&a, VF_MANIFEST, &again, err) : vc_no_memory(err);
    if (!rc)
        rc = a.text.failed ? vc_no_memory(err) : vc_file_write(path, a.text.data, a.text.n, err);
    if (!rc)
        rc = vc_context(err, vf_manifest_read(&p->want, p->part, err), "%s", p->url);
    if (!rc && !p->want.complete)
        rc = vc_fail(err, VC_EINVAL, "%s: vprep has not finished this dataset", p->url);
    vc_buf_free(&a.text);
    free(path);
    return rc;
}

/* Puts the new manifest in place, when all of its shards are in the folder. */
static int place_manifest(const pull *p, vc_err *err)
{
    char *from = vc_path_join(p->part, VF_MANIFEST), *to = vc_path_join(p->out, VF_MANIFEST);
    int rc = from && to ? vc_sync_dir(p->out, err) : vc_no_memory(err);
    if (!rc && rename(from, to))
        rc = vc_fail_errno(err, "%s", to);
    if (!rc)
        rc = vc_sync_dir(p->out, err);
    if (!rc)
        rc = vc_remove_tree(p->part, err);
    free(from);
    free(to);
    return rc;
}

static int pull_all(pull *p, vc_err *err)
{
    uint64_t all = 0;
    int rc = vf_manifest_read(&p->have, p->out, err);
    if (rc == VC_ENOENT)
        rc = 0;
    if (!rc)
        rc = pull_manifest(p, err);
    for (int i = 0; i < p->want.n_shards; i++)
        all += (uint64_t)p->want.shard[i].bytes;
    vc_progress_begin(p->v->progress, "pulling", "B", all);
    for (int i = 0; i < p->want.n_shards && !rc; i++)
        rc = pull_shard(p, &p->want.shard[i], err);
    vc_progress_end(p->v->progress);
    return rc ? rc : place_manifest(p, err);
}

static CURL *open_curl(void)
{
    CURL *c = curl_easy_init();
    if (!c)
        return NULL;
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)REDIRECTS);
    curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)IDLE_SECONDS);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
    return c;
}

/* Locks OUT/pull, so that two pulls do not write the same files. */
static int lock_part(int *lock, const char *part, vc_err *err)
{
    *lock = open(part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0)
        return vc_fail_errno(err, "%s", part);
    return flock(*lock, LOCK_EX | LOCK_NB)
               ? vc_fail(err, VC_EBUSY, "%s: another vlat pull writes there", part) : 0;
}

int vlat_pull(const vlat *v, vc_err *err)
{
    int lock = -1, rc = 0;
    if (!v->o->out)
        return vc_fail(err, VC_EUSAGE, "vlat pull needs --out, the folder of the dataset");
    pull p = { .v = v, .url = v->path, .out = v->o->out, .part = vc_path_join(v->o->out, "pull"),
               .curl = open_curl() };
    if (!p.part || !p.curl)
        rc = vc_no_memory(err);
    if (!rc)
        rc = vc_mkdirs(p.part, err);
    if (!rc)
        rc = lock_part(&lock, p.part, err);
    if (!rc)
        rc = pull_all(&p, err);
    if (!rc)
        vc_say(v->progress, "%s has the %" PRId64 " samples of %s", p.out, p.want.samples, p.url);
    vf_manifest_free(&p.have);
    vf_manifest_free(&p.want);
    curl_easy_cleanup(p.curl);
    if (lock >= 0)
        close(lock);
    free(p.part);
    return rc;
}
