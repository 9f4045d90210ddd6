/* bench_encoders.c - times a family's VAE and its first text encoder for scripts/bench_families.py.
 *
 *     bench_encoders vae MODEL REPEATS THREADS F H W     of a model folder
 *     bench_encoders text MODEL REPEATS THREADS PROMPTS [SENTENCES]
 *
 * They run on the device of VLT_DEVICE (cpu). A prompt has so many sentences, or else as many as
 * fill its length. Prints {"first": seconds since 1970 when the encoder was loaded, "times":
 * [seconds, ...]}, and of texts "tokens": those of a prompt before its padding. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/rng.h"
#include "common/os/file.h"
#include "common/os/progress.h"
#include "precompute/encoder.h"

enum { MOST = 16 };                              /* prompts */

static void begin_times(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    printf("{\"first\": %.6f, \"times\": [", (double)t.tv_sec + 1e-9 * (double)t.tv_nsec);
}

static int bench_vae(const vae_class *class, const encoder_opts *o, int repeats, const int dim[3],
                     vc_err *err)
{
    vae *v;
    vae_info info;
    int rc = class->open(&v, o, &info, err);
    if (rc)
        return rc;
    size_t n = (size_t)dim[0] * (size_t)dim[1] * (size_t)dim[2] * 3, z = (size_t)info.channels *
               (size_t)((dim[0] - 1) / info.ratio[0] + 1) * (size_t)(dim[1] / info.ratio[1]) *
               (size_t)(dim[2] / info.ratio[2]);
    float *x = malloc(n * sizeof *x), *mean = malloc(2 * z * sizeof *mean);
    if (!x || !mean)
        rc = vc_no_memory(err);
    vc_draws d = vc_draws_of(0, 0, 0, VC_DRAW_INIT);
    for (size_t i = 0; !rc && i < n; i++)
        x[i] = (float)(2 * vc_draw_unit(&d) - 1);
    if (!rc)
        begin_times();
    for (int i = 0; !rc && i < repeats; i++) {
        double t = vc_seconds();
        rc = class->encode(v, &(vae_input){ .all = x }, dim[0], dim[1], dim[2], mean, mean + z,
                           err);
        printf("%s%.6f", i ? ", " : "", vc_seconds() - t);
    }
    class->close(v);
    free(x);
    free(mean);
    return rc;
}

/* Encodes the prompts in calls of as many as vprep would give. *tokens: those of a prompt. */
static int encode(text_enc *e, const text_input *in, int prompts, int batch, int *tokens,
                  vc_err *err)
{
    text_result r[MOST];
    int rc = 0;

    for (int i = 0, n; !rc && i < prompts; i += n) {
        n = batch < prompts - i ? batch : prompts - i;
        rc = text_encode(e, in + i, n, r, err);
    }
    *tokens = 0;
    for (int i = 0; !rc && i < r->length; i++)
        *tokens += r->mask[i] != 0;
    return rc;
}

static int bench_text(const text_class *class, const encoder_opts *o, int repeats, int prompts,
                      int sentences, vc_err *err)
{
    text_enc *e;
    text_info info;
    text_input in[MOST];
    char prompt[1 << 14] = "";
    int tokens = 0;
    for (int i = 0; i < sentences && strlen(prompt) + 80 < sizeof prompt; i++)
        strcat(prompt, "A cat lies on a cushion and looks out of the window. ");
    for (int i = 0; i < MOST; i++)
        in[i] = (text_input){ prompt, NULL, 0 };
    int rc = text_open(&e, class, o, &info, err);
    if (rc)
        return rc;
    begin_times();
    for (int i = 0; !rc && i < repeats; i++) {
        double t = vc_seconds();
        rc = encode(e, in, prompts, info.batch, &tokens, err);
        printf("%s%.6f", i ? ", " : "", vc_seconds() - t);
    }
    printf("], \"tokens\": %d", tokens);
    text_close(e);
    return rc;
}

int main(int argc, char **argv)
{
    const bool text = argc > 1 && !strcmp(argv[1], "text");
    const int prompts = text && (argc == 6 || argc == 7) ? atoi(argv[5]) : 0;
    if (text ? prompts < 1 || prompts > MOST : argc != 8) {
        fprintf(stderr, "usage: bench_encoders vae MODEL REPEATS THREADS F H W\n"
                "       bench_encoders text MODEL REPEATS THREADS PROMPTS (1..%d) [SENTENCES]\n",
                MOST);
        return 2;
    }
    const int dim[3] = { text ? 0 : atoi(argv[5]), text ? 0 : atoi(argv[6]),
                         text ? 0 : atoi(argv[7]) };
    char *dir = vc_path_join(argv[2], text ? "text_encoder" : "vae");
    char *tokenizer = vc_path_join(argv[2], "tokenizer");
    const char *device = getenv("VLT_DEVICE");
    encoder_opts o = { .dir = dir, .tokenizer = tokenizer, .dtype = VC_BF16,
                       .device = device ? device : "cpu", .threads = atoi(argv[4]) };
    vc_err err = { 0 };
    prep_family family;
    int rc = prep_family_of(&family, argv[2], &err);
    if (!rc)
        o.text = (text_rule){
            .max_length = family.is->text[0].max_length, .template = family.is->text[0].template,
            .crop = family.is->text[0].crop, .skip = family.is->text[0].skip,
            .masked = family.is->text[0].masked,
        };
    if (!rc)
        rc = text ? bench_text(family.text[0], &o, atoi(argv[3]), prompts,
                               argc == 7 ? atoi(argv[6]) : INT_MAX, &err)
                  : bench_vae(family.vae, &o, atoi(argv[3]), dim, &err);
    if (rc)
        fprintf(stderr, "bench_encoders: %s\n", err.text);
    else
        printf(text ? "}\n" : "]}\n");
    free(dir);
    free(tokenizer);
    return rc ? 1 : 0;
}
