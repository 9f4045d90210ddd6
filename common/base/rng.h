/* rng.h - counter-based random numbers: Philox4x32-10 (Salmon et al., SC'11).
 *
 * A draw is a pure function of its key and counter, independent of workers, ranks and order.
 *   dataset draws:   key = seed, counter = (number of the draw, id low, id high,
 *                                           variant * 256 + purpose)
 *   training draws:  key = seed, counter = (element / 4, row in the micro-batch,
 *                                           number of the micro-batch, purpose)
 * Purposes are listed in docs/sampling.md; from 64 on they belong to training. Thread-safe. */
#ifndef COMMON_BASE_RNG_H
#define COMMON_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

/* purposes; the numbers are part of the dataset format */
enum {
    VC_DRAW_START = 0, VC_DRAW_SIZE = 1, VC_DRAW_RATIO = 2, VC_DRAW_FRAME_CROP = 3,
    VC_DRAW_FLIP = 4, VC_DRAW_MASK_KIND = 5, VC_DRAW_MASK = 6, VC_DRAW_COND_NOISE = 7,
    VC_DRAW_POSTERIOR = 8,
    VC_DRAW_WORDING = 9,          /* variants of captions: formats/metadata/wording.h */
    VC_DRAW_TRAIN = 64,           /* the first purpose of training */
    VC_DRAW_ORDER = 64,           /* epoch permutation */
    VC_DRAW_CAPTION = 65,         /* which of several captions */
    VC_DRAW_CAPTION_DROP = 66,
    VC_DRAW_LATENT = 67,          /* posterior noise of stored moments */
    VC_DRAW_NOISE = 68,
    VC_DRAW_SIGMA = 69,           /* timestep or sigma */
    VC_DRAW_COND_DROP = 70,       /* conditions become zeros */
    VC_DRAW_INIT = 71,            /* weights that start from noise */
    VC_DRAW_VALIDATION = 72,      /* first noise of a validation sample */
    VC_DRAW_SPLIT = 73,           /* held-out samples */
    VC_DRAW_IMAGE = 74,           /* which of several noised first frames */
    VC_DRAW_IMAGE_LATENT = 75,    /* posterior noise of the first frame */
    VC_DRAW_VIDEO_LATENT = 76,    /* posterior noise of the masked clip */
    VC_DRAW_VARIANT = 77,         /* a sample's variant at its first visit */
    VC_DRAW_ROUND = 78,           /* an optimiser's stochastic rounding: common/kernels/moments.h */
    VC_DRAW_DECODE = 79,          /* noise that a decoder adds: precompute/vae/ltx.c */
    VC_DRAW_FIRST_FRAME = 80,     /* whether a clip's first latent frame stays clean */
    VC_DRAW_CONTROL_LATENT = 81,  /* posterior noise of the control clip */
    VC_DRAW_DROP_INPUT = 82,      /* LoRA: --lora_dropout, of a module's input */
    VC_DRAW_DROP_NEURON = 83,     /* --network_dropout, of the values between A and B */
    VC_DRAW_DROP_RANK = 84,       /* --rank_dropout, of their columns */
    VC_DRAW_DROP_MODULE = 85,     /* --module_dropout, of whole modules */
    VC_DRAW_SOUND_LATENT = 86,    /* posterior noise of the sound */
    VC_DRAW_SOUND = 87,           /* noise of the sound in training */
    VC_DRAW_SOUND_VALIDATION = 88, /* of a validation sample, as VC_DRAW_VALIDATION */
    VC_DRAW_FRAMES = 89           /* levels of single frames: train/steps/forcing.h */
};

void vc_philox(const uint32_t key[2], const uint32_t ctr[4], uint32_t out[4]);

/* A stream of draws for one (seed, id, variant, purpose). Each draw uses the next counter. */
typedef struct vc_draws {
    uint32_t key[2], ctr[4];
} vc_draws;

vc_draws vc_draws_of(uint64_t seed, uint64_t id, uint32_t variant, uint32_t purpose);

/* Draws an integer uniformly from 0..n-1 without bias, by multiply and reject over the block's
 * words, then over the next blocks. n >= 1; n = 1 uses a counter too. */
uint32_t vc_draw_int(vc_draws *d, uint32_t n);
/* Draws uniformly from [0,1), with 53 bits of words 0 and 1. */
double vc_draw_unit(vc_draws *d);
/* Draws an index by integer weights (sum below 2^32). */
uint32_t vc_draw_weighted(vc_draws *d, const uint32_t *weight, uint32_t n);

/* Computes training's block of four words for (element/4, row, micro-batch, purpose). */
void vc_train_block(uint64_t seed, uint32_t quad, uint32_t row, uint32_t micro, uint32_t purpose,
                    uint32_t out[4]);
/* Returns the first uniform (53 bits) of such a block. */
double vc_train_unit(uint64_t seed, uint32_t quad, uint32_t row, uint32_t micro, uint32_t purpose);

/* Computes four standard normals of one block: Box-Muller on ((w+0.5)/2^32), words (0,1) then
 * (2,3), cosine before sine, in double, rounded to f32. It uses IEEE operations only
 * (rng_normal.c), so the bits are the same on every machine and for every length of request. */
void vc_normal4(const uint32_t w[4], float out[4]);
/* Computes n normals of the training draw (row, micro, purpose), elements first .. first+n-1.
 * first must be a multiple of 4. It runs in one thread; callers split by ranges. */
void vc_train_normals(float *out, uint64_t first, size_t n, uint64_t seed, uint32_t row,
                      uint32_t micro, uint32_t purpose);
/* Computes n normals of a dataset draw (condition noise, posterior samples). */
void vc_draw_normals(float *out, size_t n, uint64_t seed, uint64_t id, uint32_t variant,
                     uint32_t purpose);

/* order[0..n-1] becomes the permutation of epoch e: Fisher-Yates from the top, draw i of
 * (seed, id = epoch, purpose VC_DRAW_ORDER). */
void vc_permutation(uint32_t *order, uint32_t n, uint64_t seed, uint64_t epoch);

#endif
