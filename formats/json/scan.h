/* scan.h - a cursor over JSON text (RFC 8259, strictly) that builds nothing: for lists too
 * long for a tree, for headers with thousands of entries, and to check text before cJSON sees it.
 *
 * Every function takes the blanks in front of what it wants. Errors are VC_EFORMAT and begin with
 * "line 3, column 17: ". The text need not end with a NUL and must outlive the spans. One cursor
 * belongs to one thread. */
#ifndef FORMATS_JSON_SCAN_H
#define FORMATS_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum { VF_JSON_DEPTH = 64, VF_JSON_NUMBER = 60 };    /* levels; characters of a number */

typedef struct vf_scan {
    const char *text, *at, *end;
} vf_scan;

/* What stands between the quotes of a string. */
typedef struct vf_span {
    const char *p;
    size_t n;
} vf_span;

vf_scan vf_scan_of(const char *text, size_t n);

/* The next character that is no blank, not taken; 0 at the end. */
char vf_scan_peek(vf_scan *s);
/* Takes c if it is next. */
bool vf_scan_take(vf_scan *s, char c);
int vf_scan_expect(vf_scan *s, char c, vc_err *err);
/* Between the values of an array or object ended by `close`: *more is whether there is another. */
int vf_scan_more(vf_scan *s, char close, bool first, bool *more, vc_err *err);

/* A string without U+0000 and without lone surrogates, in UTF-8. */
int vf_scan_string(vf_scan *s, vf_span *v, vc_err *err);
/* Writes the string a span stands for, without a NUL; at most v.n bytes. Returns how many. */
size_t vf_scan_unescape(char *dst, vf_span v);
/* An integer, exactly. */
int vf_scan_int(vf_scan *s, int64_t *v, vc_err *err);
/* Any value, checked and passed over. */
int vf_scan_skip(vf_scan *s, vc_err *err);
/* Nothing but blanks is left. */
int vf_scan_done(vf_scan *s, vc_err *err);

int vf_scan_fail(const vf_scan *s, vc_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
