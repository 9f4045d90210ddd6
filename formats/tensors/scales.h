/* scales.h - the scales of fp8 weights, and files that are quantised in other ways. Internal to
 * formats/tensors.
 *
 * A program that stores weights in fp8 divides them by numbers, one for a tensor, one for each row,
 * or one for each block of a row's columns, and writes these beside the codes:
 *
 *     ComfyUI, Kijai     X.weight, X.scale_weight [] or [1], X.scale_input, scaled_fp8 (a mark)
 *     ComfyUI, later     X.weight, X.weight_scale [], X.input_scale, X.comfy_quant (JSON as bytes),
 *                        or _quantization_metadata in the header
 *     musubi-tuner       X.weight, X.scale_weight [1], [out,1] or [out,blocks,1]
 *     transformers       X.weight, X.weight_scale [out] or [out,1]
 *
 * The weight is the code times its scale. Scales of inputs, which only products in fp8 need, and
 * marks are left out. */
#ifndef FORMATS_TENSORS_SCALES_H
#define FORMATS_TENSORS_SCALES_H

#include "formats/tensors/model.h"

/* Moves the scales from m's tensors to m->scale, and removes marks and inputs' scales.
 * VC_EMISMATCH: the error names a tensor of weights that are quantised in a way that is not read.
 * VC_EFORMAT: a scale does not fit its weight; VC_ENUMERIC: a scale is not finite. */
int vf_model_take_scales(vf_model *m, vc_err *err);
/* Sets v's scale to that of the weight `name`, if m has one. */
void vf_model_scale(vt_host *v, const vf_model *m, const char *name);

#endif
