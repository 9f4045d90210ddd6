/* findings.c - what a check of a dataset reports, and the shapes that it keeps; see verify.h */
#include <stdio.h>

#include "formats/dataset/verify/verify.h"

/* Shows a key as text; a key that no writer makes is shown as "?". */
static void show_key(char out[65], vf_bytes key)
{
    size_t n = key.size < 64 ? key.size : 64;
    for (size_t i = 0; i < n; i++)
        out[i] = key.data[i] > 32 && key.data[i] < 127 ? (char)key.data[i] : '?';
    out[n] = 0;
}

static void report_finding(vf_check *c, const char *file, const char *which, vf_bytes key,
                           const char *what)
{
    char where[512], text[65];
    show_key(text, key);
    snprintf(where, sizeof where, "%.255s%s%.64s%s%s", file, *which ? ": " : "", which,
             *text ? " " : "", text);
    c->found(c->arg, where, what);
}

void vf_check_found(vf_check *c, const char *file, const char *which, vf_bytes key,
                    const char *what)
{
    c->report->damaged++;
    report_finding(c, file, which, key, what);
}

int vf_check_failed(vf_check *c, const char *file, const char *which, vf_bytes key, int rc,
                    const vc_err *e, vc_err *err)
{
    char what[sizeof e->text + 64];
    if (rc == VC_ENOMEM || rc == VC_ESTOP)
        return vc_fail(err, rc, "%s: %s", file, e->text);
    if (rc != VC_EIO && rc != VC_ETORN) {
        vf_check_found(c, file, which, key, e->text);
        return 0;
    }
    snprintf(what, sizeof what, "could not be read, which is no damage: %s", e->text);
    c->report->unreadable++;
    report_finding(c, file, which, key, what);
    return 0;
}

int vf_check_stopped(const vf_check *c, vc_err *err)
{
    return c->stop && *c->stop ? vc_fail(err, VC_ESTOP, "%s: stopped", c->dir) : 0;
}

uint64_t vf_shape_pack(vf_shape s)
{
    return (uint64_t)s.kind << 60 | (uint64_t)(s.c & 0xfff) << 48 | (uint64_t)(s.f & 0xffff) << 32 |
           (uint64_t)(s.h & 0xffff) << 16 | (s.w & 0xffff);
}

vf_shape vf_shape_unpack(uint64_t v)
{
    return (vf_shape){ (unsigned)(v >> 60), (unsigned)(v >> 48 & 0xfff),
                       (unsigned)(v >> 32 & 0xffff), (unsigned)(v >> 16 & 0xffff),
                       (unsigned)(v & 0xffff) };
}
