/* dtype.h - element types of files and tensors: sizes, names, conversions.
 * Conversions round to nearest even, keep NaN a NaN and saturate if the target type has no infinity
 * (f8e4m3). Conversions to integers drop the fraction, saturate, and turn NaN into 0.
 * Thread-safe: no state. */
#ifndef COMMON_BASE_DTYPE_H
#define COMMON_BASE_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum vc_dtype {
    VC_F32, VC_BF16, VC_F16, VC_F8E4M3, VC_F8E5M2, VC_F64,
    VC_I64, VC_I32, VC_I16, VC_I8, VC_U8, VC_BOOL,
    VC_FILE_DTYPES,                               /* those before it are types of files' tensors */
    VC_NF4 = VC_FILE_DTYPES,                      /* NormalFloat: one of 16 numbers of -1..1 in four
                                                   * bits (Dettmers et al. 2023, QLoRA), two in a
                                                   * byte, the first one in the high half */
    VC_DTYPES,
    VC_DTYPE_NONE = -1
} vc_dtype;

size_t vc_dtype_size(vc_dtype t);                 /* bytes of one element; of nf4, that of two */
size_t vc_dtype_bytes(vc_dtype t, size_t n);      /* bytes of n elements */
const char *vc_dtype_name(vc_dtype t);            /* "f32", as in flags and manifests */
const char *vc_dtype_st_name(vc_dtype t);         /* "F32", as in safetensors headers */
vc_dtype vc_dtype_from_name(const char *s);       /* f32 fp32 float32 torch.float32 ... or NONE */
vc_dtype vc_dtype_from_st_name(const char *s, size_t len);

/* These convert n elements of any type to f32 and back. src and dst must not overlap; the one of
 * type t need not be aligned. Values become nf4's nearest number; after an odd n the last half byte
 * holds 0. */
void vc_to_f32(float *dst, const void *src, vc_dtype t, size_t n);
void vc_from_f32(void *dst, vc_dtype t, const float *src, size_t n);

static inline float vc_bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline uint16_t vc_f32_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    uint32_t r = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? (u >> 16 | 0x40) : r);
}

float vc_f16_to_f32(uint16_t h);
uint16_t vc_f32_to_f16(float f);                  /* overflow gives infinity */
float vc_f8e4m3_to_f32(uint8_t b);
uint8_t vc_f32_to_f8e4m3(float f);                /* saturates at 448 */
float vc_f8e5m2_to_f32(uint8_t b);
uint8_t vc_f32_to_f8e5m2(float f);
extern const float vc_nf4[16];                    /* nf4's numbers, in ascending order */

#endif
