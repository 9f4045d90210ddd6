/* trained.c - selects the parameters that a run trains: the factors of a LoRA, or the weights */
#include <stdlib.h>
#include <string.h>

#include "train/base.h"
#include "train/experts.h"
#include "train/groups.h"
#include "train/models/lora.h"
#include "train/models/weights.h"

/* Lists the names of all linears and convolutions of a transformer, or of the convolutions only:
 * malloc'ed, ended by NULL. */
static const char **modules_of(vt_params *p, bool convs)
{
    int n = vt_params_count(p), k = 0;
    const char **list = calloc((size_t)n + 1, sizeof *list);
    for (int i = 0; list && i < n; i++) {
        const vt_param *x = vt_params_at(p, i);
        if (!x->module || x->model || x->t != x->lin->w || (convs && x->t->nd == 2))
            continue;
        list[k++] = x->module;
    }
    return list;
}

/* Says in one line where a rank is above the width of modules: there it adds values, but no
 * freedom. */
static void warn_wide_rank(const vtrain *t)
{
    int64_t rank = t->cfg.rank, n = 0, all = 0, least = INT64_MAX;
    const char *name = NULL;
    for (int i = 0; i < vt_params_count(t->params); i++) {
        const vt_param *p = vt_params_at(t->params, i);
        if (!p->module || p->t != p->lin->w || !p->lin->lora_a)
            continue;
        int64_t out = p->lin->lora_b->dim[0], in = vt_count(p->lin->lora_a) / rank;
        int64_t width = in < out ? in : out;
        all++;
        n += width < rank;
        if (width < least) {
            least = width;
            name = p->module;
        }
    }
    if (n)
        vc_warn(t->ui, "--rank %lld: %lld of %lld modules are narrower than this (%s: %lld), and a "
                "rank above a module's width only costs memory", (long long)rank, (long long)n,
                (long long)all, name, (long long)least);
}

/* Length of a module's name up to its block's number, "blocks.3"; 0: it is in no block. */
static size_t block_of(const char *module)
{
    for (const char *p = module; (p = strchr(p, '.')); p++) {
        size_t digits = strspn(p + 1, "0123456789");
        if (digits && p[1 + digits] == '.')
            return (size_t)(p - module) + 1 + digits;
    }
    return 0;
}

/* Counts the modules that have the LoRA, and all modules, and their blocks, each of which has its
 * modules one after the other. */
static void count_modules(vtrain *t)
{
    const char *block = "", *with = "";
    for (int i = 0; i < vt_params_count(t->params); i++) {
        const vt_param *p = vt_params_at(t->params, i);
        if (!p->module || p->t != p->lin->w)
            continue;
        bool conv = p->t->nd > 2, adapted = p->lin->lora_a;
        size_t n = block_of(p->module);
        t->lora.of_linears += !conv;
        t->lora.of_convs += conv;
        t->lora.linears += !conv && adapted;
        t->lora.convs += conv && adapted;
        if (n && strncmp(p->module, block, n + 1)) {
            t->lora.of_blocks++;
            block = p->module;
        }
        if (n && adapted && strncmp(p->module, with, n + 1)) {
            t->lora.blocks++;
            with = p->module;
        }
    }
}

/* Begins with the LoRA of --lora_checkpoint; of two transformers, with that of the i-th. */
static int load_lora(vtrain *t, int i, vc_err *err)
{
    vtrain_lora *lora;
    bool low = i || t->cfg.boundary_type == VTRAIN_SIDE_LOW;
    char *path = vtrain_half_lora(t, t->cfg.lora_checkpoint, low);
    int rc = path ? vtrain_lora_open(&lora, path, err) : vc_no_memory(err);
    free(path);
    if (rc)
        return vc_context(err, rc, "--lora_checkpoint%s", i ? ", for two transformers a checkpoint "
                          "that has LoRAs of both" : "");
    vtrain_lora_rename(lora, t->family->lora_names, t->family->peer_names);
    rc = vtrain_lora_check_of(lora, i ? "transformer_2" : vtrain_transformer_name(t), err);
    if (!rc)
        rc = vtrain_lora_load(t->params, lora, i, err);
    vtrain_lora_close(lora);
    return vc_context(err, rc, "--lora_checkpoint");
}

static int train_lora(vtrain *t, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    char *note = NULL;
    const char **modules = modules_of(t->params, false), **convs = modules_of(t->params, true);
    const vtrain_rename *const names[2] = { t->family->lora_names, t->family->peer_names };
    int matched, rc = modules && convs ? vtrain_targets_open(&t->targets, c->target_name, modules,
                                                             convs, names, &note, err)
                                       : vc_no_memory(err);
    free(modules);
    free(convs);
    if (!rc && note)
        vc_warn(t->ui, "%s", note);
    free(note);
    if (!rc)
        rc = vt_params_lora(t->params, vtrain_targets_match, t->targets, (int)c->rank,
                            c->network_alpha, (uint64_t)c->seed, &matched, err);
    if (!rc) {
        count_modules(t);
        warn_wide_rank(t);
    }
    if (!rc && c->lora_checkpoint)
        rc = load_lora(t, 0, err);
    if (!rc && c->lora_checkpoint && vtrain_both(t))
        rc = load_lora(t, 1, err);
    return rc;
}

static bool is_trainable(void *arg, const char *name)
{
    return vtrain_has_part(name, arg);
}

/* Fails if a part is in no parameter's name: the run would silently train less than intended. */
static int check_parts(vt_params *p, const char *modules, vc_err *err)
{
    const char *part = modules, *example = vt_params_at(p, 0)->name;
    size_t n = vtrain_next_part(&part);
    if (!n)
        return vc_fail(err, VC_EUSAGE, "--trainable_modules: the list is empty: give parts of "
                       "parameters' names, which are like %s", example);
    for (; n; part += n, n = vtrain_next_part(&part)) {
        bool found = false;
        for (int i = 0; i < vt_params_count(p) && !found; i++) {
            const char *name = vt_params_at(p, i)->name;
            found = memmem(name, strlen(name), part, n);
        }
        if (!found)
            return vc_fail(err, VC_EUSAGE, "--trainable_modules: no parameter's name contains "
                           "\"%.*s\"; names are like %s", (int)n, part, example);
    }
    return 0;
}

static int train_full(vtrain *t, vc_err *err)
{
    const char *preset = t->family->adapters[t->cfg.adapter_method];
    char *modules = t->cfg.trainable_modules ? t->cfg.trainable_modules : (char *)preset;
    int rc = modules ? check_parts(t->params, modules, err) : 0;
    if (!rc)
        rc = vt_params_train(t->params, modules ? is_trainable : NULL, modules, err);
    if (t->weights)
        vtrain_weights_release(t->weights);
    return rc;
}

int vtrain_select_trained(vtrain *t, vc_err *err)
{
    return t->cfg.training_type == VTRAIN_LORA ? train_lora(t, err) : train_full(t, err);
}
