/* main.c - vprep: metadata, videos, images and encoders -> latent dataset. The flags and the exit
 * status; stages.c has what a run does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libavcodec/avcodec.h>

#include "common/cli/foreign.h"
#include "common/cli/hub.h"
#include "common/cli/like.h"
#include "common/os/heap.h"
#include "common/os/streams.h"
#include "common/os/threads.h"
#include "common/tensor/backend.h"
#include "formats/tensors/origins.h"
#include "formats/models/transformers.h"
#include "precompute/run/families_page.h"
#include "precompute/run/reuse.h"
#include "precompute/vprep/stages.h"

#define GROUP(topic, title) { .kind = VC_GROUP, .name = title, .aliases = topic },
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
    static char text[200];

    snprintf(text, sizeof text, "%s; %s", vt_built_for(), LIBAVCODEC_IDENT);
    return text;
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
    .first = "meta out model video_sample_size video_sample_n_frames video_sample_stride "
             "train_mode validation_prompts dry_run",
    .pages = (const vc_page[]){ { "families", prep_families_page },
                                  { "refused", prep_refused_page },
                                  { "others", prep_others_page }, { 0 } },
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

/* Flags of tags and variants count where something is drawn. */
static void check_wording(const vprep_config *c, vc_flags *set)
{
    static const char *const of_tags[] = { "keep_tokens", "keep_tokens_separator",
                                           "secondary_separator" };
    const vf_wording *w = &c->wording;
    const bool has[] = { w->keep_tokens, w->keep_separator, w->second_separator };

    for (size_t i = 0; i < sizeof of_tags / sizeof *of_tags; i++)
        if (has[i] && !w->shuffle && !(w->drop > 0))
            vc_flags_wrong(set, "--%s says which tags are shuffled or dropped: give "
                           "--shuffle_caption or --caption_tag_dropout_rate too", of_tags[i]);
    if (w->variants && !vf_wording_draws(w))
        vc_flags_wrong(set, "--caption_variants %lld: the variants would be equal: give "
                       "--shuffle_caption, --caption_tag_dropout_rate or --enable_wildcard",
                       (long long)w->variants);
    if (w->variants == 1 && !w->wildcards && vf_wording_draws(w))
        vc_flags_wrong(set, "--caption_variants 1: the first variant has all tags in order: give "
                       "2 or more");
}

static void check_together(vprep_config *c, vc_flags *set)
{
    take_first_frames(c, set);
    take_length(c, set);
    check_wording(c, set);
    if ((!c->meta || !c->out) && vc_flags_whole(set))
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
    vprep *p = arg;
    static const char *const parts[] = { "model", "vae", "text_encoder", "text_encoder_2",
                                         "text_encoder_3", "image_encoder" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(slot, parts[i]))
            return vc_flags_prefer(p->flags, slot, path, err);
    int rc = strncmp(slot, "transformer", 11) ? 0 : vf_transformer_check_file(path, err);
    if (!rc && !strncmp(slot, "transformer", 11))
        p->encoders.published = vc_family_published(path);
    return rc && rc != VC_ENOMEM ? vc_context(err, VC_EUSAGE, "--transformer") : rc;
}

/* Called after vc_flags_parse, even after errors: adds all further errors of the flags. */
static int settle_config(vprep *p, vc_err *err)
{
    const vc_family *sizes;

    check_together(&p->c, p->flags);
    int rc = vc_flags_catch(p->flags, check_variants(p->c.variants, err), err);
    if (!rc)
        rc = vf_origins(p->c.model_paths, p->c.model_id_with_origin_paths, take_origin, p, err);
    bool missing = rc == VC_EUSAGE;            /* a model is named, but its files are not here */
    rc = vc_flags_catch(p->flags, rc, err);
    if (!rc)
        rc = vc_flags_catch(p->flags, check_device(p->c.device, err), err);
    if (!rc)
        rc = vc_flags_catch(p->flags, vprep_parse_shard(p, err), err);
    if (rc || missing)
        return rc ? rc : vc_flags_verdict(p->flags, err);
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
    prep_part_free(&p->encoders.audio_part);
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

    p->program = &program;
    p->ranks.comm = p->c.dry_run ? NULL : comm;
    p->ranks.rank = vc_comm_rank(comm);
    p->ranks.n = vc_comm_size(p->ranks.comm);
    if (p->c.dry_run && p->ranks.rank)
        return 0;
    rc = vc_progress_open(&p->progress, "vprep", (vc_log_format)p->c.log_format,
                          p->c.quiet || p->ranks.rank, err);
    vc_comm_watch(comm, &(vc_comm_watch_opts){ (double)p->c.comm_timeout, p->progress });
    vc_flags_name_typed(p->flags, p->progress);
    if (!rc)
        rc = vc_catch_stop(err);
    for (int i = 0; !rc && !wrong && vc_flags_note(p->flags, i); i++)
        vc_say(p->progress, "%s", vc_flags_note(p->flags, i));
    rc = vc_comm_agree(p->ranks.comm, rc ? rc : settle_config(p, err), err);
    return rc ? rc : vprep_run(p, err);
}

/* With --num_frames, frames, stride and start are decided. */
static bool samples_clips(const void *options, const char *flag)
{
    return !((const vprep_config *)options)->num_frames || !strcmp(flag, "enable_bucket");
}

static int take_like(vprep *p, vc_err *err)
{
    vprep_config theirs = p->c;
    const vc_like_run run = { .rows = vc_vprep_like, .options = &p->c, .scratch = &theirs,
                              .fits = samples_clips };
    int rc = vc_like_take(p->flags, p->c.like, vc_vprep_like, samples_clips, &p->c, err);
    if (!rc)
        rc = vc_like_say(p->flags, p->c.like, &run, err);
    return rc ? rc : vc_like_hint(p->flags, &run, err);
}

/* Settles the flags, which were read with `parsed`, and runs, unless these ask for a text. */
static int settled_run(vprep *p, vc_comm *comm, int parsed, vc_err *err)
{
    bool wrong = parsed == VC_EUSAGE;
    int rc = parsed;

    if (!rc || wrong)
        rc = take_like(p, err);
    if (!rc)
        rc = vc_hub_take(p->flags, &program, &p->c, err);
    if (rc > 0 && vc_comm_rank(comm) == 0 && vc_flags_print(p->flags, stdout, err))
        rc = err->code;
    rc = vc_comm_agree(comm, rc, err);
    if (rc == 0)
        rc = run_ranks(p, comm, wrong, err);
    if (rc == 0 && p->c.dry_run)
        rc = vc_std_flush(stdout, err);
    return rc > 0 ? 0 : rc;
}

int main(int argc, char **argv)
{
    vc_heap_return_freed();
    vc_heap_keep_freed();
    vc_std_open();
    vprep p = { 0 };
    vc_comm *comm = NULL;
    vc_err err = { 0 }, flags_err = { 0 }, lost = { 0 };
    int parsed = 0, rc = vc_calm_threads(argv, &err);

    if (!rc) {
        parsed = vc_flags_parse(&p.flags, &program, &p.c, argc, argv, NULL, &flags_err);
        rc = vc_comm_open(&comm, &(vc_comm_start){ .program = "vprep",
                          .log_format = (vc_log_format)p.c.log_format,
                          .patience = (double)p.c.comm_timeout }, &err);
    }
    pthread_mutex_init(&p.errors.lock, NULL);
    if (!rc) {
        err = flags_err;
        rc = settled_run(&p, comm, parsed, &err);
    }
    int status = exit_status(&p, rc);
    release(&p);
    vc_comm_watch(comm, &(vc_comm_watch_opts){ (double)p.c.comm_timeout, NULL });
    vc_progress_close(p.progress);
    if (rc == VC_ESTOP)
        vc_fail(&err, rc, "stopped; the same command continues from here");
    if (rc == VC_ELOST && vc_comm_lost(comm, &lost))
        vc_fail(&err, rc, "%s; the same command continues from here", lost.text);
    if (rc && vc_comm_leads(comm))
        vc_flags_report(comm ? p.flags : NULL, "vprep", &err, rc);
    vc_flags_free(p.flags);
    vc_comm_close(comm);
    return status;
}
