/* scaled_files.h - writes a model's weights as a file of fp8 weights with scales, and as a file of
 * their products in f32. A failure ends the test. */
#ifndef TESTS_LIB_SCALED_FILES_H
#define TESTS_LIB_SCALED_FILES_H

#include <stdbool.h>

#include "formats/tensors/safetensors.h"

/* How a program names and shapes the scales. */
typedef struct scaled_form {
    const char *end, *input;                 /* "scale_weight"; a scale of inputs, or NULL */
    vc_dtype type;                           /* of the codes */
    int nd;                                  /* of a scale */
    bool rows, blocks;                       /* a scale for each row, for each half of it */
} scaled_form;
extern const scaled_form scaled_forms[];     /* end NULL ends them */

/* Returns true if the tensor becomes fp8: the weight of a linear. */
bool scaled_is_linear(const vf_view *v);
void scaled_files_write(const vf_view *v, int n, const scaled_form *f, const char *fp8,
                        const char *plain);

#endif
