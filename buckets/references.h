/* references.h - the size of a reference picture, which a model that edits pictures sees beside the
 * sample. It depends on the picture alone, and not on the sample's bucket, unless it is framed:
 * then the whole picture is resized into the clip's size, as WanVACEPipeline of diffusers does it,
 * top and left are 0 or negative, and the frame around it is white. */
#ifndef BUCKETS_REFERENCES_H
#define BUCKETS_REFERENCES_H

#include "buckets/buckets.h"

typedef struct vb_reference_rule {
    const vc_family *family;
    const vc_references *references;     /* of the model's pipeline; NULL: the family's */
    int64_t side;            /* of the square whose area pictures get; 0: the family's own rule */
    bool as_is;              /* pictures keep their size, but for columns and rows at their edges
                              * that fill no token */
    const vb_choice *clip;   /* whose size a framed picture gets; NULL: it is not known yet, and the
                              * picture keeps its own */
} vb_reference_rule;

/* Chooses the size of a picture of w x h: one frame, without draws, flip or key. Dropped with a
 * reason where no size is possible. */
void vb_reference(vb_choice *c, const vb_reference_rule *r, int w, int h);
/* The same for the copy that the text encoder sees. */
void vb_reference_look(vb_choice *c, const vb_reference_rule *r, int w, int h);

#endif
