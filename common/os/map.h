/* map.h - files mapped to be read, and what happens where one cannot be read after all.
 *
 * A page of a map that cannot be read, because the file was cut short or the disk failed, is
 * SIGBUS. After vc_maps_guard the page becomes zeroes instead, it is marked as torn, and the reader
 * goes on over the zeroes: kernels and decoders need no checks. Whoever ends a unit of work asks
 * before its result is kept: vt_step_end, vf_env_commit, vc_file_write and vf_safetensors_stream
 * do. So the program ends by its normal errors, and nothing that was computed from the zeroes is
 * written.
 *
 * Signals belong to the process, hence the marks do too. Everything here is thread-safe. */
#ifndef COMMON_OS_MAP_H
#define COMMON_OS_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

/* A read-only map. data is NULL for an empty file. */
typedef struct vc_map {
    const uint8_t *data;
    size_t size;
    struct vc_guard *guard;
} vc_map;
int vc_map_open(vc_map *m, const char *path, vc_err *err);
/* Gives the map's memory back to the system; it is read again where it is touched again. */
void vc_map_release(const vc_map *m);
/* Also looks whether the file ends in the midst of a page by now: what is missing of that page
 * read as zeroes, and was no fault. An all-zero vc_map is fine. */
void vc_map_close(vc_map *m);

/* Catches SIGBUS; vc_catch_stop calls it. Faults outside the maps go where they went before. */
int vc_maps_guard(vc_err *err);
bool vc_maps_guarded(void);
/* Gives this thread a stack for signals, where it has none. Some kernels of oneDNN point the stack
 * register into a buffer of theirs, and what the system puts below it for a handler would be
 * written over whatever lies there. To be called in every thread that runs such kernels; costs a
 * test from the second time on. */
void vc_signal_stack(void);

/* For the end of a unit of work that returns rc: VC_ETORN, which names file and byte, if a page
 * of any map became torn since vc_maps_reported, be that map closed by now; else rc. Whatever
 * else the zeroes led to is forgotten. Costs one load where nothing is torn. */
int vc_maps_check(int rc, vc_err *err);
/* The same of n bytes of an open map alone, whether reported or not. 0 for other memory. */
int vc_map_check(const void *p, size_t n, vc_err *err);
/* For a system call that was given n bytes of an open map and failed with EFAULT: reads them, so
 * that the page that it could not read is marked, and tells of it as vc_map_check does. */
int vc_map_touch(const void *p, size_t n, vc_err *err);
/* The caller has reported what is torn so far, and kept nothing that was made of it. */
void vc_maps_reported(void);

/* Runs fn(arg), which reads `path` through the map of a library that believes its file. Such a
 * page ends fn in its middle by a jump: VC_ETORN, and the library's handles may only be dropped.
 * fn stays in this thread. */
int vc_map_run(int (*fn)(void *arg), void *arg, const char *path, vc_err *err);

#endif
