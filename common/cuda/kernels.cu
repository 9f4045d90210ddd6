/* kernels.cu - the bodies of common/kernels as GPU kernels, and their launchers. */
#include <cuda_runtime.h>

#include "common/kernels/kernels.h"

/* Returns this thread's lane in a team of the whole block. */
__device__ __forceinline__ static vk_team vk_block(float *scratch)
{
    vk_team t = { (int)threadIdx.x, VK_THREADS, scratch };

    return t;
}

#define VK_KERNEL(name, args, blocks)                                                              \
    __global__ static void __launch_bounds__(VK_THREADS)                                           \
        vk_##name##_kernel(const __grid_constant__ args a)                                         \
    {                                                                                              \
        __shared__ float scratch[VK_WARP];                                                         \
        vk_##name##_body(&a, blockIdx.x, vk_block(scratch));                                       \
    }                                                                                              \
    int vk_##name(void *stream, const args *s)                                                     \
    {                                                                                              \
        vk_##name##_kernel<<<(unsigned)(blocks), VK_THREADS, 0, (cudaStream_t)stream>>>(*s);       \
        return (int)cudaGetLastError();                                                            \
    }

#define VK_TEAM_KERNEL VK_KERNEL
#define VK_MAP_LAUNCH(name)                                                                        \
    VK_KERNEL(map_##name, vk_map_args, VK_BLOCKS((uint64_t)s->w.rows * s->w.packs))

#include "common/kernels/bodies.h"
