/* bench_media.c - times decoding and resizing of clips' frames for scripts/bench.
 *
 *     bench_media WORKERS FRAMES HEIGHT WIDTH FILE...
 *
 * As in vprep, WORKERS threads take the files one after the other, each with a decoder of one
 * thread. The first FRAMES frames are resized to WIDTH x HEIGHT. The output is the CPU seconds of
 * all threads: with one worker these are the seconds on an idle machine. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "precompute/media/media.h"

typedef struct bench {
    char **files;
    int count, next, frames, h, w;       /* next is taken atomically */
    vc_err err;                          /* the last error, under the lock */
    pthread_mutex_t lock;
} bench;

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int read_clip(const bench *b, const char *path, uint8_t *rgb, int64_t *index, vc_err *err)
{
    media *m;
    media_info info;
    int rc = media_open(&m, path, &info, err);

    if (!rc && b->frames > info.frames)
        rc = vc_fail(err, VC_EINVAL, "%s has %lld frames", path, (long long)info.frames);
    for (int i = 0; !rc && i < b->frames; i++)
        index[i] = i;
    media_fit fit = { .rh = b->h, .rw = b->w, .h = b->h, .w = b->w };
    if (!rc)
        rc = media_read(m, rgb, index, b->frames, &fit, NULL, err);
    media_close(m);
    return rc;
}

static void *worker(void *arg)
{
    bench *b = arg;
    uint8_t *rgb = malloc((size_t)b->frames * (size_t)b->h * (size_t)b->w * 3);
    int64_t *index = malloc((size_t)b->frames * sizeof *index);
    vc_err err = { 0 };
    int i, rc = rgb && index ? 0 : vc_no_memory(&err);

    while (!rc && (i = __atomic_fetch_add(&b->next, 1, __ATOMIC_RELAXED)) < b->count)
        rc = read_clip(b, b->files[i], rgb, index, &err);
    if (rc) {
        pthread_mutex_lock(&b->lock);
        b->err = err;
        pthread_mutex_unlock(&b->lock);
    }
    free(index);
    free(rgb);
    return NULL;
}

/* Runs the workers and waits for all of them. */
static int run(bench *b, int workers)
{
    pthread_t *thread = calloc((size_t)workers, sizeof *thread);
    int started = 0;

    while (thread && started < workers && !pthread_create(&thread[started], NULL, worker, b))
        started++;
    if (started < workers)
        vc_fail(&b->err, VC_EFAIL, "only %d of %d threads started", started, workers);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    free(thread);
    return b->err.code;
}

int main(int argc, char **argv)
{
    if (argc < 6 || atoi(argv[1]) < 1 || atoi(argv[2]) < 1) {
        fprintf(stderr, "usage: bench_media WORKERS FRAMES HEIGHT WIDTH FILE...\n");
        return 2;
    }
    bench b = { .files = argv + 5, .count = argc - 5, .frames = atoi(argv[2]), .h = atoi(argv[3]),
                .w = atoi(argv[4]), .lock = PTHREAD_MUTEX_INITIALIZER };
    double begin = cpu_seconds();

    if (run(&b, atoi(argv[1]))) {
        fprintf(stderr, "bench_media: %s\n", b.err.text);
        return 1;
    }
    printf("%.6f\n", cpu_seconds() - begin);
    return 0;
}
