/* json.h - typed getters over cJSON whose errors name the field, and bounded parsing of hostile
 * text: size, depth, UTF-8, odd numbers, U+0000, duplicate keys are checked. The functions have no
 * state and are thread-safe. */
#ifndef FORMATS_JSON_JSON_H
#define FORMATS_JSON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "common/base/err.h"

/* Values of one text, counted by its commas and brackets: their tree takes about 80 bytes each. */
enum { VF_JSON_VALUES = 3 << 20 };

/* Parses the one JSON value in text[0..n), which may have blanks around it. The text must be
 * strictly RFC 8259, at most 64 levels deep, of at most VF_JSON_VALUES values, with numbers of at
 * most 60 characters and no key twice in an object. The caller frees *out with cJSON_Delete.
 * VC_EFORMAT names line and column. */
int vf_json_parse(cJSON **out, const char *text, size_t n, vc_err *err);
/* The same for a text that begins on the line after `before` others: errors name the line of the
 * file. */
int vf_json_parse_after(cJSON **out, const char *text, size_t n, size_t before, vc_err *err);
/* The same for one line of a file, whose number the caller adds to errors: they name the column. */
int vf_json_parse_line(cJSON **out, const char *text, size_t n, vc_err *err);
/* Parses a whole file of at most max bytes; a byte order mark in front is skipped. */
int vf_json_read(cJSON **out, const char *path, size_t max, vc_err *err);
/* Parses the file `name` of a folder. The caller adds the file to a later error about a field with
 * vc_context(err, rc, "%s/%s", dir, name). With _opt a missing file is no error: *out is NULL. */
int vf_json_read_in(cJSON **out, const char *dir, const char *name, size_t max, vc_err *err);
int vf_json_read_in_opt(cJSON **out, const char *dir, const char *name, size_t max, vc_err *err);

/* The getters fail with VC_ENOENT "field: missing" (null counts as missing) or VC_EFORMAT "field:
 * expected an integer, found a string". The _opt forms leave *v unchanged when the field is
 * missing. Integers are below 2^53 in size, so that cJSON's doubles hold them exactly; numbers are
 * finite. Strings, objects and arrays are borrowed from o. */
int vf_json_str(const cJSON *o, const char *field, const char **v, vc_err *err);
int vf_json_int(const cJSON *o, const char *field, int64_t *v, vc_err *err);
int vf_json_bool(const cJSON *o, const char *field, bool *v, vc_err *err);
int vf_json_obj(const cJSON *o, const char *field, const cJSON **v, vc_err *err);
/* Reads `id` of a sample: 16 lower-case hex digits. */
int vf_json_id(uint64_t *id, const cJSON *o, vc_err *err);
int vf_json_arr(const cJSON *o, const char *field, const cJSON **v, vc_err *err);
int vf_json_str_opt(const cJSON *o, const char *field, const char **v, vc_err *err);
int vf_json_int_opt(const cJSON *o, const char *field, int64_t *v, vc_err *err);
int vf_json_num_opt(const cJSON *o, const char *field, double *v, vc_err *err);
int vf_json_bool_opt(const cJSON *o, const char *field, bool *v, vc_err *err);

/* Writes o as one line without blanks: keys in the order they were added, the shortest numbers that
 * read back the same, NaN and infinity as null, bytes that are not UTF-8 as U+FFFD. The same object
 * gives the same bytes. The caller frees the line; NULL when out of memory. */
char *vf_json_line(const cJSON *o);
/* Adds a 64-bit integer exactly, as raw digits. Returns 0 or VC_ENOMEM. */
int vf_json_add_int(cJSON *o, const char *field, int64_t v);

#endif
