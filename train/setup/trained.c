/* trained.c - selects the parameters that a run trains: the factors of a LoRA, or the weights */
#include "train/setup/trained.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/adapters/adapter.h"
#include "train/lora/lora.h"
#include "train/lora/patterns.h"
#include "train/models/controlnet.h"
#include "train/models/weights.h"
#include "train/optim/groups.h"
#include "train/setup/experts.h"
#include "train/setup/offload.h"

/* Lists the names of all linears and convolutions of a transformer, or of the convolutions only:
 * malloc'ed, ended by NULL. */
static const char **modules_of(vt_params *p, bool convs)
{
    int n = vt_params_count(p), k = 0;
    const char **list = calloc((size_t)n + 1, sizeof *list);
    for (int i = 0; list && i < n; i++) {
        const vt_param *x = vt_params_at(p, i);
        if (!x->module || x->model || x->t != x->lin->w || (convs && x->t->nd == 2) ||
            vtrain_controlnet_has(x->name))
            continue;
        list[k++] = x->module;
    }
    return list;
}

/* Says in one line where a rank is above the width of modules: there it adds values, but no
 * freedom. */
static void warn_wide_rank(const vtrain *t)
{
    int64_t n = 0, all = 0, least = INT64_MAX, of = 0;
    const char *name = NULL;
    for (int i = 0; i < vt_params_count(t->params); i++) {
        const vt_param *p = vt_params_at(t->params, i);
        if (!p->module || p->t != p->lin->w || !p->lin->lora_a)
            continue;                         /* other adapters' products are wider than the rank */
        int64_t rank = p->lin->lora_a->dim[0], out = p->lin->lora_b->dim[0];
        int64_t in = vt_count(p->lin->lora_a) / rank, width = in < out ? in : out;
        all++;
        n += width < rank;
        if (width < rank && width < least) {
            least = width;
            name = p->module;
            of = rank;
        }
    }
    if (n)
        vc_warn(t->ui, "--rank %lld: %lld of %lld modules are narrower than this (%s: %lld), and a "
                "rank above a module's width only costs memory", (long long)of, (long long)n,
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
        if (!p->module || p->t != p->lin->w || vtrain_controlnet_has(p->name))
            continue;
        const int64_t rank = vt_adapter_rank(p->lin);
        t->lora.most_rank = rank > t->lora.most_rank ? rank : t->lora.most_rank;
        bool conv = p->t->nd > 2, adapted = p->lin->adapter;
        size_t n = block_of(p->module);
        t->lora.of_linears += !conv;
        t->lora.of_convs += conv;
        t->lora.linears += !conv && adapted;
        t->lora.convs += conv && adapted;
        if (n && p->block >= 0 && strncmp(p->module, block, n + 1)) {
            t->lora.of_blocks++;
            block = p->module;
        }
        if (n && p->block >= 0 && adapted && strncmp(p->module, with, n + 1)) {
            t->lora.blocks++;
            with = p->module;
        }
    }
}

/* ---- a LoRA's file that is trained further ---- */

/* Opens --lora_checkpoint; of two transformers, the file of the i-th. */
static int open_lora(vtrain *t, int i, vc_err *err)
{
    bool low = i || t->cfg.boundary_type == VTRAIN_SIDE_LOW;
    char *path = vtrain_half_lora(t, t->cfg.lora_checkpoint, low);
    int rc = path ? vtrain_lora_open(&t->lora.file, path, err) : vc_no_memory(err);
    free(path);
    if (rc)
        return vc_context(err, rc, "--lora_checkpoint%s", i ? ", for two transformers a checkpoint "
                          "that has LoRAs of both" : "");
    vtrain_lora_rename(t->lora.file, t->model.family->lora_names, t->model.family->peer_names);
    rc = vtrain_lora_check_of(t->lora.file, i ? "transformer_2" : vtrain_transformer_name(t), err);
    if (!rc && vtrain_lora_note(t->lora.file) && !vtrain_both(t))
        vc_say(t->ui, "--lora_checkpoint: %s", vtrain_lora_note(t->lora.file));
    return vc_context(err, rc, "--lora_checkpoint");
}

/* What the modules of a file have: how many they are, the ranks and alphas. */
typedef struct file_modules {
    const char **module;                      /* the transformer's modules that the file has */
    int n;
    vt_adapter_size first;                    /* of the first module */
    int64_t rank[2];                          /* least and greatest */
    double alpha[2];
} file_modules;

static int add_module(file_modules *f, const char *module, const vt_adapter_size *s, vc_err *err)
{
    const bool first = !f->n;
    if (first)
        f->first = *s;
    if (s->kind != f->first.kind)
        return vc_fail(err, VC_EMISMATCH, "%s has a %s, but %s a %s, and a run trains one kind",
                       f->module[0], vt_adapters[f->first.kind].title, module,
                       vt_adapters[s->kind].title);
    f->rank[0] = first || s->rank < f->rank[0] ? s->rank : f->rank[0];
    f->rank[1] = first || s->rank > f->rank[1] ? s->rank : f->rank[1];
    f->alpha[0] = first || s->alpha < f->alpha[0] ? s->alpha : f->alpha[0];
    f->alpha[1] = first || s->alpha > f->alpha[1] ? s->alpha : f->alpha[1];
    f->module[f->n++] = module;
    return 0;
}

static int find_modules(file_modules *f, vtrain *t, const char *const *modules, vc_err *err)
{
    int all = 0;
    while (modules[all])
        all++;
    *f = (file_modules){ .module = calloc((size_t)all + 1, sizeof *f->module) };
    if (!f->module)
        return vc_no_memory(err);
    for (int i = 0; i < all; i++) {
        vt_adapter_size s = { .factor = t->cfg.lokr_factor };
        int rc = vtrain_lora_size(t->lora.file, modules[i], &s, err);
        if (rc == VC_ENOENT)
            continue;
        if (!rc)
            rc = add_module(f, modules[i], &s, err);
        if (rc)
            return rc;
    }
    if (err)
        *err = (vc_err){ 0 };
    return f->n ? 0 : vtrain_lora_all_used(t->lora.file, t->params, err);
}

/* Takes the kind of the file's adapter, which --adapter may only name. */
static int adopt_kind(vtrain_config *c, const vc_flags *set, const file_modules *f, vc_err *err)
{
    const bool given = vc_flags_given(set, "adapter") || c->adapter != VT_ADAPTER_LORA;
    if (given && c->adapter != (int)f->first.kind)
        return vc_fail(err, VC_EMISMATCH, "the file has a %s, but --adapter gives %s: leave "
                       "--adapter out", vt_adapters[f->first.kind].title,
                       vt_adapters[c->adapter].name);
    c->adapter = f->first.kind;
    if (!vt_adapters[c->adapter].kron)
        return 0;
    c->lokr_factor = f->first.factor;
    c->lokr_full_matrix = f->first.whole;
    c->lokr_decompose_both = f->first.both;
    return 0;
}

/* Writes "A", or "A to B". */
static void range_text(char text[64], double a, double b)
{
    int n = snprintf(text, 64, "%g", a);
    if (a != b)
        snprintf(text + n, 64 - (size_t)n, " to %g", b);
}

static void say_found(const vtrain *t, const file_modules *f, bool targets)
{
    char rank[64], alpha[64];
    range_text(rank, (double)f->rank[0], (double)f->rank[1]);
    range_text(alpha, f->alpha[0], f->alpha[1]);
    vc_say(t->ui, "--lora_checkpoint: %s%d modules of the file are trained further, of rank %s "
           "and alpha %s", targets ? "" : "the ", f->n, rank, alpha);
}

int vtrain_adopt_lora(vtrain *t, const vc_flags *set, vc_err *err)
{
    vtrain_config *c = &t->cfg;
    if (c->training_type != VTRAIN_LORA || !c->lora_checkpoint)
        return 0;
    const bool targets = vc_flags_given(set, "target_name");
    t->lora.own_rank = vc_flags_given(set, "rank");
    t->lora.own_alpha = vc_flags_given(set, "network_alpha");
    const char **modules = modules_of(t->params, false);
    file_modules f = { 0 };
    int rc = modules ? open_lora(t, 0, err) : vc_no_memory(err);
    if (rc) {
        free(modules);
        return rc;
    }
    rc = find_modules(&f, t, modules, err);
    if (!rc)
        rc = adopt_kind(c, set, &f, err);
    if (!rc && !targets)
        rc = vtrain_targets_of(&t->lora.names, modules, f.module, err);
    if (!rc && !targets)
        c->target_name = t->lora.names;
    t->lora.ranks = !t->lora.own_rank && f.rank[0] != f.rank[1];
    t->lora.alphas = !t->lora.own_alpha && f.alpha[0] != f.alpha[1];
    if (!rc && !t->lora.own_rank)
        c->rank = f.rank[1];
    if (!rc && !t->lora.own_alpha)
        c->network_alpha = t->lora.own_rank || f.alpha[0] == f.alpha[1] ? f.alpha[1]
                                                                        : (double)c->rank;
    if (!rc && !(targets && t->lora.own_rank && t->lora.own_alpha))
        say_found(t, &f, targets);
    free(modules);
    free(f.module);
    return vc_context(err, rc, "--lora_checkpoint");
}

/* The rank and the alpha of a module by the flags: those of the patterns come before others. */
static void flags_size(vtrain *t, const char *module, vt_adapter_size *s)
{
    const vtrain_config *c = &t->cfg;
    double number;
    *s = (vt_adapter_size){ .kind = c->adapter, .rank = (int)c->rank, .alpha = c->network_alpha,
                            .factor = c->lokr_factor, .whole = c->lokr_full_matrix,
                            .both = c->lokr_decompose_both };
    if (vtrain_patterns_find(t->lora.patterns[0], module, &number))
        s->rank = (int)number;
    if (vtrain_patterns_find(t->lora.patterns[1], module, &number))
        s->alpha = number;
}

/* Whether a module belongs to the part of the model that --lora_base_model names. */
static bool in_base(const vtrain_config *c, const char *module)
{
    const bool vace = vtrain_has_part(module, VTRAIN_VACE_PART);

    return c->lora_base_model == VTRAIN_BASE_ALL ||
           vace == (c->lora_base_model == VTRAIN_BASE_VACE);
}

/* The rank and the alpha of a module's adapter: the file's, unless flags give others. */
static bool size_of(void *arg, const char *module, vt_adapter_size *s)
{
    vtrain *t = arg;
    vt_adapter_size file = { .factor = t->cfg.lokr_factor };
    if (vtrain_controlnet_has(module) || !in_base(&t->cfg, module) ||
        !vtrain_targets_match(t->lora.targets, module))
        return false;                         /* a ControlNet has no LoRA */
    flags_size(t, module, s);
    if (!t->lora.file || vtrain_lora_size(t->lora.file, module, &file, NULL))
        return true;
    s->factor = file.factor;
    s->whole = file.whole;
    s->both = file.both;
    if (!t->lora.own_rank)
        s->rank = file.rank;
    if (!t->lora.own_alpha)
        s->alpha = t->lora.own_rank ? file.alpha / file.rank * s->rank : file.alpha;
    return true;
}

/* Fails if a pattern of --rank_pattern or --alpha_pattern matches no module that is adapted. */
static int check_patterns(const vtrain *t, vc_err *err)
{
    const int rc = vtrain_patterns_check(t->lora.patterns[0], "rank_pattern", err);
    return rc ? rc : vtrain_patterns_check(t->lora.patterns[1], "alpha_pattern", err);
}

/* Refuses --export_diffsynth where DiffSynth-Studio reads another file, or none. */
static int check_diffsynth(const vtrain *t, vc_err *err)
{
    const vt_adapter *a = &vt_adapters[t->cfg.adapter];
    if (!t->cfg.export_diffsynth)
        return 0;
    if (!t->model.family->diffsynth)
        return vc_fail(err, VC_EUSAGE, "--export_diffsynth: DiffSynth-Studio finds the modules of "
                       "FLUX.2 alone in that file; of a %s it reads one of the other files: leave "
                       "the flag out", t->model.family->class_name);
    return a->pair && !a->factor[2].suffix ? 0
         : vc_fail(err, VC_EUSAGE, "--export_diffsynth: DiffSynth-Studio reads LoRAs alone, and "
                   "this is a %s: leave the flag out, or give --adapter lora", a->title);
}

/* Whether the first authors' form of a module, whose row is r, cannot hold its LoKr: several
 * modules are one there, or its halves are exchanged, which those of an odd first matrix cannot be.
 * */
static bool has_no_form(const vt_lin *lin, const vtrain_renamed *r)
{
    const vt_tensor *one = lin->factor[0] ? lin->factor[0] : lin->factor[1];
    return r->parts > 1 || (vtrain_rename_swapped(r, lin->w->dim[0], lin->w->dim[1]) &&
                            vt_adapter_halves(lin->adapter, one->dim[0]) == VT_END);
}

/* Leaves out the files in the names of the first authors, where modules are fused or have exchanged
 * halves, for a LoKr of one of these: Kronecker products of several modules are none of the
 * whole. */
static int check_exports(vtrain *t, vc_err *err)
{
    vtrain_config *c = &t->cfg;
    const vtrain_family *f = t->model.family;
    const struct { const char *flag, *file; bool *on; bool renamed; } files[] = {
        { "export_kohya", "lora_kohya", &c->export_kohya, !f->kohya || f->kohya->renamed },
        { "export_comfyui", "lora_comfyui", &c->export_comfyui, true },
    };
    for (int i = 0; i < vt_params_count(t->params); i++) {
        const vt_param *p = vt_params_at(t->params, i);
        vtrain_renamed r = { 0 };
        int rc = p->role == VT_P_BASE ? 0
                 : vtrain_rename_module(&r, f->lora_names, p->module, err);
        free(r.theirs);
        if (rc)
            return rc;
        const bool none = p->role != VT_P_BASE && has_no_form(p->lin, &r);
        for (int k = 0; none && k < 2; k++) {
            if (!*files[k].on || !files[k].renamed)
                continue;
            vc_say(t->ui, "--%s: %s.safetensors is not written: it has %s %s, which a LoKr of each "
                   "cannot be; ComfyUI also reads pytorch_lora_weights.safetensors",
                   files[k].flag, files[k].file, p->module,
                   r.parts > 1 ? "and others in one" : "with exchanged halves");
            *files[k].on = false;
        }
    }
    return 0;
}

static int open_patterns(vtrain *t, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    int rc = vtrain_patterns_open(&t->lora.patterns[0], "rank_pattern", c->rank_pattern.n,
                                  c->rank_pattern.item, true, err);
    return rc ? rc : vtrain_patterns_open(&t->lora.patterns[1], "alpha_pattern",
                                          c->alpha_pattern.n, c->alpha_pattern.item, false, err);
}

/* Begins with the LoRA of --lora_checkpoint, which is open; of the second of two transformers, with
 * that of its file, which has the modules and ranks of the first. */
static int load_lora(vtrain *t, int i, vc_err *err)
{
    int rc = i ? open_lora(t, i, err) : 0;
    if (rc)
        return rc;
    rc = vtrain_lora_load(t->params, t->lora.file, i, err);
    vtrain_lora_close(t->lora.file);
    t->lora.file = NULL;
    return vc_context(err, rc, "--lora_checkpoint");
}

static int train_lora(vtrain *t, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    char *note = NULL;
    const char **modules = modules_of(t->params, false), **convs = modules_of(t->params, true);
    const vtrain_family *f = t->model.family;
    const vtrain_rename *const names[2] = { f->lora_names, f->peer_names };
    int matched, rc = modules && convs ? 0 : vc_no_memory(err);
    if (!rc)
        rc = vtrain_targets_open(&t->lora.targets, c->target_name, modules, convs, names, &note,
                                 err);
    free(modules);
    free(convs);
    if (!rc && note)
        vc_warn(t->ui, "%s", note);
    free(note);
    if (!rc)
        rc = open_patterns(t, err);
    if (!rc)
        rc = vt_params_adapt(t->params, size_of, t, (uint64_t)c->seed, &matched, err);
    if (!rc) {
        count_modules(t);
        warn_wide_rank(t);
        t->lora.ranks = t->lora.ranks || c->rank_pattern.n > 0;
        t->lora.alphas = t->lora.alphas || c->alpha_pattern.n > 0;
        rc = check_patterns(t, err);
    }
    if (!rc)
        rc = check_diffsynth(t, err);
    if (!rc && vt_adapters[c->adapter].kron) {
        rc = check_exports(t, err);
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
    const char *preset = t->model.family->adapters[t->cfg.adapter_method];
    char *modules = t->cfg.trainable_modules ? t->cfg.trainable_modules : (char *)preset;
    if (vtrain_trains_controlnet(t))
        modules = (char *)VTRAIN_CONTROL_PART;
    int rc = modules ? check_parts(t->params, modules, err) : 0;
    if (!rc && vtrain_offloads_grads(t))
        vt_params_expect_host_grads(t->params);
    if (!rc)
        rc = vt_params_train(t->params, modules ? is_trainable : NULL, modules, err);
    if (t->model.weights)
        vtrain_weights_release(t->model.weights);
    return rc;
}

int vtrain_select_trained(vtrain *t, vc_err *err)
{
    if (t->cfg.training_type != VTRAIN_LORA)
        return train_full(t, err);
    int rc = train_lora(t, err);
    if (!rc && vtrain_trains_controlnet(t))
        rc = vt_params_train(t->params, is_trainable, (char *)VTRAIN_CONTROL_PART, err);
    return rc;
}
