/* average.h - the weighted average of safetensors files with the same tensors: LoRAs or weights of
 * several steps of a run, as an average of weights after training (post-hoc EMA).
 *
 * Of a LoRA its factors are averaged, as such tools do: the product of the averages is not the
 * average of the products, but near it for steps of one run. */
#ifndef FORMATS_TENSORS_AVERAGE_H
#define FORMATS_TENSORS_AVERAGE_H

#include "formats/tensors/safetensors.h"
#include "formats/tensors/sums.h"

/* Writes the average of n >= 1 files by the weights, whose sum is 1, atomically. Tensors of float
 * types are summed in double and rounded to their type. The file has the metadata of the first one,
 * its seal if that has one, and `note` as vlt_average. It is added to sums unless NULL.
 * VC_EMISMATCH names a tensor that a file lacks, has in another shape or type, or, of alphas, whole
 * numbers and 8-bit codes, which have no average, with other values; or a field of the metadata by
 * which LoRAs are scaled. VC_ENUMERIC: a value is not finite. */
int vf_average(const char *out, const char *const *path, const double *weight, int n,
               const char *note, vf_sums *sums, vc_err *err);

/* ---- weights of an exponential average ---- */

/* weight[n] of an average that begins as the first file and then keeps `beta` of itself, 0..1, at
 * each of the next. */
void vf_average_beta(double *weight, int n, double beta);
/* The same with the power function of Karras et al. 2024 (Analyzing and Improving the Training
 * Dynamics of Diffusion Models, 3.1): at the t-th file beta is (1 - 1/t)^(gamma + 1), gamma by the
 * relative width sigma, above 0 and below 0.2886. */
void vf_average_sigma(double *weight, int n, double sigma);

#endif
