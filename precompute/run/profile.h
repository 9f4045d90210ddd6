/* profile.h - the seconds that the stages of a run take, for --profile. */
#ifndef PRECOMPUTE_RUN_PROFILE_H
#define PRECOMPUTE_RUN_PROFILE_H

typedef struct vprep vprep;                          /* vprep.h */

/* The main thread spends its time in one span at a time, and in none while it does other work. The
 * last spans are sums over other threads. */
typedef enum prep_span {
    PREP_SPAN_PLAN,                  /* sources are probed, samples planned */
    PREP_SPAN_OPEN,                  /* encoders are opened */
    PREP_SPAN_TEXT,                  /* texts are encoded */
    PREP_SPAN_VAE,                   /* clips and conditions are encoded */
    PREP_SPAN_PACK,                  /* pixels are converted, results packed */
    PREP_SPAN_WAIT_CLIPS,            /* the VAE waits for a decoded clip */
    PREP_SPAN_WAIT_WRITER,           /* the VAE waits for room in the writer's queue */
    PREP_SPANS_MAIN,
    PREP_SPAN_DECODE = PREP_SPANS_MAIN,      /* decode workers; added under the pipeline's lock */
    PREP_SPAN_WRITE,                 /* the writer */
    PREP_SPANS
} prep_span;

typedef struct prep_profile {
    double begin;                    /* of the run, by vc_seconds */
    double clips, clips_vae;         /* seconds of the stage of the clips, and of the VAE in this
                                      * stage */
    double span[PREP_SPANS];
} prep_profile;

/* Prints the shares of the run's time that ended now. */
void vprep_say_profile(const vprep *p);

#endif
