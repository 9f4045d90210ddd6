/* bench_media.c - times decoding and resizing of a clip's frames for scripts/bench.
 *
 *     bench_media FILE FRAMES HEIGHT WIDTH RUNS
 *
 * The output is the least CPU seconds of RUNS runs. One thread runs: these are the seconds on an
 * idle machine. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "precompute/media/media.h"

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int once(const char *path, int n, int h, int w, uint8_t *rgb, vc_err *err)
{
    media *m;
    media_info info;
    int64_t *index = malloc((size_t)n * sizeof *index);
    int rc = index ? media_open(&m, path, &info, err) : vc_fail(err, VC_ENOMEM, "out of memory");

    if (!rc && n > info.frames)
        rc = vc_fail(err, VC_EINVAL, "%s has %lld frames", path, (long long)info.frames);
    for (int i = 0; !rc && i < n; i++)
        index[i] = i;
    media_fit fit = { .rh = h, .rw = w, .h = h, .w = w };
    if (!rc)
        rc = media_read(m, rgb, index, n, &fit, NULL, err);
    media_close(m);
    free(index);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: bench_media FILE FRAMES HEIGHT WIDTH RUNS\n");
        return 2;
    }
    int n = atoi(argv[2]), h = atoi(argv[3]), w = atoi(argv[4]), runs = atoi(argv[5]);
    uint8_t *rgb = malloc((size_t)n * (size_t)h * (size_t)w * 3);
    double best = 1e30;
    vc_err err = { 0 };
    int rc = rgb ? 0 : 1;

    for (int i = 0; !rc && i < runs; i++) {
        double begin = cpu_seconds();
        rc = once(argv[1], n, h, w, rgb, &err);
        double took = cpu_seconds() - begin;
        best = took < best ? took : best;
    }
    free(rgb);
    if (rc) {
        fprintf(stderr, "bench_media: %s\n", err.text);
        return 1;
    }
    printf("%.6f\n", best);
    return 0;
}
