/* device_host.h - the CUDA backend's entries on the CPU: the same host code and the same kernel
 * bodies, compiled by gcc with teams of one lane. Products, attention by cuDNN and convolution,
 * which libraries do on a GPU, are the CPU backend's here. With VLT_HOST_SPOILS in the environment
 * every capture fails, with its reason. */
#ifndef TESTS_DEVICE_DEVICE_HOST_H
#define TESTS_DEVICE_DEVICE_HOST_H

#include "common/tensor/backend.h"

extern const vt_backend host_backend;          /* "host" */
extern const vt_backend *host_instead;         /* opened as "host", if not NULL */

/* Time is counted on two streams: a kernel takes 1, a fetched byte host_byte_time. What is fetched
 * is NaN until its place is entered; fetching into a place that is entered is a fault. */
extern double host_byte_time;

/* Lanes of a block where they meet: 1, or HOST_LANES, which are threads then (slow). */
enum { HOST_LANES = 16 };
extern int host_lanes;
/* The sum of the lanes' v, or the largest. */
float host_team_fold(int lane, int lanes, float v, int largest);

#endif
