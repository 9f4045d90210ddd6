/* npz.h - numpy's .npz files as data: dictionaries of arrays, read without executing anything.
 *
 * An .npz file of np.savez is a zip of stored members NAME.npy, each a header and the array's bytes
 * (numpy's format 1.0 to 3.0). They become a DICT of pt.h, whose keys are the names and whose
 * values are tensors. Arrays of objects and of text, in Fortran's order or of big-endian numbers
 * are VF_PT_OPAQUE; compressed members are refused. */
#ifndef FORMATS_TENSORS_NPZ_H
#define FORMATS_TENSORS_NPZ_H

#include "formats/tensors/pt.h"

/* Reads a file; vf_pt_close closes *out. VC_EFORMAT names the fault, as vf_pt_open does. */
int vf_npz_open(vf_pt **out, const char *path, vc_err *err);

/* Makes the bytes of a file that holds d, a DICT of tensors with string keys, as np.load reads it;
 * the caller frees *out. VC_EINVAL: numpy has no such type (bf16, fp8). */
int vf_npz_pack(char **out, size_t *size, const vf_pt_value *d, vc_err *err);

#endif
