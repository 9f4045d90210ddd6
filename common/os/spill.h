/* spill.h - memory in a file without a name, for values that a process needs once in a while: they
 * are in the machine's memory only while they are used, and on the disk between.
 *
 * All of the file's space is taken when it is opened, so that a full disk is an error then and not
 * later. A page that cannot be read back is torn (map.h); an error of writing is kept until
 * vc_spill_check. The file vanishes with the process, however it ends. One thread uses a spill. */
#ifndef COMMON_OS_SPILL_H
#define COMMON_OS_SPILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

typedef struct vc_spill vc_spill;

/* Makes a file of `bytes` bytes, zeroes, in the folder dir, which exists. `what` names its values
 * in errors. VC_EFULL: the file system has not as many bytes. dry: no file is made, and dir need
 * not exist; the memory costs nothing unless it is touched, and vc_spill_check gives the VC_EFULL.
 */
int vc_spill_open(vc_spill **out, const char *dir, size_t bytes, const char *what, bool dry,
                  vc_err *err);
void vc_spill_close(vc_spill *s);            /* NULL is fine */

/* Bytes that vc_spill_take takes for `bytes` bytes: whole pages. */
size_t vc_spill_room(size_t bytes);
/* The next bytes of the file, at the begin of a page; NULL: there are not as many. */
void *vc_spill_take(vc_spill *s, size_t bytes);
/* Makes the last `bytes` bytes that were taken takeable again, as by calls of vc_spill_room; all of
 * them where they are more. Their values stay. */
void vc_spill_take_back(vc_spill *s, size_t bytes);
size_t vc_spill_bytes(const vc_spill *s);    /* of the file; 0 for NULL */

/* Both do nothing for a NULL spill, and for memory that is not of the spill. want: reads the bytes
 * ahead while the caller uses others. rest: the bytes are not needed for a while, so that they
 * begin to be written and leave the process's memory. */
void vc_spill_want(const vc_spill *s, const void *p, size_t bytes);
void vc_spill_rest(vc_spill *s, const void *p, size_t bytes);

/* The first error of writing or reading since the spill was opened, or of a dry one that of its
 * room; 0 for NULL. */
int vc_spill_check(const vc_spill *s, vc_err *err);

#endif
