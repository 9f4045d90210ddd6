/* krea2_file.h - files of Krea 2's transformer with its authors' names, as ComfyUI's users have them:
 * names become those of diffusers' class. Internal to formats/tensors. */
#ifndef FORMATS_TENSORS_KREA2_FILE_H
#define FORMATS_TENSORS_KREA2_FILE_H

#include "formats/tensors/component.h"

extern const vf_rename vf_krea2_names[];
extern const vf_sized vf_krea2_sizes[];       /* of diffusers' names */

#endif
