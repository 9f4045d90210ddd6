/* parts.h - the state of an encoder, which the files that make its values share. For
 * precompute/encode. */
#ifndef PRECOMPUTE_ENCODE_PARTS_H
#define PRECOMPUTE_ENCODE_PARTS_H

#include "formats/keys/keymap.h"
#include "precompute/encode/encode.h"

enum { TRACES = 3 + 4 * (VC_ROLES - 1) };

/* The tensors of a sample's trace, each a copy, since the encoder reuses its areas. */
typedef struct trace_set {
    vf_view t[TRACES];
    char name[TRACES][40];
    int n;
} trace_set;

struct prep_encoder {
    const vprep *p;
    vae *vae;
    audio_vae *audio;
    vision_enc *vision;
    float *seen, *mean, *logvar;     /* seen: pixels of the vision model */
    size_t seen_room, mean_room, logvar_room;
    uint8_t *scratch;                /* one frame of a mask */
    size_t scratch_room;
    double vae_seconds;              /* in the VAE */
    prep_told *told;                 /* NULL: nobody watches */
    void *told_arg;
    double frames, passed;           /* that the VAE gets for a job: all, and those of the inputs
                                      * that it is through with */
    vf_keymap made;                  /* keys of the values that this encoder made, with the turns
                                      * of their jobs */
    prep_recent recent;
    trace_set trace;
};

/* Makes room for n values; what was there is lost. */
int prep_grow(float **a, size_t *room, size_t n, vc_err *err);
/* Adds a copy of a tensor to the job's trace, where traces are wanted. */
int prep_trace(prep_encoder *e, const char *name, vc_dtype dtype, int nd, const int64_t *dim,
               const void *data, vc_err *err);
/* Traces e->mean and e->logvar for value v, by the names of docs/interface.md. */
int prep_trace_moments(prep_encoder *e, int v, int nd, const int64_t *dim, vc_err *err);
/* e->mean, with e->logvar or a sample of both, -> one safetensors value. it, place: the draws of
 * the posterior's noise; it NULL: no noise. one: channels share one logvar. */
int prep_pack_moments(prep_encoder *e, uint8_t **value, size_t *bytes, int nd, const int64_t *dim,
                      const vprep_item *it, uint32_t place, bool logvar, bool one, vc_err *err);

#endif
