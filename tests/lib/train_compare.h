/* train_compare.h - compares two runs that train_run.h started. */
#ifndef TESTS_LIB_TRAIN_COMPARE_H
#define TESTS_LIB_TRAIN_COMPARE_H

/* The samples of all steps of a run, in order, malloc'ed. */
char *run_samples(const char *dir, const char *out);
/* The greatest root mean square, over the tensors of two files, of their difference. The greatest
 * difference of single values would not do: AdamW takes a step of full size even where a gradient
 * is only rounding, so single weights may differ by much. */
double run_difference(const char *dir, const char *a, const char *b, const char *file);
/* Fails unless two runs had the same samples, and their losses and norms agree to `loss`, relative,
 * and their weights to `weight`. */
void run_same_training(const char *dir, const char *a, const char *b, int steps, double loss,
                       double weight);

#endif
