/* test_memory.c - the predicted memory of a run: the recomputed blocks of the least work that fit
 * are chosen, and an error gives remedies where none fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/adapters/adapter.h"
#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_run.h"
#include "train/parallel/state.h"
#include "train/plan/memory.h"
#include "train/steps/step.h"
#include "train/vtrain.h"

enum { BLOCKS = 6, GROUPS = 2 };

#define SAYS(err, part)                                                                            \
    do {                                                                                           \
        if (!strstr((err).text, (part)))                                                           \
            fail_msg("\"%s\" does not contain \"%s\"", (err).text, (part));                        \
    } while (0)

static char dir[256];

/* Opens a run up to the choice of the trained parameters: a new model of BLOCKS blocks, and two
 * buckets. */
static void open_bare(vtrain *t)
{
    vc_err err = { 0 };
    char *path = vc_path_join(dir, "set.lmdb"), *note;
    const vc_list paths = { &path, 1 };
    const vtrain_data_opts o = { .paths = &paths, .dataset_repeat = 1 };

    *t = (vtrain){ .model.family = &vtrain_builtin };
    t->cfg = (vtrain_config){ .train_batch_size = 2,
                              .gradient_accumulation_steps = 1, .sp = 1,
                              .training_type = VTRAIN_FULL,
                              .transformer_dtype = VC_DTYPE_NONE };
    t->plan.epoch_batches = 3;
    int rc = vtrain_data_open(&t->data, &o, &note, &err);
    free(note);
    if (!rc)
        rc = vt_open(&t->g, &(vt_options){ .threads = 1 }, &err);
    if (!rc)
        rc = vt_params_open(&t->params, t->g, &err);
    const vtrain_fresh want = { .channels = vtrain_data_norm(t->data)->channels,
                                .text_width = vtrain_data_slot(t->data, 0)->width,
                                .width = 32, .layers = BLOCKS, .heads = 2, .patch = 2 };
    if (!rc)
        rc = t->model.family->fresh(&t->model.config, &want, &err);
    if (!rc)
        rc = vtrain_dit_open(&t->model.dit, t->model.family, t->model.config, t->params,
                             &(vt_source){ 0 }, &err);
    const vtrain_objective_opts how = { .kind = VTRAIN_FLOW, .shift = 1, .logit_std = 1,
                                        .micros = 1 };
    if (!rc)
        rc = vtrain_objective_open(&t->objective, &how, &err);
    assert_ok(rc, &err);
    free(path);
    assert_int_equal(vtrain_data_groups(t->data), GROUPS);
}

/* Touches more of the stack than a plan uses: where a deeper call happens to reach a new page, a
 * plan would count it as memory of its dry steps. */
static void touch_stack(void)
{
    volatile char page[1 << 20];
    for (size_t i = 0; i < sizeof page; i += 4096)
        page[i] = 0;
}

/* Opens a full finetune up to its plan. */
static void open_run(vtrain *t)
{
    vc_err err = { 0 };
    const vtrain_loader_opts load = { .plan.batch = 2, .threads = 1, .ahead = 1, .end = 1 };
    touch_stack();
    open_bare(t);
    t->samples.span = calloc(1, sizeof *t->samples.span);
    t->samples.span[0].batch = 2;
    t->samples.n_spans = 1;
    assert_ok(vt_params_train(t->params, NULL, NULL, &err) ||
              vtrain_opt_open(&t->optim.state, NULL, t->g, t->params,
                              &(vtrain_opt_opts){ .how = VT_ADAMW }, &err) ||
              vtrain_loader_open(&t->loader, t->data, &load, &err), &err);
    /* Its thread has ended: what it allocates for a while would count as memory of dry steps. */
    const vtrain_batch *b;
    double waited;
    assert_ok(vtrain_loader_next(t->loader, &b, &waited, &err), &err);
    vtrain_loader_give_back(t->loader, b);
}

static void close_run(vtrain *t)
{
    vtrain_spans_free(t->samples.span, t->samples.n_spans);
    free(t->plan.recompute);
    free(t->plan.group_flops);
    vtrain_loader_close(t->loader);
    vtrain_objective_close(t->objective);
    vtrain_opt_close(t->optim.state);
    vtrain_dit_close(t->model.dit);
    vt_params_close(t->params);
    vt_close(t->g);
    cJSON_Delete(t->model.config);
    vtrain_data_close(t->data);
}

static int plan(vtrain *t, int how, int64_t limit, vc_err *err)
{
    free(t->plan.recompute);
    free(t->plan.group_flops);
    t->plan.recompute = NULL;
    t->plan.group_flops = NULL;
    t->cfg.gradient_checkpointing = how;
    t->cfg.memory_limit = limit;
    return vtrain_memory_plan(t, err);
}

/* Bytes and work of a step of each group, by the way and number of its recomputed blocks. */
typedef struct measured { int64_t taken; double flops; } measured;
typedef measured table[GROUPS][2][BLOCKS + 1];
static const vt_remat ways[2] = { VT_RECOMPUTE, VT_KEEP_ATTENTION };

static void measure(vtrain *t, table m)
{
    for (uint32_t i = 0; i < GROUPS; i++)
        for (int n = 0; n < 2 * (BLOCKS + 1); n++) {
            const vtrain_group *g = vtrain_data_group(t->data, i);
            const int64_t dim[5] = { 2, vtrain_data_norm(t->data)->channels, g->padded, g->h,
                                     g->w };
            const int way = n % 2, blocks = n / 2;
            vt_usage use;
            vc_err err = { 0 };
            const vtrain_recompute how = { blocks, ways[way] };
            assert_ok(vtrain_micro_dry(t, dim, &(vtrain_own){ 0 }, true, how, NULL, &use, &err),
                      &err);
            measured *x = &m[i][way][blocks];
            *x = (measured){ (int64_t)(use.pool_peak + use.scratch), use.flops };
            assert_true(blocks == 0 || blocks == BLOCKS || x->taken < x[-1].taken);
        }
}

/* Of all steps that fit, the one of the least work, and of these the one of the fewest bytes; the
 * least that there is where none fits. */
static vtrain_recompute best(measured m[2][BLOCKS + 1], int64_t most)
{
    vtrain_recompute r = { BLOCKS, VT_RECOMPUTE };
    double least = 0;
    for (int n = 0; n <= BLOCKS; n++)
        for (int way = 0; way < 2; way++) {
            const measured *x = &m[way][n];
            if (x->taken > most || (least > 0 && x->flops >= least))
                continue;
            least = x->flops;
            r = (vtrain_recompute){ n, ways[way] };
        }
    return r;
}

static int blocks_of(const vtrain *t)
{
    return t->plan.recompute[0].blocks + t->plan.recompute[1].blocks;
}

/* With a limit at, and one byte below, the peak of each way and number of blocks, each bucket gets
 * the plan of the least work that fits, and the predicted peak is the larger bucket's. The values
 * none, block and keep_attention leave no choice. */
static void test_cheapest(void **state)
{
    (void)state;
    vtrain t;
    vc_err err = { 0 };
    table m;
    int differ = 0, kept = 0;

    open_run(&t);
    measure(&t, m);
    assert_int_equal(plan(&t, VTRAIN_REMAT_NONE, 0, &err), 0);
    assert_int_equal(blocks_of(&t), 0);
    int64_t standing = t.plan.standing;
    assert_true(standing > 16 * vt_params_bytes(t.params).trained);
    for (int way = 0; way < 2; way++) {
        int how = way ? VTRAIN_REMAT_KEEP_ATTENTION : VTRAIN_REMAT_BLOCK;
        assert_int_equal(plan(&t, how, 1, &err), 0);
        assert_int_equal(blocks_of(&t), 2 * BLOCKS);
        assert_int_equal(t.plan.recompute[1].how, ways[way]);
        assert_int_equal(t.plan.pool, m[t.plan.largest][way][BLOCKS].taken);
    }
    for (int at = 0; at < GROUPS * 2 * (BLOCKS + 1) * 2; at++) {
        int64_t most = m[at / 2 % GROUPS][at / 4 % 2][at / 8].taken - at % 2, peak = 0;
        assert_ok(plan(&t, VTRAIN_REMAT_AUTO, standing + most, &err), &err);
        for (int i = 0; i < GROUPS; i++) {
            const vtrain_recompute want = best(m[i], most), *r = &t.plan.recompute[i];
            int64_t taken = m[i][want.how == VT_KEEP_ATTENTION][want.blocks].taken;
            assert_int_equal(r->blocks, want.blocks);
            assert_int_equal(r->how, want.how);
            peak = taken > peak ? taken : peak;
            kept += r->how == VT_KEEP_ATTENTION;
        }
        assert_int_equal(t.plan.pool, peak);
        assert_int_equal(t.plan.predicted, standing + peak);
        assert_int_equal(vtrain_memory_check(&t, &err), peak <= most ? 0 : VC_ENOMEM);
        differ += t.plan.recompute[0].blocks != t.plan.recompute[1].blocks;
    }
    assert_true(differ > 0 && kept > 0);
    close_run(&t);
}

static bool is_upper(void *arg, const char *module)
{
    (void)arg;
    return strstr(module, "blocks.4.") || strstr(module, "blocks.5.");
}

/* With adapters in the last two blocks alone, the blocks below keep no tape: to recompute them
 * saves no byte and costs no operation, so auto keeps all blocks where recomputing the two would
 * not help. */
static void test_blocks_below(void **state)
{
    (void)state;
    vtrain t;
    vc_err err = { 0 };
    vt_usage use[BLOCKS + 1];
    int linears;
    open_bare(&t);
    assert_ok(vt_params_lora(t.params, is_upper, NULL, 4, 4, 0, &linears, &err), &err);
    assert_true(linears > 0);
    const vtrain_group *g = vtrain_data_group(t.data, 0);
    const int64_t dim[5] = { 2, vtrain_data_norm(t.data)->channels, g->padded, g->h, g->w };
    for (int n = 0; n <= BLOCKS; n++)
        assert_ok(vtrain_micro_dry(&t, dim, &(vtrain_own){ 0 }, true,
                                   (vtrain_recompute){ n, VT_RECOMPUTE }, NULL, &use[n], &err),
                  &err);
    for (int n = 1; n <= BLOCKS - 2; n++) {
        assert_int_equal(use[n].saved, use[0].saved);
        assert_int_equal(use[n].pool_peak, use[0].pool_peak);
        assert_true(use[n].flops == use[0].flops);
    }
    assert_true(use[BLOCKS].saved < use[0].saved && use[BLOCKS].flops > use[0].flops);
    close_run(&t);
}

/* With a limit, blocks are recomputed before the run is refused, also where the flag says none. */
static void test_tries(void **state)
{
    (void)state;
    vtrain t;
    vc_err err = { 0 };
    open_run(&t);
    measure(&t, (table){ 0 });
    assert_int_equal(plan(&t, VTRAIN_REMAT_NONE, 0, &err), 0);
    int64_t standing = t.plan.standing, most = t.plan.pool;
    assert_int_equal(plan(&t, VTRAIN_REMAT_NONE, standing + most, &err), 0);
    assert_int_equal(blocks_of(&t), 0);
    assert_int_equal(t.cfg.gradient_checkpointing, VTRAIN_REMAT_NONE);
    for (int64_t less = 1; less <= most / 4; less = 1 + less * 16) {
        assert_int_equal(plan(&t, VTRAIN_REMAT_NONE, standing + most - less, &err), 0);
        assert_true(blocks_of(&t) > 0);
        assert_true((int64_t)t.plan.pool <= most - less);
        assert_int_equal(vtrain_memory_check(&t, &err), 0);
    }
    close_run(&t);
}

/* Above the limit, the error names the bucket, both sizes, and the flags that the run does not
 * use. */
static void test_too_much(void **state)
{
    (void)state;
    vtrain t;
    vc_err err = { 0 };
    open_run(&t);
    assert_int_equal(plan(&t, VTRAIN_REMAT_NONE, 1 << 20, &err), 0);
    assert_int_equal(blocks_of(&t), 2 * BLOCKS);
    assert_int_equal(vtrain_memory_check(&t, &err), VC_ENOMEM);
    SAYS(err, "bucket 2x4x4: a peak of ");
    SAYS(err, "is predicted, but --memory_limit is 1.0 MiB");
    SAYS(err, "To need less memory, give a smaller --train_batch_size, "
         "--optimizer adamw8bit, --offload_optimizer disk, or smaller buckets");
    t.cfg.optimizer = VT_ADAMW8BIT;
    t.cfg.train_batch_size = 1;
    t.cfg.training_type = VTRAIN_LORA;
    assert_int_equal(plan(&t, VTRAIN_REMAT_BLOCK, 1 << 20, &err), 0);
    assert_int_equal(vtrain_memory_check(&t, &err), VC_ENOMEM);
    SAYS(err, "To need less memory, give --transformer_dtype fp8 or nf4, a smaller --rank, or "
         "smaller buckets");
    close_run(&t);

    static const char args[] = "--dit_width 32 --dit_layers 2 --dit_heads 2 --memory_limit 1M";
    assert_int_equal(run(dir, "none", args, &err), VC_ENOMEM);
    SAYS(err, "--memory_limit is 1.0 MiB");
    assert_false(run_exists(dir, "none"));
}

/* A step that runs out of memory, dry or real, names bucket, op, tensor and flags. */
static void test_no_memory(void **state)
{
    (void)state;
    vtrain t;
    vc_err err = { 0 };
    open_run(&t);
    vt_ctx *g = t.g;
    vt_step_begin(g, 0);
    vt_randn(g, 2, (int64_t[]){ 1 << 30, 1 << 20 }, 1, 2, 3, 4);
    assert_int_equal(vt_step_end(g, &err), VC_ENOMEM);
    assert_int_equal(plan(&t, VTRAIN_REMAT_NONE, 0, &(vc_err){ 0 }), 0);
    assert_int_equal(vtrain_memory_remedy(&t, 0, VC_ENOMEM, &err), VC_ENOMEM);
    SAYS(err, "bucket 4x6: randn: ");
    SAYS(err, "[1073741824,1048576] f32 needs 4503599627370496 bytes");
    SAYS(err, "To need less memory, give --gradient_checkpointing=block");
    assert_int_equal(vtrain_memory_remedy(&t, 1, 0, &err), 0);
    close_run(&t);
}

static int setup(void **state)
{
    (void)state;
    run_dir_make(dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    toy_dir_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cheapest), cmocka_unit_test(test_tries),
        cmocka_unit_test(test_too_much), cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_blocks_below),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
