/* vae_bench.h - opens an autoencoder with a golden's weights, and compares its results with
 * diffusers'. For tests: failures end the test. */
#ifndef TESTS_PRECOMPUTE_VAE_BENCH_H
#define TESTS_PRECOMPUTE_VAE_BENCH_H

#include "precompute/vae/vae.h"
#include "tests/lib/golden.h"

/* The tolerances, relative to the largest value. f32 sums up to 27 * 32 terms in another order,
 * some 20 layers deep; devices sum a convolution's products one after another, not in blocks, with
 * errors of up to 1.5e-5. bf16 activations have 8 bits, and each store rounds by 2e-3. */
#define VAE_TOL_F32 (strcmp(golden_device(), "cpu") ? 3e-5 : 1e-5)
#define VAE_TOL_BF16 2e-2

typedef struct vae_bench {
    const vae_class *class;
    vf_safetensors *golden;
    const char *dir;                 /* the folder with the weights */
    vae *vae;
    vae_info info;
} vae_bench;

vae_bench vae_bench_open(const vae_class *class, const char *golden, vc_dtype compute,
                         vc_dtype stored, bool tiling);
/* Opens the same folder again with another window. */
void vae_bench_window(vae_bench *b, int window);
void vae_bench_close(vae_bench *b);

void *vae_area(size_t n, size_t size);       /* n * size bytes of zeros; the caller frees them */
/* A stored clip as input of the VAE: f32 in -1..1. */
float *vae_pixels(const vae_bench *b, const char *name, int64_t dim[8]);
/* The first n frames of the golden's z, [C,n,h,w]; dim is the shape of the whole z. */
float *vae_latents(const vae_bench *b, int n, int64_t dim[8]);

/* Checks values against the tensor `name`. */
void vae_near(const vae_bench *b, const char *name, const float *have, double tol);
/* Encodes the first f frames of a clip, and compares with meanNAME and logvarNAME. */
void vae_encode_like(const vae_bench *b, const char *clip, int f, const char *name, double tol);
/* Does so for each of these numbers of frames, ended by 0, of the clip `short`; NAME is .F. */
void vae_encode_lengths(const vae_bench *b, const int *lengths, double tol);
/* Decodes the first n latent frames, and compares the last frames with sample.N. */
void vae_decode_like(const vae_bench *b, int n, double tol);
/* Checks that bytes equal the tensor `name`, except where a value is close to a half. */
void vae_same_bytes(const vae_bench *b, const char *name, const uint8_t *have);
/* Decodes the first n latent frames to bytes, and compares them with u8NAME. */
void vae_decode_bytes_like(const vae_bench *b, int n, const char *name);

/* Checks that the values and the bytes are the same where `f` frames of a clip are read, or decoded
 * from `n` latent frames, in ranges; encode reads no more frames at once than `chunk` says. */
void vae_ranges_are_same(const vae_bench *b, const char *clip, int f, int n);

/* Checks for each row that a run takes the predicted memory. */
typedef struct vae_size { bool decode; int f, h, w; } vae_size;
void vae_memory_is_right(const vae_bench *b, const vae_size *rows, int n);
/* Decodes n latent frames in chunks, and as one chunk: all values are equal within VAE_TOL_F32. */
void vae_chunks_are_whole(const vae_bench *b, int n);
/* Checks that decoding 64 and 256 latent frames of h x w takes the same memory, besides that of the
 * latent and its noise. */
void vae_decodes_in_bounds(const vae_bench *b, int h, int w);
/* Checks that encode and memory refuse sizes; `says` is part of the message. */
typedef struct vae_refusal { int f, h, w; const char *says; } vae_refusal;
void vae_refuses_sizes(const vae_bench *b, const vae_refusal *rows, int n);
/* Checks that the golden's folder does not open with this text as config.json, and that the error
 * names the folder and contains `says`. */
void vae_refuses_config(const vae_bench *b, const char *text, const char *says);
/* Checks this for n texts, and that the folder opens with its own text. */
typedef struct vae_bad_config { const char *text, *says; } vae_bad_config;
void vae_refuses_configs(const vae_bench *b, const vae_bad_config *rows, int n);
/* The same for the golden's config.json with the fields of the JSON object rows[i][0] in place of
 * its own; rows[i][1] is a part of the error. */
void vae_refuses_fields(const vae_bench *b, const char *const (*rows)[2], size_t n);

#endif
