/* scales.h - the scales of weights in fp8, int8 and nf4, and files that are quantised in other
 * ways. Internal to formats/tensors.
 *
 * A program that stores weights in fp8 or int8 divides them by numbers, one for a tensor, one for
 * each row, or one for each block of a row's columns, and writes these beside the codes:
 *
 *     ComfyUI, Kijai     X.weight, X.scale_weight [] or [1], X.scale_input, scaled_fp8 (a mark)
 *     ComfyUI, later     X.weight, X.weight_scale [], X.input_scale, X.comfy_quant (JSON as bytes),
 *                        or _quantization_metadata in the header
 *     musubi-tuner       X.weight, X.scale_weight [1], [out,1] or [out,blocks,1]
 *     transformers       X.weight, X.weight_scale [out] or [out,1]
 *     bitsandbytes, 8    X.weight int8, X.SCB [out], the largest values of the rows;
 *                        X.weight_format, 0
 *     bitsandbytes, 4    X.weight, two codes in a byte; .absmax, the largest values of blocks, or
 *                        codes of them with .nested_absmax and .nested_quant_map; .quant_map;
 *                        .quant_state.bitsandbytes__nf4 (JSON as bytes) (all behind X.weight)
 *
 * The weight is the code times its scale. Scales of inputs, which only products in fp8 need, and
 * marks are left out. */
#ifndef FORMATS_TENSORS_SCALES_H
#define FORMATS_TENSORS_SCALES_H

#include "formats/tensors/model.h"

/* packed.c. Moves the scales of bitsandbytes' weights, whose tensors become int8 or nf4 [out,in],
 * to m->scale; comes before vf_model_take_scales. Its errors are the same. */
int vf_model_take_packed(vf_model *m, vc_err *err);
/* Adds v as the scale of NAME.weight; the first `stem` characters of v's name are NAME. */
int vf_model_add_scale(vf_model *m, const vf_view *v, size_t stem, vc_err *err);
/* Moves the scales from m's tensors to m->scale, and removes marks and inputs' scales.
 * VC_EMISMATCH: the error names a tensor of weights that are quantised in a way that is not read.
 * VC_EFORMAT: a scale does not fit its weight; VC_ENUMERIC: a scale is not finite. */
int vf_model_take_scales(vf_model *m, vc_err *err);
/* Sets v's scale to that of the weight `name`, if m has one. */
void vf_model_scale(vt_host *v, const vf_model *m, const char *name);

#endif
