/* test_choices.c - the words of flags' choices stand in the order of the enums that the run reads
 * their indices as. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/tensor/optimizer.h"
#include "train/diffusion/loss.h"
#include "train/diffusion/solver.h"
#include "train/optim/rate.h"
#include "train/settings/settings.h"

enum { OTHER = -1 };                 /* a word for which the checks of flags put another */

static const struct choice { const char *flag, *word; int index; } choices[] = {
    { "posterior", "auto", VTRAIN_POSTERIOR_AUTO },
    { "posterior", "sample", VTRAIN_POSTERIOR_SAMPLE },
    { "posterior", "mean", VTRAIN_POSTERIOR_MEAN },
    { "boundary_type", "full", VTRAIN_SIDE_FULL },
    { "boundary_type", "high", VTRAIN_SIDE_HIGH },
    { "boundary_type", "low", VTRAIN_SIDE_LOW },
    { "boundary_type", "both", VTRAIN_SIDE_BOTH },
    { "training_type", "lora", VTRAIN_LORA },
    { "training_type", "full-finetune", VTRAIN_FULL },
    { "objective", "auto", 0 },
    { "objective", "flow", 1 + VTRAIN_FLOW },
    { "objective", "v", 1 + VTRAIN_V },
    { "weighting_scheme", "uniform", VTRAIN_UNIFORM },
    { "weighting_scheme", "logit_normal", VTRAIN_LOGIT_NORMAL },
    { "weighting_scheme", "mode", VTRAIN_MODE },
    { "weighting_scheme", "sigma_sqrt", VTRAIN_SIGMA_SQRT },
    { "weighting_scheme", "cosmap", VTRAIN_COSMAP },
    { "weighting_scheme", "bell", VTRAIN_BELL },
    { "weighting_scheme", "weighted", VTRAIN_WEIGHTED },
    { "weighting_scheme", "stretched", VTRAIN_STRETCHED },
    { "weighting_scheme", "none", OTHER },
    { "timestep_sampling", "auto", VTRAIN_SAMPLING_AUTO },
    { "timestep_sampling", "sigma", VTRAIN_SAMPLING_SIGMA },
    { "timestep_sampling", "uniform", VTRAIN_SAMPLING_UNIFORM },
    { "timestep_sampling", "sigmoid", VTRAIN_SAMPLING_SIGMOID },
    { "timestep_sampling", "shift", VTRAIN_SAMPLING_SHIFT },
    { "timestep_sampling", "logsnr", VTRAIN_SAMPLING_LOGSNR },
    { "timestep_sampling", "flux_shift", VTRAIN_SAMPLING_FLUX_SHIFT },
    { "timestep_sampling", "flux2_shift", VTRAIN_SAMPLING_FLUX2_SHIFT },
    { "timestep_sampling", "qwen_shift", VTRAIN_SAMPLING_QWEN_SHIFT },
    { "timestep_sampling", "ideogram4_shift", VTRAIN_SAMPLING_IDEOGRAM4_SHIFT },
    { "loss_type", "mse", VTRAIN_MSE },
    { "loss_type", "huber", VTRAIN_HUBER },
    { "loss_type", "smooth_l1", VTRAIN_SMOOTH_L1 },
    { "loss_type", "l2", OTHER },
    { "optimizer", "adamw", VT_ADAMW },
    { "optimizer", "adamw_bf16", VT_ADAMW_BF16 },
    { "optimizer", "adamw8bit", VT_ADAMW8BIT },
    { "optimizer", "lion", VT_LION },
    { "optimizer", "lion8bit", VT_LION8BIT },
    { "optimizer", "prodigy", VT_PRODIGY },
    { "optimizer", "adafactor", VT_ADAFACTOR },
    { "optimizer", "schedule_free", VT_SCHEDULE_FREE },
    { "optimizer", "muon", VT_MUON },
    { "optimizer", "adamw_8bit", OTHER }, { "optimizer", "paged_adamw8bit", OTHER },
    { "optimizer", "pagedadamw8bit", OTHER }, { "optimizer", "pagedadamw", OTHER },
    { "optimizer", "pagedlion8bit", OTHER },
    { "optimizer", "adamwschedulefree", OTHER }, { "optimizer", "adamw_schedulefree", OTHER },
    { "optimizer", "schedule_free_adamw", OTHER },
    { "muon_adjust_lr_fn", "match_rms_adamw", VT_MUON_MATCH_RMS },
    { "muon_adjust_lr_fn", "original", VT_MUON_ORIGINAL },
    { "lr_scheduler", "constant", VTRAIN_CONSTANT },
    { "lr_scheduler", "constant_with_warmup", VTRAIN_CONSTANT_WITH_WARMUP },
    { "lr_scheduler", "linear", VTRAIN_LINEAR },
    { "lr_scheduler", "cosine", VTRAIN_COSINE },
    { "lr_scheduler", "cosine_with_restarts", VTRAIN_COSINE_WITH_RESTARTS },
    { "lr_scheduler", "polynomial", VTRAIN_POLYNOMIAL },
    { "lr_scheduler", "piecewise_constant", VTRAIN_PIECEWISE_CONSTANT },
    { "lr_scheduler", "inverse_sqrt", VTRAIN_INVERSE_SQRT },
    { "mixed_precision", "no", VTRAIN_PRECISION_NO },
    { "mixed_precision", "bf16", VTRAIN_PRECISION_BF16 },
    { "gradient_checkpointing", "block", VTRAIN_REMAT_BLOCK },
    { "gradient_checkpointing", "keep_attention", VTRAIN_REMAT_KEEP_ATTENTION },
    { "gradient_checkpointing", "auto", VTRAIN_REMAT_AUTO },
    { "gradient_checkpointing", "none", VTRAIN_REMAT_NONE },
    { "parallel", "ddp", VTRAIN_DDP },
    { "parallel", "zero2", VTRAIN_ZERO2 },
    { "parallel", "fsdp", VTRAIN_FSDP },
    { "guidance_schedule", "constant", VTRAIN_GUIDE_EVENLY },
    { "guidance_schedule", "cosine", VTRAIN_GUIDE_BY_STEP },
    { "guidance_schedule", "cosine_time", VTRAIN_GUIDE_BY_TIME },
    { "validation_sampler", "auto", 0 },
    { "validation_sampler", "ddim", 1 + VTRAIN_DDIM },
    { "validation_sampler", "dpm", 1 + VTRAIN_DPM },
    { "validation_sampler", "euler", 1 + VTRAIN_EULER },
    { "validation_sampler", "unipc", 1 + VTRAIN_UNIPC },
};
enum { CHOICES = sizeof choices / sizeof *choices };

static const vc_flag *flag_of(const char *name)
{
    const vc_flag *f = vtrain_program.flags;
    while (f->name && (f->kind == VC_GROUP || strcmp(f->name, name)))
        f++;
    if (!f->name)
        fail_msg("--%s: no such flag", name);
    return f;
}

/* Compares the flag's words with the rows from `first` on; returns the row after the flag's. */
static int check_flag(int first)
{
    const char *name = choices[first].flag, *word = flag_of(name)->allowed;
    int i = first;
    for (int index = 0; word; index++, i++) {
        size_t n = strcspn(word, "|");
        const struct choice *c = &choices[i];
        if (i == CHOICES || strcmp(c->flag, name))
            fail_msg("--%s %.*s: a word without a row", name, (int)n, word);
        if (strlen(c->word) != n || strncmp(c->word, word, n))
            fail_msg("--%s: %.*s stands where %s is expected", name, (int)n, word, c->word);
        if (c->index != OTHER && c->index != index)
            fail_msg("--%s %s: word %d, but %d in the enum", name, c->word, index, c->index);
        word = word[n] ? word + n + 1 : NULL;
    }
    return i;
}

static void test_words(void **state)
{
    (void)state;
    for (int i = 0; i < CHOICES; i = check_flag(i))
        ;
}

static void test_schedules(void **state)
{
    (void)state;
    for (int i = 0; i < CHOICES; i++)
        if (!strcmp(choices[i].flag, "lr_scheduler"))
            assert_string_equal(vtrain_schedule_name((vtrain_schedule)choices[i].index),
                                choices[i].word);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_schedules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
