/* first.h - writes a golden's model as the single file that its first authors publish, by the
 * golden's metadata `theirs` (scripts/golden/first.py). A failure ends the test. */
#ifndef TESTS_LIB_FIRST_H
#define TESTS_LIB_FIRST_H

#include "formats/tensors/safetensors.h"

/* Writes the file at path, with all weights in f32: a file of torch.save if the path ends with
 * ".pth", else a safetensors file. Their tensors are made of the values that golden_fill gives
 * ours. The golden's metadata `their_config`, if there is any, is "config" in the file's. */
void first_write(const vf_safetensors *golden, const char *path);

#endif
