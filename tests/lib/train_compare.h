/* train_compare.h - compares two runs that train_run.h or train_ranks.h started. */
#ifndef TESTS_LIB_TRAIN_COMPARE_H
#define TESTS_LIB_TRAIN_COMPARE_H

#include <stddef.h>

/* Returns the numbers of the samples of all steps of a run, in order, as text, malloc'ed. */
char *run_samples(const char *dir, const char *out);
/* Returns the greatest root mean square of the difference of a tensor in two files. Single values
 * are not compared: AdamW takes a step of full size even where a gradient is only rounding, so
 * single weights may differ by much. */
double run_difference(const char *dir, const char *a, const char *b, const char *file);
/* Fails unless two runs had the same samples, their losses and gradient norms differ by at most
 * `loss`, relative, and their weights and state by at most `weight` in run_difference(). */
void run_same_training(const char *dir, const char *a, const char *b, int steps, double loss,
                       double weight);

/* Trains on one rank in this process, or on several ones. */
void run_on(int ranks, const char *dir, const char *out, const char *args);
/* Returns the flags of a LoRA of the model DIR/base/checkpoint-2, which is trained until `steps`
 * steps are done, from the last checkpoint, if there is one; and `args`. malloc'ed. */
char *run_lora_args(const char *dir, int steps, const char *args);
/* Trains a LoRA of the model DIR/base/checkpoint-2 until `steps` steps are done, from the last
 * checkpoint of the run `out`, if there is one. */
void run_lora(int ranks, const char *dir, const char *out, int steps, const char *args);

/* A way to train: on `ranks` ranks, with flags of its own, and after `stop` steps on one rank, if
 * it is not 0. `most` is the `weight` of run_same_training(). */
typedef struct run_way {
    int ranks, stop;
    const char *name, *args;
    double most;
} run_way;
/* Trains such a LoRA with the flags `args` for four steps in each of n ways, and compares it with
 * the first. Way NAME is the run NAME-K. */
void run_lora_ways(const char *dir, size_t k, const char *args, const run_way *way, size_t n);

#endif
