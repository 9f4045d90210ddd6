/* shards_make.h - small datasets for tests: records and values as vprep writes, with made-up
 * numbers. The caller frees the results. */
#ifndef TESTS_LIB_SHARDS_MAKE_H
#define TESTS_LIB_SHARDS_MAKE_H

#include "formats/dataset/dataset.h"

/* Returns the manifest's head, with `seed` in its `sampling`. */
cJSON *make_head(int seed);
/* Return a latent [C=4,f,h,w] of moments (f16) or a text [5,8] (f32), packed. The bytes depend on
 * the arguments alone. */
uint8_t *make_latent(uint32_t number, int f, int h, int w, size_t *size);
uint8_t *make_text(const char *prompt, size_t *size);
vf_key make_latent_key(uint32_t number, int f, int h, int w);
vf_key make_text_key(const char *prompt);
/* Returns a sample's record. */
cJSON *make_record(uint32_t number, uint32_t variant, const char *caption, int f, int h, int w);
/* Puts the latent, the texts ("" and the caption) and the record of a sample. Returns 0 or the
 * first error. */
int make_sample(vf_writer *w, uint32_t number, const char *caption, int f, int h, int wd,
                vc_err *err);
/* Writes a whole dataset of n samples and a validation prompt to `path`, with a new shard after
 * `shard_size` bytes. */
int make_dataset(const char *path, uint32_t n, int64_t shard_size, vc_err *err);

/* Reads every byte that the public calls return from a dataset, which may be damaged, and then
 * verifies the dataset. Returns the number of calls that failed; a failure without a message aborts
 * the program. */
int read_everything(const char *path);

#endif
