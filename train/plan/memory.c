/* memory.c - predicts memory: the bytes held during the whole run, down to the names of tensors,
 * the bytes of a step of each bucket (measured by dry steps), the number of blocks to recompute so
 * that a step fits, and the flags that would need less. */
#include "train/plan/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/os/heap.h"
#include "common/os/limits.h"
#include "common/tensor/packing.h"
#include "train/models/weights.h"
#include "train/parallel/dist.h"
#include "train/parallel/state.h"
#include "train/steps/step.h"

enum { PASSES = 4 };             /* of a plan, whose dry steps may make more kernels in each */
#define PART 0.85                /* of the free memory; a run above this part is likely to fail */

/* Reads without stdio, whose buffer would be allocated in every step. */
int64_t vtrain_private_bytes(void)
{
    char text[128];
    long long size, resident, shared;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    if (sscanf(text, "%lld %lld %lld", &size, &resident, &shared) != 3)
        return 0;
    return (resident - shared) * sysconf(_SC_PAGESIZE);
}

/* Bytes of memory available on this machine, and within the limit of its control group; 0 where
 * unknown. */
static int64_t free_bytes(void)
{
    char line[128];
    long long kib = 0;
    const int64_t left = vc_limits_read("").memory_left;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return left < kib * 1024 ? left : kib * 1024;
}

/* Bytes of the model: weights, gradients, and what runs with it. */
static int64_t model_bytes(const vtrain *t)
{
    const vtrain_fit fit = vtrain_fit_of(t);
    const vt_param_bytes b = vt_params_bytes(t->params);
    const vtrain_unconditional *u = &t->model.unconditional;
    return (int64_t)(b.values + b.grads + fit.held + vtrain_weights_bytes(t->model.weights) +
                     vtrain_weights_bytes(t->model.low_weights) +
                     vtrain_weights_bytes(u->weights) +
                     (u->params ? vt_params_bytes(u->params).values : 0));
}

/* Bytes held during the whole run: the model, its tables, optimiser, averages, loader. */
static int64_t standing_bytes(const vtrain *t)
{
    return model_bytes(t) + t->plan.tables +
           (int64_t)(vtrain_opt_bytes(t->optim.state) + vtrain_loader_bytes(t->loader) +
                     vtrain_dist_bytes(t->ranks.dist));
}

/* Large values are mapped, and of folded LoRAs a dry run has none. */
void vtrain_memory_opened(vtrain *t)
{
    const vtrain_model *m = &t->model;
    const size_t folded = vtrain_weights_bytes(m->weights) + vtrain_weights_bytes(m->low_weights);
    const int64_t held = (int64_t)(vt_heap_bytes(t->g) + (t->cfg.dry_run ? 0 : folded));
    const int64_t rest = (int64_t)vc_heap_used() - t->memory.heap - held;
    t->plan.tables = rest > 0 && vt_host_memory(t->g) ? rest : 0;
}

/* Bytes that a step may take on this rank: its tensors, and the kernels' scratch. */
static int64_t room(const vtrain *t)
{
    int64_t standing = t->memory.base + t->plan.standing + t->plan.kernels;
    int64_t all = free_bytes() / vc_comm_locals(t->comm);
    if (t->cfg.memory_limit)
        return t->cfg.memory_limit - standing;
    int64_t device = (int64_t)vt_room(t->g);
    if (device)
        return device;
    return all ? (int64_t)(PART * (double)(all + vtrain_private_bytes())) - standing : INT64_MAX;
}

/* ---- dry steps ---- */

/* The most rows that a batch of the group has: a part of all its samples, where these are fewer
 * than a micro-batch. */
static int64_t rows_of(const vtrain *t, uint32_t group)
{
    int64_t parts = vtrain_parts(t), batch = parts * t->cfg.train_batch_size;
    int64_t most = vtrain_data_group(t->data, group)->most;
    most = most < 1 ? 1 : most < batch ? most : batch;
    return (most + parts - 1) / parts;
}

static int dry(vtrain *t, uint32_t group, vtrain_recompute recompute, vt_usage *use, vc_err *err)
{
    const vtrain_group *g = vtrain_data_group(t->data, group);
    const int64_t dim[5] = { rows_of(t, group), vtrain_data_norm(t->data)->channels,
                             g->padded, g->h, g->w };
    const vtrain_own none = { 0 };
    vt_usage alone;                            /* a step whose references are left out */
    int rc = vtrain_micro_dry(t, dim, &g->own, true, recompute, NULL, use, err);
    if (rc || !g->own.size[0][0] || !(t->cfg.reference_dropout_p > 0))
        return rc;
    rc = vtrain_micro_dry(t, dim, &none, true, recompute, NULL, &alone, err);
    use->flops += t->cfg.reference_dropout_p * (alone.flops - use->flops);
    use->pool_peak = alone.pool_peak > use->pool_peak ? alone.pool_peak : use->pool_peak;
    use->scratch = alone.scratch > use->scratch ? alone.scratch : use->scratch;
    return rc;
}

static int64_t taken(const vt_usage *use)
{
    return (int64_t)(use->pool_peak + use->scratch);
}

/* The same, but a step without memory is no error: it takes more bytes than there are. */
static int dry_bytes(vtrain *t, uint32_t group, vtrain_recompute recompute, vt_usage *use,
                     vc_err *err)
{
    int rc = dry(t, group, recompute, use, err);
    if (rc == VC_ENOMEM)
        *use = (vt_usage){ .pool_peak = SIZE_MAX / 2 };
    return rc == VC_ENOMEM ? 0 : rc;
}

/* Finds the fewest blocks to recompute in r's way so that the step fits, or all, where r->blocks 0
 * does not fit. Memory falls with their number; only recomputing the last block may save nothing,
 * as backward begins there. */
static int fewest(vtrain *t, uint32_t group, int64_t most, vtrain_recompute *r, vt_usage *use,
                  vc_err *err)
{
    int lo = 0, hi = t->plan.blocks, rc = 0;
    while (!rc && hi - lo > 1) {               /* hi fits, or is all; lo does not */
        const int middle = lo + (hi - lo) / 2;
        rc = dry_bytes(t, group, (vtrain_recompute){ middle, r->how }, use, err);
        if (taken(use) <= most)
            hi = middle;
        else
            lo = middle;
    }
    r->blocks = hi;
    return rc ? rc : dry_bytes(t, group, *r, use, err);
}

/* For auto: no block is recomputed if the step fits so, else as many as needed in the way that
 * takes less work, or all. To keep attention takes more blocks, each of less work. */
static int cheapest(vtrain *t, uint32_t group, int64_t most, vtrain_recompute *r, vc_err *err)
{
    vtrain_recompute all = { 0, VT_RECOMPUTE }, part = { 0, VT_KEEP_ATTENTION };
    vt_usage use, by_part;
    *r = all;
    int rc = dry_bytes(t, group, all, &use, err);
    if (rc || taken(&use) <= most)
        return rc;
    rc = fewest(t, group, most, &all, &use, err);
    if (!rc)
        rc = fewest(t, group, most, &part, &by_part, err);
    *r = !rc && taken(&by_part) <= most && by_part.flops < use.flops ? part : all;
    return rc;
}

static int plan_group(vtrain *t, uint32_t group, int64_t most, vt_usage *use, vc_err *err)
{
    static const vt_remat ways[] = { [VTRAIN_REMAT_BLOCK] = VT_RECOMPUTE,
                                     [VTRAIN_REMAT_KEEP_ATTENTION] = VT_KEEP_ATTENTION,
                                     [VTRAIN_REMAT_NONE] = VT_KEEP };
    const int how = t->cfg.gradient_checkpointing;
    vtrain_recompute *r = &t->plan.recompute[group];
    int rc = 0;
    if (how == VTRAIN_REMAT_AUTO)
        rc = cheapest(t, group, most, r, err);
    else
        *r = (vtrain_recompute){ how == VTRAIN_REMAT_NONE ? 0 : t->plan.blocks, ways[how] };
    return rc ? rc : dry(t, group, *r, use, err);
}

/* Adds the base's prediction to the work of a group whose target it is; it is a forward alone,
 * before the step, and takes no more memory. */
static int add_base(vtrain *t, uint32_t group, vt_usage *use, vc_err *err)
{
    const vtrain_group *g = vtrain_data_group(t->data, group);
    const int64_t dim[5] = { rows_of(t, group), vtrain_data_norm(t->data)->channels,
                             g->padded, g->h, g->w };
    vt_usage base;
    if (!g->base)
        return 0;
    int rc = vtrain_micro_dry(t, dim, &g->own, false, (vtrain_recompute){ 0, VT_KEEP },
                              NULL, &base, err);
    if (rc)
        return rc;
    use->flops += base.flops;
    use->pool_peak = base.pool_peak > use->pool_peak ? base.pool_peak : use->pool_peak;
    use->scratch = base.scratch > use->scratch ? base.scratch : use->scratch;
    return 0;
}

/* Plans all groups, with `most` bytes for a step. */
static int plan_groups(vtrain *t, int64_t most, vc_err *err)
{
    double work = 0;
    size_t pool = 0;
    t->plan.pool = t->plan.offloaded = 0;
    for (uint32_t i = 0; i < vtrain_data_groups(t->data); i++) {
        vt_usage use;
        int rc = plan_group(t, i, most, &use, err);
        if (rc)
            return vc_context(err, vtrain_memory_remedy(t, i, rc, err), "dry step");
        rc = add_base(t, i, &use, err);
        if (rc)
            return vc_context(err, vtrain_memory_remedy(t, i, rc, err), "dry step");
        t->plan.group_flops[i] = use.flops;
        work += use.flops * (double)vtrain_data_group(t->data, i)->repeats /
                (double)rows_of(t, i);
        if (use.offloaded > t->plan.offloaded)
            t->plan.offloaded = use.offloaded;
        pool = use.pool_peak > pool ? use.pool_peak : pool;
        if (taken(&use) <= (int64_t)t->plan.pool)
            continue;
        t->plan.pool = (size_t)taken(&use);
        t->plan.largest = i;
    }
    t->plan.flops = work / (double)t->plan.epoch_batches * (double)vtrain_micros(t) *
                    (double)t->cfg.sp;
    vt_expect(t->g, pool);
    return 0;
}

static void predict(vtrain *t)
{
    t->plan.predicted = t->memory.base + t->plan.standing + t->plan.kernels +
                        (int64_t)t->plan.pool;
}

/* Plans all groups with the memory that is left, and counts what the dry steps leave in memory.
 * *fits: on all ranks, the largest step has room. *grown: on a rank, more memory is counted now.
 * Collective. */
static int plan_once(vtrain *t, bool *fits, bool *grown, vc_err *err)
{
    double least = (double)room(t);            /* of all ranks, which recompute the same */
    int rc = vc_comm_reduce(t->comm, &least, 1, VC_COMM_MIN, err);
    if (rc)
        return rc;
    size_t before = vc_heap_used();
    rc = plan_groups(t, least < 0x1p62 ? (int64_t)least : INT64_MAX, err);
    size_t after = vc_heap_used();
    int64_t more = after > before ? (int64_t)(after - before) : 0;
    t->plan.kernels += more;
    predict(t);
    rc = vc_comm_agree(t->comm, rc, err);
    double all[2] = { (double)room(t) - (double)t->plan.pool, -(double)more };
    if (!rc)
        rc = vc_comm_reduce(t->comm, all, 2, VC_COMM_MIN, err);
    *fits = all[0] >= 0;
    *grown = all[1] < 0;
    return rc;
}

/* With a limit, blocks are recomputed also where the run was to recompute none. */
static bool try_recomputing(vtrain *t)
{
    char limit[32];
    if (!t->cfg.memory_limit || t->cfg.gradient_checkpointing != VTRAIN_REMAT_NONE)
        return false;
    vc_say(t->ui, "--memory_limit %s: a step does not fit without recomputation, so backward "
           "recomputes blocks in spite of --gradient_checkpointing none",
           vc_human_bytes(limit, (double)t->cfg.memory_limit));
    t->cfg.gradient_checkpointing = VTRAIN_REMAT_AUTO;
    return true;
}

int vtrain_memory_plan(vtrain *t, vc_err *err)
{
    bool fits = false, grown = false, again = true;
    uint32_t n = vtrain_data_groups(t->data);
    const vtrain_fit fit = vtrain_fit_of(t);
    t->plan.blocks = fit.blocks;
    t->plan.standing = standing_bytes(t);
    free(t->plan.recompute);                  /* of an earlier plan, of fewer samples */
    free(t->plan.group_flops);
    t->plan.recompute = calloc(n, sizeof *t->plan.recompute);
    t->plan.group_flops = calloc(n, sizeof *t->plan.group_flops);
    if (!t->plan.recompute || !t->plan.group_flops)
        return vc_no_memory(err);
    vc_heap_trim();
    int rc = 0;
    /* again: with the kernels, whose size is known now */
    for (int pass = 0; !rc && again && pass < PASSES; pass++) {
        rc = plan_once(t, &fits, &grown, err);
        again = !fits && (try_recomputing(t) ||
                          (grown && t->cfg.gradient_checkpointing == VTRAIN_REMAT_AUTO));
    }
    return rc;
}

/* The memory of the largest training step is the run's in any case. */
bool vtrain_memory_holds(const vtrain *t, const vt_usage *use)
{
    return taken(use) <= (int64_t)t->plan.pool || taken(use) <= room(t);
}

/* ---- a step without memory ---- */

/* Sets *r to the next way that does more work for less memory; false: there is none. */
static bool next_way(const vtrain *t, vtrain_recompute *r)
{
    bool whole = r->blocks == t->plan.blocks;
    if (whole && r->how == VT_RECOMPUTE)
        return false;
    if (whole)
        r->how = VT_RECOMPUTE;
    else
        r->blocks++;
    return true;
}

int vtrain_memory_less(vtrain *t, uint32_t group, bool lacks, bool *made, vc_err *err)
{
    vt_usage before, use;
    *made = false;
    bool can = t->cfg.gradient_checkpointing == VTRAIN_REMAT_AUTO && t->plan.recompute &&
               t->plan.spans == t->samples.n_spans;
    vtrain_recompute r = can ? t->plan.recompute[group] : (vtrain_recompute){ 0 };
    can = can && !dry(t, group, r, &before, NULL);
    for (bool more = true; more;) {
        can = can && next_way(t, &r) && !dry(t, group, r, &use, NULL);
        double no[2] = { !can, can && lacks && taken(&use) >= taken(&before) };
        int rc = vc_comm_reduce(t->comm, no, 2, VC_COMM_MAX, err);
        if (rc)
            return rc;
        *made = no[0] < 0.5 && no[1] < 0.5;
        more = no[0] < 0.5 && !*made;
    }
    if (*made) {
        t->plan.recompute[group] = r;
        t->plan.group_flops[group] = use.flops;
    }
    return 0;
}

/* ---- weights that are on the host ---- */

/* Bytes of block b's weights on the host. */
static int64_t host_bytes_of(const vtrain *t, int b)
{
    int64_t bytes = 0;
    for (int i = 0; i < vt_params_count(t->params); i++) {
        const vt_param *x = vt_params_at(t->params, i);
        if (x->block == b && vt_param_is_on_host(x->t))
            bytes += (int64_t)vc_dtype_bytes(x->t->dtype, (size_t)vt_count(x->t));
    }
    return bytes;
}

/* Finds the fewest blocks to leave on the host so that the device has room for the other blocks and
 * for copies of the two largest blocks left on the host. */
static int fewest_swapped(const vtrain *t)
{
    int64_t left = room(t) - (int64_t)t->plan.pool, largest = 0;
    int n = t->plan.blocks;
    for (int b = 0; b < n; b++)
        if (host_bytes_of(t, b) > largest)
            largest = host_bytes_of(t, b);
    for (; n > 0 && host_bytes_of(t, n - 1) + (n > 2 ? 2 : n - 1) * largest <= left; n--)
        left -= host_bytes_of(t, n - 1);
    return n;
}

int vtrain_memory_place(vtrain *t, vc_err *err)
{
    if (!vt_params_bytes(t->params).on_host)
        return 0;
    if (t->cfg.blocks_to_swap > t->plan.blocks)
        return vc_fail(err, VC_EUSAGE, "--blocks_to_swap %lld: the transformer has %d blocks",
                       (long long)t->cfg.blocks_to_swap, t->plan.blocks);
    t->plan.swapped = t->cfg.low_vram ? fewest_swapped(t) : (int)t->cfg.blocks_to_swap;
    int rc = vt_params_place(t->params, t->plan.swapped, err);
    if (rc)
        return vc_context(err, vtrain_memory_remedy(t, t->plan.largest, rc, err), "weights");
    t->plan.standing = standing_bytes(t);
    predict(t);
    return 0;
}

/* ---- too much ---- */

/* Writes a comma-separated list of flags that this run does not use and that would need less. */
static void remedies(const vtrain *t, uint32_t group, char *text, size_t size)
{
    const vtrain_config *c = &t->cfg;
    bool lora = c->training_type == VTRAIN_LORA;
    const vtrain_recompute again = vtrain_recomputed(t, group);
    char less[48] = "";
    if (vt_optimizers[c->optimizer].less)
        snprintf(less, sizeof less, "--optimizer %s", vt_optimizers[c->optimizer].less);
    const struct { bool helps; const char *flag; } all[] = {
        { again.blocks < t->plan.blocks || again.how != VT_RECOMPUTE,
          "--gradient_checkpointing=block" },
        { c->train_batch_size > 1, "a smaller --train_batch_size" },
        { !vt_host_memory(t->g) && !c->gradient_checkpointing_offload,
          "--gradient_checkpointing_offload" },
        { lora && !vt_packing_of(c->transformer_dtype), "--transformer_dtype fp8 or nf4" },
        { lora && vt_packing_of(c->transformer_dtype) && c->transformer_dtype != VC_NF4,
          "--transformer_dtype nf4" },
        { lora, "a smaller --rank" },
        { lora && !vt_host_memory(t->g) && t->plan.swapped < t->plan.blocks, "--low_vram" },
        { less[0], less },
        { !lora && !vtrain_opt_spilled(t->optim.state) && !vtrain_opt_hosted(t->optim.state),
          vt_host_memory(t->g) ? "--offload_optimizer disk" : "--offload_optimizer cpu" },
        { c->use_ema, "--no_use_ema" },
        { true, "or smaller buckets (vprep --video_sample_size, --video_sample_n_frames)" },
    };
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof all / sizeof *all && n < size; i++) {
        const char *flag = all[i].flag;
        if (!n && !strncmp(flag, "or ", 3))
            flag += 3;                         /* the last one is the only one */
        if (all[i].helps)
            n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", " : "", flag);
    }
}

int vtrain_memory_remedy(const vtrain *t, uint32_t group, int rc, vc_err *err)
{
    char flags[400];
    if (rc != VC_ENOMEM || !err)
        return vc_context(err, rc, "bucket %s", vtrain_data_group(t->data, group)->name);
    vc_err cause = *err;
    remedies(t, group, flags, sizeof flags);
    return vc_fail(err, rc, "bucket %s: %s. To need less memory, give %s",
                   vtrain_data_group(t->data, group)->name, cause.text, flags);
}

int vtrain_memory_check(const vtrain *t, vc_err *err)
{
    char peak[32], limit[32], there[64], flags[400];
    const char *bucket = vtrain_data_group(t->data, t->plan.largest)->name;
    int64_t over = (int64_t)t->plan.pool - room(t);
    if (over <= 0)
        return 0;
    remedies(t, t->plan.largest, flags, sizeof flags);
    vc_human_bytes(peak, (double)t->plan.predicted);
    vc_human_bytes(limit, (double)(t->plan.predicted - over));
    snprintf(there, sizeof there,
             t->cfg.memory_limit ? "--memory_limit is %s" : "about %s are free", limit);
    if (t->cfg.memory_limit && !t->cfg.dry_run)
        return vc_fail(err, VC_ENOMEM, "bucket %s: a peak of %s is predicted, but --memory_limit "
                       "is %s. To need less memory, give %s", bucket, peak, limit, flags);
    vc_warn(t->ui, "bucket %s: a peak of %s is predicted, but %s: the run %s. "
            "To need less memory, give %s", bucket, peak, there,
            t->cfg.memory_limit ? "would not start" : "may fail", flags);
    return 0;
}
