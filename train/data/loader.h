/* loader.h - micro-batches, copied from the maps by threads of its own ahead of time.
 *
 * Micro-batch m of the run is a pure function of (data, origin, seed, batch, m): order.h says which
 * samples, and the draws of (row in the micro-batch, m) which caption (VC_DRAW_CAPTION), whether
 * it is dropped (VC_DRAW_CAPTION_DROP), the posterior noise of stored moments (VC_DRAW_LATENT,
 * C,f,h,w order), which noised first frame (VC_DRAW_IMAGE), its noise and the masked clip's
 * (VC_DRAW_IMAGE_LATENT, VC_DRAW_VIDEO_LATENT) and whether conditions become zeros
 * (VC_DRAW_COND_DROP). It does not depend on the number of threads or where the run started.
 *
 *     vtrain_loader_next(l, &b, &waited, err);      // batches come in order of m
 *     ...
 *     vtrain_loader_give_back(l, b);                // its memory takes a later batch
 *
 * Conditions and frames in front are as vtrain_data_fit was asked for. Posterior noise is drawn on
 * the stored grid: copies in front are of what was drawn.
 *
 * Buffers are made at open, sized for the largest group, and used again and again; only a sample's
 * record and the headers of its values take some KB while they are read. A value that is damaged,
 * missing, of another shape or not finite is an error of the batch's next(), and of every one
 * after it, naming dataset, sample and key. next(), peek() and give_back() are for one thread. */
#ifndef TRAIN_DATA_LOADER_H
#define TRAIN_DATA_LOADER_H

#include "train/data/order.h"

typedef struct vtrain_loader vtrain_loader;

typedef enum { VTRAIN_LATENT_SAMPLE, VTRAIN_LATENT_MEAN } vtrain_latent;

typedef struct vtrain_loader_opts {
    uint64_t seed;
    uint32_t batch;              /* rows of a full micro-batch */
    double caption_dropout;      /* 0..1 */
    double image_dropout;        /* 0..1: of first-frame images */
    double mask_dropout;         /* 0..1: of mask and masked clip, where all is to be generated */
    vtrain_latent latent;        /* of stored moments; stored `sample` or mean only: as they are */
    bool held_out;               /* the held-out samples instead, one pass: batches of one group,
                                  * in list order; no dropout, first captions, clean images */
    int threads;                 /* >= 1 */
    int ahead;                   /* batches made ahead, >= 1 */
    uint64_t first, end;         /* micro-batches of the run: first, first + stride, .. below end */
    uint64_t stride;             /* of as many ranks each takes its own; 0: all */
    vtrain_origin origin;        /* of these data; first is not before it */
    bool check;                  /* compare xxh3 of latent and texts the first time a sample is
                                  * read */
} vtrain_loader_opts;

/* Text of one encoder for a batch, f32, zero beyond each row's length. */
typedef struct vtrain_text {
    int64_t n, width;            /* n: the longest row, at least 1 */
    float *embeds;               /* [rows,n,width]; NULL, n 0: the slot is pooled only */
    int32_t *length;             /* [rows], 1..n; 0 if pooled only */
    int64_t pooled_width;
    float *pooled;               /* [rows,pooled_width] or NULL */
} vtrain_text;

typedef struct vtrain_batch {
    uint64_t micro;              /* its number in the run */
    uint32_t group;
    int rows;
    int64_t dim[5];              /* rows, C, f, h, w; f with the copies in front */
    float *latents;              /* x0: drawn from the posterior and normalised, packed */
    unsigned roles;              /* 1 << vc_role of the conditions below */
    float *cond[VC_ROLES];       /* as vtrain_in wants them: image [rows,C,1,h,w], video
                                  * [rows,C,f,h,w], mask [rows,1,f,h,w]; NULL: none */
    bool *cond_dropped;          /* [rows]: the row's conditions are zeros */
    bool weighted;               /* a row has a loss mask: */
    float *loss_weight;          /* [rows,1,f,h,w] on top of the level's weight, 1 without a mask */
    float *fps;                  /* [rows] frames a second of the clip; 0: not known */
    int n_texts;
    vtrain_text text[VTRAIN_TEXTS];
    char (*key)[VTRAIN_KEY];     /* [rows] */
    bool *dropped;               /* [rows]: caption replaced by the empty prompt; one without
                                  * captions has that anyway */
    uint64_t tokens;             /* transformer tokens of all rows, without text */
} vtrain_batch;

/* Micro-batches of the first epoch (held_out: of the pass); later ones have as many, or about as
 * many where variants of a sample differ in shape. */
int vtrain_loader_epoch(const vtrain_data *d, uint32_t batch, bool held_out, uint64_t *n,
                        vc_err *err);

/* Of the first `epochs` epochs, counted no further than to `limit`. */
int vtrain_loader_epochs(const vtrain_data *d, uint32_t batch, uint64_t epochs, uint64_t limit,
                         uint64_t *n, vc_err *err);

int vtrain_loader_open(vtrain_loader **out, const vtrain_data *d, const vtrain_loader_opts *o,
                       vc_err *err);
void vtrain_loader_close(vtrain_loader *l);                 /* stops the threads; NULL is fine */
/* The next batch, borrowed until given back; *waited: seconds spent waiting. *b NULL past the
 * end. At most `ahead` batches may be out at a time. */
int vtrain_loader_next(vtrain_loader *l, const vtrain_batch **b, double *waited, vc_err *err);
void vtrain_loader_give_back(vtrain_loader *l, const vtrain_batch *b);
/* What next() would give without waiting, or NULL; stays the loader's until next() gives it. */
const vtrain_batch *vtrain_loader_peek(vtrain_loader *l);
/* Bytes of all buffers, for the prediction of memory. */
size_t vtrain_loader_bytes(const vtrain_loader *l);

#endif
