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
    vf_view *scale;              /* scales of weights, by the weights' names, n_scales of them */
    int n_scales;
    float **made;                /* scales that no file has in f32, n_made of them, owned */
    int n_made;
    char **name;                 /* names that the files lack, n_names of them, owned */
    int n_names;
};

/* Sorts the tensors, or the scales, by name. VC_EFORMAT: two have the same name. */
int vf_model_sort(vf_model *m, vc_err *err);
int vf_model_sort_scales(vf_model *m, vc_err *err);
/* Finds a name among n sorted views; NULL: it is not there. */
const vf_view *vf_model_find(const vf_view *v, int n, const char *name);

#endif
