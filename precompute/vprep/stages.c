/* stages.c - the stages of vprep's run, in their order. See stages.h
 *
 * Each stage ends with an agreement of the ranks, so that no rank enters a stage that another one
 * has not reached: a failure of one is everyone's. */
#include "precompute/vprep/stages.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/os/file.h"
#include "common/os/lock.h"
#include "formats/columnar/columnar.h"
#include "formats/metadata/edits.h"
#include "formats/metadata/wording.h"
#include "precompute/encode/prompt_clips.h"
#include "precompute/encode/prompt_images.h"
#include "precompute/run/reuse.h"

enum { COMMIT_SECONDS = 30 };            /* a kill loses the samples of this time, and those that
                                          * are being encoded */

/* ---- the list ---- */

static int find_room(vprep *p, vc_err *err)
{
    return vc_context(err, vf_writer_room(p->c.out, err), "--out");
}

static int edit_list(vprep *p, vc_err *err)
{
    vf_edits_done done;
    int rc = vf_metadata_edit(&p->list.meta, p->c.edits, &done, err);
    if (rc)
        return vc_context(err, rc, "--edits");
    vc_say(p->progress, "--edits: %" PRId64 " rows excluded, %" PRId64 " with other captions",
           done.excluded, done.captioned);
    if (done.unused)
        vc_warn(p->progress, "--edits %s: %" PRId64 " lines are for no row of %s", p->c.edits,
                done.unused, p->c.meta);
    return 0;
}

/* Words the captions as the flags say. Captions of --edits are taken as they are. */
static int word_list(vprep *p, vc_err *err)
{
    vf_wording w = p->c.wording;
    w.seed = (uint64_t)p->c.seed;
    return vf_metadata_word(&p->list.meta, &w, err);
}

static int read_lists(vprep *p, vc_err *err)
{
    vf_metadata_opts o = { .data_dir = p->c.data, .image_column = p->c.image_column,
                           .reference_column = p->c.reference_column,
                           .file_keys = p->c.data_file_keys,
                           .extra_inputs = p->c.extra_inputs,
                           .caption_columns = p->c.caption_column,
                           .allow_empty_captions = p->c.allow_empty_captions,
                           .default_caption = p->c.default_caption,
                           .caption_lines = p->c.caption_lines,
                           .plain_folders = !p->c.folder_repeats };
    const char *prompts = p->c.validation_prompts;
    int rc = prompts ? vf_columnar_check(prompts, prompts, err) : 0;
    rc = vc_context(err, rc, "--validation_prompts");
    if (!rc)
        rc = vf_metadata_read(&p->list.meta, p->c.meta, &o, err);
    for (int64_t i = 0; !rc && i < p->list.meta.n; i++)
        p->list.meta.rows[i].held = (vf_held)p->c.sample_kind;
    if (!rc && p->c.reg_data_dir)
        rc = vc_context(err, vf_metadata_add_regs(&p->list.meta, p->c.reg_data_dir, &o, err),
                        "--reg_data_dir");
    if (!rc && p->c.control_directory.n)
        rc = vc_context(err, vf_metadata_pair(&p->list.meta, p->c.control_directory.item,
                                              p->c.control_directory.n, err),
                        "--control_directory");
    if (!rc && p->c.mask_directory)
        rc = vc_context(err, vf_metadata_pair_masks(&p->list.meta, p->c.mask_directory, err),
                        "--mask_directory");
    if (!rc)
        rc = word_list(p, err);
    if (!rc && p->c.edits)
        rc = edit_list(p, err);
    if (!rc && p->c.preserve)
        rc = vf_metadata_preserve(&p->list.meta, p->c.preserve, err);
    if (!rc)
        rc = vprep_check_list(p, err);
    return rc ? rc : vprep_prompts_load(p, err);
}

static int identify(vprep *p, vc_err *err)
{
    p->stage.forecast = prep_reuse_continues(p) || p->c.reuse.n;
    p->stage.keys = p->stage.forecast || !p->c.dry_run;
    return vprep_identify(p, p->stage.keys, err);
}

static int compare(vprep *p, vc_err *err)
{
    (void)err;
    cJSON *head = vprep_manifest_head(p);
    prep_reuse_compare(p, head);
    cJSON_Delete(head);
    return 0;
}

/* ---- the dataset ---- */

/* head: vprep_manifest_head. */
static vf_writer_opts writer_opts(const vprep *p, const cJSON *head)
{
    return (vf_writer_opts){ .head = head, .shard_size = p->c.shard_size,
                             .shard_seconds = p->c.shard_seconds,
                             .commit_seconds = COMMIT_SECONDS, .overwrite = p->c.overwrite,
                             .append = p->c.append, .change = prep_reuse_in_place(p) };
}

/* Locks --out and loads its dataset, which does not change before begin_writing. */
static int open_writer(vprep *p, vc_err *err)
{
    cJSON *head = vprep_manifest_head(p);
    vf_writer_opts o = writer_opts(p, head);
    int rc = vprep_share_open(p, &o, err);
    cJSON_Delete(head);
    prep_reuse_read_hints(p);
    vc_lock_say_missing(p->progress);
    if (!rc && p->ranks.rank == 0)
        rc = vprep_remember(p, err);
    if (!rc && p->writer && vf_writer_lost_shards(p->writer))
        vc_warn(p->progress, "%d shards of %s are missing: their values are encoded again",
                vf_writer_lost_shards(p->writer), p->c.out);
    return rc;
}

/* From here on the dataset changes. */
static int begin_writing(vprep *p, vc_err *err)
{
    cJSON *head = vprep_manifest_head(p);
    vf_writer_opts o = writer_opts(p, head);
    o.rank = p->ranks.rank;
    o.ranks = p->ranks.n;
    p->count.stored = p->writer ? prep_reuse_rows(p) : 0;
    int rc = vprep_share_begin(p, &o, err);
    cJSON_Delete(head);
    if (!rc && p->ranks.rank)
        rc = vprep_number(p, err);
    return rc;
}

/* Numbers the samples, and refuses a run that would come to nothing. */
static int number_samples(vprep *p, vc_err *err)
{
    int rc = vprep_number(p, err);

    if (!rc)
        rc = vprep_missing(p, err);
    return rc ? rc : vprep_losses(p, err);
}

/* A dry run writes plan.jsonl and errors.jsonl; into a dataset only while no other process does. */
static int open_dry(vprep *p, vc_err *err)
{
    int rc = vc_mkdirs(p->c.out, err);
    if (!rc)
        rc = vf_dataset_lock(&p->stage.lock, p->c.out, err);
    return rc == VC_ENOENT ? 0 : rc;
}

/* ---- the plan ---- */

static int survey(vprep *p, vc_err *err)
{
    p->stage.ours = true;                    /* the folder is locked */
    return vprep_survey(p, p->stage.keys, err);
}

static int say_sources(vprep *p, vc_err *err)
{
    (void)err;
    vprep_say_types(p);
    vprep_warn_hdr(p);
    prep_beside_say(p);
    return 0;
}

/* Prints the plan, which stands before the work, in a file too. */
static int print_plan(vprep *p, vc_err *err)
{
    int rc = vprep_report(p, stdout, err);
    if (!rc && !p->c.dry_run)
        vprep_say_skipped(p, false);
    if (!rc && p->stage.forecast)
        rc = vprep_forecast(p, stdout, err);
    else if (!rc && p->c.dry_run)
        vprep_no_forecast(stdout);
    if (!p->c.dry_run)
        fflush(stdout);
    return rc;
}

/* ---- the work ---- */

/* Stores the hash of plan.jsonl and the lost ends of captions in the manifest. */
static int name_plan(vprep *p, vc_err *err)
{
    char hex[VF_KEY_HEX], *path = vc_path_join(p->c.out, "plan.jsonl");
    vf_key k;
    int rc = path ? vf_hash_file(&k, path, vc_stop_flag(), err) : vc_no_memory(err);

    if (!rc)
        rc = vf_writer_describe(p->writer, "plan", vf_key_hex(hex, k), err);
    if (!rc && p->plan.cuts)
        rc = vf_writer_describe(p->writer, "cut", p->plan.cuts, err);
    free(path);
    return rc;
}

static int write_config(vprep *p, vc_err *err)
{
    char *yaml = vc_flags_yaml(p->program, &p->c), *path = vc_path_join(p->c.out, "vprep.yaml");
    int rc = yaml && path ? vc_file_write(path, yaml, strlen(yaml), err) : vc_no_memory(err);
    free(yaml);
    free(path);
    return rc;
}

static int begin_work(vprep *p, vc_err *err)
{
    p->stage.begin = vc_seconds();
    p->profile.span[PREP_SPAN_PLAN] = p->stage.begin - p->profile.begin;
    return p->c.trace_dir ? vc_mkdirs(p->c.trace_dir, err) : 0;
}

static int remove_trace_texts(vprep *p, vc_err *err)
{
    DIR *d = p->c.trace_dir ? opendir(p->c.trace_dir) : NULL;
    int rc = 0;

    for (struct dirent *e; d && (e = vc_dir_next(d, p->c.trace_dir, &rc, err));)
        if (!strncmp(e->d_name, ".text-", 6)) {
            char *path = vc_path_join(p->c.trace_dir, e->d_name);
            if (path && unlink(path))
                rc = vc_fail_errno(err, "%s", path);
            free(path);
        }
    if (d)
        closedir(d);
    return rc;
}

static int complete(vprep *p, vc_err *err)
{
    int rc = vprep_put_validations(p, err);

    vprep_keep_missing(p);
    int lost = rc ? 0 : vprep_late_losses(p, err);
    if (!rc && !lost && !p->c.append)
        rc = vf_writer_drop_unseen(p->writer, &p->stage.dropped, err);
    if (!rc)
        rc = remove_trace_texts(p, lost ? NULL : err);
    /* With most of its samples lost a dataset keeps the old ones, and one without any stays
     * incomplete. */
    const bool finish = !rc && (!lost || (vf_writer_count(p->writer) && !prep_reuse_in_place(p)));
    if (finish)
        rc = vf_writer_finish(p->writer, lost ? NULL : err);
    return lost ? lost : rc;
}

static int say_done(vprep *p, vc_err *err)
{
    const prep_counts *n = &p->count;
    const bool conditions = p->c.train_mode || n->conditions;
    char a[32], b[32], c[32], d[32], e[32], t[32];
    (void)err;

    vc_say(p->progress, "%s: %s encoded, %s reused, %s skipped, %s gone; %s%s%llu of %llu prompts "
           "encoded; %s", p->c.out, vc_human_count(a, n->encoded), vc_human_count(b, n->reused),
           vc_human_count(c, p->errors.n), vc_human_count(d, p->stage.dropped),
           conditions ? vc_human_count(e, n->conditions) : "",
           conditions ? " conditions encoded; " : "", (unsigned long long)n->texts_encoded,
           (unsigned long long)(n->texts_encoded + n->texts_reused),
           vc_human_time(t, vc_seconds() - p->stage.begin));
    if (n->copied_latents + n->copied_texts)
        vc_say(p->progress, "of those reused, %s latents and %s texts were copied from --reuse",
               vc_human_count(a, n->copied_latents), vc_human_count(b, n->copied_texts));
    if (p->gpu)
        vc_say(p->progress, "%s frames were decoded by NVDEC", vc_human_count(a, n->gpu_frames));
    vprep_say_skipped(p, true);
    if (p->errors.n)
        vc_say(p->progress, "%s/errors.jsonl has the reason for each that was skipped", p->c.out);
    return 0;
}

static int say_profile(vprep *p, vc_err *err)
{
    (void)err;
    if (p->c.profile)
        vprep_say_profile(p);
    return 0;
}

/* Says why nothing was encoded, and what one does with the dataset. A part made by --shard is
 * merged first. */
static int say_next(vprep *p, vc_err *err)
{
    const prep_counts *n = &p->count;
    char a[32];
    char *next = p->c.shard ? vc_format("next: vlat merge PARTS... --out DATASET, when all parts "
                                        "are made") : vf_next_train(p->c.out);
    (void)err;

    if (!n->encoded && n->reused)
        vc_say(p->progress, "nothing was to encode: all %s samples had been encoded before",
               vc_human_count(a, n->reused));
    if (next && n->encoded + n->reused)
        vc_say(p->progress, "%s", next);
    free(next);
    return 0;
}

/* ---- the order ---- */

/* Who runs a stage, and how its failure is shared. */
enum {
    ALL = 0,
    FIRST = 1,                               /* rank 0 alone */
    DRY = 2, REAL = 4,                       /* only in a dry run; only in another */
    LONG = 8,                                /* it lasts: a rank that fails ends the others, which
                                              * are still working. All of them receive a stop */
    KEEPS = 16,                              /* hints and values that were made are kept if it
                                              * fails */
};

/* Collects what all ranks know after the texts, and divides the samples among them. */
static int share_texts(vprep *p, vc_err *err)
{
    int rc = vprep_share_texts(p, err);
    return rc || p->ranks.n == 1 ? rc : vprep_share_divide(p, err);
}

typedef struct stage {
    int (*run)(vprep *p, vc_err *err);
    int how;
} stage;

static const stage stages[] = {
    { find_room, FIRST }, { vprep_share_devices, ALL }, { vprep_share_decoder, ALL },
    { read_lists, ALL }, { vprep_share_list, ALL },
    { prep_reuse_open, ALL }, { vprep_missing_before, FIRST }, { identify, ALL }, { compare, ALL },
    { open_dry, FIRST | DRY }, { open_writer, REAL },
    { survey, LONG | KEEPS }, { vprep_share_survey, LONG | KEEPS }, { say_sources, FIRST },
    { vprep_plan, KEEPS }, { number_samples, FIRST | KEEPS }, { vprep_prompt_images_find, KEEPS },
    { vprep_prompt_clips_find, KEEPS },
    { begin_writing, REAL }, { print_plan, FIRST },
    { begin_work, REAL }, { name_plan, FIRST | REAL }, { write_config, FIRST | REAL },
    { vprep_text, REAL | LONG | KEEPS }, { share_texts, REAL | LONG | KEEPS },
    { vprep_clips, REAL | LONG | KEEPS }, { vprep_share_clips, REAL | LONG | KEEPS },
    { complete, FIRST | REAL }, { say_done, FIRST | REAL }, { say_profile, REAL },
    { say_next, FIRST | REAL },
};

static int run_stage(vprep *p, const stage *s, vc_err *err)
{
    const bool mine = !(s->how & FIRST) || p->ranks.rank == 0;
    int rc = mine ? vc_maps_check(s->run(p, err), err) : 0;

    if (rc && s->how & KEEPS && p->writer)
        vf_writer_commit(p->writer, NULL);
    if (rc && rc != VC_ESTOP && rc != VC_ELOST && s->how & LONG && p->ranks.n > 1) {
        char who[32];
        snprintf(who, sizeof who, "vprep: rank %d", p->ranks.rank);
        vc_flags_report(p->flags, who, err, rc);
        vc_comm_abort(p->ranks.comm, EXIT_FAILURE);
    }
    return vc_comm_agree(p->ranks.comm, rc, err);
}

int vprep_run(vprep *p, vc_err *err)
{
    int rc = 0;
    p->profile.begin = vc_seconds();
    p->stage.lock = -1;
    for (size_t i = 0; !rc && i < sizeof stages / sizeof *stages; i++)
        if (!(stages[i].how & (p->c.dry_run ? REAL : DRY)))
            rc = run_stage(p, &stages[i], err);
    if (p->ranks.rank == 0 && p->stage.ours) {
        vc_err e = { 0 };
        int wrote = vprep_write_errors(p, rc ? &e : err);
        rc = rc ? rc : wrote;
    }
    if (p->stage.lock >= 0)
        close(p->stage.lock);
    return rc;
}
