/* err.c - error codes and messages; see err.h */
#include "common/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void set_text(vc_err *err, int code, const char *fmt, va_list ap)
{
    err->code = code;
    vsnprintf(err->text, sizeof err->text, fmt, ap);
}

int vc_fail(vc_err *err, int code, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        set_text(err, code, fmt, ap);
        va_end(ap);
    }
    return code;
}

static int code_of(int e)
{
    switch (e) {
    case ENOENT: return VC_ENOENT;
    case ENOMEM:
    case EMFILE:
    case ENFILE: return VC_ENOMEM;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return VC_EFULL;
    default: return VC_EIO;
    }
}

const char *vc_full_remedy(int e)
{
    return e == EFBIG ? "raise the limit on the size of a file (ulimit -f, or the file system's)"
           : e == EDQUOT ? "remove files of yours, or ask for a larger quota" : "make room";
}

int vc_no_memory(vc_err *err)
{
    return vc_fail(err, VC_ENOMEM, "out of memory");
}

int vc_fail_errno(vc_err *err, const char *fmt, ...)
{
    int e = errno;
    int code = code_of(e);

    if (err) {
        va_list ap;
        va_start(ap, fmt);
        set_text(err, code, fmt, ap);
        va_end(ap);
        size_t n = strlen(err->text);
        char why[128];
        bool limit = e == EDQUOT || e == EFBIG;
        snprintf(err->text + n, sizeof err->text - n, ": %s%s%s", strerror_r(e, why, sizeof why),
                 limit ? ": " : "", limit ? vc_full_remedy(e) : "");
    }
    return code;
}

int vc_context(vc_err *err, int rc, const char *fmt, ...)
{
    if (rc == 0 || !err)
        return rc;

    char old[sizeof err->text];
    memcpy(old, err->text, sizeof old);

    va_list ap;
    va_start(ap, fmt);
    set_text(err, rc, fmt, ap);
    va_end(ap);
    size_t n = strlen(err->text);
    snprintf(err->text + n, sizeof err->text - n, ": %s", old);
    return rc;
}

const char *vc_code_name(int code)
{
    switch (code) {
    case 0: return "no error";
    case VC_ENOMEM: return "not enough memory";
    case VC_EIO: return "input/output error";
    case VC_EFORMAT: return "damaged data";
    case VC_ENOENT: return "not found";
    case VC_EINVAL: return "value not allowed";
    case VC_EFULL: return "no space left";
    case VC_EBUSY: return "in use";
    case VC_ESTOP: return "stopped";
    case VC_EUSAGE: return "usage";
    case VC_EMISMATCH: return "does not fit";
    case VC_ENUMERIC: return "not a number";
    case VC_ETORN: return "cut short or unreadable";
    case VC_ELOST: return "a rank is lost";
    default: return "failed";
    }
}
