/* shards_make.h - small datasets for the tests: what vprep would put, with made-up numbers. */
#ifndef TESTS_LIB_SHARDS_MAKE_H
#define TESTS_LIB_SHARDS_MAKE_H

#include "formats/dataset/dataset.h"

/* The manifest's head; with_seed goes into `sampling`. The caller frees. */
cJSON *make_head(int seed);
/* A latent [C=4,f,h,w] of moments (f16) or a text [n,8], packed; the caller frees. Same arguments,
 * same bytes. */
uint8_t *make_latent(uint32_t number, int f, int h, int w, size_t *size);
uint8_t *make_text(const char *prompt, size_t *size);
vf_key make_latent_key(uint32_t number, int f, int h, int w);
vf_key make_text_key(const char *prompt);
/* A sample's record. The caller frees. */
cJSON *make_record(uint32_t number, uint32_t variant, const char *caption, int f, int h, int w);
/* Puts the latent, the texts ("" and the caption) and the record of a sample. 0 or the first
 * error. */
int make_sample(vf_writer *w, uint32_t number, const char *caption, int f, int h, int wd,
                vc_err *err);
/* A whole dataset of n samples, a validation prompt among them, in `path`; a shard per
 * `shard_size`. */
int make_dataset(const char *path, uint32_t n, int64_t shard_size, vc_err *err);

/* Everything that the public calls give of a dataset, every byte of it, however damaged it is;
 * then the check. The number of calls that failed; each failure must have a message, or the
 * program aborts. */
int read_everything(const char *path);

#endif
