/* host_parts.h - the parts of the device "host" (device_host.h), for its own files:
 *
 *     host_kernels.c    the kernel bodies, run by one lane or by a team of threads; calls that are
 *                       captured into a graph and launched again
 *     host_copies.c     copies beside the kernels, whose bytes arrive when their place is entered
 *     device_host.c     scratch and memory, products, and the table of the backend
 *
 * Time is a count: a kernel takes 1. */
#ifndef TESTS_DEVICE_HOST_PARTS_H
#define TESTS_DEVICE_HOST_PARTS_H

#include "common/cuda/cuda.h"
#include "tests/device/device_host.h"

/* A stream: its clock, and the graph that captures its calls, or NULL while calls run. */
typedef struct host_stream {
    double now;
    vt_graph *graph;
} host_stream;

typedef struct host_copy host_copy;            /* host_copies.c: a copy that is queued */

struct cuda_runtime {
    vt_dev *cpu;
    size_t pool;                               /* bytes in use */
    host_stream kernels;
    double copies, host;                       /* time when the second stream becomes idle; time
                                                * of the host */
    struct {
        host_copy *queued, *read;              /* read: those that kernels may read until `leave` */
        double filled, left;
    } place[VT_PLACES];
    int64_t waits;
    double waited;
};

/* ---- host_kernels.c ---- */

/* Captures the call if the stream (a host_stream, or NULL) captures a graph, which copies the
 * `bytes` of args; returns whether the call must not run now. */
bool host_captured(void *stream, void (*run)(void *stream, const void *args), const void *args,
                   size_t bytes);
/* One kernel later. */
void host_advance(void *stream);

/* The entries of backend.h. */
int host_capture_begin(vt_dev *d, vc_err *err);
int host_capture_end(vt_dev *d, vt_graph **out, vc_err *err);
bool host_launch(vt_dev *d, vt_graph *g);
void host_drop(vt_dev *d, vt_graph *g);

/* ---- host_copies.c: entries of backend.h too ---- */

void host_download(vt_dev *d, void *dst, const void *src, size_t bytes);
void host_fetch(vt_dev *d, vt_place place, void *dst, const void *src, size_t bytes);
void host_move(vt_dev *d, vt_place place, void *dst, const void *src, size_t bytes);
void *host_pin(vt_dev *d, size_t bytes);
void host_unpin(vt_dev *d, void *p);
void host_enter(vt_dev *d, vt_place place);
void host_leave(vt_dev *d, vt_place place);
int64_t host_waited(vt_dev *d, double *seconds);
/* Finishes all copies: memory is freed, into which they might go. */
void host_finish_copies(cuda_runtime *r);
/* Kernels read the place no more. */
void host_forget_read(cuda_runtime *r, vt_place place);

#endif
