/* train_run.h - whole training runs of seconds, in this process, and what they left. */
#ifndef TESTS_LIB_TRAIN_RUN_H
#define TESTS_LIB_TRAIN_RUN_H

#include <stdint.h>

#include "common/base/err.h"

/* A dataset: six samples of two shapes, moments, captions of several lengths and two validation
 * prompts. */
void run_set_make(const char *path);
/* A folder with such a set.lmdb in it. Same as toy_dir_make otherwise. */
void run_dir_make(char dir[256]);
/* The same as cmocka's fixture, with toy_dir_teardown. */
int run_dir_setup(void **state);

/* Runs `vtrain --latents DIR/set.lmdb --output_dir DIR/out` with a tiny model, f32, one thread,
 * seed 5, batch 2 and the further arguments, split at blanks. Returns the code; err may be NULL. */
int run(const char *dir, const char *out, const char *args, vc_err *err);
/* The same with nothing but what args says. */
int run_bare(const char *args, vc_err *err);
/* Fails the test unless the run ends well. */
void run_ok(const char *dir, const char *out, const char *args);

/* The lines of DIR/out/metrics.jsonl without the fields of time and memory, malloc'ed; *lines how
 * many (may be NULL). */
char *run_metrics(const char *dir, const char *out, int *lines);
/* A number of line i (from 0) of it. */
double run_value(const char *dir, const char *out, int i, const char *field);
/* Whether two files below DIR are the same bytes. */
int run_same_file(const char *dir, const char *a, const char *b);
int run_exists(const char *dir, const char *path);

#endif
