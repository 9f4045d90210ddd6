/* test_train_streams.c - ranks that share the tokens of two streams (--sp of models whose picture
 * and prompt are two, of Wan VACE, whose blocks stand beside Wan's, and with ControlNets) train
 * like one rank, with any --parallel. Without MPI the test is skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_compare.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_ranks.h"
#include "tests/lib/train_run.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

enum { STEPS = 4 };

/* As in test_train_sequence.c: rounding of sums in f32, and a tenth of the smaller rate. */
#define LOSS 1e-5
#define WEIGHT 1e-6

typedef struct ranks_row { int ranks; const char *out, *like, *args; } ranks_row;

#define FULL "--mixed_precision no --training_type full-finetune --caption_dropout_p 0"

/* Of a list of models the first alone has the row ONCE: the next row shares tokens too, by more
 * ranks. */
enum { ONCE = 1 };

/* Models whose picture and prompt are two parts of the sequence, and those that join them behind
 * refiners, which each rank runs whole. Batches have captions of several lengths, and an empty one
 * has fewer tokens than there are ranks. */
static void test_pictures(void **state)
{
    static const toy_sample samples[] = {
        { .number = 0, .h = 4, .w = 6, .caption = { "a red ball!" } },
        { .number = 1, .h = 4, .w = 6, .caption = { "a walk" } },
        { .number = 2, .h = 2, .w = 8, .caption = { "three cubes on a table" } },
        { .number = 3, .h = 2, .w = 8, .caption = { "" } },
    };
    static const toy_sample equal[] = {
        { .number = 0, .h = 4, .w = 6, .caption = { "a red ball!" } },
        { .number = 1, .h = 4, .w = 6, .caption = { "a long walk" } },
        { .number = 2, .h = 2, .w = 8, .caption = { "three cubes" } },
        { .number = 3, .h = 2, .w = 8, .caption = { "still water" } },
    };
#define WHOLE "--caption_dropout_p 0"
#define TWO "--train_batch_size 2 --caption_dropout_p 0.4 --max_train_steps 4 " \
            "--dataset_repeat 4 --uniform_sampling --learning_rate 1e-5 "
    static const struct { int groups; const char *out, *like, *args; } row[] = {
        { 0, "p1", NULL, TWO "--gradient_accumulation_steps 2" },
        { 1, "p2", "p1", TWO "--gradient_accumulation_steps 2" },
        { 2, "pf", "p1", TWO "--parallel fsdp" },
        { 0, "q1", NULL, TWO "--training_type lora --rank 4" },
        { 1, "q2", "q1", TWO "--training_type lora --rank 4 --parallel zero2 "
                         "--gradient_checkpointing=none" },
    };
#undef TWO
    static const int widths[] = { 4, 6, 12 }, pooled[] = { 4, 6, 0 };
    static const toy_sample clips[] = {
        { .number = 0, .f = 3, .h = 4, .w = 6, .caption = { "a red ball!" } },
        { .number = 1, .f = 3, .h = 4, .w = 6, .caption = { "a walk" } },
        { .number = 2, .f = 2, .h = 2, .w = 8, .caption = { "three cubes on a table" } },
        { .number = 3, .f = 2, .h = 2, .w = 8, .caption = { "" } },
    };
#define HUNYUAN(every) { .sample = clips, .width = 32, .pooled = 32, .encoders = 2, \
                  .pooled_only = 2, .family = "hunyuanvideo", .vae = "AutoencoderKLHunyuanVideo", \
                  .train_mode = "i2v", .conditions = 1u << VC_ROLE_IMAGE, .interleave = every }
    static const struct { const char *golden; int sp; toy t; const char *more; } models[] = {
        { "qwen", 2, { .width = 32, .family = "qwen-image" }, "" },
        { "hunyuan", 2, HUNYUAN(0), "" },
        /* whose first frame, of a time of its own, is one rank's or both's */
        { "hunyuan-replace", 2, HUNYUAN(4), "" },
        { "hunyuan15", 2, { .width = 32, .encoders = 2, .family = "hunyuanvideo1.5",
                            .vae = "AutoencoderKLHunyuanVideo15" }, "" },
        /* the attention to few tokens, as over krea2's taps, has gradients near 0, which the
         * default 1e-8 makes whole steps of */
        { "kandinsky5", 3, { .width = 32, .pooled = 32, .encoders = 2, .pooled_only = 2,
                             .family = "kandinsky5", .vae = "AutoencoderKLHunyuanVideo" },
          "--first_frame_conditioning_p 0.5 --adam_epsilon 1e-6" },
        { "chroma", 2, { .channels = 4, .width = 16, .family = "chroma",
                         .vae = "AutoencoderKL" }, "" },
        { "krea2", 2, { .width = 192, .family = "krea2", .vae = "AutoencoderKLQwenImage" },
          "--adam_epsilon 1e-6" },
        { "ideogram4", 2, { .channels = 16, .width = 208, .family = "ideogram4",
                            .vae = "AutoencoderKLFlux2" }, "" },
        { "zimage", 3, { .width = 32, .family = "z-image", .vae = "AutoencoderKL" }, "" },
        { "cosmos2", 2, { .width = 32, .family = "cosmos2", .vae = "AutoencoderKLWan",
                          .per_channel = true }, "" },
        { "ernie-image", 3, { .channels = 16, .width = 32, .family = "ernie-image",
                              .vae = "AutoencoderKLFlux2", .per_channel = true }, "" },
        /* these mask nothing: all prompts have as many tokens */
        { "flux-dev", 2, { .width = 16, .pooled = 32, .encoders = 2, .pooled_only = 1,
                           .family = "flux", .vae = "AutoencoderKL", .sample = equal }, WHOLE },
        { "flux2-klein", 2, { .channels = 16, .width = 48, .family = "flux2", .sample = equal,
                              .vae = "AutoencoderKLFlux2", .per_channel = true }, WHOLE },
        { "sd3.5-medium", 2, { .widths = widths, .pooleds = pooled, .encoders = 3, .family = "sd3",
                               .vae = "AutoencoderKL", .sample = equal }, WHOLE },
    };
    for (size_t i = 0; i < (ranks_fewer() ? 1 : COUNT(models)); i++) {
        char *folder = vc_path_join(*state, models[i].golden);
        char *path = vc_path_join(folder, "set.lmdb");
        char *transformer = vc_path_join(folder, "transformer");
        toy t = models[i].t;
        t.path = path, t.sample = t.sample ? t.sample : samples, t.n = COUNT(samples);
        t.channels = t.channels ? t.channels : 4;
        assert_int_equal(vc_mkdirs(folder, NULL), 0);
        golden_folder(models[i].golden, transformer);
        toy_make(&t);
        for (size_t k = 0; k < COUNT(row); k++) {
            if (i && k == ONCE)
                continue;
            const int sp = row[k].groups ? models[i].sp : 1, n = row[k].groups * sp;
            char *args = vc_format("--transformer %s --sp %d %s %s", transformer, sp, row[k].args,
                                   models[i].more);
            ranks_ok(n ? n : 1, folder, row[k].out, args);
            if (row[k].like)
                run_same_training(folder, row[k].like, row[k].out, STEPS, LOSS, WEIGHT);
            free(args);
        }
        free(folder), free(path), free(transformer);
    }
}

/* VACE: ranks have the same tokens of both streams, those of references in front among them. */
static void test_vace(void **state)
{
    static const toy_sample samples[] = {
        { .number = 0, .f = 3, .h = 6, .w = 6, .caption = { "a red ball!" } },
        { .number = 1, .f = 3, .h = 6, .w = 6, .caption = { "a long walk" } },
        { .number = 2, .f = 1, .h = 4, .w = 4, .caption = { "three cubes" } },
        { .number = 3, .f = 5, .h = 4, .w = 4, .caption = { "a wet night" } },
    };
    static const ranks_row row[] = {
        { 1, "v1", NULL, "--gradient_accumulation_steps 4" },
        { 2, "v2", "v1", "--gradient_accumulation_steps 4 --sp 2" },
        { 4, "vf", "v1", "--gradient_accumulation_steps 2 --sp 2 --parallel fsdp" },
        { 1, "k1", NULL, "--gradient_accumulation_steps 2 --training_type lora --rank 4" },
        { 2, "k2", "k1", "--gradient_accumulation_steps 2 --training_type lora --rank 4 --sp 2 "
                         "--parallel zero2 --gradient_checkpointing=none" },
    };
    char *folder = vc_path_join(*state, "wan-vace"), *path = vc_path_join(folder, "set.lmdb");
    char *transformer = vc_path_join(folder, "transformer");
    assert_int_equal(vc_mkdirs(folder, NULL), 0);
    golden_folder("wan-vace", transformer);
    toy_make(&(toy){ .path = path, .sample = samples, .n = COUNT(samples), .channels = 4,
                     .width = 32, .family = "wan-vace", .train_mode = "vace", .mask_channels = 64,
                     .conditions = 1 << VC_ROLE_VIDEO | 1 << VC_ROLE_MASK |
                                   1 << VC_ROLE_REACTIVE | 1 << VC_ROLE_REFERENCE });
    for (size_t i = 0; i < COUNT(row); i++) {
        char *args = vc_format("--transformer %s --train_batch_size 1 --max_train_steps 4 "
                               "--dataset_repeat 4 --uniform_sampling %s", transformer,
                               row[i].args);
        ranks_ok(row[i].ranks, folder, row[i].out, args);
        if (row[i].like)
            run_same_training(folder, row[i].like, row[i].out, STEPS, LOSS, WEIGHT);
        free(args);
    }
    free(transformer);
    free(path);
    free(folder);
}

/* ---- ControlNets ---- */

/* Batches of two rows, whose prompts have 12 tokens each, and kinds of pictures for a Union. */
static const toy_sample pictures[] = {
    { .number = 0, .h = 4, .w = 6, .caption = { "a red ball!" },
      .extra = "{\"controlnet_mode\":2}" },
    { .number = 1, .h = 4, .w = 6, .caption = { "a long walk" },
      .extra = "{\"controlnet_mode\":0}" },
    { .number = 2, .h = 2, .w = 10, .caption = { "three cubes" },
      .extra = "{\"controlnet_mode\":3}" },
    { .number = 3, .h = 2, .w = 10, .caption = { "still water" },
      .extra = "{\"controlnet_mode\":2}" },
};
#define FLUX .width = 16, .pooled = 32, .encoders = 2, .pooled_only = 1, .family = "flux", \
             .vae = "AutoencoderKL"
#define QWEN .width = 32, .family = "qwen-image"
#define PLAIN .train_mode = "control", .conditions = VC_ROLE_BIT(VC_ROLE_CONTROL)
#define MASKED .train_mode = "inpaint", .mask_channels = 64, \
               .conditions = VC_ROLE_BIT(VC_ROLE_VIDEO) | VC_ROLE_BIT(VC_ROLE_MASK)

/* A ControlNet of a golden's transformer, and how it is begun. `flag` names it, and `file` its part
 * of a checkpoint. */
typedef struct net_row { const char *flag, *file, *name, *golden, *new; toy t; } net_row;

#define COPIED "controlnet", "controlnet"
#define BLOCKWISE "blockwise_controlnet", "blockwise_controlnet.safetensors"
static const net_row nets[] = {
    { COPIED, "union", "flux-dev", "--num_mode 4 --num_double_layers 2 --num_single_layers 1",
      { FLUX, PLAIN } },
    { COPIED, "flux", "flux-dev", "--num_double_layers 1 --num_single_layers 2", { FLUX, PLAIN } },
    { COPIED, "flux-mask", "flux-dev", "--num_single_layers 0", { FLUX, MASKED, .black = true } },
    { COPIED, "qwen", "qwen", "--num_double_layers 1", { QWEN, PLAIN } },
    { COPIED, "qwen-mask", "qwen", "", { QWEN, MASKED } },
    { BLOCKWISE, "blockwise", "qwen", "", { QWEN, PLAIN } },
    /* of two ranks one has the tokens of the noisy picture, the other those of the reference */
    { BLOCKWISE, "blockwise-edit", "qwen-edit-2511", "",
      { QWEN, .train_mode = "edit",
        .conditions = VC_ROLE_BIT(VC_ROLE_CONTROL) | VC_ROLE_BIT(VC_ROLE_REFERENCE) } },
};

/* A ControlNet that has been trained, so that it changes predictions, is trained further; a LoRA is
 * trained beside it, or both. */
static void check_net(const char *dir, const net_row *net)
{
#define BATCH "--train_batch_size 2 --max_train_steps 4 --dataset_repeat 4 --uniform_sampling "
#define NET BATCH "--learning_rate 1e-5 "
#define LORA BATCH "--training_type lora --rank 4 "
    static const struct { bool trains; ranks_row run; } row[] = {
        { true, { 1, "n1", NULL, NET "--gradient_accumulation_steps 2" } },
        { true, { 2, "n2", "n1", NET "--gradient_accumulation_steps 2 --sp 2" } },
        { true, { 4, "nf", "n1", NET "--sp 2 --parallel fsdp --gradient_checkpointing" } },
        { false, { 1, "k1", NULL, LORA "--gradient_accumulation_steps 2" } },
        { false, { 2, "k2", "k1", LORA "--gradient_accumulation_steps 2 --sp 2 --parallel zero2 "
                                       "--gradient_checkpointing=none" } },
        { true, { 1, "b1", NULL, LORA "--gradient_accumulation_steps 2" } },
        { true, { 4, "b4", "b1", LORA "--sp 2" } },
    };
#undef BATCH
#undef NET
#undef LORA
    char *folder = vc_path_join(dir, net->name), *path = vc_path_join(folder, "set.lmdb");
    char *transformer = vc_path_join(folder, "transformer");
    toy t = net->t;
    t.path = path, t.sample = pictures, t.n = COUNT(pictures), t.channels = 4;
    assert_int_equal(vc_mkdirs(folder, NULL), 0);
    golden_folder(net->golden, transformer);
    toy_make(&t);
    char *args = vc_format("--transformer %s --trainable_models %s --%s new %s "
                           "--learning_rate 1e-2 --max_train_steps 3", transformer, net->flag,
                           net->flag, net->new);
    ranks_ok(1, folder, "begun", args);
    free(args);
    for (size_t i = 0; i < COUNT(row); i++) {
        args = vc_format("--transformer %s --%s %s/begun/checkpoint-3/%s %s%s %s", transformer,
                         net->flag, folder, net->file, row[i].trains ? "--trainable_models " : "",
                         row[i].trains ? net->flag : "", row[i].run.args);
        ranks_ok(row[i].run.ranks, folder, row[i].run.out, args);
        if (row[i].run.like)
            run_same_training(folder, row[i].run.like, row[i].run.out, STEPS, LOSS, WEIGHT);
        free(args);
    }
    free(transformer);
    free(path);
    free(folder);
}

static void test_controlnets(void **state)
{
    ranks_model = "--mixed_precision no --caption_dropout_p 0";
    for (size_t i = 0; i < (ranks_fewer() ? 1 : COUNT(nets)); i++)
        check_net(*state, &nets[i]);
    ranks_model = FULL;
}

int main(void)
{
    char dir[256];
    int skipped = ranks_begin();
    if (skipped)
        return skipped;
    toy_dir_make(dir);
    ranks_model = FULL;
    const struct CMUnitTest tests[] = { cmocka_unit_test_prestate(test_pictures, dir),
                                        cmocka_unit_test_prestate(test_vace, dir),
                                        cmocka_unit_test_prestate(test_controlnets, dir) };
    const ranks_tests all = { .all = RANKS_GROUP(tests) };
    return ranks_end(&all, dir);
}
