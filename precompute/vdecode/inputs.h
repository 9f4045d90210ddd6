/* inputs.h - what stands beside a sample: the pictures and clips that a model saw (references, a
 * control clip, a first frame), and the clip that the sample is compared with.
 *
 * Of a run they are in validation/inputs/003.safetensors of prompt 3, a tensor each, which vtrain
 * writes; of a dataset's sample they are its values that come from other files. Each becomes
 * STEM-ROLE.png (or .mp4, ..) and, on a contact sheet, a strip in the row of its sample. */
#ifndef PRECOMPUTE_VDECODE_INPUTS_H
#define PRECOMPUTE_VDECODE_INPUTS_H

#include "formats/dataset/dataset.h"
#include "precompute/vdecode/decode.h"

/* The decoded inputs of a run's prompts. */
typedef struct inputs inputs;
/* Decodes the new files of VALIDATION/inputs, or with a sheet all of them; without that folder
 * there are no inputs. */
int inputs_open(inputs **out, decoder *d, const char *validation, vc_err *err);
void inputs_close(inputs *in);           /* NULL is fine */
/* Begins the sheet's row of the sample in the file NAME, if any sample of the run has inputs, and
 * puts its inputs there; after the sample its target (`behind`). s may be NULL. */
int inputs_put(const inputs *in, sheet *s, const char *name, bool behind, vc_err *err);

/* Decodes the inputs of a dataset's sample, whose pictures have the stem, onto the sheet. */
int inputs_of_sample(decoder *d, const vf_dataset *set, uint32_t i, const cJSON *record,
                     const char *stem, sheet *s, vc_err *err);

#endif
