/* flags_names.c - finds a flag by its name, or the flag with the nearest name. See
 * flags_internal.h. */
#include <stdlib.h>
#include <string.h>

#include "common/base/near.h"
#include "common/cli/flags_internal.h"
#include "common/cli/peers/peers.h"

bool vc_flags_same_name(const char *a, size_t n, const char *b, size_t m)
{
    if (n != m)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((a[i] == '-' ? '_' : a[i]) != (b[i] == '-' ? '_' : b[i]))
            return false;
    return true;
}

const char *vc_flags_next_name(const char **list, size_t *len, int *part)
{
    const char *s = *list;
    if (!s)
        return NULL;
    while (*s == ' ')
        s++;
    const char *end = strchrnul(s, ' ');
    *len = (size_t)(end - s);
    *list = end;
    bool half = *len > 2 && s[*len - 2] == ':';
    *part = half ? s[*len - 1] - '0' : -1;
    *len -= half ? 2 : 0;
    return *len ? s : NULL;
}

bool vc_flags_has_name(const vc_flag *f, const char *name, size_t len, int *part)
{
    *part = -1;
    if (f->kind == VC_GROUP)
        return false;
    if (vc_flags_same_name(f->name, strlen(f->name), name, len))
        return true;

    const char *list = f->aliases, *s;
    size_t n;
    while ((s = vc_flags_next_name(&list, &n, part)))
        if (vc_flags_same_name(s, n, name, len))
            return true;
    return false;
}

static const vc_flag *find_row(const vc_program *prog, const char *name, size_t len, int *part)
{
    for (const vc_flag *f = prog->flags; f->name; f++)
        if (vc_flags_has_name(f, name, len, part))
            return f;
    return NULL;
}

static bool starts_no(const char *name, size_t len)
{
    return len > 3 && vc_flags_same_name(name, 3, "no_", 3);
}

const char *vc_flags_renamed(const vc_program *prog, const char *name, size_t *len)
{
    for (const vc_renamed *r = prog->renamed; r && r->name; r++)
        if (vc_flags_same_name(r->name, strlen(r->name), name, *len)) {
            *len = strlen(r->flag);
            return r->flag;
        }
    return name;
}

bool vc_flags_find(const vc_program *prog, const char *name, size_t len, vc_found *found)
{
    name = vc_flags_renamed(prog, name, &len);
    *found = (vc_found){ .part = -1 };
    found->flag = find_row(prog, name, len, &found->part);
    if (found->flag || !starts_no(name, len))
        return found->flag;

    const vc_flag *f = find_row(prog, name + 3, len - 3, &found->part);
    if (f && (f->kind == VC_BOOLEAN || vc_flags_off(f) >= 0))
        found->flag = f;
    found->negated = true;
    return found->flag;
}

bool vc_flags_is_name(const char *name, size_t len, const char *what)
{
    return vc_flags_same_name(name, len, what, strlen(what));
}

bool vc_flags_builtin_name(const char *name, size_t len)
{
    return vc_flags_is_name(name, len, "help") || vc_flags_is_name(name, len, "version") ||
           vc_flags_is_name(name, len, "config");
}

static bool foreign_has(const vc_foreign *f, const char *name, size_t len)
{
    const char *list = f->name, *s;
    size_t n;
    int part;

    while ((s = vc_flags_next_name(&list, &n, &part))) {
        if (s[n - 1] == '*' && len >= n - 1 && vc_flags_same_name(s, n - 1, name, n - 1))
            return true;
        if (vc_flags_same_name(s, n, name, len))
            return true;
    }
    return false;
}

const vc_foreign *vc_flags_find_in(const vc_foreign *table, const char *name, size_t len,
                                   bool *negated)
{
    *negated = false;
    for (const vc_foreign *f = table; f && f->name; f++) {
        if (foreign_has(f, name, len))
            return f;
        if (!f->values && starts_no(name, len) && foreign_has(f, name + 3, len - 3)) {
            *negated = true;
            return f;
        }
    }
    return NULL;
}

const vc_foreign *vc_flags_find_foreign(const vc_program *prog, const char *name, size_t len,
                                        bool *negated)
{
    vc_found own;
    if (vc_flags_find(prog, name, len, &own))
        return NULL;
    size_t n = len;
    const char *ours = vc_flags_renamed(prog, name, &n);
    const vc_foreign *f = vc_flags_find_in(prog->partner, ours, n, negated);
    for (const vc_foreign *const *table = prog->foreign; !f && table && *table; table++)
        f = vc_flags_find_in(*table, name, len, negated);
    return f;
}

/* What people write for a flag: names that are neither its letters nor its words. */
static const struct {
    const char *names, *flags;         /* blank-separated */
} synonyms[] = {
    { "steps num_steps n_steps iterations iters num_iterations total_steps training_steps "
      "num_train_steps max_iters train_iters max_iterations num_iters", "max_train_steps" },
    { "epoch n_epochs", "num_train_epochs" },
    { "bs batch per_device_train_batch_size", "train_batch_size" },
    { "accumulation accumulate_grad_batches grad_acc", "gradient_accumulation_steps" },
    { "input inputs csv json list clips videos media video_dir videos_dir video_folder data_dir "
      "dataset_dir train_dir source dataset_path_or_list input_dir metadata", "meta latents" },
    { "output save_dir results results_dir run_dir dest destination target_dir outdir out_path "
      "output_file output_dir out_dir logdir", "output_dir out" },
    { "frame_rate framerate", "fps sample_fps" },
    { "contact_sheet", "sheet" },
    { "size video_resolution", "video_sample_size" },
    { "sample_steps sampling_steps inference_steps num_sampling_steps", "num_inference_steps" },
    { "cfg cfg_scale guidance", "guidance_scale" },
    { "clip_grad grad_clip clip_grad_norm gradient_clip gradient_clip_val clip_norm",
      "max_grad_norm" },
    { "gpu cuda", "device" },
    { "precision bf16 fp16 amp", "mixed_precision" },
    { "lora full finetune full_finetune train_type", "training_type" },
    { "lora_dim dim r", "rank" },
    { "modules lora_modules targets", "target_name" },
    { "lora_weights load_lora lora_file loras", "lora_checkpoint" },
    { "continue restart load_checkpoint resume_from_ckpt", "resume_from_checkpoint" },
    { "save_every save_interval save_freq ckpt_interval save_every_steps checkpoint_interval",
      "checkpointing_steps" },
    { "keep keep_last max_checkpoints save_total_limit keep_checkpoints", "checkpointing_limit" },
    { "remat recompute grad_ckpt", "gradient_checkpointing" },
    { "swap block_swap num_swap_blocks", "blocks_to_swap" },
    { "schedule", "lr_scheduler" },
    { "wd decay", "adam_weight_decay" },
    { "betas", "adam_beta1" },
    { "silent", "quiet" },
    { "force clobber", "overwrite" },
    { "test plan_only check", "dry_run" },
    { "dir folder path", "data latents" },
    { "format fmt type kind", "to from format" },
};

static bool in_list(const char *list, const char *name, size_t len)
{
    for (size_t n; *list; list += n + (list[n] == ' ')) {
        n = strcspn(list, " ");
        if (vc_flags_same_name(list, n, name, len))
            return true;
    }
    return false;
}

/* The i-th flag of the list that the name stands for, or NULL past the last. */
static const char *synonym(const vc_near *g, int i)
{
    for (size_t k = 0; k < sizeof synonyms / sizeof *synonyms; k++) {
        if (!in_list(synonyms[k].names, g->name, g->len))
            continue;
        const char *s = synonyms[k].flags;
        for (; s && i > 0; i--) {
            s = strchr(s, ' ');
            s = s ? s + 1 : NULL;
        }
        return s;
    }
    return NULL;
}

static void consider_rows(vc_near *g, const vc_program *prog)
{
    for (const vc_flag *f = prog->flags; f->name; f++) {
        if (f->kind == VC_GROUP)
            continue;
        const char *list = f->aliases, *s;
        size_t n, len = strlen(f->name);
        int part;
        vc_near_try(g, f->name, len, f->name, len, true);
        while ((s = vc_flags_next_name(&list, &n, &part)))
            vc_near_try(g, s, n, f->name, len, true);
    }
}

static void consider_table(vc_near *g, const vc_foreign *table, bool by_words)
{
    for (const vc_foreign *f = table; f && f->name; f++) {
        const char *list = f->name, *s;
        size_t n;
        int part;
        while ((s = vc_flags_next_name(&list, &n, &part)))
            if (s[n - 1] != '*')
                vc_near_try(g, s, n, s, n, by_words);
    }
}

static void consider_foreign(vc_near *g, const vc_program *prog)
{
    consider_table(g, prog->partner, true);
    for (const vc_foreign *const *table = prog->foreign; table && *table; table++)
        consider_table(g, *table, false);
}

/* Takes the first flag of the list of synonyms that the program has. */
static void consider_synonyms(vc_near *g, const vc_program *prog)
{
    const char *s;
    int part;
    for (int i = 0; g->cost && (s = synonym(g, i)); i++) {
        size_t n = strcspn(s, " ");
        if (!find_row(prog, s, n, &part))
            continue;
        g->cost = 0;
        g->best = s;
        g->best_len = n;
    }
}

static vc_near nearest(const vc_program *prog, const char *name, size_t len)
{
    vc_near g = vc_near_begin(name, len);
    consider_rows(&g, prog);
    consider_synonyms(&g, prog);
    return g;
}

const char *vc_flags_nearest(const vc_program *prog, const char *name)
{
    return nearest(prog, name, strlen(name)).best;
}

/* The nearest flag of this program or of others, also to the part after a section's name. */
static vc_near nearest_of_all(const vc_program *prog, const char *name, size_t len)
{
    vc_near g = nearest(prog, name, len);
    if (!g.best)
        consider_foreign(&g, prog);
    const char *dot = g.best ? NULL : memrchr(name, '.', len);
    return dot ? nearest_of_all(prog, dot + 1, len - (size_t)(dot + 1 - name)) : g;
}

/* The row of another trainer's files that has the name after its sections, or NULL. */
static const vc_peer_row *setting_row(const vc_peer_file *peer, const char *name, size_t len)
{
    for (const vc_peer_row *row = NULL; (row = vc_peer_next(peer, row));) {
        const char *list = row->key, *s;
        size_t n;
        int part;
        while ((s = vc_flags_next_name(&list, &n, &part))) {
            const char *dot = memrchr(s, '.', n), *last = dot ? dot + 1 : s;
            size_t k = n - (size_t)(last - s);
            bool any = k > 4 && last[k - 1] == '*' && len >= k;
            if (vc_flags_same_name(last, any ? k - 1 : k, name, any ? k - 1 : len))
                return row;
        }
    }
    return NULL;
}

static const char *partner_of(const vc_program *prog)
{
    return strcmp(prog->name, "vprep") ? "vprep's " : "vtrain's ";
}

/* Fails with the flag or the remedy that the name has in another trainer's files; 0: in none. */
static int setting_of_peer(const vc_program *prog, const char *dashes, const char *name, size_t len,
                           vc_err *err)
{
    for (const vc_peer_file *const *p = vc_peer_files; prog->partner && *p; p++) {
        const vc_peer_row *row = setting_row(*p, name, len);
        const char *map = row && row->map ? strchr(row->map, '>') : NULL;
        while (map && (map[1] == '|' || !map[1]))
            map = strchr(map + 1, '>');
        const char *flag = map ? map + 1 : row ? row->flag : NULL;
        bool flags = row && (row->kind == VC_SETTING_FLAG || row->kind == VC_SETTING_SPLIT ||
                             row->kind == VC_SETTING_EACH || row->kind == VC_SETTING_DATASETS ||
                             row->kind == VC_SETTING_PARTS);
        size_t n = flag ? strcspn(flag, "=| ") : 0;
        vc_found found;
        if (row && row->kind_of_run)
            return vc_fail(err, VC_EUSAGE, "unknown flag %s%.*s, a setting of %s: leave it out: "
                           "the model's folder and --training_type decide it", dashes, (int)len,
                           name, (*p)->name);
        if (flags && n)
            return vc_fail(err, VC_EUSAGE, "unknown flag %s%.*s, a setting of %s: did you mean "
                           "%s%s%.*s?", dashes, (int)len, name, (*p)->name,
                           vc_flags_find(prog, flag, n, &found) ? "" : partner_of(prog),
                           *dashes ? "--" : "", (int)n, flag);
        if (row && row->say && *row->say)
            return vc_fail(err, VC_EUSAGE, "unknown flag %s%.*s, a setting of %s: %s%s", dashes,
                           (int)len, name, (*p)->name, row->kind == VC_SETTING_NOTE && !row->only ?
                           "leave it out: " : "not available here: ", row->say);
    }
    return 0;
}

int vc_flags_unknown(const vc_program *prog, const char *dashes, const char *name, size_t len,
                     vc_err *err)
{
    vc_near g = { .best = NULL };
    const char *no = "", *known = *dashes ? "--" : "";
    vc_found found;
    char negated[80];

    vc_near near = nearest(prog, name, len);
    int rc = near.best && !near.cost ? 0 : setting_of_peer(prog, dashes, name, len, err);
    if (rc)
        return rc;
    if (starts_no(name, len)) {
        g = nearest(prog, name + 3, len - 3);
        snprintf(negated, sizeof negated, "no_%.*s", g.best ? (int)g.best_len : 0,
                 g.best ? g.best : "");
        no = "no_";
    }
    if (!g.best || !vc_flags_find(prog, negated, strlen(negated), &found)) {
        no = "";
        g = nearest_of_all(prog, name, len);
    }
    vc_quoted q = vc_flags_quote(name, len);
    q.s[strlen(q.s) - 1] = 0;                      /* without the quotes */
    if (g.best)
        return vc_fail(err, VC_EUSAGE, "unknown flag %s%s: did you mean %s%s%.*s?", dashes,
                       q.s + 1, known, no, (int)g.best_len, g.best);
    return vc_fail(err, VC_EUSAGE, "unknown flag %s%s: see %s --help", dashes, q.s + 1, prog->name);
}
