/* train_compare.c - see train_compare.h */
#include "tests/lib/train_compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/tensors/safetensors.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_ranks.h"
#include "tests/lib/train_run.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

char *run_samples(const char *dir, const char *out)
{
    char *text = run_metrics(dir, out, NULL), *all = strdup("");
    for (char *p = text; (p = strstr(p, "\"samples\""));) {
        size_t n = strcspn(p, "]");
        char *more = vc_format("%s%.*s\n", all, (int)n, p);
        free(all);
        all = more;
        p += n;
    }
    free(text);
    return all;
}

double run_difference(const char *dir, const char *a, const char *b, const char *file)
{
    const char *name[2] = { a, b };
    vf_safetensors *f[2];
    vc_err err = { 0 };
    double most = 0;
    for (int i = 0; i < 2; i++) {
        char *path = vc_format("%s/%s/%s", dir, name[i], file);
        assert_ok(vf_safetensors_open(&f[i], path, &err), &err);
        free(path);
    }
    assert_int_equal(vf_safetensors_count(f[0]), vf_safetensors_count(f[1]));
    for (int i = 0; i < vf_safetensors_count(f[0]); i++) {
        const vf_view x = *vf_safetensors_at(f[0], i);
        vf_view y;
        assert_ok(vf_safetensors_get(f[1], x.name, &y, &err), &err);
        assert_int_equal(x.bytes, y.bytes);
        size_t n = x.bytes / vc_dtype_size(x.dtype);
        float *p = malloc(2 * n * sizeof *p), *q = p + n;
        vc_to_f32(p, x.data, x.dtype, n);
        vc_to_f32(q, y.data, y.dtype, n);
        double sum = 0;
        for (size_t k = 0; k < n; k++)
            sum += ((double)p[k] - (double)q[k]) * ((double)p[k] - (double)q[k]);
        most = fmax(most, n ? sqrt(sum / (double)n) : 0);
        free(p);
    }
    vf_safetensors_close(f[0]);
    vf_safetensors_close(f[1]);
    return most;
}

void run_same_training(const char *dir, const char *a, const char *b, int steps, double loss,
                          double weight)
{
    char *sa = run_samples(dir, a), *sb = run_samples(dir, b);
    assert_string_equal(sa, sb);
    free(sa);
    free(sb);
    static const char *const field[] = {
        "loss", "grad_norm", "lr", "caption_dropout", "eval_loss"
    };
    for (int i = 0; i < steps; i++)
        for (size_t k = 0; k < COUNT(field); k++) {
            double x = run_value(dir, a, i, field[k]), y = run_value(dir, b, i, field[k]);
            if (isnan(x) && isnan(y))
                continue;
            if (!(fabs(x - y) <= loss * fabs(x)))
                fail_msg("%s, %s: step %d: %s %.9g and %.9g", a, b, i + 1, field[k], x, y);
        }
    char *file = vc_format("checkpoint-%d/optimizer.safetensors", steps);
    double far = run_difference(dir, a, b, file);
    if (far > weight)
        fail_msg("%s, %s: weights or state differ by %.3g", a, b, far);
    printf("%s, %s: weights and state within %.3g\n", a, b, far);
    free(file);
}

void run_on(int ranks, const char *dir, const char *out, const char *args)
{
    if (ranks > 1)
        ranks_ok(ranks, dir, out, args);
    else
        run_ok(dir, out, args);
}

char *run_lora_args(const char *dir, int steps, const char *args)
{
    return vc_format("--model %s/base/checkpoint-2 --training_type lora --rank 3 "
                     "--target_name all-linear --learning_rate 1e-2 --lr_scheduler constant "
                     "--mixed_precision no --checkpointing_steps 2 --max_train_steps %d "
                     "--resume_from_checkpoint latest %s", dir, steps, args);
}

void run_lora(int ranks, const char *dir, const char *out, int steps, const char *args)
{
    char *more = vc_format("--global_batch_size 4 %s", args);
    char *all = run_lora_args(dir, steps, more);
    run_on(ranks, dir, out, all);
    free(all);
    free(more);
}

void run_lora_ways(const char *dir, size_t k, const char *args, const run_way *way, size_t n)
{
    char *first = vc_format("%s-%zu", way->name, k);
    for (size_t i = 0; i < n; i++) {
        char *out = vc_format("%s-%zu", way[i].name, k);
        char *all = vc_format("%s %s", args, way[i].args);
        if (way[i].stop)
            run_lora(1, dir, out, way[i].stop, all);
        run_lora(way[i].ranks, dir, out, 4, all);
        if (i)
            run_same_training(dir, first, out, 4, 1e-5, way[i].most);
        free(all);
        free(out);
    }
    free(first);
}
