/* texts.c - see texts.h */
#include "train/sampling/texts.h"

#include <stdlib.h>
#include <string.h>

int sampling_text(vtrain_text *t, const vtrain_embeds *const *row, int rows,
                  const vtrain_slot *slot, vc_err *err)
{
    t->width = row[0]->width;
    t->n = row[0]->n ? slot->rows : 0;
    for (int i = 0; i < rows; i++)
        if (row[i]->n > t->n)
            t->n = row[i]->n;
    size_t each = (size_t)(t->n * t->width);
    t->length = calloc((size_t)rows, sizeof *t->length);
    if (!t->length)
        return vc_no_memory(err);
    if (!t->n)
        return 0;                             /* the slot is pooled only */
    t->embeds = calloc((size_t)rows * each, sizeof *t->embeds);
    if (!t->embeds)
        return vc_no_memory(err);
    for (int i = 0; i < rows; i++) {
        t->length[i] = (int32_t)vtrain_slot_length(slot, row[i]->embeds, row[i]->n);
        memcpy(t->embeds + (size_t)i * each, row[i]->embeds,
               sizeof(float) * (size_t)(row[i]->n * t->width));
    }
    return 0;
}

int sampling_pooled(vtrain_text *t, const vtrain_embeds *const *row, int rows, int64_t width,
                    vc_err *err)
{
    if (!width)
        return 0;
    t->pooled_width = width;
    t->pooled = malloc(sizeof(float) * (size_t)(rows * width));
    if (!t->pooled)
        return vc_no_memory(err);
    for (int i = 0; i < rows; i++)
        memcpy(t->pooled + i * width, row[i]->pooled, sizeof(float) * (size_t)width);
    return 0;
}
