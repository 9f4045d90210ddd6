/* pt_memory.c - the memory of an open .pt file, its members, and names of types; see pt_parts.h */
#include <stdlib.h>
#include <string.h>

#include "formats/tensors/pt_parts.h"

const vf_pt_type vf_pt_types[] = {
    { VC_F32, "FloatStorage", "float32" },       { VC_F64, "DoubleStorage", "float64" },
    { VC_F16, "HalfStorage", "float16" },        { VC_BF16, "BFloat16Storage", "bfloat16" },
    { VC_I64, "LongStorage", "int64" },          { VC_I32, "IntStorage", "int32" },
    { VC_I16, "ShortStorage", "int16" },         { VC_I8, "CharStorage", "int8" },
    { VC_U8, "ByteStorage", "uint8" },           { VC_BOOL, "BoolStorage", "bool" },
    { VC_F8E4M3, NULL, "float8_e4m3fn" },        { VC_F8E5M2, NULL, "float8_e5m2" },
    { VC_DTYPE_NONE, NULL, NULL },
};

struct vf_pt_block {
    struct vf_pt_block *next;
    size_t used, room;
    _Alignas(64) uint8_t data[];
};

void *vf_pt_alloc(vf_pt *p, size_t n)
{
    enum { BLOCK = 64 << 10 };
    struct vf_pt_block *b = p->blocks;
    if (n > SIZE_MAX / 2)
        return NULL;
    n = (n + 15) & ~(size_t)15;
    if (!b || b->room - b->used < n) {
        size_t room = n > BLOCK ? n : BLOCK;
        if (!(b = calloc(1, sizeof *b + room)))
            return NULL;
        b->room = room;
        b->next = p->blocks;
        p->blocks = b;
    }
    b->used += n;
    return b->data + b->used - n;
}

void vf_pt_close(vf_pt *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n_members; i++)
        free(p->member[i].name);
    free(p->member);
    vc_map_close(&p->map);
    while (p->blocks) {
        struct vf_pt_block *next = p->blocks->next;
        free(p->blocks);
        p->blocks = next;
    }
    free(p);
}

const vf_pt_member *vf_pt_find(const vf_pt *p, const char *name)
{
    for (size_t i = 0; i < p->n_members; i++)
        if (!strcmp(p->member[i].name, name))
            return &p->member[i];
    return NULL;
}
