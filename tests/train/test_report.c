/* test_report.c - report.html has the numbers of a run, and no text of a file becomes markup. */
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
#include "formats/tensors/safetensors.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "train/output/report.h"
#include "formats/report/curves.h"

#define COUNT(a) ((int)(sizeof (a) / sizeof *(a)))

static char *const dir = toy_dir;

static void save(const char *out, const char *name, const void *data, size_t n)
{
    char *path = vc_path_join(out, name);
    char *folder = vc_format("%.*s", (int)(vc_path_base(path) - path), path);
    assert_int_equal(vc_mkdirs(folder, NULL), 0);
    assert_int_equal(vc_file_write(path, data, n, NULL), 0);
    free(folder);
    free(path);
}

static void save_metrics(const char *out, int steps)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    for (int s = 1; s <= steps; s++) {
        fprintf(f, "{\"step\":%d,\"epoch\":%g,\"loss\":%s,\"lr\":0.0001,\"grad_norm\":%g,", s,
                s / 4.0, s == 3 ? "null" : s == 5 ? "9" : "0.5", 1.0 / s);
        fprintf(f, "\"samples\":[\"%012d/000\",\"000000000000/000\"],", s % 6);
        fprintf(f, "\"tokens_per_s\":1000,\"step_s\":2,\"data_wait_s\":0.1,\"peak_bytes\":1,");
        fprintf(f, "\"bucket\":\"%s\",\"caption_dropout\":0.125%s}\n",
                s % 2 ? "5x16x16" : "5x16x16,<b>16x16", s % 4 ? "" : ",\"eval_loss\":0.25");
    }
    fputs("torn {\n", f);
    fclose(f);
    save(out, "metrics.jsonl", text, size);
    free(text);
}

static char *report_of(const char *out, const vtrain_report *r)
{
    char *path = vc_path_join(out, "report.html"), *text;
    size_t n;
    vc_err err = { 0 };
    assert_ok(vtrain_report_write(r, out, &err), &err);
    assert_int_equal(vc_file_read(&text, &n, path, 1 << 30, NULL), 0);
    assert_int_equal(strlen(text), n);
    free(path);
    return text;
}

static const vtrain_report about = {
    .title = "runs/<script>alert(1)</script>",
    .page = {
        .model = "DiT & co", .data = "line one\n<i>two</i>",
        .settings = "seed: 1\nname: \"</pre>\"\n", .predicted_bytes = 1 << 20,
        .peak_bytes = 2 << 20, .samples = 10,
    },
};

static void test_page(void **state)
{
    (void)state;
    static const char *const present[] = {
        "DiT &amp; co", "&lt;b&gt;16x16", "&lt;i&gt;two", "name: &quot;&lt;/pre&gt;",
        "Samples seen", "6 of 10; never seen: 4", "12.50 %", "2.0 MiB", "1.0 MiB", "100.0 % more",
        "held-out", "0.25000", "Unreadable lines", "5.00 % of the time in steps",
        "40, 10.00 epochs", "Learning rate",
        "\n<!-- validation -->\n", "\n<!-- /validation -->\n", "--validation_steps",
    };
    static const char *const absent[] = { "<script>alert", "<b>16", "<i>two", "src=\"http",
                                          "href=\"http", "script-src 'unsafe-inline'", ":nan" };
    char *out = vc_path_join(dir, "page");
    save_metrics(out, 40);
    char *text = report_of(out, &about);
    for (int i = 0; i < COUNT(present); i++)
        if (!strstr(text, present[i]))
            fail_msg("the page lacks \"%s\"", present[i]);
    for (int i = 0; i < COUNT(absent); i++)
        if (strstr(text, absent[i]))
            fail_msg("the page has \"%s\"", absent[i]);
    /* Of 40 steps 39 have a loss, whose mean is (38 * 0.5 + 9) / 39. */
    assert_non_null(strstr(text, "0.71795"));
    free(text);
    free(out);
}

static void test_pictures(void **state)
{
    (void)state;
    static const uint8_t png[] = "\x89PNG\r\n\x1a\n....", jpg[] = "\xff\xd8\xff....",
                         mp4[] = "\0\0\0\x20" "ftypisom";
    float zero = 0;
    const vf_view v = { "latents", VC_F32, 1, { 1 }, &zero, 4 };
    const vf_meta meta = { "prompt", "a <cat>" };
    uint8_t *st;
    size_t n;
    char *out = vc_path_join(dir, "pictures");
    assert_int_equal(vf_safetensors_pack(&st, &n, &v, 1, &meta, 1, 0, NULL), 0);
    save_metrics(out, 3);
    save(out, "validation/step-9/000.safetensors", st, n);
    save(out, "validation/step-9/000-002.png", png, sizeof png);
    save(out, "validation/step-9/000-010.png", png, sizeof png);
    save(out, "validation/step-10/000.jpg", jpg, sizeof jpg);
    save(out, "validation/step-10/001.mp4", mp4, sizeof mp4);
    save(out, "validation/step-10/002.png", "root:x:0:0:", 11);
    save(out, "validation/step-10/notes.txt", "secret", 6);
    save(out, "validation/other/003.png", png, sizeof png);
    free(st);

    char *text = report_of(out, &about), *at = strstr(text, "\n<!-- validation -->\n");
    static const char *const order[] = { "Sample 000", "image/jpeg", "step 10",
                                         "a &lt;cat&gt;", "image/png", "step 9", "Sample 001",
                                         "video/mp4", "step 10", "1 more are",
                                         "\n<!-- /validation -->\n" };
    for (int i = 0; i < COUNT(order); i++) {
        at = at ? strstr(at, order[i]) : NULL;
        if (!at)
            fail_msg("\"%s\" is missing or out of order", order[i]);
    }
    assert_null(strstr(text, "Sample 003"));
    assert_null(strstr(text, "cm9vdDp4"));              /* "root:x" in base 64 */
    assert_null(strstr(text, "003.png"));
    assert_null(strstr(text, "notes"));
    free(text);
    free(out);
}

/* The page of a run of any length has a bounded size, and replaces the page before. */
static void test_long(void **state)
{
    (void)state;
    char *out = vc_path_join(dir, "long");
    save_metrics(out, 30000);
    char *text = report_of(out, &about);
    assert_between(strlen(text), 20000, 1000000);
    assert_non_null(strstr(text, "30,000, 7500.00 epochs"));
    free(text);
    save_metrics(out, 2);
    text = report_of(out, &about);
    assert_non_null(strstr(text, "2, 0.50 epochs"));
    free(text);

    save(out, "metrics.jsonl", "", 0);                  /* a run that stopped before step 1 */
    free(report_of(out, &about));
    vc_err err = { 0 };
    assert_int_equal(vtrain_report_write(&about, dir, &err), VC_ENOENT);
    free(out);
}

/* A thinned curve keeps sums, extremes and order. */
static void test_curve(void **state)
{
    (void)state;
    static const int lengths[] = { 1, VF_CURVE_BINS - 1, VF_CURVE_BINS, VF_CURVE_BINS + 1,
                                   5 * VF_CURVE_BINS, 100003 };
    for (int k = 0; k < COUNT(lengths); k++) {
        vf_curve *c = calloc(1, sizeof *c);
        double sum = 0, least = INFINITY, greatest = -INFINITY;
        uint64_t n = 0;
        for (int i = 0; i < lengths[k]; i++) {
            vf_curve_add(c, i, i == 777 ? -50 : i % 10);
            vf_curve_add(c, i, NAN);
        }
        assert_between(c->n, lengths[k] < VF_CURVE_BINS ? lengths[k] : VF_CURVE_BINS / 2,
                        VF_CURVE_BINS);
        for (int i = 0; i < c->n; i++) {
            sum += c->bin[i].sum;
            n += c->bin[i].n;
            least = fmin(least, c->bin[i].least);
            greatest = fmax(greatest, c->bin[i].greatest);
            assert_true(i == c->n - 1 || c->bin[i].n == c->each);
            assert_true(c->bin[i].x == (double)(n - c->bin[i].n));
        }
        assert_int_equal(n, lengths[k]);
        assert_true(sum == c->sum && least == c->best);
        assert_true(lengths[k] < 778 || (least == -50 && c->best_x == 777 && greatest == 9));
        free(c);
    }
}

/* The losses of noise levels and of buckets are curves of their own. */
static void test_parts(void **state)
{
    (void)state;
    static const char text[] =
        "{\"step\":1,\"loss\":5,\"bucket\":\"a,b\",\"loss_levels\":[1,null,3,4],"
        "\"loss_buckets\":{\"a\":4,\"b\":6}}\n"
        "{\"step\":2,\"loss\":2,\"bucket\":\"b\",\"loss_levels\":[null,2,null,null]}\n";
    char *out = vc_path_join(dir, "parts");
    vf_curves *c = NULL;
    vc_err err = { 0 };
    save(out, "metrics.jsonl", text, sizeof text - 1);
    assert_ok(vf_curves_read(&c, out, &err), &err);
    for (int i = 0; i < VF_NOISE_LEVELS; i++) {
        assert_int_equal(c->level[i].points, 1);
        assert_true(c->level[i].last == i + 1);
        assert_int_equal(c->eval_level[i].points, 0);
    }
    assert_int_equal(c->n_buckets, 2);
    assert_true(c->bucket[0].loss == 4 && c->bucket[0].steps == 1);
    assert_true(c->bucket[1].loss == 8 && c->bucket[1].steps == 2);
    vf_curves_free(c);
    free(report_of(out, &about));
    free(out);
}

/* A file that grows is read on, and a file that was cut is read anew: a resumed run's lines follow
 * the checkpoint's, and may be as long as the lines that they replace. */
static void test_follow(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t steps, unreadable;
        double last;
    } rows[] = {
        { "", 0, 0, 0 },
        { "{\"step\":1,\"loss\":5}\n", 1, 0, 5 },
        { "{\"step\":1,\"loss\":5}\n{\"step\":2,\"lo", 1, 0, 5 },
        { "{\"step\":1,\"loss\":5}\n{\"step\":2,\"loss\":4}\n", 2, 0, 4 },
        { "{\"step\":1,\"loss\":5}\n{\"step\":2,\"loss\":3}\n", 2, 0, 3 },
        { "{\"step\":1,\"loss\":5}\n{\"step\":2,\"loss\":3}\nno\n", 2, 1, 3 },
        { "{\"step\":1,\"loss\":7}\n", 1, 0, 7 },
    };
    char *out = vc_path_join(dir, "follow");
    vf_curves *c = NULL;
    vc_err err = { 0 };
    assert_int_equal(vf_curves_follow(&c, out, &err), VC_ENOENT);
    assert_null(c);
    for (int i = 0; i < COUNT(rows); i++) {
        save(out, "metrics.jsonl", rows[i].text, strlen(rows[i].text));
        assert_ok(vf_curves_follow(&c, out, &err), &err);
        assert_int_equal(c->steps, rows[i].steps);
        assert_int_equal(c->unreadable, rows[i].unreadable);
        assert_true(c->loss.last == rows[i].last);
    }
    char *path = vc_path_join(out, "metrics.jsonl"), *other = vc_path_join(out, "other.jsonl");
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(vc_mkdirs(path, NULL), 0);
    assert_int_equal(vf_curves_follow(&c, out, &err), VC_EFORMAT);
    assert_null(c);
    free(path);
    free(other);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page), cmocka_unit_test(test_pictures), cmocka_unit_test(test_long),
        cmocka_unit_test(test_curve), cmocka_unit_test(test_follow),
        cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, toy_dir_setup, toy_dir_teardown);
}
