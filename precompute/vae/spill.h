/* spill.h - bytes that are put aside and read again: in memory, or in a file without a name, which
 * is gone when it is closed or the program ends, however it ends. For precompute/vae. */
#ifndef PRECOMPUTE_VAE_SPILL_H
#define PRECOMPUTE_VAE_SPILL_H

#include <stddef.h>

#include "common/base/err.h"

typedef struct vae_spill vae_spill;

/* Makes room for `size` bytes: in a file in the folder of the path `beside`, whose name begins with
 * that path until it is removed, or in memory if beside is NULL. */
int vae_spill_open(vae_spill **out, const char *beside, size_t size, vc_err *err);
void vae_spill_close(vae_spill *s);            /* NULL is fine */
int vae_spill_put(vae_spill *s, size_t at, const void *data, size_t n, vc_err *err);
int vae_spill_get(const vae_spill *s, size_t at, void *data, size_t n, vc_err *err);

#endif
