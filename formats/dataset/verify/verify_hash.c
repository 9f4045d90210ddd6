/* verify_hash.c - hashes the files of a check in a thread of its own, up to AHEAD files before the
 * check: while the pages and values of a shard are checked, the next ones are read from the disk.
 * See verify.h */
#include "formats/dataset/verify/verify.h"

#include <stdlib.h>

#include "common/os/file.h"

static int hash_shard(vf_check *c, int at, vf_key *key, vc_err *err)
{
    char *path = vc_path_join(c->dir, c->manifest.shard[at].file);
    int rc = path ? vf_hash_file(key, path, c->stop, err) : vc_no_memory(err);
    free(path);
    return rc;
}

/* Hashes all files in their order; `lock` guards asked, done and end. */
static void *hash_all(void *arg)
{
    vf_check *c = arg;
    vf_hash_ahead *a = &c->ahead;
    for (int at = 0; at < c->manifest.n_shards; at++) {
        pthread_mutex_lock(&a->lock);
        while (!a->end && at > a->asked + VF_HASH_AHEAD)
            pthread_cond_wait(&a->changed, &a->lock);
        const bool end = a->end;
        pthread_mutex_unlock(&a->lock);
        if (end)
            break;
        vf_hashed *h = &a->of[at % (VF_HASH_AHEAD + 1)];
        *h = (vf_hashed){ 0 };
        h->rc = hash_shard(c, at, &h->hash, &h->err);
        pthread_mutex_lock(&a->lock);
        a->done = at + 1;
        pthread_cond_signal(&a->changed);
        pthread_mutex_unlock(&a->lock);
    }
    return NULL;
}

void vf_check_hash_begin(vf_check *c)
{
    vf_hash_ahead *a = &c->ahead;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    a->running = !pthread_create(&a->thread, NULL, hash_all, c);
}

int vf_check_hash(vf_check *c, int at, vf_key *key, vc_err *err)
{
    vf_hash_ahead *a = &c->ahead;
    if (!a->running)
        return hash_shard(c, at, key, err);
    pthread_mutex_lock(&a->lock);
    a->asked = at;
    pthread_cond_signal(&a->changed);
    while (a->done <= at)
        pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
    const vf_hashed *h = &a->of[at % (VF_HASH_AHEAD + 1)];
    *key = h->hash;
    if (h->rc)
        *err = h->err;
    return h->rc;
}

void vf_check_hash_end(vf_check *c)
{
    vf_hash_ahead *a = &c->ahead;
    pthread_mutex_lock(&a->lock);
    a->end = true;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
    if (a->running)
        pthread_join(a->thread, NULL);
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->changed);
}
