/* test_train.c - whole runs: repeated, resumed and recomputed runs have the same bits, files are
 * right, and wrong flags are refused. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/tensors/safetensors.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_run.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
#define TINY "--dit_width 32 --dit_layers 2 --dit_heads 2 "
#define WEIGHTS "/transformer/diffusion_pytorch_model.safetensors"

static void same_run(const char *dir, const char *a, const char *b, int step)
{
    char *ma = run_metrics(dir, a, NULL), *mb = run_metrics(dir, b, NULL);
    assert_string_equal(ma, mb);
    free(ma);
    free(mb);
    static const char *const files[] = { WEIGHTS, "/optimizer.safetensors" };
    for (size_t i = 0; i < COUNT(files); i++) {
        char *fa = vc_format("%s/checkpoint-%d%s", a, step, files[i]);
        char *fb = vc_format("%s/checkpoint-%d%s", b, step, files[i]);
        if (!run_same_file(dir, fa, fb))
            fail_msg("%s and %s differ", fa, fb);
        free(fa);
        free(fb);
    }
}

/* ---- the same bits ---- */

static void test_deterministic(void **state)
{
    const char *dir = *state;
    run_ok(dir, "a", TINY "--max_train_steps 5 --caption_dropout_p 0.3");
    run_ok(dir, "b", TINY "--max_train_steps 5 --caption_dropout_p 0.3 --workers 5 --threads 2");
    same_run(dir, "a", "b", 5);
    run_ok(dir, "c", TINY "--max_train_steps 5 --caption_dropout_p 0.3 --seed 6");
    assert_false(run_value(dir, "a", 0, "loss") == run_value(dir, "c", 0, "loss"));
}

static const struct { const char *name, *args; int half, all; } resumed[] = {
    { "plain", "", 3, 7 },
    { "all", "--use_ema --ema_decay 0.9 --gradient_accumulation_steps 3 --caption_dropout_p 0.4 "
      "--eval_split 0.2 --eval_steps 2 --dataset_repeat 3", 4, 6 },
    { "v", "--objective v --uniform_sampling --gradient_accumulation_steps 2", 1, 3 },
    { "bf16", "--optimizer adamw_bf16 --use_ema", 2, 5 },
    { "8bit", "--use_8bit_adam", 2, 5 },
    { "lion", "--optimizer Lion --use_ema", 2, 5 },
    { "lion8", "--optimizer_type bitsandbytes.optim.Lion8bit", 2, 5 },
    { "adafactor", "--optimizer Adafactor --use_ema", 2, 5 },
    { "muon", "--optimizer torch.optim.Muon --use_ema", 2, 5 },
    { "free", "--optimizer schedulefree.AdamWScheduleFree --lr_scheduler constant_with_warmup "
      "--lr_warmup_steps 3 --lr_warmup_from 1 --eval_split 0.2 --eval_steps 2", 2, 5 },
    { "prodigy", "--optimizer prodigy --use_ema --optimizer_args d0=1e-4", 2, 5 },
};

/* A run that stops after `half` steps and is resumed equals a run without a stop. */
static void test_resume(void **state)
{
    const char *dir = *state;
    for (size_t i = 0; i < COUNT(resumed); i++) {
        char whole[32], parts[32];
        snprintf(whole, sizeof whole, "%s-whole", resumed[i].name);
        snprintf(parts, sizeof parts, "%s-parts", resumed[i].name);
        char *args = vc_format(TINY "%s --max_train_steps %d", resumed[i].args, resumed[i].all);
        char *first = vc_format(TINY "%s --max_train_steps %d", resumed[i].args, resumed[i].half);
        char *again = vc_format("%s --resume_from_checkpoint latest", args);
        run_ok(dir, whole, args);
        run_ok(dir, parts, first);
        run_ok(dir, parts, again);
        same_run(dir, whole, parts, resumed[i].all);
        free(args);
        free(first);
        free(again);
    }
}

/* The state of an optimiser is refused by every other one, and the error names the right flag. */
static void test_resume_optimizer(void **state)
{
    static const char *const kinds[] = { "adamw", "adamw_bf16", "adamw8bit", "lion" };
    const char *dir = *state;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        char *args = vc_format(TINY "--max_train_steps 1 --optimizer %s", kinds[i]);
        run_ok(dir, kinds[i], args);
        free(args);
        for (size_t k = 0; k < COUNT(kinds); k++) {
            vc_err err = { 0 };
            args = vc_format(TINY "--max_train_steps 2 --resume_from_checkpoint 1 --optimizer %s",
                             kinds[k]);
            int rc = run(dir, kinds[i], args, &err);
            free(args);
            assert_int_equal(rc, i == k ? 0 : VC_EMISMATCH);
            char *remedy = vc_format("continue with --optimizer %s", kinds[i]);
            if (i != k && !strstr(err.text, remedy))
                fail_msg("%s", err.text);
            free(remedy);
        }
    }
    vc_err err = { 0 };
    assert_fails(run(dir, "no", TINY "--use_8bit_adam --optimizer adamw_bf16", &err), VC_EUSAGE,
                 &err, "--use_8bit_adam: means adamw8bit");
}

/* A run resumed from an older checkpoint cuts later lines, and writes equal lines again. */
static void test_resume_older(void **state)
{
    const char *dir = *state;
    vc_err err = { 0 };
    run_ok(dir, "old", TINY "--max_train_steps 6 --checkpointing_steps 2");
    run_ok(dir, "new", TINY "--max_train_steps 6 --checkpointing_steps 2");
    run_ok(dir, "new", TINY "--max_train_steps 6 --checkpointing_steps 2 "
           "--resume_from_checkpoint 2");
    same_run(dir, "old", "new", 6);
    assert_int_equal(run(dir, "new", TINY "--max_train_steps 6 --resume_from_checkpoint 3", &err),
                     VC_ENOENT);
    assert_fails(run(dir, "new", TINY "--max_train_steps 6", &err), VC_EUSAGE, &err,
                 "resume_from_checkpoint");
    int lines;
    free(run_metrics(dir, "new", &lines));
    assert_int_equal(lines, 6);                     /* no line is lost */
}

static void test_latest_without_one(void **state)
{
    const char *dir = *state;
    run_ok(dir, "first", TINY "--max_train_steps 1 --resume_from_checkpoint latest");
    assert_true(run_exists(dir, "first/checkpoint-1/trainer.json"));
}

static void test_recompute(void **state)
{
    const char *dir = *state;
    run_ok(dir, "keep", TINY "--max_train_steps 3 --gradient_checkpointing=none");
    run_ok(dir, "block", TINY "--max_train_steps 3 --gradient_checkpointing");
    run_ok(dir, "most", TINY "--max_train_steps 3 --gradient_checkpointing=keep_attention");
    same_run(dir, "keep", "block", 3);
    same_run(dir, "keep", "most", 3);
}

/* ---- learning ---- */

static double mean_loss(const char *dir, const char *out, int from, int to)
{
    double sum = 0;
    for (int i = from; i < to; i++)
        sum += run_value(dir, out, i, "loss");
    return sum / (to - from);
}

static void test_learns(void **state)
{
    const char *dir = *state;
    static const struct { const char *out, *args; } runs[] = {
        { "flow", "" }, { "v", "--objective v" }, { "bf16", "--mixed_precision bf16" },
    };
    for (size_t i = 0; i < COUNT(runs); i++) {
        char *args = vc_format(TINY "--max_train_steps 200 --learning_rate 5e-3 "
                               "--posterior mean %s", runs[i].args);
        char out[32];
        snprintf(out, sizeof out, "learn-%s", runs[i].out);
        run_ok(dir, out, args);
        double before = mean_loss(dir, out, 0, 5), after = mean_loss(dir, out, 180, 200);
        if (!(after < 0.7 * before))
            fail_msg("%s: %g, then %g", out, before, after);
        free(args);
    }
}

static void test_held_out(void **state)
{
    const char *dir = *state;
    run_ok(dir, "held", TINY "--max_train_steps 12 --eval_split 0.3 --eval_steps 5");
    for (int i = 0; i < 12; i++)
        assert_int_equal(!isnan(run_value(dir, "held", i, "eval_loss")),
                         i + 1 == 5 || i + 1 == 10 || i + 1 == 12);
    char *text = run_metrics(dir, "held", NULL), key[32];
    int seen = 0;
    for (int i = 0; i < 6; i++) {
        snprintf(key, sizeof key, "%012d/000", i);
        seen += strstr(text, key) != NULL;
    }
    assert_int_equal(seen, 5);                      /* of 6, by the draws of this seed */
    double level[4];
    const char *levels = strstr(text, "\"eval_levels\":[");
    assert_non_null(levels);
    assert_int_equal(sscanf(levels + 15, "%lf,%lf,%lf,%lf]", level, level + 1, level + 2,
                            level + 3), 4);
    double mean = (level[0] + level[1] + level[2] + level[3]) / 4;
    assert_true(fabs(mean - run_value(dir, "held", 4, "eval_loss")) < 1e-6 * mean);
    assert_true(level[0] != level[3]);
    free(text);
}

/* ---- LoRA ---- */

static void check_lora_file(const char *dir)
{
    vf_safetensors *f = run_open(dir, "lora/checkpoint-4/pytorch_lora_weights.safetensors");
    vf_view v;
    vc_err err = { 0 };
    assert_int_equal(vf_safetensors_count(f), 2 * 2 * 2);
    const char *name = "transformer.transformer_blocks.1.attn.to_q.lora_A.weight";
    assert_int_equal(vf_safetensors_get(f, name, &v, &err), 0);
    assert_int_equal(v.dim[0], 4);
    assert_int_equal(v.dim[1], 32);
    const char *roots = vf_safetensors_meta(f, "vlt_data");
    assert_true(roots && strlen(roots) == 32 && strspn(roots, "0123456789abcdef") == 32);
    assert_string_equal(vf_safetensors_meta(f, "vlt_plan"), TOY_PLAN);
    const char *meta = vf_safetensors_meta(f, "lora_adapter_metadata");
    assert_non_null(strstr(meta, "\"transformer.r\":4"));
    assert_non_null(strstr(meta, "\"transformer.lora_alpha\":4"));     /* B has the rest */
    assert_string_equal(vf_safetensors_meta(f, "vlt_network_alpha"), "8");
    assert_non_null(strstr(meta, "\"attn.to_q\""));
    vf_safetensors_close(f);
}

static void test_lora(void **state)
{
    const char *dir = *state;
    vc_err err = { 0 };
    run_ok(dir, "base", TINY "--max_train_steps 20 --learning_rate 3e-3");
    char *lora = vc_format("--model %s/base/checkpoint-20 --rank 4 --network_alpha 8 "
                           "--target_name to_q,to_k,ff.0,ff.2 --learning_rate 1e-2 ", dir);
    char *args = vc_format("%s --max_train_steps 4", lora);
    run_ok(dir, "lora", args);
    check_lora_file(dir);

    char *more = vc_format("%s --max_train_steps 1 --lora_checkpoint %s/lora/checkpoint-4", lora,
                           dir);
    run_ok(dir, "more", more);
    char *fresh = vc_format("%s --max_train_steps 1", lora);
    run_ok(dir, "fresh", fresh);
    /* The first loss is the same with the trained LoRA loaded and with the LoRA folded in. */
    char *fold = vc_format("%s --max_train_steps 1 --preset_lora_path %s/lora/checkpoint-4", lora,
                           dir);
    run_ok(dir, "fold", fold);
    double with = run_value(dir, "more", 0, "loss"), folded = run_value(dir, "fold", 0, "loss");
    double without = run_value(dir, "fresh", 0, "loss");
    assert_true(fabs(with - folded) < 1e-5 * with);
    assert_true(fabs(with - without) > 1e-4 * with);

    char *half = vc_format("%s --max_train_steps 2", lora);
    char *again = vc_format("%s --resume_from_checkpoint latest", args);
    run_ok(dir, "half", half);
    run_ok(dir, "half", again);
    assert_true(run_same_file(dir, "half/checkpoint-4/pytorch_lora_weights.safetensors",
                              "lora/checkpoint-4/pytorch_lora_weights.safetensors"));
    char *eight = vc_format("%s --fp8_models x", args);
    run_ok(dir, "eight", eight);
    for (int i = 0; i < 4; i++) {              /* within the rounding of 4 bits */
        double whole = run_value(dir, "lora", i, "loss"), held = run_value(dir, "eight", i, "loss");
        assert_true(held != whole && fabs(held - whole) < 0.02 * whole);
    }
    free(eight);
    eight = vc_format("%s --fp8_models x --transformer_dtype bf16", args);
    assert_int_equal(run(dir, "eight", eight, &err), VC_EUSAGE);
    free(eight);
    static const char *const held[] = {
        "int8", "int8 --int8_activations", "nf4 --int8_activations",
    };
    double loss[2];
    for (int i = 0; i < 3; i++) {              /* rounded activations need codes of int8 */
        static const char *const out[] = { "int8", "rounded", "refused" };
        eight = vc_format("%s --transformer_dtype %s", args, held[i]);
        assert_int_equal(run(dir, out[i], eight, &err), i < 2 ? 0 : VC_EUSAGE);
        if (i < 2)
            loss[i] = run_value(dir, out[i], 0, "loss");
        free(eight);
    }
    assert_true(strstr(err.text, "--transformer_dtype int8"));
    assert_true(loss[0] != loss[1] && fabs(loss[1] - loss[0]) < 0.005 * loss[0]);
    char *other = vc_format("%s --max_train_steps 1 --rank 2 --lora_checkpoint "
                            "%s/lora/checkpoint-4", lora, dir);
    assert_int_equal(run(dir, "other", other, &err), VC_EMISMATCH);
    free(lora);
    free(args);
    free(more);
    free(fresh);
    free(fold);
    free(half);
    free(again);
    free(other);
}

/* Training changes the named modules alone. */
static void test_trainable_modules(void **state)
{
    const char *dir = *state;
    run_ok(dir, "start", TINY "--max_train_steps 2");
    char *args = vc_format("--model %s/start/checkpoint-2 --training_type full-finetune "
                           "--trainable_modules to_q,norm_out --max_train_steps 2", dir);
    run_ok(dir, "some", args);
    vf_safetensors *a = run_open(dir, "start/checkpoint-2" WEIGHTS);
    vf_safetensors *b = run_open(dir, "some/checkpoint-2" WEIGHTS);
    int changed = 0;
    for (int i = 0; i < vf_safetensors_count(a); i++) {
        const vf_view *x = vf_safetensors_at(a, i), *y = vf_safetensors_at(b, i);
        assert_string_equal(x->name, y->name);
        bool named = strstr(x->name, "to_q") || strstr(x->name, "norm_out");
        bool differs = memcmp(x->data, y->data, x->bytes) != 0;
        if (differs && !named)
            fail_msg("%s changed", x->name);
        changed += differs;
    }
    assert_int_equal(changed, 4);
    vf_safetensors_close(a);
    vf_safetensors_close(b);
    free(args);
}

/* ---- samples ---- */

static void test_validation(void **state)
{
    const char *dir = *state;
    run_ok(dir, "val", TINY "--max_train_steps 4 --validation_steps 2 --num_inference_steps 3 "
           "--guidance_scale 2 --use_ema");
    run_ok(dir, "val-v", TINY "--max_train_steps 1 --validation_steps 1 --objective v "
           "--num_inference_steps 3 --guidance_scale 1");
    for (int step = 2; step <= 4; step += 2) {
        char path[64];
        snprintf(path, sizeof path, "val/validation/step-%d/001.safetensors", step);
        vf_safetensors *f = run_open(dir, path);
        vf_view v;
        assert_int_equal(vf_safetensors_get(f, "latents", &v, NULL), 0);
        const int64_t dim[4] = { 2, 4, 4, 2 };      /* 40 x 24 and 10 frames, in patches */
        assert_int_equal(v.nd, 4);
        assert_memory_equal(v.dim, dim, sizeof dim);
        assert_string_equal(vf_safetensors_meta(f, "prompt"), "prompt 1");
        assert_string_equal(vf_safetensors_meta(f, "negative_prompt"), "ugly");
        assert_string_equal(vf_safetensors_meta(f, "seed"), "7");
        assert_string_equal(vf_safetensors_meta(f, "fps"), "16");
        vf_safetensors_close(f);
    }
    assert_true(run_exists(dir, "val/validation/step-4/000.safetensors"));
    assert_true(run_exists(dir, "val-v/validation/step-1/000.safetensors"));
    assert_false(run_same_file(dir, "val/validation/step-2/000.safetensors",
                               "val/validation/step-4/000.safetensors"));
    assert_true(run_exists(dir, "val/report.html"));
}

/* ---- errors ---- */

static void test_not_a_number(void **state)
{
    const char *dir = *state;
    vc_err err = { 0 };
    assert_fails(run(dir, "nan", TINY "--max_train_steps 9 --checkpointing_steps 1 "
                 "--learning_rate 1e30 --max_grad_norm 0", &err), VC_ENUMERIC, &err, "step 2");
    assert_says(&err, "checkpoint-1");
    assert_true(run_exists(dir, "nan/checkpoint-1/trainer.json"));
    int lines;
    free(run_metrics(dir, "nan", &lines));
    assert_int_equal(lines, 1);
    assert_says(&err, "a lower --learning_rate");
    assert_fails(run(dir, "nan", TINY "--max_train_steps 9 --resume_from_checkpoint latest "
                     "--max_grad_norm 0", &err), VC_ENUMERIC, &err, "step 2");
    assert_says(&err, "the cause is in the weights that it read or in these samples");
    assert_null(strstr(err.text, "learning_rate"));
}

/* A checkpoint holds finite values alone. */
static void test_not_finite(void **state)
{
    const char *dir = *state;
    vc_err err = { 0 };
    assert_fails(run(dir, "infinite", TINY "--max_train_steps 2 --checkpointing_steps 1 "
                     "--learning_rate 3e38 --adam_weight_decay 100", &err), VC_ENUMERIC, &err,
                 "checkpoint of step 1");
    assert_says(&err, "a value is NaN or infinite: the last update spoiled it");
    assert_says(&err, "there is no whole checkpoint yet");
    assert_false(run_exists(dir, "infinite/checkpoint-1"));
    assert_false(run_exists(dir, "infinite/checkpoint-1.tmp"));
}

/* A full disk during the second checkpoint leaves the first. */
static void test_full_disk(void **state)
{
    const char *dir = *state;
    vc_err err = { 0 };
    struct rlimit old, low;
    run_ok(dir, "full", TINY "--max_train_steps 1");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    low = old;
    low.rlim_cur = 100000;
    setrlimit(RLIMIT_FSIZE, &low);
    int rc = run(dir, "full", TINY "--max_train_steps 2 --resume_from_checkpoint latest", &err);
    setrlimit(RLIMIT_FSIZE, &old);
    if (rc != VC_EFULL)
        fail_msg("%d %s", rc, err.text);
    assert_says(&err, "checkpoint of step 2");
    assert_says(&err, "File too large: raise the limit on the size of a file");
    assert_null(strstr(err.text, "are free"));
    assert_false(run_exists(dir, "full/checkpoint-2.tmp"));
    assert_false(run_exists(dir, "full/checkpoint-2"));
    run_ok(dir, "full", TINY "--max_train_steps 2 --resume_from_checkpoint latest");
    run_ok(dir, "fits", TINY "--max_train_steps 2");
    same_run(dir, "full", "fits", 2);
}

static void test_limit(void **state)
{
    const char *dir = *state;
    run_ok(dir, "limit", TINY "--max_train_steps 5 --checkpointing_steps 1 "
           "--checkpointing_limit 2");
    for (int i = 1; i <= 5; i++) {
        char path[32];
        snprintf(path, sizeof path, "limit/checkpoint-%d", i);
        assert_int_equal(run_exists(dir, path), i >= 4);
    }
}

/* Flags that are refused; %s is the folder of the test. */
static const struct { int rc; const char *args, *says; } refused[] = {
    { VC_EUSAGE, "--latents %s/set.lmdb", "output_dir" },
    { VC_EUSAGE, "--output_dir %s/no", "latents" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --learning_rte 1", "learning_rate" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --learning_rate -1", "learning_rate" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --training_type lora", "--model" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --target_name to_q", "full finetune" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --rank 8", "full finetune" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --network_alpha 8", "full finetune" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --lora_alpha 1e39", "range" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --trainable_models vae", "dit" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --trainable_models dit "
      "--training_type lora", "trainable_models" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --model THUDM/CogVideoX-2b",
      "downloaded" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --eval_steps 3", "eval_split" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --train_batch_size 0",
      "leave the flag out for the usual " },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --skip_layer_guidance_stop 0.3",
      "give --skip_guidance_layers too" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --lr_warmup_steps 3", "warm" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --dit_width 100", "heads" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --objective v --flow_shift 3", "flow" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --main_process_ip x", "mpirun" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --report_to paper", "tensorboard" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --lr_scheduler piecewise_constant",
      "lr_step_rules" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --lr_num_cycles 3", "restarts" },
    { VC_EUSAGE, "--latents %s/a,b.lmdb --output_dir %s/no", "write the flag again" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --trainable_modules nothing",
      "name contains \"nothing\"" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --trainable_modules to_q,to_z,to_k",
      "name contains \"to_z\"" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --trainable_modules ,",
      "trainable_modules: the list is empty" },
    { VC_EUSAGE, "--latents %s/set.lmdb --output_dir %s/no --device tpu", "tpu" },
    { VC_ENOENT, "--latents %s/none.lmdb --output_dir %s/no", "none.lmdb" },
    { VC_EMISMATCH, "--latents %s/set.lmdb --output_dir %s/no --dit_width 32 --dit_heads 2 "
      "--dit_patch 4", "multiples" },
};

static void test_refused(void **state)
{
    const char *dir = *state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        vc_err err = { 0 };
        char args[900];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(args, sizeof args, refused[i].args, dir, dir);
#pragma GCC diagnostic pop
        int rc = run_bare(args, &err);
        if (rc != refused[i].rc || !strstr(err.text, refused[i].says))
            fail_msg("%s: %d %s", args, rc, err.text);
        assert_false(run_exists(dir, "no"));        /* nothing was written */
    }
}

/* A dataset with a pooled-only slot is accepted by a transformer that does not read the slot, in
 * samples too, and refused by a transformer that reads the slot's tokens. */
static void test_pooled_slots(void **state)
{
    static const toy_sample one[] = { { .number = 0, .f = 2, .h = 4, .w = 4, .caption = { "a" } } };
    const char *dir = *state;
    for (int slot = 0; slot < 2; slot++) {
        char *path = vc_format("%s/pooled-%d.lmdb", dir, slot);
        char *args =
            vc_format("--latents %s --output_dir %s/pooled %s --max_train_steps 2 --threads 1 "
                               "--validation_steps 1 --num_inference_steps 2", path, dir, TINY);
        vc_err err = { 0 };
        toy_make(&(toy){ .path = path, .sample = one, .n = 1, .pooled = 4, .encoders = 2,
                         .pooled_only = 1u << slot, .prompts = 1 });
        int rc = run_bare(args, &err);
        if (rc != (slot ? 0 : VC_EMISMATCH))
            fail_msg("slot %d: %d %s", slot, rc, err.text);
        assert_true(slot || strstr(err.text, "text_encoder has pooled embeddings only"));
        free(path);
        free(args);
    }
    assert_true(run_exists(dir, "pooled/validation/step-1/000.safetensors"));
}

/* Flags of other trainers are accepted. */
static void test_foreign(void **state)
{
    const char *dir = *state;
    run_ok(dir, "foreign", TINY "--train_data_meta x.json --video_sample_size 640 --low_vram "
           "--use_peft_lora --vae_mini_batch 1 --enable_bucket --random_hw_adapt --task sft "
           "--dataloader_num_workers 8 --lr 1e-4 --train-steps=1 --weight-decay 3e-2 "
           "--use_gradient_checkpointing --batch_size 1 --checkpoints_total_limit 3");
    assert_true(run_value(dir, "foreign", 0, "lr") == 1e-4);
}

/* A run with the config.yaml of another run equals that run. */
static void test_config(void **state)
{
    const char *dir = *state;
    run_ok(dir, "one", TINY "--max_train_steps 2 --caption_dropout_p 0.5 --use_ema");
    char *args = vc_format("--config %s/one/config.yaml --output_dir %s/two", dir, dir);
    vc_err err = { 0 };
    assert_ok(run_bare(args, &err), &err);
    same_run(dir, "one", "two", 2);
    free(args);
}

/* The settings of a run with --like make an equal run without --like. */
static void test_like(void **state)
{
    const char *dir = *state;
    run_ok(dir, "like", TINY "--max_train_steps 7 --like diffsynth --adam_beta1 0.8");
    char *sed = vc_format("sed -i -e '/^like:/d' -e '/^export_/d' -e '/^bake_/d' "
                          "%s/like/config.yaml", dir);
    char *args = vc_format("--config %s/like/config.yaml --output_dir %s/unlike", dir, dir);
    vc_err err = { 0 };
    assert_int_equal(system(sed), 0);
    assert_ok(run_bare(args, &err), &err);
    same_run(dir, "like", "unlike", 7);
    free(sed);
    free(args);
}

/* A dry run prints its plan, and nothing else, on stdout, with --quiet too. */
static void test_dry_run(void **state)
{
    static const char *const lines[] = { "model: ", "data: ", "device: ", "steps: ", "memory: " };
    const char *dir = *state, *build = getenv("VLT_BUILD");
    char *command = vc_format("'%s/vtrain' --latents %s/set.lmdb --output_dir %s/dry " TINY
                              "--dry_run --quiet 2>%s/stderr", build ? build : "build", dir, dir,
                              dir);
    FILE *f = popen(command, "r");
    char text[4096] = "";
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    assert_int_equal(pclose(f), 0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const char *at = strstr(text, lines[i]);
        if (!at || (i ? at[-1] != '\n' : at != text))
            fail_msg("no line '%s' in %s", lines[i], text);
    }
    assert_false(run_exists(dir, "dry"));
    free(command);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, run_dir_setup, toy_dir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_deterministic), TEST(test_resume),     TEST(test_resume_optimizer),
        TEST(test_resume_older),
        TEST(test_latest_without_one), TEST(test_recompute), TEST(test_learns),
        TEST(test_held_out),      TEST(test_lora),       TEST(test_trainable_modules),
        TEST(test_validation),    TEST(test_not_a_number), TEST(test_not_finite),
        TEST(test_full_disk),     TEST(test_limit),      TEST(test_refused),
        TEST(test_pooled_slots),
        TEST(test_foreign),       TEST(test_config),     TEST(test_like),
        TEST(test_dry_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
