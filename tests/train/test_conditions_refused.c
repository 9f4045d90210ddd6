/* test_conditions_refused.c - datasets and records of conditions that do not fit the transformer,
 * or are damaged, are refused with the entry's name; unused conditions are reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/ok.h"
#include "tests/train/conditions_set.h"
#include "train/data/parts.h"

#define COUNT(a) ((int)(sizeof (a) / sizeof *(a)))

static char *const dir = toy_dir;

static void test_refused(void **state)
{
    (void)state;
    toy normal = { .sample = set_samples, .n = SAMPLES };
    const struct {
        const toy *t;
        unsigned roles;
        toy_damage bad;
        int rc;
        const char *says;
    } row[] = {
        { &normal, IMAGE, 0, VC_EMISMATCH, "ToyTransformer3DModel takes a first-frame image (4 "
          "channels in all)" },
        { &normal, IMAGE, 0, VC_EMISMATCH, "--train_mode normal: run vprep --train_mode i2v" },
        { &set_i2v, VIDEO | MASK, 0, VC_EMISMATCH, "takes a masked clip (5 channels in all)" },
        { &set_inpaint, IMAGE, 0, VC_EMISMATCH, "--train_mode inpaint: run vprep --train_mode "
          "i2v" },
        { &set_i2v, IMAGE, TOY_NO_CONDITION, VC_ENOENT, "sample 000000000000/000: conditions: "
          "image: missing" },
        { &set_i2v, IMAGE, TOY_COND_SHAPE, VC_EMISMATCH, "shape [2,1,5,6], expected [2,1,4,6]" },
        { &set_i2v, IMAGE, TOY_COND_NO_VARIANT, VC_EMISMATCH, "image_noised: latent" },
        { &set_inpaint, VIDEO | MASK, TOY_COND_SHAPE, VC_EMISMATCH, "conditions: video: latent" },
    };
    for (int i = 0; i < COUNT(row); i++) {
        toy t = *row[i].t;
        vtrain_data *d;
        char *note;
        vc_err err = { 0 };
        t.bad = 0;                       /* the first sample of its group */
        t.damage = row[i].bad;
        const wish w = { .roles = row[i].roles };
        int rc = set_try(&d, dir, &t, &w, 0, &note, &err);
        if (rc != row[i].rc || !strstr(err.text, row[i].says) || !strstr(err.text, "-set"))
            fail_msg("row %d: %d: %s", i, rc, err.text);
        vtrain_data_close(d);
    }
}

/* A text-to-video transformer trains on a dataset with conditions; a note names the unused ones. */
static void test_unused(void **state)
{
    (void)state;
    vtrain_data *d;
    char *note;
    vc_err err = { 0 };
    assert_int_equal(set_try(&d, dir, &set_i2v, &(wish){ 0 }, 0, &note, &err), 0);
    assert_non_null(strstr(note, "--train_mode i2v: its conditions are not used"));
    free(note);
    vtrain_loader *l = set_loader(d, (vtrain_loader_opts){ .end = 1, .image_dropout = 1 });
    const vtrain_batch *b = batches_next(l);
    assert_true(!b->roles && !b->cond[0] && !b->cond_dropped[0]);
    vtrain_loader_close(l);
    vtrain_family family = set_family(&(wish){ 0 });
    vtrain_fit fit = set_fit(&(wish){ 0 });
    assert_int_equal(vtrain_data_fit(d, &family, &fit, &note, &err), VC_EINVAL);
    vtrain_data_close(d);
}

/* A damaged entry of a later sample ends the run at its batch, with the entry's name. */
static void test_damage(void **state)
{
    (void)state;
    const struct {
        const toy *t;
        unsigned roles;
        toy_damage bad;
        bool check;
        int rc;
        const char *says;
    } row[] = {
        { &set_i2v, IMAGE, TOY_NO_CONDITION, false, VC_ENOENT, "image_noised: missing" },
        { &set_i2v, IMAGE, TOY_COND_NAN, false, VC_ENUMERIC, "conditions: image_noised: latent" },
        { &set_i2v, IMAGE, TOY_COND_SHAPE, false, VC_EMISMATCH, "expected [0,2,1,4,6]" },
        { &set_i2v, IMAGE, TOY_COND_NO_VARIANT, false, VC_EMISMATCH, "expected [0,2,1,4,6]" },
        { &set_i2v, IMAGE, TOY_COND_SUM, true, VC_EFORMAT, "xxh3" },
        { &set_inpaint, VIDEO | MASK, TOY_NO_CONDITION, false, VC_ENOENT, "video: missing" },
        { &set_inpaint, VIDEO | MASK, TOY_COND_NAN, false, VC_ENUMERIC, "video: latent" },
        { &set_inpaint, MASK, TOY_COND_NAN, false, VC_ENUMERIC, "mask: latent" },
        { &set_inpaint, MASK, TOY_COND_SUM, true, VC_EFORMAT, "conditions: mask" },
        { &set_i2v, 0, TOY_COND_NAN, false, VC_ENUMERIC, "conditions: loss_mask: latent" },
        { &set_i2v, 0, TOY_COND_NEGATIVE, false, VC_ENUMERIC, "loss_mask: a weight of -1" },
        { &set_i2v, 0, TOY_COND_SHAPE, false, VC_EMISMATCH, "conditions: loss_mask: latent" },
    };
    for (int i = 0; i < COUNT(row); i++) {
        toy t = *row[i].t;
        vtrain_data *d;
        char *note;
        const vtrain_batch *b;
        vc_err err = { 0 };
        double waited;
        int rc;
        t.bad = row[i].roles ? 7 : 6;    /* not the group's first; 6 has a loss mask */
        t.damage = row[i].bad;
        if (set_try(&d, dir, &t, &(wish){ .roles = row[i].roles }, 0, &note, &err))
            fail_msg("row %d: %s", i, err.text);
        free(note);
        vtrain_loader *l = set_loader(d, (vtrain_loader_opts){ .end = 40, .threads = 2,
                                                                .check = row[i].check });
        while (!(rc = vtrain_loader_next(l, &b, &waited, &err)) && b)
            vtrain_loader_give_back(l, b);
        if (rc != row[i].rc || !strstr(err.text, row[i].says) ||
            !strstr(err.text, row[i].roles ? "sample 000000000007/000" : "000000000006/000"))
            fail_msg("row %d: %d: %s", i, rc, err.text);
        vtrain_loader_close(l);
        vtrain_data_close(d);
    }
}

/* Hostile records are refused before any value that they name is read. */
static void test_hostile_record(void **state)
{
    (void)state;
    static const struct { const char *record, *says; } row[] = {
        { "{\"conditions\":[1]}", "conditions: an object" },
        { "{\"conditions\":{\"image\":7}}", "conditions: image: 32 hex digits" },
        { "{\"conditions\":{\"mask\":\"../0123456789abcdef0123456789abc\"}}", "conditions: mask" },
        { "{\"conditions\":{\"vision\":3}}", "conditions: vision: 32 hex digits" },
        { "{\"conditions\":{},\"mask_all\":\"yes\"}", "mask_all" },
    };
    vtrain_conditions c;
    vc_err err = { 0 };
    cJSON *o = NULL;
    for (int i = 0; i < COUNT(row); i++) {
        assert_int_equal(vf_json_parse(&o, row[i].record, strlen(row[i].record), &err), 0);
        assert_fails(vtrain_conditions_read(&c, o, &err), VC_EFORMAT, &err, row[i].says);
        cJSON_Delete(o);
    }
    const char *fine = "{\"conditions\":{\"other\":3,\"image\":null}}";
    assert_int_equal(vf_json_parse(&o, fine, strlen(fine), &err), 0);
    assert_int_equal(vtrain_conditions_read(&c, o, &err), 0);
    assert_true(!c.has && !c.mask_all);
    cJSON_Delete(o);
}

static void test_bounds(void **state)
{
    (void)state;
    vtrain_data *d = set_open(dir, &set_i2v, &(wish){ .roles = IMAGE }, 0);
    vtrain_loader *l;
    vc_err err = { 0 };
    const vtrain_loader_opts bad[] = {
        { .plan.batch = 1, .threads = 1, .ahead = 1, .image_dropout = -0.1 },
        { .plan.batch = 1, .threads = 1, .ahead = 1, .mask_dropout = 2 },
    };
    for (int i = 0; i < COUNT(bad); i++)
        assert_int_equal(vtrain_loader_open(&l, d, &bad[i], &err), VC_EINVAL);
    vtrain_data_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused), cmocka_unit_test(test_unused),
        cmocka_unit_test(test_damage), cmocka_unit_test(test_hostile_record),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, toy_dir_setup, toy_dir_teardown);
}
