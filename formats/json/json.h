/* json.h - cJSON behind typed getters that name the field in their errors, and bounded parsing of
 * hostile text: size, depth, UTF-8, odd numbers, U+0000, duplicate keys. Thread-safe: no state. */
#ifndef FORMATS_JSON_JSON_H
#define FORMATS_JSON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "common/base/err.h"

/* Parses one JSON value that fills text[0..n) but for blanks; strictly RFC 8259, at most 64 levels
 * deep, numbers of at most 60 characters, no key twice in an object. The caller frees with
 * cJSON_Delete. VC_EFORMAT says where (line, column). */
int vf_json_parse(cJSON **out, const char *text, size_t n, vc_err *err);
/* A whole file of at most max bytes; a byte order mark in front is fine. */
int vf_json_read(cJSON **out, const char *path, size_t max, vc_err *err);
/* The file `name` of a folder. What is wrong with a field of it later is said with
 * vc_context(err, rc, "%s/%s", dir, name). _opt: no such file is no error, *out is NULL then. */
int vf_json_read_in(cJSON **out, const char *dir, const char *name, size_t max, vc_err *err);
int vf_json_read_in_opt(cJSON **out, const char *dir, const char *name, size_t max, vc_err *err);

/* Getters: VC_ENOENT "field: missing" (null counts as missing) or VC_EFORMAT "field: expected an
 * integer, found a string". The _opt forms leave *v as it is when the field is missing. Integers
 * are below 2^53 in size, which is what cJSON's doubles hold exactly; numbers are finite. Strings,
 * objects and arrays are borrowed from o. */
int vf_json_str(const cJSON *o, const char *field, const char **v, vc_err *err);
int vf_json_int(const cJSON *o, const char *field, int64_t *v, vc_err *err);
int vf_json_num(const cJSON *o, const char *field, double *v, vc_err *err);
int vf_json_bool(const cJSON *o, const char *field, bool *v, vc_err *err);
int vf_json_obj(const cJSON *o, const char *field, const cJSON **v, vc_err *err);
int vf_json_arr(const cJSON *o, const char *field, const cJSON **v, vc_err *err);
int vf_json_str_opt(const cJSON *o, const char *field, const char **v, vc_err *err);
int vf_json_int_opt(const cJSON *o, const char *field, int64_t *v, vc_err *err);
int vf_json_num_opt(const cJSON *o, const char *field, double *v, vc_err *err);
int vf_json_bool_opt(const cJSON *o, const char *field, bool *v, vc_err *err);

/* One line, no blanks, keys in the order they were added, shortest numbers that read back the
 * same, NaN and infinity as null, bytes that are no UTF-8 as U+FFFD; malloc'ed, NULL when out of
 * memory. The same object gives the same bytes. */
char *vf_json_line(const cJSON *o);
/* Adds a 64-bit integer exactly (as raw digits). 0 or VC_ENOMEM. */
int vf_json_add_int(cJSON *o, const char *field, int64_t v);

#endif
