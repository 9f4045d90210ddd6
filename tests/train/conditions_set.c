/* conditions_set.c - writes datasets with conditions and opens them: see conditions_set.h */
#include "tests/train/conditions_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_batches.h"

const toy_sample set_samples[SAMPLES] = {
    { .number = 0, .f = 3, .h = 4, .w = 6, .caption = { "a cat" } },
    { .number = 1, .f = 3, .h = 4, .w = 6, .caption = { "dogs" }, .loss_mask = true },
    { .number = 2, .h = 4, .w = 6, .caption = { "a still" } },
    { .number = 3, .f = 3, .h = 4, .w = 6, .caption = { "all" }, .mask_all = true },
    { .number = 4, .h = 4, .w = 6, .caption = { "other" }, .mask_all = true },
    { .number = 5, .f = 4, .h = 4, .w = 6, .caption = { NULL } },
    { .number = 6, .f = 4, .h = 4, .w = 6, .caption = { "all" }, .loss_mask = true },
    { .number = 7, .f = 3, .h = 4, .w = 6, .caption = { "seven" }, .mask_all = true },
};

enum { I2V = 1 << VC_ROLE_IMAGE | 1 << VC_ROLE_IMAGE_NOISED,
       INPAINT = 1 << VC_ROLE_VIDEO | 1 << VC_ROLE_MASK };
const toy set_i2v = { .sample = set_samples, .n = SAMPLES, .scaling = SCALING,
                       .train_mode = "i2v", .conditions = I2V, .noised = 3 };
const toy set_inpaint = { .sample = set_samples, .n = SAMPLES, .scaling = SCALING,
                           .train_mode = "inpaint", .conditions = INPAINT };

vtrain_fit set_fit(const wish *w)
{
    return (vtrain_fit){ .channels = CHANNELS, .n_texts = 1, .text_width = { 4 },
                         .mult = { w->pad ? 2 : 1, 2, 2 }, .pad_front = w->pad,
                         .roles = w->roles, .clean_first = w->clean,
                         .text_rows = { w->text_rows }, .mean_roles = w->means ? ~0u : 0,
                         .embeds = { 0, TOY_EMBED_WIDTH } };
}

vtrain_family set_family(const wish *w)
{
    return (vtrain_family){ .class_name = "ToyTransformer3DModel",
                            .scale = { [VC_ROLE_IMAGE] = w->image, [VC_ROLE_VIDEO] = w->video,
                                       [VC_ROLE_MASK] = w->mask } };
}

int set_try(vtrain_data **d, const char *dir, const toy *like, const wish *w, double eval_split,
            char **note, vc_err *err)
{
    static int made;
    char *path = vc_format("%s/%d-set", dir, made++);
    toy t = *like;
    t.path = path;
    toy_make(&t);
    vc_list list = { .item = &path, .n = 1 };
    const vtrain_data_opts o = { .paths = &list, .dataset_repeat = 1, .seed = SEED,
                                 .eval_split = eval_split };
    assert_ok(vtrain_data_open(d, &o, note, err), err);
    free(*note);
    free(path);
    vtrain_family family = set_family(w);
    vtrain_fit fit = set_fit(w);
    return vtrain_data_fit(*d, &family, &fit, note, err);
}

vtrain_data *set_open(const char *dir, const toy *like, const wish *w, double eval_split)
{
    vtrain_data *d;
    char *note;
    vc_err err = { 0 };
    assert_ok(set_try(&d, dir, like, w, eval_split, &note, &err), &err);
    assert_null(note);
    return d;
}

vtrain_loader *set_loader(const vtrain_data *d, vtrain_loader_opts o)
{
    o.plan.seed = SEED;
    return batches_open(d, o);
}
