/* device_host.h - the device "host", which runs the CUDA backend on the CPU: the same host code and
 * the same kernel bodies, compiled for the CPU with teams of one lane. Products, convolution and
 * attention of more than 4,096 tokens are computed by the CPU backend. If VLT_HOST_CAPTURE_FAULT is
 * set, every capture fails with this reason. VLT_HOST_ROOM is "rank bytes lack": the host_room of
 * this rank. */
#ifndef TESTS_DEVICE_DEVICE_HOST_H
#define TESTS_DEVICE_DEVICE_HOST_H

#include "common/tensor/backend.h"

extern const vt_backend host_backend;          /* "host" */
extern const vt_backend *host_instead;         /* opened in place of host_backend, if not NULL */
extern const vt_backend *host_cpu_instead;     /* in place of vt_cpu, of which it is a copy */

/* Time is simulated on two streams: a kernel takes 1, a copied byte takes host_byte_time. The
 * destination of a copy is NaN until its place is entered; a copy fails that meets memory of one
 * which kernels may read, since the place was entered and not left. */
extern double host_byte_time;

/* Number of lanes of a kernel whose lanes wait for one another: 1, or HOST_LANES threads (slow). */
enum { HOST_LANES = 16 };
extern int host_lanes;
/* Returns the sum of the lanes' v, or the largest. */
float host_team_fold(int lane, int lanes, float v, int largest);

/* Counts, which a test may reset: kernels that were queued outside captures, those of the name
 * `kernel` among them, and calls that copied to the host. */
typedef struct host_count { const char *kernel; int64_t named, launches, downloads; } host_count;
extern host_count host_counted;

/* The bytes that pool and scratch may have together; 0: as many as are wanted. pool and scratch
 * count their requests beyond. `lack` is the number of requests for more scratch that are refused
 * in any case. */
typedef struct host_room { size_t bytes; int pool, scratch, lack; } host_room;
extern host_room host_has;

/* If it is set, kernels are not run but given to this function: their name, their arguments and the
 * number of their blocks. It returns 0, or an error that fails the op. */
extern int (*host_interpret)(const char *name, const void *args, size_t bytes, uint64_t blocks);

#endif
