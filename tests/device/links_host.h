/* links_host.h - several ranks on the device "host" (device_host.h): it gets a second stream, which
 * is a thread that runs what is queued later than it could, and links between ranks in the place of
 * NCCL's, by files that processes of one machine map. Sums are made in rank order, in f32.
 *
 * Linked into a program it is there, as host_instead. */
#ifndef TESTS_DEVICE_LINKS_HOST_H
#define TESTS_DEVICE_LINKS_HOST_H

#include "tests/device/device_host.h"

/* What goes wrong, NULL: nothing. "silent 1 3": rank 1 leaves out its third call from when
 * links_calls was 0; "broken 1 3": it fails. First of all it is $VLT_LINKS_FAULT. */
extern const char *links_fault;
extern int links_calls;

#endif
