/* hunyuan.h - the parts of HunyuanVideo's family that hunyuan.c shares with hunyuan_names.c. */
#ifndef TRAIN_MODELS_HUNYUAN_H
#define TRAIN_MODELS_HUNYUAN_H

#include "common/tensor/weights.h"
#include "formats/json/json.h"
#include "train/lora/names.h"

#define HUNYUAN_CLASS "HunyuanVideoTransformer3DModel"

#define HUNYUAN15_CLASS "HunyuanVideo15Transformer3DModel"

/* Make config.json of a file of Tencent's: vtrain_family.convert. */
int hunyuan_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err);
int hunyuan15_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err);

/* The names of modules that Tencent gave them, which musubi-tuner uses, and those that ComfyUI
 * gives them. */
extern const vtrain_rename hunyuan_names[], hunyuan_comfyui_names[];
/* The same of HunyuanVideo 1.5's: ComfyUI's, which are written, and others that are read. */
extern const vtrain_rename hunyuan15_names[], hunyuan15_peer_names[];
/* Those of the tensors in Tencent's files of its whole models. */
extern const vtrain_rename hunyuan15_first_names[], hunyuan15_packed_names[];
/* target_size of config.json, the larger side of a model's clips, by its name. */
enum { HUNYUAN15_480P = 640, HUNYUAN15_720P = 960 };

#endif
