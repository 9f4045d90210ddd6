/* bench_encoders.c - times the VAE's encode and the T5 encoder for scripts/bench_cogvideox.py.
 *
 *     bench_encoders vae|t5 MODEL REPEATS THREADS F H W
 *
 * Prints {"first": seconds since 1970 when all was loaded, "times": [seconds, ...]}. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/rng.h"
#include "common/os/file.h"
#include "common/os/progress.h"
#include "precompute/encoder.h"

enum { TOKENS = 226 };


static void begin_times(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    printf("{\"first\": %.6f, \"times\": [", (double)t.tv_sec + 1e-9 * (double)t.tv_nsec);
}

static int bench_vae(const encoder_opts *o, int repeats, const int dim[3], vc_err *err)
{
    size_t n = (size_t)dim[0] * (size_t)dim[1] * (size_t)dim[2] * 3;
    size_t z = (size_t)((dim[0] - 1) / 4 + 1) * (size_t)(dim[1] / 8) * (size_t)(dim[2] / 8) * 16;
    float *x = malloc(n * sizeof *x), *mean = malloc(2 * z * sizeof *mean);
    vae *v;
    vae_info info;
    int rc = vae_cogvideox.open(&v, o, &info, err);
    if (!rc && (!x || !mean))
        rc = vc_fail(err, VC_ENOMEM, "out of memory");
    vc_draws d = vc_draws_of(0, 0, 0, VC_DRAW_INIT);
    for (size_t i = 0; !rc && i < n; i++)
        x[i] = (float)(2 * vc_draw_unit(&d) - 1);
    if (!rc)
        begin_times();
    for (int i = 0; !rc && i < repeats; i++) {
        double t = vc_seconds();
        rc = vae_cogvideox.encode(v, x, dim[0], dim[1], dim[2], mean, mean + z, err);
        printf("%s%.6f", i ? ", " : "", vc_seconds() - t);
    }
    vae_cogvideox.close(v);
    free(x);
    free(mean);
    return rc;
}

static int bench_t5(const encoder_opts *o, int repeats, vc_err *err)
{
    text_enc *e;
    text_info info;
    text_result r;
    const text_input in = { "A cat lies on a cushion and looks out of the window.", NULL };
    int rc = text_t5.open(&e, o, &info, err);
    if (!rc)
        begin_times();
    for (int i = 0; !rc && i < repeats; i++) {
        double t = vc_seconds();
        rc = text_t5.encode(e, &in, &r, err);
        printf("%s%.6f", i ? ", " : "", vc_seconds() - t);
    }
    text_t5.close(e);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc != 8) {
        fprintf(stderr, "bench_encoders vae|t5 MODEL REPEATS THREADS F H W\n");
        return 2;
    }
    bool t5 = !strcmp(argv[1], "t5");
    const int dim[3] = { atoi(argv[5]), atoi(argv[6]), atoi(argv[7]) };
    char *dir = vc_path_join(argv[2], t5 ? "text_encoder" : "vae");
    char *tokenizer = vc_path_join(argv[2], "tokenizer");
    const encoder_opts o = { .dir = dir, .tokenizer = tokenizer, .text = { .max_length = TOKENS },
                             .dtype = VC_BF16, .device = "cpu", .threads = atoi(argv[4]) };
    vc_err err = { 0 };
    int rc = t5 ? bench_t5(&o, atoi(argv[3]), &err) : bench_vae(&o, atoi(argv[3]), dim, &err);
    if (rc)
        fprintf(stderr, "bench_encoders: %s\n", err.text);
    else
        printf("]}\n");
    free(dir);
    free(tokenizer);
    return rc ? 1 : 0;
}
