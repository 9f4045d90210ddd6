/* model_parts.h - the handle of model.h. Internal to formats/tensors. */
#ifndef FORMATS_TENSORS_MODEL_PARTS_H
#define FORMATS_TENSORS_MODEL_PARTS_H

#include "formats/tensors/model.h"
#include "formats/tensors/pt.h"

struct vf_model {
    vf_safetensors **shard;
    int n_shards;
    vf_pt *pt;                   /* a file of torch.save instead of shards, or NULL */
    vf_view *tensor;             /* in name order; data borrowed from the files */
    int n;
    char **name;                 /* names that the files lack, n_names of them, owned */
    int n_names;
};

/* Sorts the tensors by name. VC_EFORMAT: two have the same name. */
int vf_model_sort(vf_model *m, vc_err *err);

#endif
