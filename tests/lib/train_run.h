/* train_run.h - whole training runs of seconds, in this process, and the files that they leave. */
#ifndef TESTS_LIB_TRAIN_RUN_H
#define TESTS_LIB_TRAIN_RUN_H

#include <stdint.h>

#include "common/base/err.h"
#include "formats/tensors/safetensors.h"

/* Makes a dataset of six samples of two shapes, stored as moments, with captions of several lengths
 * and two validation prompts. */
void run_set_make(const char *path);
/* Makes a folder as toy_dir_make() does, with such a dataset in set.lmdb. */
void run_dir_make(char dir[256]);
/* Does the same as a set-up of cmocka; its teardown is toy_dir_teardown. */
int run_dir_setup(void **state);

/* Runs `vtrain --latents DIR/set.lmdb --output_dir DIR/out` with a tiny model, f32, one thread,
 * seed 5, batch 2 and the further arguments, split at blanks. Returns the error's code or 0; err
 * may be NULL. */
int run(const char *dir, const char *out, const char *args, vc_err *err);
/* Runs vtrain with these arguments only. */
int run_bare(const char *args, vc_err *err);
/* Fails the test unless the run succeeds. */
void run_ok(const char *dir, const char *out, const char *args);

/* Returns the lines of DIR/out/metrics.jsonl without the fields of time and memory, malloc'ed, and
 * their number in *lines, unless lines is NULL. */
char *run_metrics(const char *dir, const char *out, int *lines);
/* Returns a number from line i (from 0) of the metrics. */
double run_value(const char *dir, const char *out, int i, const char *field);
/* Returns 1 if two files below DIR have the same bytes, else 0. */
int run_same_file(const char *dir, const char *a, const char *b);
int run_exists(const char *dir, const char *path);
/* Opens the safetensors file at `path` below DIR; an error fails the test. */
vf_safetensors *run_open(const char *dir, const char *path);
/* Returns a tensor of it, which borrows the file; a missing one fails the test. */
vf_view run_tensor(const vf_safetensors *st, const char *name);

#endif
