/* err.h - error codes, and messages to which each level adds its context.
 *
 * Fallible calls return 0 or one of the negative codes below and take a vc_err as their last
 * argument. The lowest layer describes the failure (vc_fail), each caller adds the file, record or
 * tensor in front (vc_context):
 *     shard-00003.lmdb: record "a1f0": 12 of 4096 bytes
 * Only main() prints. A vc_err may be NULL (the text is dropped); it belongs to one thread. */
#ifndef COMMON_BASE_ERR_H
#define COMMON_BASE_ERR_H

enum {
    VC_EFAIL = -1,      /* a failure without a code of its own */
    VC_ENOMEM = -2,     /* the process has no memory or no file descriptor left */
    VC_EIO = -3,        /* the system refused: open, read, write, map */
    VC_EFORMAT = -4,    /* damaged or hostile data, or an unknown format */
    VC_ENOENT = -5,     /* no such file, tensor, key, column */
    VC_EINVAL = -6,     /* a value that is not allowed here */
    VC_EFULL = -7,      /* no space left, file too large, quota */
    VC_EBUSY = -8,      /* another process holds the lock */
    VC_ESTOP = -9,      /* the user asked to stop; everything is resumable */
    VC_EUSAGE = -10,    /* command line or configuration: exit status 2 */
    VC_EMISMATCH = -11, /* two inputs do not fit each other */
    VC_ENUMERIC = -12,  /* NaN or infinity where a number was needed */
    VC_ETORN = -13,     /* a file in use was cut short, or the disk failed under it (map.h) */
    VC_ELOST = -14      /* another rank of the run does not answer any more (comm.h) */
};

typedef struct vc_err {
    int code;           /* 0 or the code of the first failure */
    char text[1200];    /* one line without a newline, truncated if too long */
} vc_err;

/* Sets code and text; returns code, so that `return vc_fail(...)` reads as one step. */
int vc_fail(vc_err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Fails with VC_ENOMEM and "out of memory", where callers know nothing to add. */
int vc_no_memory(vc_err *err);

/* As vc_fail, with ": " and the text of errno added, and the remedy of a quota or a limit of a
 * file's size; the code comes from errno
 * (ENOENT, ENOMEM/EMFILE/ENFILE, ENOSPC/EDQUOT/EFBIG have codes of their own, all else is
 * VC_EIO). */
int vc_fail_errno(vc_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Returns what to do where a write failed for want of room, by its errno: ENOSPC, EDQUOT, EFBIG.
 * The text is static. */
const char *vc_full_remedy(int e);

/* Puts "fmt: " in front of the text and returns rc. Does nothing when rc is 0. */
int vc_context(vc_err *err, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Returns a name of the code, as "not enough memory", for errors without a text. */
const char *vc_code_name(int code);

#endif
