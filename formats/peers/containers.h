/* containers.h - a file of tensors as a dictionary, whatever its container: torch.save, .npz or
 * safetensors. See exchange.h, pt.h */
#ifndef FORMATS_PEERS_CONTAINERS_H
#define FORMATS_PEERS_CONTAINERS_H

#include "formats/peers/torch.h"

/* An opened file. It begins as { .root = NULL }; one that was never opened may be closed. */
typedef struct exchange_file {
    const vf_pt_value *root;                 /* a DICT of tensors, or the value of torch.save */
    vf_safetensors *st;                      /* NULL: the file is no safetensors file */
    vf_pt *pt;
    vf_pt_value *own;                        /* the names and tensors of a safetensors file */
} exchange_file;

/* Opens a file by its ending: .safetensors, .npz, else one of torch.save. Errors name the path. */
int exchange_file_open(exchange_file *f, const char *path, vc_err *err);
void exchange_file_close(exchange_file *f);

/* Opens the two files of a sample, whose malloc'ed paths it frees; a path that is NULL stands for a
 * lack of memory. The caller closes f, also after an error. */
int exchange_pair_open(exchange_file f[2], char *a, char *b, vc_err *err);
void exchange_pair_close(exchange_file f[2]);

/* Writes d to the safetensors file dir/name, with n_meta pairs of metadata. */
int exchange_write_safetensors(const char *dir, const char *name, const exchange_dict *d,
                               const vf_meta *meta, int n_meta, vc_err *err);

#endif
