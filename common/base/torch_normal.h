/* torch_normal.h - the standard normals that PyTorch draws on the CPU from a seed.
 *
 * A picture that another program sampled began with noise of a seed: torch.randn with a
 * torch.Generator("cpu") of that seed, a Mersenne Twister (mt19937; Matsumoto & Nishimura 1998)
 * whose outputs become normals by Box-Muller, eight by eight. vc_torch_normals gives these numbers,
 * but for the last bits: PyTorch's vector code rounds cosines and logarithms in its own way. */
#ifndef COMMON_BASE_TORCH_NORMAL_H
#define COMMON_BASE_TORCH_NORMAL_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

/* Writes torch.randn(n, generator=torch.Generator("cpu").manual_seed(seed)) in f32. VC_EINVAL: n is
 * below 16, where PyTorch draws in another way. */
int vc_torch_normals(float *out, size_t n, uint64_t seed, vc_err *err);

#endif
