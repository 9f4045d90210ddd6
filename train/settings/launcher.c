/* launcher.c - settings of several ranks: those of accelerate, DeepSpeed and FSDP, the flags that a
 * DeepSpeed JSON file stands for, and the checks of the number of ranks. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "formats/json/json.h"
#include "train/settings/settings.h"

enum {
    MOST_BYTES = 1 << 20,            /* size of a DeepSpeed file */
    MOST_ROWS = 4096                 /* of --train_batch_size */
};

/* An entry of DeepSpeed's file and the flag that has its meaning here. */
typedef struct entry {
    const char *path;                /* "zero_optimization.stage" */
    const char *flag;
    const char *yes;                 /* the flag's value where the entry is true; NULL: the entry
                                      * is the value */
} entry;

static const entry entries[] = {
    { .path = "train_micro_batch_size_per_gpu", .flag = "train_batch_size" },
    { .path = "train_batch_size", .flag = "global_batch_size" },
    { .path = "gradient_accumulation_steps", .flag = "gradient_accumulation_steps" },
    { .path = "gradient_clipping", .flag = "max_grad_norm" },
    { .path = "bf16.enabled", .flag = "mixed_precision", .yes = "bf16" },
    { .path = "fp16.enabled", .flag = "mixed_precision", .yes = "fp16" },
    { .path = "zero_optimization.stage", .flag = "zero_stage" },
    { .path = "zero_optimization.offload_optimizer.device", .flag = "offload_optimizer" },
    { .path = "zero_optimization.offload_optimizer.nvme_path",
      .flag = "offload_optimizer_nvme_path" },
    { .path = "zero_optimization.offload_param.device", .flag = "offload_param" },
    { .path = "optimizer.type", .flag = "optimizer" },
    { .path = "optimizer.params.lr", .flag = "learning_rate" },
    { .path = "optimizer.params.eps", .flag = "adam_epsilon" },
    { .path = "optimizer.params.weight_decay", .flag = "adam_weight_decay" },
};

/* The value at "a.b.c", or NULL. */
static const cJSON *find(const cJSON *o, const char *path)
{
    char name[64];
    for (size_t n; o; path += n + 1) {
        n = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        o = cJSON_GetObjectItemCaseSensitive(o, name);
        if (!path[n])
            break;
    }
    return o;
}

static bool is_text(const cJSON *v, const char *text)
{
    return cJSON_IsString(v) && !strcmp(v->valuestring, text);
}

/* Sets the entry's flag unless the command line or --config has set the flag. "auto" leaves the
 * flag alone, as Hugging Face's trainers fill it in. */
static int take_entry(const entry *e, const cJSON *root, vc_flags *set, vc_err *err)
{
    const cJSON *v = find(root, e->path);
    char number[32];
    if (!v || cJSON_IsNull(v) || is_text(v, "auto") || (e->yes && cJSON_IsFalse(v)))
        return 0;
    const char *text = cJSON_IsString(v) ? v->valuestring : number;
    if (is_text(v, "Adam"))
        text = "AdamW";                  /* DeepSpeed's Adam decays weights as AdamW does */
    if (e->yes)
        text = cJSON_IsTrue(v) ? e->yes : NULL;
    else if (cJSON_IsNumber(v))
        snprintf(number, sizeof number, "%.15g", v->valuedouble);
    else if (!cJSON_IsString(v))
        text = NULL;
    if (!text)
        return vc_fail(err, VC_EUSAGE, "%s: %s or \"auto\" expected", e->path,
                       e->yes ? "true, false" : "a number");
    return vc_context(err, vc_flags_prefer(set, e->flag, text, err), "%s", e->path);
}

/* Whether the file's key is one of the table, or the first part of one. */
static bool is_known(const char *key)
{
    size_t n = strlen(key);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (!strncmp(entries[i].path, key, n) && strchr(".", entries[i].path[n]))
            return true;
    return false;
}

static void note_others(const cJSON *root, const char *path, vc_flags *set)
{
    char names[512] = "";
    const cJSON *v;
    cJSON_ArrayForEach(v, root) {
        size_t n = strlen(names);
        if (!is_known(v->string) && n < sizeof names - 3)
            snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", v->string);
    }
    if (*names)
        vc_flags_say(set, "--deepspeed_config %s: %s: no effect here", path, names);
}

static int take_file(const char *path, vc_flags *set, vc_err *err)
{
    cJSON *root = NULL;
    int rc = vf_json_read(&root, path, MOST_BYTES, err);
    if (!rc && !cJSON_IsObject(root))
        rc = vc_fail(err, VC_EUSAGE, "an object with DeepSpeed's settings expected");
    for (size_t i = 0; !rc && i < sizeof entries / sizeof *entries; i++)
        rc = take_entry(&entries[i], root, set, err);
    if (!rc)
        note_others(root, path, set);
    cJSON_Delete(root);
    if (rc == VC_EFORMAT || rc == VC_ENOENT)
        rc = VC_EUSAGE;
    return vc_context(err, rc, "--deepspeed_config %s", path);
}

int vtrain_take_launcher(vtrain_config *c, vc_flags *set, vc_err *err)
{
    static const char *const by_stage[] = { NULL, "ddp", "zero2", "zero2", "fsdp" };
    static const char *const by_strategy[] = { NULL, "fsdp", "zero2", "ddp" };
    int rc = 0;
    if (c->deepspeed_config)
        rc = vc_flags_catch(set, take_file(c->deepspeed_config, set, err), err);
    const char *parallel = by_stage[c->zero_stage];
    if (by_strategy[c->fsdp_sharding_strategy])
        parallel = by_strategy[c->fsdp_sharding_strategy];
    else if (!parallel && c->use_fsdp)
        parallel = "fsdp";
    /* config.yaml has the flags that these stand for */
    c->deepspeed_config = NULL;
    c->zero_stage = c->fsdp_sharding_strategy = 0;
    c->use_fsdp = false;
    return rc || !parallel ? rc : vc_flags_prefer(set, "parallel", parallel, err);
}

void vtrain_take_offload(vtrain_config *c, vc_flags *set)
{
    const bool nvme = !strcasecmp(c->offload_optimizer, "nvme");
    if (!strcasecmp(c->offload_optimizer, "none") || !strcasecmp(c->offload_optimizer, "false"))
        c->offload_optimizer = (char *)"none";
    if (nvme)
        c->offload_optimizer = c->offload_optimizer_nvme_path ? c->offload_optimizer_nvme_path
                                                              : (char *)"disk";
    else if (c->offload_optimizer_nvme_path)
        vc_flags_say(set, "--offload_optimizer_nvme_path: has no effect without "
                     "--offload_optimizer nvme");
    c->offload_optimizer_nvme_path = NULL;
    if (c->offload_param && c->training_type != VTRAIN_LORA)
        vc_flags_say(set, "--offload_param: has no effect: a full finetune's weights are trained "
                     "where they are; --parallel fsdp splits them over ranks");
    else if (c->offload_param && !c->blocks_to_swap)
        c->low_vram = true;
    c->offload_param = 0;
}

/* ---- the number of ranks ---- */

static int not_with(vc_err *err, const char *flag, const char *why)
{
    return vc_fail(err, VC_EUSAGE, "--%s: %s", flag, why);
}

/* Sets the samples per micro-batch, or else the micro-batches per step, by --global_batch_size.
 * groups: the ranks that train on samples of their own. */
static int check_global_batch(vtrain_config *c, int groups, vc_err *err)
{
    int64_t all = c->global_batch_size, *left = &c->gradient_accumulation_steps;
    int64_t others = groups * (c->train_batch_size ? c->train_batch_size : *left);
    if (!all)
        return 0;
    if (all % others)
        return vc_fail(err, VC_EUSAGE, "--global_batch_size %lld: is no multiple of %d ranks "
                       "(those that share samples counted once) times %lld, --%s", (long long)all,
                       groups, (long long)(others / groups),
                       c->train_batch_size ? "train_batch_size" : "gradient_accumulation_steps");
    if (!c->train_batch_size)
        left = &c->train_batch_size;
    else if (*left > 1 && *left != all / others)
        return vc_fail(err, VC_EUSAGE, "--global_batch_size %lld: %d ranks (those that "
                       "share samples counted once) times --train_batch_size %lld times "
                       "--gradient_accumulation_steps %lld are another number: leave one of the "
                       "flags out", (long long)all, groups,
                       (long long)c->train_batch_size, (long long)*left);
    if (left == &c->train_batch_size && all / others > MOST_ROWS)
        return vc_fail(err, VC_EUSAGE, "--global_batch_size %lld: %lld samples a micro-batch are "
                       "more than %d: give --train_batch_size", (long long)all,
                       (long long)(all / others), MOST_ROWS);
    *left = all / others;
    return 0;
}

int vtrain_check_ranks(vtrain_config *c, int ranks, vc_err *err)
{
    if (c->num_processes && c->num_processes != ranks)
        return vc_fail(err, VC_EUSAGE, "--num_processes %lld, but %s: start them with \"mpirun -np "
                       "%lld vtrain ...\" or srun", (long long)c->num_processes,
                       ranks == 1 ? "this process is alone" : "the number of ranks is another",
                       (long long)c->num_processes);
    c->num_processes = 0;                     /* a resumed run may have another number */
    if (ranks % c->sp)
        return vc_fail(err, VC_EUSAGE, "--sp %lld: there are %d ranks (mpirun -np, srun -n), which "
                       "are no multiple of it: give another of the two", (long long)c->sp, ranks);
    int rc = check_global_batch(c, ranks / (int)c->sp, err);
    if (rc)
        return rc;
    if (c->parallel == VTRAIN_DDP && c->dp_shards > 1)
        return not_with(err, "dp_shards", "--parallel ddp splits no state: leave it out, or give "
                        "--parallel zero2 or fsdp");
    if (c->parallel != VTRAIN_DDP && c->trace_dir)
        return not_with(err, "trace_dir", "needs whole gradients on each rank: give "
                        "--parallel ddp");
    if (!c->dp_shards)
        c->dp_shards = c->parallel == VTRAIN_DDP ? 1 : c->dp_degree ? ranks / c->dp_degree : ranks;
    if (!c->dp_shards)
        c->dp_shards = 1;
    if (!c->dp_degree)
        c->dp_degree = ranks / c->dp_shards;
    /* Other trainers count the ranks of a sequence as a third factor. */
    if (c->dp_degree * c->dp_shards * c->sp == ranks)
        c->dp_degree *= c->sp;
    if (c->dp_degree * c->dp_shards == ranks)
        return 0;
    return vc_fail(err, VC_EUSAGE, "--dp_degree %lld x --dp_shards %lld%s: there are %d ranks "
                   "(mpirun -np, srun -n); leave one of the two flags out to have it computed",
                   (long long)c->dp_degree, (long long)c->dp_shards,
                   c->sp > 1 ? ", and times --sp" : "", ranks);
}
