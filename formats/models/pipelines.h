/* pipelines.h - the table of diffusers' pipelines that no family here has. Internal to
 * formats/tensors; transformers.h has what others call. */
#ifndef FORMATS_TENSORS_PIPELINES_H
#define FORMATS_TENSORS_PIPELINES_H

/* A row has one of the last three, or none: a family of transformers that is not here. */
typedef struct vf_other_pipeline {
    const char *class;                       /* _class_name of model_index.json, with '*' as in file
                                              * names; NULL ends the table, and the first row that
                                              * matches counts */
    const char *model;                       /* the models' name */
    const char *reads;                       /* what it reads that no dataset here has */
    const char *same;                        /* the pipeline here whose weights it runs, and what
                                              * stands beside them */
    const char *is;                          /* why it cannot be trained here: "whose network .." */
} vf_other_pipeline;
extern const vf_other_pipeline vf_other_pipelines[];

/* The row of a class, or NULL. */
const vf_other_pipeline *vf_other_pipeline_of(const char *class);

#endif
