/* links_host.h - several ranks on the device "host" (device_host.h). The device gets a second
 * stream, a thread that runs queued calls late on purpose, and links between ranks in place of
 * NCCL: files that the processes of one machine map. Sums are made in rank order, in f32.
 *
 * A program that links links_host.c uses this backend, as host_instead. */
#ifndef TESTS_DEVICE_LINKS_HOST_H
#define TESTS_DEVICE_LINKS_HOST_H

#include "tests/device/device_host.h"

/* A fault of the links, or NULL: with "silent 1 3" rank 1 leaves out its third call since
 * links_calls was set to 0, with "broken 1 3" this call fails. Initially $VLT_LINKS_FAULT. */
extern const char *links_fault;
extern int links_calls;

#endif
