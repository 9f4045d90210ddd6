/* scan.h - a cursor over JSON text (strictly RFC 8259) that builds no tree. It reads lists too long
 * for a tree and headers with thousands of entries, and checks text ahead of cJSON.
 *
 * Every function skips blanks first. Errors are VC_EFORMAT and begin with "line 3, column 17: ".
 * The text need not end with a NUL and must outlive the spans. A cursor belongs to one thread. */
#ifndef FORMATS_JSON_SCAN_H
#define FORMATS_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum { VF_JSON_DEPTH = 64, VF_JSON_NUMBER = 60 };    /* levels; characters of a number */

typedef struct vf_scan {
    const char *text, *at, *end;
    size_t before;                     /* lines of the file before the text: errors count them */
    bool one_line;                     /* the caller names the line: errors begin "column 17: " */
} vf_scan;

/* The bytes between the quotes of a string, escapes included. */
typedef struct vf_span {
    const char *p;
    size_t n;
} vf_span;

vf_scan vf_scan_of(const char *text, size_t n);

/* Returns the next character without taking it; 0 at the end. */
char vf_scan_peek(vf_scan *s);
/* Takes the next character if it is c; expect fails if it is another. */
bool vf_scan_take(vf_scan *s, char c);
int vf_scan_expect(vf_scan *s, char c, vc_err *err);
/* Takes the comma or the bracket `close` before or after a value of an array or object; *more is
 * true if another value follows. */
int vf_scan_more(vf_scan *s, char close, bool first, bool *more, vc_err *err);

/* Takes a string; U+0000, lone surrogates and bytes that are not UTF-8 are errors. */
int vf_scan_string(vf_scan *s, vf_span *v, vc_err *err);
/* Writes the span's string with its escapes replaced, without a NUL, at most v.n bytes, and returns
 * the number of bytes. */
size_t vf_scan_unescape(char *dst, vf_span v);
/* Takes an integer; its value is exact. */
int vf_scan_int(vf_scan *s, int64_t *v, vc_err *err);
/* Checks and skips any value. */
int vf_scan_skip(vf_scan *s, vc_err *err);
/* Fails unless only blanks are left. */
int vf_scan_done(vf_scan *s, vc_err *err);

int vf_scan_fail(const vf_scan *s, vc_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
