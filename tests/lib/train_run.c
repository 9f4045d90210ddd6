/* train_run.c - see train_run.h */
#include "tests/lib/train_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "train/settings/settings.h"
#include "train/vtrain.h"
#include "train/vtrain/run.h"

enum { MAX_ARGS = 96, MAX_FILE = 64 << 20 };

void run_set_make(const char *path)
{
    static const toy_sample samples[] = {
        { .number = 0, .f = 2, .h = 4, .w = 4, .caption = { "a red ball", "ball" } },
        { .number = 1, .f = 2, .h = 4, .w = 4, .caption = { "two cubes" } },
        { .number = 2, .f = 0, .h = 4, .w = 6, .caption = { "a still" } },
        { .number = 3, .f = 2, .h = 4, .w = 4, .caption = { "rain" } },
        { .number = 4, .f = 0, .h = 4, .w = 6, .caption = { "another still" } },
        { .number = 5, .f = 2, .h = 4, .w = 4, .caption = { "a long walk" } },
    };
    const toy t = { .path = path, .sample = samples, .n = 6, .prompts = 2, .per_channel = true };
    toy_make(&t);
}

void run_dir_make(char dir[256])
{
    toy_dir_make(dir);
    char *path = vc_path_join(dir, "set.lmdb");
    run_set_make(path);
    free(path);
}

int run_dir_setup(void **state)
{
    static char dir[256];
    run_dir_make(dir);
    *state = dir;
    return 0;
}

int run_bare(const char *args, vc_err *err)
{
    char *text = strdup(args), *rest = text, *argv[MAX_ARGS] = { "vtrain" };
    int argc = 1;
    for (char *word; (word = strsep(&rest, " "));)
        if (*word && argc < MAX_ARGS)
            argv[argc++] = word;

    static const atomic_int running = 0;
    vtrain_config c;
    vc_flags *set;
    vc_err none = { 0 };
    if (!err)
        err = &none;
    *err = none;
    int rc = vc_flags_parse(&set, &vtrain_program, &c, argc, argv, stdout, err);
    if (!rc || rc == VC_EUSAGE)
        rc = vtrain_check(&c, set, err);
    if (!rc)
        rc = vtrain_run(&c, set, NULL, stdout, NULL, &running, err);
    vc_flags_free(set);
    free(text);
    return rc;
}

int run(const char *dir, const char *out, const char *args, vc_err *err)
{
    char *all = vc_format("--latents %s/set.lmdb --output_dir %s/%s --train_batch_size 2 --seed 5 "
                          "--threads 1 --report_to none %s", dir, dir, out, args);
    int rc = run_bare(all, err);
    free(all);
    return rc;
}

void run_ok(const char *dir, const char *out, const char *args)
{
    vc_err err = { 0 };
    assert_ok(run(dir, out, args, &err), &err);
}

static char *read_metrics(const char *dir, const char *out)
{
    char *path = vc_format("%s/%s/metrics.jsonl", dir, out), *text;
    size_t size;
    vc_err err = { 0 };
    assert_ok(vc_file_read(&text, &size, path, MAX_FILE, &err), &err);
    free(path);
    return text;
}

static cJSON *parse_line(const char *line, size_t n)
{
    cJSON *o;
    vc_err err = { 0 };
    if (vf_json_parse(&o, line, n, &err))
        fail_msg("%s: %.*s", err.text, (int)n, line);
    return o;
}

char *run_metrics(const char *dir, const char *out, int *lines)
{
    static const char *const timed[] = { "tokens_per_s", "step_s", "data_wait_s", "peak_bytes" };
    char *text = read_metrics(dir, out), *all = strdup("");
    int n = 0;
    for (char *p = text; *p; p += strcspn(p, "\n") + 1, n++) {
        cJSON *o = parse_line(p, strcspn(p, "\n"));
        for (size_t i = 0; i < sizeof timed / sizeof *timed; i++) {
            assert_true(cJSON_IsNumber(cJSON_GetObjectItem(o, timed[i])));
            cJSON_DeleteItemFromObject(o, timed[i]);
        }
        char *line = vf_json_line(o), *more = vc_format("%s%s\n", all, line);
        free(line);
        free(all);
        all = more;
        cJSON_Delete(o);
    }
    free(text);
    if (lines)
        *lines = n;
    return all;
}

double run_value(const char *dir, const char *out, int i, const char *field)
{
    char *text = read_metrics(dir, out), *p = text;
    for (int k = 0; k < i && *p; k++)
        p += strcspn(p, "\n") + 1;
    if (!*p)
        fail_msg("%s: no line %d", out, i);
    cJSON *o = parse_line(p, strcspn(p, "\n"));
    double v = NAN;
    (void)vf_json_num_opt(o, field, &v, NULL);
    cJSON_Delete(o);
    free(text);
    return v;
}

int run_same_file(const char *dir, const char *a, const char *b)
{
    char *path[2] = { vc_path_join(dir, a), vc_path_join(dir, b) }, *text[2];
    size_t size[2];
    vc_err err = { 0 };
    for (int i = 0; i < 2; i++)
        assert_ok(vc_file_read(&text[i], &size[i], path[i], MAX_FILE, &err), &err);
    int same = size[0] == size[1] && !memcmp(text[0], text[1], size[0]);
    for (int i = 0; i < 2; i++) {
        free(text[i]);
        free(path[i]);
    }
    return same;
}

int run_exists(const char *dir, const char *path)
{
    char *p = vc_path_join(dir, path);
    int there = vc_file_exists(p);
    free(p);
    return there;
}

vf_safetensors *run_open(const char *dir, const char *path)
{
    char *whole = vc_path_join(dir, path);
    vf_safetensors *f;
    vc_err err = { 0 };
    assert_ok(vf_safetensors_open(&f, whole, &err), &err);
    free(whole);
    return f;
}

vf_view run_tensor(const vf_safetensors *st, const char *name)
{
    vf_view v;
    vc_err err;
    if (vf_safetensors_get(st, name, &v, &err))
        fail_msg("%s", err.text);
    return v;
}
