/* test_fp8_encoders.c - text and image encoders from files of fp8 weights with scales: states are
 * those of a file with the products in f32, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "precompute/text/clip.h"
#include "precompute/text/clip_vision.h"
#include "precompute/text/llm.h"
#include "precompute/text/t5.h"
#include "tests/lib/first.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/lib/scaled_files.h"

enum { IDS = 4, MOST = 17 * 80, SIDE = 224 };
static const int64_t ids[IDS] = { 9, 40, 3, 17 };

static void t5_states(const encoder_opts *o, float *states, vf_key *key)
{
    vc_err err = { 0 };
    t5 *m;
    assert_ok(t5_open(&m, o, "umt5", key, &err) ||
              t5_encode(m, &(text_ids){ ids, IDS, 0, 0 }, 1, states, &err), &err);
    t5_close(m);
}

static void clip_states(const encoder_opts *o, float *states, vf_key *key)
{
    vc_err err = { 0 };
    float pooled[64];
    clip *m;
    assert_ok(clip_open(&m, o, false, key, &err) ||
              clip_encode(m, &(text_ids){ ids, IDS, 0, 0 }, 1, states, pooled, &err), &err);
    clip_close(m);
}

static void picture_states(const encoder_opts *o, float *states, vf_key *key)
{
    static float pixels[SIDE * SIDE * 3];
    clip_vision_info info;
    clip_vision *m;
    vc_err err = { 0 };
    for (size_t i = 0; i < sizeof pixels / sizeof *pixels; i++)
        pixels[i] = (float)(i * 37 % 256) / 127.5f - 1;
    assert_ok(clip_vision_open(&m, o, 1, &info, &err) ||
              clip_vision_encode(m, pixels, states, NULL, &err), &err);
    *key = info.fingerprint;
    clip_vision_close(m);
}

static void llm_states(const encoder_opts *o, float *states, vf_key *key)
{
    vc_err err = { 0 };
    llm *m;
    assert_ok(llm_open(&m, &llm_llama, o, key, &err) ||
              llm_encode(m, &(text_ids){ ids, IDS, 0, 0 }, 1, states, &err), &err);
    llm_close(m);
}

/* `first`: the source is the file with the first authors' names, in which CLIP's q, k and v are one
 * matrix. */
static const struct {
    const char *golden;
    bool first;
    void (*states)(const encoder_opts *o, float *states, vf_key *key);
} rows[] = {
    { "first-umt5", true, t5_states },      { "first-umt5", false, t5_states },
    { "first-clip", true, clip_states },    { "first-clip-vision", true, picture_states },
    { "llama3", false, llm_states },
};

/* Lets the file `of` have the config.json of folder dir; returns its folder or itself. */
static char *place(const char *dir, const char *name, bool first)
{
    vc_err err = { 0 };
    char *folder = vc_format("%s-%s", dir, name), *to = vc_path_join(folder, "config.json");
    char *from = vc_path_join(dir, "config.json");
    char *text = NULL;
    size_t n;
    assert_ok(vc_mkdirs(folder, &err), &err);
    if (!first)
        assert_ok(vc_file_read(&text, &n, from, 1 << 20, &err) ||
                  vc_file_write(to, text, n, &err), &err);
    free(text);
    free(from);
    free(to);
    char *file = vc_path_join(folder, "model.safetensors");
    free(folder);
    return file;
}

static void check(size_t i, const scaled_form *f)
{
    static float states[2][MOST];
    vf_safetensors *golden = golden_open(rows[i].golden), *source;
    char *dir = strdup(golden_tmp(rows[i].golden)), *from;
    vf_key key[2];
    vc_err err = { 0 };
    golden_model(golden, dir, VC_F32);
    from = vc_path_join(dir, rows[i].first ? "first.safetensors"
                                           : "diffusion_pytorch_model.safetensors");
    if (rows[i].first)
        first_write(golden, from);
    assert_ok(vf_safetensors_open(&source, from, &err), &err);
    char *fp8 = place(dir, "fp8", rows[i].first), *plain = place(dir, "plain", rows[i].first);
    scaled_files_write(vf_safetensors_at(source, 0), vf_safetensors_count(source), f, fp8, plain);
    memset(states, 0, sizeof states);
    for (int k = 0; k < 2; k++) {
        char *path = k ? plain : fp8;
        if (!rows[i].first)
            *(strrchr(path, '/')) = 0;
        const encoder_opts o = { .dir = path, .dtype = VC_F32, .device = "cpu", .threads = 1 };
        rows[i].states(&o, states[k], &key[k]);
    }
    assert_true(states[0][1] != 0);
    if (memcmp(states[0], states[1], sizeof *states))
        fail_msg("%s, %s: other states", rows[i].golden, f->end);
    vf_safetensors_close(source);
    vf_safetensors_close(golden);
    free(fp8);
    free(plain);
    free(from);
    free(dir);
}

static void test_encoders(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (const scaled_form *f = scaled_forms; f->end; f++)
            check(i, f);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_encoders) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
