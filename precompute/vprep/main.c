/* main.c - vprep: metadata, videos, images and encoders -> latent dataset. The flags, the order of
 * the stages, the exit status. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libavcodec/avcodec.h>

#include "common/cli/foreign.h"
#include "common/cli/like.h"
#include "common/os/file.h"
#include "common/os/heap.h"
#include "common/os/streams.h"
#include "common/os/threads.h"
#include "common/tensor/backend.h"
#include "formats/columnar/columnar.h"
#include "formats/tensors/origins.h"
#include "formats/tensors/transformers.h"
#include "precompute/encode/prompt_images.h"
#include "precompute/run/reuse.h"

enum { COMMIT_SECONDS = 30 };            /* a kill loses the samples of this time, and those that
                                          * are being encoded */

#define GROUP(title) { .kind = VC_GROUP, .name = title },
#define FLAG(kind_, name_, ...) FLAG_IN(name_, kind_, name_, __VA_ARGS__)
#define FLAG_IN(field, kind_, name_, value_, allowed_, aliases_, help_) \
    { .name = #name_, .kind = VC_##kind_, .offset = offsetof(vprep_config, field), \
      .value = value_, .allowed = allowed_, .aliases = aliases_, .help = help_ },

static const vc_flag flags[] = {
#include "common/cli/vprep_flags.def"
    { 0 }
};

static const char *version(void)
{
    return "cpu; " LIBAVCODEC_IDENT;
}

static const vc_program program = {
    .name = "vprep",
    .synopsis = "vprep --meta metadata.json --out latents.lmdb [--model DIR] [flags]",
    .about = "Decodes videos and images, chooses sizes, crops and frames, encodes pictures and "
             "captions, and writes a latent dataset for vtrain. Started again with the same --out, "
             "vprep continues there and encodes only the inputs that changed.",
    .flags = flags,
    .partner = vc_vtrain_flags,
    .foreign = vc_peers, .renamed = vc_renamed_flags,
    .version = version,
};

/* ---- settings ---- */

static int check_variants(const char *v, vc_err *err)
{
    char *end;
    if (!v || !strcmp(v, "sizes"))
        return 0;
    long n = strtol(v, &end, 10);
    if (*end || n < 1 || n > 1000)
        return vc_fail(err, VC_EUSAGE, "--variants %s: expected a number from 1 to 1000, or sizes",
                       v);
    return 0;
}

static int check_device(const char *d, vc_err *err)
{
    size_t n = strcspn(d, ":");
    if (!strcmp(d, "auto"))
        return 0;
    for (const vt_backend *const *b = vt_backends(); *b; b++)
        if (strlen((*b)->name) == n && !strncmp((*b)->name, d, n))
            return 0;
    if (n == 4 && !strncmp(d, "cuda", 4))
        return vc_fail(err, VC_EUSAGE, "--device %s: this build has no CUDA backend; use "
                       "--device cpu", d);
    return vc_fail(err, VC_EUSAGE, "--device %s: expected auto, cpu, cuda or cuda:N", d);
}

/* --num_frames stands for three flags; each may be given by itself. */
static void take_first_frames(vprep_config *c, vc_flags *set)
{
    if (!c->num_frames)
        return;
    if (vc_flags_given(set, "video_sample_n_frames") && c->n_frames != c->num_frames)
        vc_flags_wrong(set, "--num_frames %lld and --video_sample_n_frames %lld contradict each "
                       "other",
                       (long long)c->num_frames, (long long)c->n_frames);
    c->n_frames = c->num_frames;
    if (!vc_flags_given(set, "video_sample_stride"))
        c->stride = 1;
    if (!vc_flags_given(set, "start_rule"))
        c->start_rule = VB_START_FIRST;
}

/* --video_length stands for --ttt_segments. */
static void take_length(vprep_config *c, vc_flags *set)
{
    char *end = NULL;
    long seconds = c->video_length ? strtol(c->video_length, &end, 10) : 0;

    if (!c->video_length)
        return;
    if (strcmp(end, "sec") || seconds < 3 || seconds > 3 * VF_MAX_SEGMENTS || seconds % 3) {
        vc_flags_wrong(set, "--video_length %s: expected seconds as ttt-video writes them, a "
                       "multiple of three: 9sec; --video_sample_n_frames takes frames",
                       c->video_length);
        return;
    }
    if (c->ttt_segments && c->ttt_segments != seconds / 3)
        vc_flags_wrong(set, "--video_length %s is --ttt_segments %ld, not %lld", c->video_length,
                       seconds / 3, (long long)c->ttt_segments);
    c->ttt_segments = seconds / 3;
}

static void check_together(vprep_config *c, vc_flags *set)
{
    take_first_frames(c, set);
    take_length(c, set);
    if (!c->meta || !c->out)
        vc_flags_wrong(set, "%s required: vprep --meta metadata.json --out latents.lmdb",
                       c->meta ? "--out is" : c->out ? "--meta is" : "--meta and --out are");
    if (c->overwrite && c->append)
        vc_flags_wrong(set, "--overwrite and --append contradict each other");
}

static int check_family(vprep *p, const vc_family *sizes, vc_err *err)
{
    vprep_config *c = &p->c;

    if (c->latent_store == STORE_AUTO)
        c->latent_store = p->encoders.family.is->moments ? STORE_MOMENTS : STORE_MODE;
    return vprep_rules(p, sizes, err);
}

/* In other trainers --dtype is the type that encoders compute in; here it is the stored type. */
static void say_dtype(const vprep *p)
{
    const vprep_config *c = &p->c;
    const vc_dtype pictures = p->encoders.vae_part.opts.dtype;
    const vc_dtype texts = p->encoders.text_part[0].opts.dtype;
    bool same = pictures == c->dtype && texts == c->dtype;
    if (vc_flags_given(p->flags, "dtype") && p->encoders.family.from_files && !same)
        vc_say(p->progress, "--dtype %s: the stored type; the VAE computes in %s and text encoders "
               "in %s, by --vae_dtype and --text_encoder_dtype", vc_dtype_name(c->dtype),
               vc_dtype_name(pictures), vc_dtype_name(texts));
}

/* Takes a component that DiffSynth-Studio's flags name; of a transformer vprep reads the names. */
static int take_origin(void *arg, const char *slot, const char *path, vc_err *err)
{
    static const char *const parts[] = { "model", "vae", "text_encoder", "text_encoder_2",
                                         "text_encoder_3", "image_encoder" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(slot, parts[i]))
            return vc_flags_prefer(arg, slot, path, err);
    int rc = strncmp(slot, "transformer", 11) ? 0 : vf_transformer_check_file(path, err);
    return rc && rc != VC_ENOMEM ? vc_context(err, VC_EUSAGE, "--transformer") : rc;
}

/* Called after vc_flags_parse, even after errors: adds all further errors of the flags. */
static int settle_config(vprep *p, vc_err *err)
{
    const vc_family *sizes;

    check_together(&p->c, p->flags);
    int rc = vc_flags_catch(p->flags, check_variants(p->c.variants, err), err);
    if (!rc)
        rc = vc_flags_catch(p->flags, vf_origins(p->c.model_paths, p->c.model_id_with_origin_paths,
                                                 take_origin, p->flags, err), err);
    if (!rc)
        rc = vc_flags_catch(p->flags, check_device(p->c.device, err), err);
    if (!rc)
        rc = vc_flags_catch(p->flags, vprep_parse_shard(p, err), err);
    if (rc)
        return rc;
    rc = vprep_components(p, &sizes, err);
    rc = rc ? vc_flags_catch(p->flags, rc, err) : check_family(p, sizes, err);
    if (!rc)
        rc = vc_flags_verdict(p->flags, err);
    if (!rc)
        say_dtype(p);
    if (!rc)
        vprep_share_machine(p);
    return rc;
}

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
    if (!rc && p->ranks.rank == 0)
        rc = vprep_remember(p, err);
    if (!rc && p->writer && vf_writer_lost_shards(p->writer))
        vc_warn(p->progress, "%d shards of %s are missing: their values are encoded again",
                vf_writer_lost_shards(p->writer), p->c.out);
    return vc_comm_agree(p->ranks.comm, rc, err);
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
    return vc_comm_agree(p->ranks.comm, rc, err);
}

/* Numbers the samples, and refuses a run that would come to nothing. Called by rank 0. */
static int settle_plan(vprep *p, vc_err *err)
{
    int rc = vprep_number(p, err);

    if (!rc)
        rc = vprep_missing(p, err);
    return rc ? rc : vprep_losses(p, err);
}

/* A dry run writes plan.jsonl and errors.jsonl; into a dataset only while no other process does. */
static int open_dry(const vprep *p, int *lock, vc_err *err)
{
    int rc = vc_mkdirs(p->c.out, err);
    if (!rc && p->ranks.rank == 0)
        rc = vf_dataset_lock(lock, p->c.out, err);
    return rc == VC_ENOENT ? 0 : rc;
}

/* ---- the run ---- */

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

static int write_config(vprep *p, vc_err *err)
{
    char *yaml = vc_flags_yaml(&program, &p->c), *path = vc_path_join(p->c.out, "vprep.yaml");
    int rc = yaml && path ? vc_file_write(path, yaml, strlen(yaml), err) : vc_no_memory(err);
    free(yaml);
    free(path);
    return rc;
}

static void say_done(vprep *p, double seconds, uint32_t dropped)
{
    const prep_counts *n = &p->count;
    const bool conditions = p->c.train_mode || n->conditions;
    char a[32], b[32], c[32], d[32], e[32], t[32];

    vc_say(p->progress, "%s: %s encoded, %s reused, %s skipped, %s gone; %s%s%llu of %llu prompts "
           "encoded; %s", p->c.out, vc_human_count(a, n->encoded), vc_human_count(b, n->reused),
           vc_human_count(c, p->errors.n), vc_human_count(d, dropped),
           conditions ? vc_human_count(e, n->conditions) : "",
           conditions ? " conditions encoded; " : "", (unsigned long long)n->texts_encoded,
           (unsigned long long)(n->texts_encoded + n->texts_reused), vc_human_time(t, seconds));
    if (n->copied_latents + n->copied_texts)
        vc_say(p->progress, "of those reused, %s latents and %s texts were copied from --reuse",
               vc_human_count(a, n->copied_latents), vc_human_count(b, n->copied_texts));
    if (p->gpu)
        vc_say(p->progress, "%s frames were decoded by NVDEC", vc_human_count(a, n->gpu_frames));
    vprep_say_skipped(p, true);
    if (p->errors.n)
        vc_say(p->progress, "%s/errors.jsonl has the reason for each that was skipped", p->c.out);
}

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

/* The ranks wait for each other here. All of them receive a stop; a rank that fails ends the
 * others, which are still working. Values that were made are kept. */
static int meet(vprep *p, int rc, vc_err *err)
{
    rc = vc_maps_check(rc, err);
    if (rc && p->writer)
        vf_writer_commit(p->writer, NULL);
    if (rc && rc != VC_ESTOP && p->ranks.n > 1) {
        char who[32];
        snprintf(who, sizeof who, "vprep: rank %d", p->ranks.rank);
        vc_flags_report(p->flags, who, err, rc);
        vc_comm_abort(p->ranks.comm, EXIT_FAILURE);
    }
    return vc_comm_agree(p->ranks.comm, rc, err);
}

/* Called by rank 0 only. */
static int complete(vprep *p, uint32_t *dropped, vc_err *err)
{
    int rc = vprep_put_validations(p, err);

    vprep_keep_missing(p);
    int lost = rc ? 0 : vprep_late_losses(p, err);
    if (!rc && !lost && !p->c.append)
        rc = vf_writer_drop_unseen(p->writer, dropped, err);
    if (!rc)
        rc = remove_trace_texts(p, lost ? NULL : err);
    /* With most of its samples lost a dataset keeps the old ones, and one without any stays
     * incomplete. */
    const bool finish = !rc && (!lost || (vf_writer_count(p->writer) && !prep_reuse_in_place(p)));
    if (finish)
        rc = vf_writer_finish(p->writer, lost ? NULL : err);
    return lost ? lost : rc;
}

static int encode_stages(vprep *p, vc_err *err)
{
    uint32_t dropped = 0;
    double begin = vc_seconds();
    p->profile.span[PREP_SPAN_PLAN] = begin - p->profile.begin;
    int rc = p->c.trace_dir ? vc_mkdirs(p->c.trace_dir, err) : 0;

    if (!rc && p->ranks.rank == 0)
        rc = name_plan(p, err);
    if (!rc && p->ranks.rank == 0)
        rc = write_config(p, err);
    if (!rc)
        rc = vprep_text(p, err);
    rc = meet(p, rc, err);
    if (!rc)
        rc = meet(p, vprep_share_texts(p, err), err);
    if (!rc)
        rc = meet(p, vprep_clips(p, err), err);
    if (!rc)
        rc = meet(p, vprep_share_clips(p, err), err);
    if (!rc && p->ranks.rank == 0)
        rc = complete(p, &dropped, err);
    if (!rc && p->ranks.rank == 0)
        say_done(p, vc_seconds() - begin, dropped);
    if (!rc && p->c.profile)
        vprep_say_profile(p);
    return rc;
}

static int run(vprep *p, vc_err *err)
{
    vf_metadata_opts o = { .data_dir = p->c.data, .file_keys = p->c.data_file_keys,
                           .extra_inputs = p->c.extra_inputs,
                           .caption_columns = p->c.caption_column,
                           .allow_empty_captions = p->c.allow_empty_captions,
                           .plain_folders = !p->c.folder_repeats };
    p->profile.begin = vc_seconds();
    int lock = -1, rc = settle_config(p, err);

    if (!rc && p->ranks.rank == 0)
        rc = vc_context(err, vf_writer_room(p->c.out, err), "--out");
    rc = vc_comm_agree(p->ranks.comm, rc, err);
    if (!rc)
        rc = vprep_share_devices(p, err);
    if (!rc)
        rc = vprep_share_decoder(p, err);
    if (rc)
        return rc;
    rc = p->c.validation_prompts ? vf_columnar_check(p->c.validation_prompts,
                                                     p->c.validation_prompts, err) : 0;
    rc = vc_context(err, rc, "--validation_prompts");
    if (!rc)
        rc = vf_metadata_read(&p->list.meta, p->c.meta, &o, err);
    if (!rc)
        rc = vprep_check_list(p, err);
    if (!rc)
        rc = vprep_prompts_load(p, err);
    rc = vprep_share_list(p, vc_comm_agree(p->ranks.comm, rc, err), err);
    if (!rc)
        rc = prep_reuse_open(p, err);
    if (!rc && p->ranks.rank == 0)
        rc = vprep_missing_before(p, err);
    rc = vc_comm_agree(p->ranks.comm, rc, err);
    bool forecast = !rc && (prep_reuse_continues(p) || p->c.reuse.n);
    bool keys = forecast || !p->c.dry_run;
    if (!rc)
        rc = vprep_identify(p, keys, err);
    rc = vc_comm_agree(p->ranks.comm, rc, err);
    if (!rc)
        prep_reuse_compare(p);
    if (!rc)
        rc = p->c.dry_run ? vc_comm_agree(p->ranks.comm, open_dry(p, &lock, err), err)
                          : open_writer(p, err);
    bool ours = !rc;                         /* this run has locked the folder */
    if (!rc)
        rc = meet(p, vprep_survey(p, keys, err), err);
    if (!rc)
        rc = meet(p, vprep_share_survey(p, err), err);
    if (!rc)
        vprep_say_types(p);
    if (!rc && p->ranks.rank == 0)
        vprep_warn_hdr(p);
    if (!rc && p->ranks.rank == 0)
        prep_beside_say(p);
    if (!rc)
        rc = vprep_plan(p, err);
    if (!rc && p->ranks.rank == 0)
        rc = settle_plan(p, err);
    if (!rc)
        rc = vprep_prompt_images_find(p, err);
    if (rc && p->writer)
        vf_writer_commit(p->writer, NULL);   /* the hints, for the next try */
    rc = vc_comm_agree(p->ranks.comm, rc, err);
    if (!rc && !p->c.dry_run)
        rc = begin_writing(p, err);
    if (!rc && p->ranks.rank == 0)
        rc = vprep_report(p, stdout, err);
    if (!rc && !p->c.dry_run)
        vprep_say_skipped(p, false);
    if (!rc && forecast && p->ranks.rank == 0)
        rc = vprep_forecast(p, stdout, err);
    if (!rc && !forecast && p->c.dry_run)
        vprep_no_forecast(stdout);
    if (!rc && !p->c.dry_run)
        fflush(stdout);                      /* the plan stands before the work, in a file too */
    rc = vc_comm_agree(p->ranks.comm, rc, err);
    if (!rc && !p->c.dry_run)
        rc = encode_stages(p, err);
    rc = vc_maps_check(rc, err);
    if (p->ranks.rank == 0 && ours) {
        vc_err e = { 0 };
        int wrote = vprep_write_errors(p, rc ? &e : err);
        rc = rc ? rc : wrote;
    }
    if (lock >= 0)
        close(lock);
    return rc;
}

static void release(vprep *p)
{
    vf_writer_close(p->writer);
    prep_reuse_close(p);
    vprep_share_free(p);
    media_gpu_close(p->gpu);
    for (int64_t i = 0; p->list.sources && i < p->list.meta.n; i++)
        vprep_source_free(&p->list.sources[i]);
    for (uint32_t i = 0; i < p->errors.n; i++) {
        free(p->errors.list[i].path);
        free(p->errors.list[i].reason);
    }
    for (int i = 0; i < PREP_MAX_TEXTS; i++)
        prep_part_free(&p->encoders.text_part[i]);
    prep_part_free(&p->encoders.vae_part);
    prep_part_free(&p->encoders.vision_part);
    vprep_prompts_free(&p->prompts);
    free(p->list.sources);
    free(p->plan.kept);
    free(p->plan.items);
    free(p->plan.cuts);
    free(p->errors.list);
    vc_map_close(&p->plan.file);
    vf_metadata_free(&p->list.meta);
    pthread_mutex_destroy(&p->errors.lock);
}

static int exit_status(const vprep *p, int rc)
{
    int signal = *vc_stop_flag();

    if (rc == VC_ESTOP && signal)
        return 128 + signal;
    return rc == VC_EUSAGE ? 2 : rc ? 1 : p->errors.n ? 3 : 0;
}

/* Rank 0 alone makes a dry run. wrong: the flags have errors; run adds the further ones. */
static int run_ranks(vprep *p, vc_comm *comm, bool wrong, vc_err *err)
{
    int rc;

    p->ranks.comm = p->c.dry_run ? NULL : comm;
    p->ranks.rank = vc_comm_rank(comm);
    p->ranks.n = vc_comm_size(p->ranks.comm);
    if (p->c.dry_run && p->ranks.rank)
        return 0;
    rc = vc_progress_open(&p->progress, "vprep", (vc_log_format)p->c.log_format,
                          p->c.quiet || p->ranks.rank, err);
    vc_flags_name_typed(p->flags, p->progress);
    if (!rc)
        rc = vc_catch_stop(err);
    for (int i = 0; !rc && !wrong && vc_flags_note(p->flags, i); i++)
        vc_say(p->progress, "%s", vc_flags_note(p->flags, i));
    return rc ? rc : run(p, err);
}

int main(int argc, char **argv)
{
    vc_heap_return_freed();
    vc_std_open();
    vprep p = { 0 };
    vc_comm *comm = NULL;
    vc_err err = { 0 };
    int rc = vc_calm_threads(argv, &err);

    if (!rc)
        rc = vc_comm_open(&comm, &err);
    pthread_mutex_init(&p.errors.lock, NULL);
    if (!rc) {
        rc = vc_flags_parse(&p.flags, &program, &p.c, argc, argv, stdout, &err);
        bool wrong = rc == VC_EUSAGE;
        if (!rc || wrong)
            rc = vc_like_take(p.flags, p.c.like, vc_vprep_like, NULL, &p.c, &err);
        rc = vc_comm_agree(comm, rc, &err);
        if (rc == 0)
            rc = run_ranks(&p, comm, wrong, &err);
        if (rc == 0 && p.c.dry_run)
            rc = vc_std_flush(stdout, &err);
        else if (rc > 0)
            rc = 0;                /* help or version */
    }
    int status = exit_status(&p, rc);
    release(&p);
    vc_progress_close(p.progress);
    if (rc == VC_ESTOP)
        vc_fail(&err, rc, "stopped; the same command continues from here");
    if (rc && vc_comm_rank(comm) == 0)
        vc_flags_report(p.flags, "vprep", &err, rc);
    vc_flags_free(p.flags);
    vc_comm_close(comm);
    return status;
}
