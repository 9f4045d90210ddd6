/* references.h - the sizes of a sample's reference pictures, from the list `references` of its
 * record (docs/format.md). Other values have the clip's rows and columns; a reference has its
 * own. */
#ifndef FORMATS_DATASET_REFERENCES_H
#define FORMATS_DATASET_REFERENCES_H

#include <cjson/cJSON.h>

#include "common/base/err.h"
#include "common/roles.h"

typedef struct vf_references {
    int n;
    uint16_t size[VC_REFERENCES][2];         /* latent rows and columns; 0 from n on */
} vf_references;

/* Reads the list; NULL is a list of none. VC_EFORMAT: the list is none, is longer than
 * VC_REFERENCES, or an item has no `latent` [1,h,w]; the error names the item. */
int vf_references_read(vf_references *r, const cJSON *list, vc_err *err);

#endif
