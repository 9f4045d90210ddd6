/* verify_hash.c - hashes the files of a check one shard ahead, in a thread of its own: while the
 * pages and values of a shard are checked, the next shard is read from the disk. See verify.h */
#include "formats/dataset/verify.h"

#include <stdlib.h>

#include "common/os/file.h"

static void *hash(void *arg)
{
    vf_hash_ahead *a = arg;
    a->rc = vf_hash_file(&a->hash, a->path, a->stop, &a->err);
    return NULL;
}

/* Begins to hash shard `at`. If no thread can be made, vf_check_hash hashes the shard itself. */
static void begin(vf_check *c, int at)
{
    vf_hash_ahead *a = &c->ahead;
    *a = (vf_hash_ahead){ .stop = c->stop };
    if (at >= c->manifest.n_shards)
        return;
    a->path = vc_path_join(c->dir, c->manifest.shard[at].file);
    a->shard = at;
    a->running = a->path && !pthread_create(&a->thread, NULL, hash, a);
}

void vf_check_hash_end(vf_check *c)
{
    if (c->ahead.running)
        pthread_join(c->ahead.thread, NULL);
    c->ahead.running = false;
    free(c->ahead.path);
    c->ahead.path = NULL;
}

int vf_check_hash(vf_check *c, int at, vf_key *key, vc_err *err)
{
    if (!c->ahead.running || c->ahead.shard != at) {
        vf_check_hash_end(c);
        begin(c, at);
    }
    if (!c->ahead.path)
        return vc_no_memory(err);
    if (!c->ahead.running)
        hash(&c->ahead);
    vf_check_hash_end(c);
    const int rc = c->ahead.rc;
    *key = c->ahead.hash;
    if (rc)
        *err = c->ahead.err;
    begin(c, at + 1);
    return rc;
}
