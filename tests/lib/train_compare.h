/* train_compare.h - compares two runs that train_run.h started. */
#ifndef TESTS_LIB_TRAIN_COMPARE_H
#define TESTS_LIB_TRAIN_COMPARE_H

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

#endif
