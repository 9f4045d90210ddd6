/* device_host.h - the CUDA backend's entries on the CPU: the same host code and the same kernel
 * bodies, compiled by gcc with teams of one lane. Products, attention by cuDNN and convolution,
 * which libraries do on a GPU, are the CPU backend's here. */
#ifndef DEVICE_HOST_H
#define DEVICE_HOST_H

#include "common/tensor/backend.h"

extern const vt_backend host_backend;          /* "host" */
extern const vt_backend *host_instead;         /* opened as "host", if not NULL */

#endif
