/* starts.h - the noise that a stored sample began with, for a distillation to few steps
 * (train/steps/distill.h).
 *
 * vprep --extra_inputs "seed,rand_device,num_inference_steps,cfg_scale" keeps these columns of
 * DiffSynth-Studio's metadata in `extra` of the records: another program sampled the picture or
 * clip from the noise of the seed, and a model that is trained shall come to the same result in
 * num_inference_steps steps. cfg_scale is not read: the few steps have no guidance. */
#ifndef TRAIN_DATA_STARTS_H
#define TRAIN_DATA_STARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/json/json.h"

typedef struct vtrain_start {
    bool seeded;
    uint64_t seed;               /* of torch.Generator("cpu") */
    int64_t steps;               /* num_inference_steps; 0: not recorded */
} vtrain_start;

/* Reads them from a record. VC_EFORMAT: a value is no whole number; VC_EMISMATCH: the noise was
 * drawn on another device than the CPU, whose generator cannot be repeated here. */
int vtrain_start_read(vtrain_start *s, const cJSON *record, vc_err *err);
/* Writes the n numbers of the noise of a sample's first step: those of its seed, rounded to bf16
 * where `bf16`, as pipelines in this type hold them; without a seed those of the training draw of
 * (row, micro). */
int vtrain_start_noise(float *out, size_t n, const vtrain_start *s, bool bf16, uint64_t seed,
                       uint32_t row, uint32_t micro, vc_err *err);

#endif
