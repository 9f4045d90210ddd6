/* test_data.c - datasets as a list of samples: weights, groups, split, normalisation,
 * mismatches. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "train/data/data.h"

enum { ALL = 40, FIRST = 15 };               /* number of samples of "all" and "first" */

#define COUNT(a) ((int)(sizeof (a) / sizeof *(a)))

static char dir[256];

static const toy_sample mixed[] = {
    { .number = 0, .f = 3, .h = 4, .w = 6, .caption = { "a cat" } },
    { .number = 1, .f = 3, .h = 4, .w = 6, .caption = { "two dogs", "dogs" } },
    { .number = 2, .h = 4, .w = 6, .caption = { "a still" } },
    { .number = 3, .f = 1, .h = 4, .w = 6, .caption = { "one frame" } },
    { .number = 4, .f = 3, .h = 4, .w = 6, .weight = 2.5, .caption = { "often" } },
    { .number = 5, .f = 2, .h = 4, .w = 6, .unwanted = true, .caption = { "never" } },
    { .number = 6, .f = 2, .h = 2, .w = 2, .weight = 0.25, .caption = { "seldom" } },
    { .number = 6, .variant = 1, .f = 2, .h = 2, .w = 2, .caption = { "seldom" } },
};
static const toy_sample few[] = {
    { .number = 0, .f = 3, .h = 4, .w = 6, .caption = { "x" } },
    { .number = 9, .h = 4, .w = 6, .caption = { NULL } },
};

static char *in_dir(const char *name)
{
    return vc_path_join(dir, name);
}

/* Makes a dataset of all samples, and one of the first samples alone. */
static void make_growing(void)
{
    toy_sample s[ALL];
    for (uint32_t i = 0; i < ALL; i++)
        s[i] = (toy_sample){ .number = i, .h = 2, .w = 2, .caption = { "x" } };
    for (int i = 0; i < 2; i++) {
        char *path = in_dir(i ? "all" : "first");
        toy_make(&(toy){ .path = path, .sample = s, .n = i ? ALL : FIRST });
        free(path);
    }
}

static int make(void **state)
{
    (void)state;
    toy_dir_make(dir);
    char *a = in_dir("a"), *b = in_dir("b"), *c = in_dir("c");
    toy_make(&(toy){ .path = a, .sample = mixed, .n = COUNT(mixed), .prompts = 3, .pooled = 3,
                     .encoders = 2, .scaling = 0.5, .shift = 0.25, .per_channel = true });
    toy_make(&(toy){ .path = b, .sample = few, .n = COUNT(few), .pooled = 3, .encoders = 2,
                     .scaling = 0.5, .shift = 0.25, .per_channel = true });
    toy_make(&(toy){ .path = c, .sample = few, .n = COUNT(few) });
    make_growing();
    free(a);
    free(b);
    free(c);
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    toy_dir_remove(dir);
    return 0;
}

/* Opens datasets of dir: names separated by blanks, with weights as in "name:weight". */
static int try_open(vtrain_data **d, const char *names, vtrain_data_opts o, char **note,
                    vc_err *err)
{
    char *item[8], *copy = strdup(names), *more = NULL;
    vc_list list = { .item = item };
    for (char *s = strtok_r(copy, " ", &more); s && list.n < 8; s = strtok_r(NULL, " ", &more))
        item[list.n++] = in_dir(s);
    o.paths = &list;
    if (!o.dataset_repeat)
        o.dataset_repeat = 1;
    int rc = vtrain_data_open(d, &o, note, err);
    for (int i = 0; i < list.n; i++)
        free(item[i]);
    free(copy);
    return rc;
}

static vtrain_data *open_with(const char *names, vtrain_data_opts o)
{
    vtrain_data *d;
    vc_err err = { 0 };
    char *note;
    assert_ok(try_open(&d, names, o, &note, &err), &err);
    free(note);
    return d;
}

static void test_list(void **state)
{
    (void)state;
    vtrain_data *d;
    vc_err err = { 0 };
    char *note, key[VTRAIN_KEY];
    assert_ok(try_open(&d, "a b:2", (vtrain_data_opts){ .seed = 1 }, &note, &err), &err);
    assert_non_null(strstr(note, "1 samples of weight 0"));
    free(note);

    assert_string_equal(vtrain_data_family(d), "builtin");
    assert_int_equal(vtrain_data_samples(d), 9);
    assert_string_equal(vtrain_data_key(d, 0, key), "000000000000/000");
    assert_string_equal(vtrain_data_key(d, 6, key), "000000000006/001");
    assert_string_equal(vtrain_data_key(d, 8, key), "2:000000000009/000");
    assert_int_equal(vtrain_data_sets(d), 2);
    assert_int_equal(strlen(vtrain_data_root(d, 1)), 32);
    assert_int_equal(vtrain_data_slots(d), 2);
    assert_string_equal(vtrain_data_slot(d, 1)->name, "text_encoder_2");
    assert_int_equal(vtrain_data_slot(d, 1)->pooled, 3);
    vtrain_data_close(d);
}

/* Groups have stills before videos, and then the order of f, h, w; a video of one frame is not a
 * still. */
static void test_groups(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t samples, tokens;
        uint64_t low, high;
    } want[] = {
        { "4x6", 2, 24, 3, 3 }, { "1x4x6", 1, 24, 1, 1 }, { "2x2x2", 2, 8, 1, 1 },
        { "3x4x6", 4, 72, 1 + 1 + 2 + 2, 1 + 1 + 3 + 2 },
    };
    vtrain_data *d = open_with("a b:2", (vtrain_data_opts){ .seed = 1 });
    assert_int_equal(vtrain_data_groups(d), COUNT(want));
    for (uint32_t i = 0; i < vtrain_data_groups(d); i++) {
        const vtrain_group *g = vtrain_data_group(d, i);
        assert_string_equal(g->name, want[i].name);
        assert_int_equal(g->samples, want[i].samples);
        assert_int_equal(g->tokens, want[i].tokens);
        assert_between(g->repeats, want[i].low, want[i].high);
    }
    vtrain_data_close(d);
}

/* The half repeat of sample 4 is visited with half of the seeds. */
static void test_fraction(void **state)
{
    (void)state;
    int more = 0, seeds = 60;
    for (int seed = 0; seed < seeds; seed++) {
        uint32_t rows[64], group[64], n, of[16] = { 0 };
        vtrain_data *d = open_with("a:repeat=3", (vtrain_data_opts){ .seed = (uint64_t)seed });
        n = vtrain_data_visits(d);
        assert_true(n <= COUNT(rows));
        vtrain_data_epoch(d, 0, rows, group);
        for (uint32_t i = 0; i < n; i++) {
            of[rows[i]]++;
            assert_int_equal(group[i], vtrain_data_sample(d, rows[i])->group);
            assert_true(!i || rows[i] >= rows[i - 1]);
        }
        assert_int_equal(of[0], 3);
        assert_between(of[4], 7, 8);
        assert_int_equal(of[5] + of[6], 1);          /* 0.75 repeats are at least one visit */
        more += of[4] == 8;
        vtrain_data_close(d);
    }
    assert_between(more, 15, 45);
}

static void test_split(void **state)
{
    (void)state;
    int seen[16] = { 0 }, all = 0;
    for (uint64_t seed = 0; seed < 30; seed++) {
        vtrain_data *d = open_with("a", (vtrain_data_opts){ .eval_split = 0.3, .seed = seed });
        uint32_t numbers = 0, held = 0, in_epoch = 0, n, rows[64], group[64];
        for (uint32_t i = 0; i < vtrain_data_samples(d); i++) {
            held += vtrain_data_sample(d, i)->held_out;
            seen[i] += vtrain_data_sample(d, i)->held_out;
            numbers += vtrain_data_sample(d, i)->held_out && i != 6;
        }
        assert_between(numbers, 1, 5);              /* of 6 numbers */
        all += (int)numbers;
        assert_int_equal(held, vtrain_data_held_out(d));
        assert_int_equal(vtrain_data_sample(d, 5)->held_out, vtrain_data_sample(d, 6)->held_out);
        n = vtrain_data_visits(d);
        assert_true(n <= COUNT(rows));
        vtrain_data_epoch(d, 0, rows, group);
        for (uint32_t i = 0; i < n; i++)
            in_epoch += vtrain_data_sample(d, rows[i])->held_out;
        assert_int_equal(in_epoch, 0);
        vtrain_data_close(d);
    }
    for (int i = 0; i < 7; i++)
        assert_between(seen[i], 1, 29);
    assert_between(all, 40, 75);                    /* the expected number is 54 */
}

/* New samples do not move earlier samples between training and the held-out part. */
static void test_split_grows(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 30; seed++) {
        const vtrain_data_opts o = { .eval_split = 0.2, .seed = seed };
        vtrain_data *first = open_with("first", o), *all = open_with("all", o);
        for (uint32_t i = 0; i < FIRST; i++)
            assert_true(vtrain_data_sample(first, i)->held_out ||
                        !vtrain_data_sample(all, i)->held_out);
        vtrain_data_close(first);
        vtrain_data_close(all);
    }
}

/* Weights below 1 are shares of the visits, for datasets of any sizes. */
static void test_shares(void **state)
{
    (void)state;
    static const struct { const char *names; double first; } row[] = {
        { "first:0.7 all:0.3", 0.7 }, { "first:0.1 all:0.1", 0.5 }, { "first:0.2 all:0.6", 0.25 },
    };
    for (int i = 0; i < COUNT(row); i++)
        for (uint64_t seed = 0; seed < 5; seed++) {
            uint32_t rows[512], group[512], of_first = 0;
            vtrain_data *d = open_with(row[i].names, (vtrain_data_opts){ .seed = seed });
            uint32_t n = vtrain_data_visits(d);
            assert_between(n, 55, COUNT(rows));     /* each of 55 samples at least once */
            vtrain_data_epoch(d, 0, rows, group);
            for (uint32_t k = 0; k < n; k++)
                of_first += vtrain_data_sample(d, rows[k])->dataset == 0;
            if (fabs((double)of_first / n - row[i].first) > 0.05)
                fail_msg("%s: %u of %u visits are to the first", row[i].names, of_first, n);
            vtrain_data_close(d);
        }
}

static void test_norm(void **state)
{
    (void)state;
    vtrain_data *d = open_with("a", (vtrain_data_opts){ 0 });
    const vtrain_norm *n = vtrain_data_norm(d);
    assert_int_equal(n->channels, 2);
    assert_float_equal(n->sub[0], 0.25, 0);
    assert_float_equal(n->sub[1], 1.25, 0);
    assert_float_equal(n->mul[0], 0.5, 0);
    assert_float_equal(n->mul[1], 0.25, 0);
    vtrain_data_close(d);
}

/* Each field of a model's vae/config.json comes before the manifest's. */
static void test_norm_model(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        bool allow;
        int rc;
        float sub1, mul1;
        const char *says;
    } row[] = {
        { "{\"_class_name\":\"VaeBuiltin\",\"scaling_factor\":0.5,\"shift_factor\":null}", false, 0,
          1.25f, 0.25f, NULL },
        { "{\"scaling_factor\":2}", true, 0, 1.25f, 1, "is used" },
        { "{\"latents_mean\":[5,6],\"latents_std\":[1,4]}", true, 0, 6.25f, 0.125f, "is used" },
        { "{\"scaling_factor\":2}", false, VC_EMISMATCH, 0, 0,
          "a does not fit" },
        { "{\"scaling_factor\":2,\"invert_scale_latents\":true}", false, VC_EMISMATCH, 0, 0,
          "scaling_factor 0.5 here, 2 there; invert_scale_latents false here, true there "
          "(--allow" },
        { "{\"latents_mean\":[5,6],\"latents_std\":[1,4]}", false, VC_EMISMATCH, 0, 0,
          "mean differs; std differs" },
        { "{\"_class_name\":\"AutoencoderKLWan\"}", true, VC_EMISMATCH, 0, 0, "AutoencoderKLWan" },
        { "{\"latents_std\":[1,0]}", false, VC_EFORMAT, 0, 0, "latents_std" },
        { "{\"latents_std\":[1]}", false, VC_EFORMAT, 0, 0, "latents_std: 2 numbers" },
        { "{\"scaling_factor\":-1}", false, VC_EFORMAT, 0, 0, "scaling_factor" },
        { "{\"scaling_factor\":1e300}", true, VC_EFORMAT, 0, 0, "channel 0" },
        { "{", false, VC_EFORMAT, 0, 0, "config.json" },
    };
    char *model = in_dir("model"), *vae = in_dir("model/vae");
    char *path = in_dir("model/vae/config.json");
    assert_int_equal(vc_mkdirs(vae, NULL), 0);
    for (int i = 0; i < COUNT(row); i++) {
        vtrain_data *d;
        vc_err err = { 0 };
        char *note;
        assert_int_equal(vc_file_write(path, row[i].config, strlen(row[i].config), NULL), 0);
        int rc = try_open(&d, "a", (vtrain_data_opts){ .model_dir = model,
                                                       .allow_mismatch = row[i].allow },
                          &note, &err);
        assert_int_equal(rc, row[i].rc);
        if (rc && !strstr(err.text, row[i].says))
            fail_msg("row %d: %s", i, err.text);
        if (rc)
            continue;
        assert_float_equal(vtrain_data_norm(d)->sub[1], row[i].sub1, 0);
        assert_float_equal(vtrain_data_norm(d)->mul[1], row[i].mul1, 0);
        assert_non_null(note);                       /* a note about left-out samples at least */
        assert_int_equal(row[i].says != NULL, strstr(note, "is used") != NULL);
        free(note);
        vtrain_data_close(d);
    }
    free(model);
    free(vae);
    free(path);
}

/* Texts of another encoder may be as wide as the model's: the class in its config.json differs. */
static void test_text_class(void **state)
{
    (void)state;
    static const struct { const char *config; bool allow; int rc; const char *says; } row[] = {
        { "{\"architectures\":[\"TextBuiltin\"]}", false, 0, NULL },
        { "{\"architectures\":[]}", false, 0, NULL },
        { "{\"architectures\":\"T5EncoderModel\"}", false, 0, NULL },
        { "{\"architectures\":[\"T5EncoderModel\"]}", false, VC_EMISMATCH,
          "a T5EncoderModel, the dataset's texts are of a TextBuiltin: encode the captions" },
        { "{\"architectures\":[\"TextBuiltinModel\"]}", false, 0, NULL },
        { "{\"architectures\":[\"TextBuiltinForCausalLM\"]}", false, 0, NULL },
        { "{\"architectures\":[\"UTextBuiltinForCausalLM\"]}", false, VC_EMISMATCH,
          "a UTextBuiltinForCausalLM, the dataset's texts are of a TextBuiltin" },
        { "{\"architectures\":[\"T5EncoderModel\"]}", true, 0, NULL },
        { "{", false, VC_EFORMAT, "text_encoder/config.json" },
    };
    char *model = in_dir("texts"), *folder = in_dir("texts/text_encoder");
    char *path = in_dir("texts/text_encoder/config.json");
    assert_int_equal(vc_mkdirs(folder, NULL), 0);
    for (int i = 0; i < COUNT(row); i++) {
        const vtrain_data_opts o = { .model_dir = model, .allow_mismatch = row[i].allow };
        vtrain_data *d;
        vc_err err = { 0 };
        char *note;
        assert_int_equal(vc_file_write(path, row[i].config, strlen(row[i].config), NULL), 0);
        int rc = try_open(&d, "c", o, &note, &err);
        if (rc != row[i].rc || (rc && !strstr(err.text, row[i].says)))
            fail_msg("row %d: %d: %s", i, rc, err.text);
        if (rc)
            continue;
        free(note);
        vtrain_data_close(d);
    }
    free(model);
    free(folder);
    free(path);
}

/* A second dataset that differs from the first is refused, unless the difference does not
 * matter. */
static void test_mismatch(void **state)
{
    (void)state;
    static const struct { toy t; bool allow; int rc; const char *says; } row[] = {
        { { .family = "wan" }, false, 0, NULL },     /* the VAE and text encoder are the same */
        { { .family = "wan", .fingerprint = "ff" }, false, VC_EMISMATCH, "vae: fingerprint" },
        { { .channels = 4 }, true, VC_EMISMATCH, "channels: 4 here, 2 there" },
        { { .vae = "Other" }, true, VC_EMISMATCH, "vae: class" },
        { { .width = 8 }, true, VC_EMISMATCH, "width: 8 here, 4 there" },
        { { .encoders = 2 }, true, VC_EMISMATCH, "text encoders: 2 here, 1 there" },
        { { .pooled = 5 }, true, 0, NULL },          /* not compared: the first has none */
        { { .scaling = 3 }, false, VC_EMISMATCH, "scaling_factor 3" },
        { { .scaling = 3 }, true, 0, NULL },
        { { .fingerprint = "ff" }, false, VC_EMISMATCH, "--allow_mismatch" },
        { { .fingerprint = "ff" }, true, 0, NULL },
        { { 0 }, false, 0, NULL },
    };
    char *path = in_dir("other");
    for (int i = 0; i < COUNT(row); i++) {
        toy t = row[i].t;
        vtrain_data *d;
        vc_err err = { 0 };
        char *note;
        t.path = path;
        t.sample = few;
        t.n = COUNT(few);
        toy_make(&t);
        const vtrain_data_opts o = { .allow_mismatch = row[i].allow };
        int rc = try_open(&d, "c other", o, &note, &err);
        if (rc != row[i].rc || (rc && (!strstr(err.text, row[i].says) ||
                                       !strstr(err.text, "does not fit"))))
            fail_msg("row %d: %d: %s", i, rc, err.text);
        if (!rc)
            vtrain_data_close(d);
        free(rc ? NULL : note);
    }
    free(path);
}

/* Manifests in which a value is replaced: hostile values are refused, and nothing is allocated by
 * their sizes. */
static void test_hostile_manifest(void **state)
{
    (void)state;
    static const struct { const char *from, *to, *says; } row[] = {
        { "\"channels\":2", "\"channels\":2000000000", "channels" },
        { "\"channels\":2", "\"channels\":0", "channels" },
        { "\"channels\":2", "\"channels\":3", "shape" },
        { "\"max_length\":12", "\"max_length\":900719925474099", "max_length" },
        { "\"width\":4", "\"width\":1000000000", "width" },
        { "\"width\":4", "\"width\":5", "prompt_embeds: shape [1,4]" },
        { "\"ratio\":[4,8,8]", "\"ratio\":[4,0,8]", "ratio" },
        { "\"ratio\":[4,8,8]", "\"ratio\":[4,8]", "ratio" },
        { "\"scaling_factor\":1", "\"scaling_factor\":\"x\"", "scaling_factor" },
        { "\"std\":null", "\"std\":[1,0]", "std" },
        { "\"empty\":\"", "\"empty\":\"../", "empty" },
        { "\"slot\":\"text_encoder\"", "\"slot\":\"0123456789012345678901234567890123456789\"",
          "slot" },
        { "\"slot\":\"text_encoder\"", "\"slot\":\"../model\"", "slot: \"../model\" is no name" },
        { "\"family\": \"builtin\"", "\"family\": 7", "family" },
        { "\"plan\":", "\"weights\": [], \"plan\":", "weights: expected an object" },
        { "\"plan\":", "\"weights\": {\"vae\": 7}, \"plan\":", "weights: vae: 32 hex digits" },
        { "\"plan\":", "\"weights\": {\"\": \"ffff\"}, \"plan\":", "weights: : 32 hex" },
        { "\"format\": 1", "\"format\": 99", "format" },
    };
    char *path = in_dir("c/manifest.json"), *text;
    size_t size;
    assert_int_equal(vc_file_read(&text, &size, path, 1 << 20, NULL), 0);
    for (int i = 0; i < COUNT(row); i++) {
        char *at = strstr(text, row[i].from), *note;
        vtrain_data *d;
        vc_err err = { 0 };
        if (!at)
            fail_msg("\"%s\" is not in the text: %s", row[i].from, text);
        char *changed = vc_format("%.*s%s%s", (int)(at - text), text, row[i].to,
                                  at + strlen(row[i].from));
        assert_int_equal(vc_file_write(path, changed, strlen(changed), NULL), 0);
        int rc = try_open(&d, "c", (vtrain_data_opts){ 0 }, &note, &err);
        if (!rc || !strstr(err.text, row[i].says) || !strstr(err.text, "/c"))
            fail_msg("row %d: %d: %s", i, rc, err.text);
        assert_null(d);
        free(changed);
    }
    assert_int_equal(vc_file_write(path, text, size, NULL), 0);
    free(text);
    free(path);
}

static void test_refused(void **state)
{
    (void)state;
    static const int none_closed[1];
    static const struct {
        const char *names;
        vtrain_data_opts o;
        int rc;
        const char *says;
    } row[] = {
        { "nowhere", { 0 }, VC_ENOENT, "nowhere" },
        { "a:0", { 0 }, VC_EUSAGE, "no weight" },
        { "a:2x", { 0 }, VC_EUSAGE, "no weight" },
        { "a:repeat=2.5", { 0 }, VC_EUSAGE, "no weight" },
        { "a:0.5 b", { 0 }, VC_EUSAGE, "/b: weights below 1 are shares" },
        { "a:1e9", { 0 }, VC_EINVAL, "an epoch has" },
        { "a", { .dataset_repeat = 1000000000 }, VC_EINVAL, "an epoch has" },
        { "a", { .dataset_repeat = -1 }, VC_EINVAL, "--dataset_repeat" },
        { "a", { .eval_split = 0.7 }, VC_EINVAL, "--eval_split" },
        { "heavy", { 0 }, VC_EFORMAT, "sample 000000000001/000: weight" },
        { "one", { .eval_split = 0.1 }, VC_EINVAL, "nothing is left" },
        { "none", { 0 }, VC_EINVAL, "weight 0" },
        { "unfinished", { 0 }, VC_EINVAL, "vprep has not finished" },
        { "unfinished", { .shards = none_closed }, VC_EINVAL, "0 samples" },
    };
    static const toy_sample heavy[] = { { .number = 1, .h = 1, .w = 1, .weight = 20000000 } };
    static const toy_sample none[] = { { .number = 1, .h = 1, .w = 1, .unwanted = true } };
    char *p[4] = { in_dir("heavy"), in_dir("one"), in_dir("none"), in_dir("unfinished") };
    toy_make(&(toy){ .path = p[0], .sample = heavy, .n = 1 });
    toy_make(&(toy){ .path = p[1], .sample = few, .n = 1 });
    toy_make(&(toy){ .path = p[2], .sample = none, .n = 1 });
    toy_make(&(toy){ .path = p[3], .sample = few, .n = 1, .unfinished = true });
    for (int i = 0; i < COUNT(row); i++) {
        vtrain_data *d;
        vc_err err = { 0 };
        char *note;
        int rc = try_open(&d, row[i].names, row[i].o, &note, &err);
        if (rc != row[i].rc || !strstr(err.text, row[i].says))
            fail_msg("row %d: %d: %s", i, rc, err.text);
    }
    for (int i = 0; i < 4; i++)
        free(p[i]);
}

/* ---- prompts ---- */

static void check_embeds(const vtrain_embeds *e, const char *prompt, int encoder)
{
    assert_int_equal(e->n, e->embeds ? toy_tokens(prompt) : 0);
    for (int64_t i = 0; i < e->n * e->width; i++)
        assert_float_equal(e->embeds[i], toy_embed(prompt, encoder, i), 0);
    for (int64_t i = 0; i < 3; i++)
        assert_float_equal(e->pooled[i], toy_pooled(prompt, encoder, i), 0);
}

/* CLIP of HunyuanVideo and FLUX makes one vector per prompt, and no states of tokens. */
static void test_pooled_only(void **state)
{
    (void)state;
    char *path = in_dir("pooled"), *note;
    vtrain_data *d;
    vtrain_prompt p;
    vc_err err = { 0 };
    toy_make(&(toy){ .path = path, .sample = mixed, .n = COUNT(mixed), .prompts = 1, .pooled = 3,
                     .encoders = 2, .pooled_only = 1 << 1 });
    assert_int_equal(try_open(&d, "pooled", (vtrain_data_opts){ 0 }, &note, &err), 0);
    free(note);
    assert_true(vtrain_data_slot(d, 0)->embeds && vtrain_data_slot(d, 0)->width == 4);
    assert_false(vtrain_data_slot(d, 1)->embeds);
    assert_int_equal(vtrain_data_slot(d, 1)->pooled, 3);
    assert_int_equal(vtrain_data_prompt(d, 0, &p, &err), 0);
    assert_non_null(p.pos[0].embeds);
    assert_null(p.pos[1].embeds);
    for (int e = 0; e < 2; e++) {
        check_embeds(&p.pos[e], p.text, e);
        check_embeds(&p.neg[e], p.negative, e);
    }
    vtrain_prompt_free(&p);
    vtrain_data_close(d);
    free(path);
}

static void test_prompts(void **state)
{
    (void)state;
    vtrain_data *d = open_with("a", (vtrain_data_opts){ 0 });
    vc_err err = { 0 };
    vtrain_prompt p;
    assert_int_equal(vtrain_data_prompts(d), 3);

    assert_int_equal(vtrain_data_prompt(d, 0, &p, &err), 0);
    assert_string_equal(p.text, "prompt 0");
    assert_string_equal(p.negative, "");
    check_embeds(&p.pos[1], "prompt 0", 1);
    check_embeds(&p.neg[0], "", 0);
    assert_true(p.f == 3 && p.h == 4 && p.w == 6 && p.frames == 9 && !p.has_seed);
    vtrain_prompt_free(&p);

    assert_int_equal(vtrain_data_prompt(d, 1, &p, &err), 0);
    check_embeds(&p.neg[1], "ugly", 1);
    assert_true(p.f == 4 && p.h == 5 && p.w == 3 && p.frames == 10 && p.has_seed && p.seed == 7);
    assert_float_equal(p.fps, 16, 0);
    vtrain_prompt_free(&p);
    assert_int_equal(vtrain_data_prompt(d, 3, &p, &err), VC_EINVAL);
    vtrain_data_close(d);
}

static void test_prompts_from_training(void **state)
{
    (void)state;
    vtrain_data *d = open_with("b", (vtrain_data_opts){ 0 });
    vc_err err = { 0 };
    vtrain_prompt p;
    assert_int_equal(vtrain_data_prompts(d), 2);
    assert_int_equal(vtrain_data_prompt(d, 0, &p, &err), 0);
    assert_true(p.from_training);
    assert_string_equal(p.text, "x");
    check_embeds(&p.pos[0], "x", 0);
    assert_float_equal(p.fps, toy_fps(0), 0);
    vtrain_prompt_free(&p);
    assert_int_equal(vtrain_data_prompt(d, 1, &p, &err), 0);     /* a sample without captions */
    assert_string_equal(p.text, "");
    check_embeds(&p.pos[0], "", 0);
    vtrain_prompt_free(&p);
    vtrain_data_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list), cmocka_unit_test(test_groups),
        cmocka_unit_test(test_fraction), cmocka_unit_test(test_split),
        cmocka_unit_test(test_split_grows), cmocka_unit_test(test_shares),
        cmocka_unit_test(test_norm), cmocka_unit_test(test_norm_model),
        cmocka_unit_test(test_text_class), cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_hostile_manifest),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_pooled_only),
        cmocka_unit_test(test_prompts_from_training),
    };
    return cmocka_run_group_tests(tests, make, unmake);
}
