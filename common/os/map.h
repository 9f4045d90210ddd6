/* map.h - file maps, and recovery from pages that cannot be read.
 *
 * Reading a page of a map raises SIGBUS if the file was cut short or the disk failed. After
 * vc_maps_guard the page becomes zeroes instead, is marked as torn, and the reader continues over
 * the zeroes, so kernels and decoders need no checks. A function that ends a unit of work calls
 * vc_maps_check before it keeps the result: vt_step_end, vf_env_commit, vc_file_write and
 * vf_safetensors_stream do. So the program ends by its normal errors, and no result computed from
 * the zeroes is written.
 *
 * Signals belong to the process, and so do the marks. All functions here are thread-safe. */
#ifndef COMMON_OS_MAP_H
#define COMMON_OS_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

/* A map, read-only but for those of vc_map_own. data is NULL for an empty file. */
typedef struct vc_map {
    const uint8_t *data;
    size_t size;
    struct vc_guard *guard;
} vc_map;
int vc_map_open(vc_map *m, const char *path, vc_err *err);
/* Maps `size` bytes of an open file from byte `at` on, a multiple of the size of a page. The caller
 * may close fd; `name` stands for the part in errors. */
int vc_map_part(vc_map *m, int fd, uint64_t at, size_t size, const char *name, vc_err *err);
/* Maps a whole file of the process's own, open for reading and writing, from which the map may be
 * written: it is memory that the system may write out to the disk. `name` stands for its values in
 * errors. A page that cannot be read becomes zeroes that can be written. */
int vc_map_own(vc_map *m, int fd, size_t size, const char *name, vc_err *err);
/* Frees the map's memory; pages that are touched later are read from the file again. */
void vc_map_release(const vc_map *m);
/* Closes a map and marks it as torn if the file now ends inside a page, because the missing part of
 * such a page reads as zeroes without a fault. An all-zero vc_map is fine. */
void vc_map_close(vc_map *m);

/* Catches SIGBUS; vc_catch_stop calls it. Faults outside the maps reach the previous handler. */
int vc_maps_guard(vc_err *err);
bool vc_maps_guarded(void);
/* Gives this thread a stack for signal handlers, if it has none. Some kernels of oneDNN point the
 * stack register into one of their buffers, and a handler's frame below it would overwrite the
 * buffer. Every thread that runs such kernels calls it first; later calls cost one test. */
void vc_signal_stack(void);

/* Called at the end of a unit of work that returns rc: returns VC_ETORN, naming file and byte, if a
 * page of any map, open or closed, was torn since vc_maps_reported; else rc. A torn page replaces
 * other errors, as the zeroes may have caused them. Costs one load if no page is torn. */
int vc_maps_check(int rc, vc_err *err);
/* The same for n bytes of an open map, reported or not. Returns 0 for other memory. */
int vc_map_check(const void *p, size_t n, vc_err *err);
/* Called after a system call failed with EFAULT on n bytes of an open map: reads the bytes, so that
 * the unreadable page is marked, and returns as vc_map_check does. */
int vc_map_touch(const void *p, size_t n, vc_err *err);
/* Clears the marks of all torn pages, after the caller has reported them and dropped all results
 * that were computed from them. */
void vc_maps_reported(void);

/* Runs fn(arg), which reads `path` through the map of a library that does not expect read errors.
 * An unreadable page ends fn by a jump: the result is VC_ETORN, and the library's handles must be
 * abandoned. fn must not use other threads. */
int vc_map_run(int (*fn)(void *arg), void *arg, const char *path, vc_err *err);

#endif
