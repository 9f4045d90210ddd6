/* vprep.h - the run: its state, a part a stage, and the contracts of the stages.
 *
 *   rows (formats/metadata) -> survey: open and hash every source   vprep_survey   sources.h
 *        -> missing sources: keep their samples, or stop and ask    vprep_missing  sources.h
 *        -> items: one per sample and variant, numbered, chosen     vprep_plan     plan.h
 *        -> plan.jsonl and the table of buckets                     vprep_report   plan.h
 *        -> values to be reused, and to be made                     vprep_forecast vprep.h
 *        -> text, each distinct prompt once                         vprep_text     vprep.h
 *        -> decode workers -> encoder -> writer                     vprep_clips    vprep.h
 * reuse.h finds values that need not be made, components.h the encoders, share.h the part of a
 * rank; precompute/encode makes the values of a job.
 *
 * A stage reads the parts that the earlier ones filled. A clip that fails is noted in the errors
 * with its row, and the run continues (--on_error skip). */
#ifndef PRECOMPUTE_RUN_VPREP_H
#define PRECOMPUTE_RUN_VPREP_H

#include "common/os/file.h"
#include "common/os/progress.h"
#include "precompute/media/media.h"
#include "precompute/run/components.h"
#include "precompute/run/errors.h"
#include "precompute/run/options.h"
#include "precompute/run/plan.h"
#include "precompute/run/profile.h"
#include "precompute/run/prompts.h"
#include "precompute/run/share.h"
#include "precompute/run/sources.h"

/* Counts for the last line of the run. */
typedef struct prep_counts {
    uint64_t encoded, reused, conditions, texts_encoded, texts_reused;
    uint64_t stored;                             /* rows that --out had, for rank 0 */
    uint64_t gpu_frames;                         /* that p->gpu decoded, at the end */
    uint64_t copied_latents, copied_texts;       /* from --reuse, at the end */
} prep_counts;

struct vprep {
    vprep_config c;
    const vc_program *program;
    vc_flags *flags;
    vc_progress *progress;
    prep_encoders encoders;
    vb_rules rules;
    prep_list list;
    prep_plan plan;
    vprep_prompts prompts;
    struct prep_reuse *reuse;         /* values that need not be made (reuse.h) */
    media_gpu *gpu;                   /* that decodes clips; NULL: the CPU does */
    vf_writer *writer;                /* NULL in a dry run */
    prep_errors errors;
    prep_counts count;
    prep_profile profile;
    prep_ranks ranks;
    struct {                          /* of the stages (precompute/vprep/stages.c) */
        bool ours;                    /* this run has locked the folder */
        bool keys, forecast;          /* values get keys; what is stored is counted */
        int lock;                     /* of a dry run, or -1 */
        uint32_t dropped;             /* stored samples that the list has no more */
        double begin;                 /* of the encoding, in vc_seconds() */
    } stage;
};

/* Makes p->rules from the flags, for the sizes of vprep_components. */
int vprep_rules(vprep *p, const vc_family *sizes, vc_err *err);

/* The manifest's fields of how the dataset is made; NULL when out of memory. */
cJSON *vprep_manifest_head(const vprep *p);

/* Content keys: docs/format.md lists the fields. */
/* The keys of a text's pictures. */
typedef struct prep_pictures {
    int n;
    vf_key key[VC_REFERENCES];
} prep_pictures;
/* pictures NULL: the text has none; an encoder that reads first frames then gets a black one.
 * Encoders that read none ignore the keys. */
vf_key vprep_text_key(const vprep *p, int encoder, const char *prompt,
                      const prep_pictures *pictures);
/* The number of texts of a row: its captions, or one of all segments (precompute/vprep/segments.h).
 * The key of text k, as the record has it, and the key of caption k as the encoder makes it,
 * alone. */
int vprep_row_texts(const vf_row *row);
vf_key vprep_row_key(const vprep *p, int encoder, const vf_row *row, int k,
                     const prep_pictures *pictures);
vf_key vprep_caption_key(const vprep *p, int encoder, const vf_row *row, int k,
                         const prep_pictures *pictures);
/* The pictures that the texts of an encoder have, and those of any encoder. Texts of references
 * have an empty prompt for each sample, which stands for its dropped caption. */
typedef enum prep_sees { PREP_SEES_NONE, PREP_SEES_FIRST, PREP_SEES_REFERENCES } prep_sees;
prep_sees vprep_sees(const vprep *p, int encoder);
prep_sees vprep_texts_see(const vprep *p);
/* Tensors of the trace of a text. */
enum { VPREP_TEXT_TRACES = 6 };
vf_key vprep_latent_key(const vprep *p, const vprep_item *it, const vprep_clip *clip);

/* Pixels of the clips that a run encoded and the time that it took, with decoding and conditions: a
 * hint of the dataset for later forecasts. */
typedef struct vprep_rate {
    double pixels, seconds;
} vprep_rate;
#define VPREP_RATE "clip-rate"
double vprep_clip_pixels(const vb_choice *c);        /* of all frames of the target */

/* Prints to `out` the counts that the run is going to reuse, encode and drop; the writer keeps
 * stored records. */
int vprep_forecast(vprep *p, FILE *out, vc_err *err);
/* In its place, of a dry run without a dataset: prints how to get a rate. */
void vprep_no_forecast(FILE *out);

/* Counts the distinct prompts that are stored, are to be encoded and are to be copied. */
int vprep_text_forecast(vprep *p, uint64_t *reuse, uint64_t *encode, uint64_t *copy, vc_err *err);
/* Puts an encoded text into the dataset; writes its trace, which is kept beside the traces until
 * the clips are written. */
int vprep_put_text(vprep *p, vf_key key, const text_result *r, vc_err *err);
int vprep_trace_text(const vprep *p, int encoder, vf_key key, const text_result *r, vc_err *err);
/* Encodes missing texts: prompts of the items, the empty prompt, validation prompts. */
int vprep_text(vprep *p, vc_err *err);
/* Decodes, encodes and writes the items' clips and their records. */
int vprep_clips(vprep *p, vc_err *err);

/* Whether no value is beyond the range of the type. */
bool vprep_fits(vc_dtype dtype, const float *v, size_t n);
/* Stores f32 values as a tensor of type `want`, or f32 where a value does not fit f16's range. */
int vprep_pack_dtype(vc_dtype *dtype, void **data, const float *v, size_t n, vc_dtype want,
                     vc_err *err);

#endif
