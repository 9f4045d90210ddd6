/* test_train_streams.c - ranks that share the tokens of two streams (--sp with Wan VACE, whose
 * blocks stand beside Wan's) train like one rank, with any --parallel. Without MPI the test is
 * skipped. */
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
    vf_safetensors *f = golden_open("wan-vace");
    golden_model(f, transformer, VC_F32);
    vf_safetensors_close(f);
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

int main(void)
{
    char dir[256];
    int skipped = ranks_begin();
    if (skipped)
        return skipped;
    toy_dir_make(dir);
    ranks_model = "--mixed_precision no --training_type full-finetune --caption_dropout_p 0";
    const struct CMUnitTest tests[] = { cmocka_unit_test_prestate(test_vace, dir) };
    const ranks_tests all = { .all = RANKS_GROUP(tests) };
    return ranks_end(&all, dir);
}
