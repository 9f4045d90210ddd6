/* config.h - reads a component's config.json into a struct, by a table with one row a field.
 *
 *     static const vf_config_row rows[] = {
 *         VF_INT_NEEDED(config, width, "d_model", 1, 65536),
 *         VF_NUM(config, eps, "norm_eps", 1e-6, VF_ABOVE_0, 1),
 *         VF_WORD(config, spacing, "timestep_spacing", "leading", "trailing|linspace|leading"),
 *         VF_ONLY("activation_fn", "gelu", "gelu"),
 *         { 0 }
 *     };
 *     rc = vf_config_read(&c, rows, o, err);
 *
 * A field that is missing, or null, gets the row's default. A default outside of the bounds means
 * "none" and may also be written in the file. Bounds are inclusive. The caller checks rules between
 * fields afterwards. */
#ifndef FORMATS_JSON_CONFIG_H
#define FORMATS_JSON_CONFIG_H

#include <float.h>
#include <math.h>

#include "formats/json/json.h"

#define VF_ABOVE_0 DBL_MIN                   /* lower bound of a number that is above 0 */

typedef enum vf_config_kind {
    VF_CONFIG_INT, VF_CONFIG_NUM, VF_CONFIG_FLAG, VF_CONFIG_WORD,
    VF_CONFIG_INTS, VF_CONFIG_NUMS, VF_CONFIG_FLAGS, VF_CONFIG_WORDS, VF_CONFIG_UNSET
} vf_config_kind;

typedef struct vf_config_row {
    const char *name;                        /* NULL ends the table */
    vf_config_kind kind;
    bool needed;                             /* the field has no default and must be in the file */
    size_t at, size;                         /* offset in the struct, bytes of a value; size 0: the
                                              * field is checked and not stored */
    double value, min, max;                  /* default, bounds; a flag is 0 or 1 */
    const char *word, *words;                /* default; allowed words "a|b|c" */
    size_t count;                            /* lists: offset of the int that gets the length */
    int least, most;                         /* lists: bounds of the length */
    const char *why;                         /* UNSET: the remedy in the error, or NULL */
} vf_config_row;

/* INT fills an int or int64_t, NUM a double, FLAG a bool, WORD an int or an enum with the word's
 * index among `words`. A field of another type does not compile. */
#define VF_INT(type, field, name_, value_, min_, max_) \
    { .name = name_, .kind = VF_CONFIG_INT, VF_CONFIG_AT(type, field, VF_CONFIG_INT_SIZE), \
      .value = value_, .min = min_, .max = max_ }
#define VF_INT_NEEDED(type, field, name_, min_, max_) \
    { .name = name_, .kind = VF_CONFIG_INT, VF_CONFIG_AT(type, field, VF_CONFIG_INT_SIZE), \
      .needed = true, .min = min_, .max = max_ }
#define VF_NUM(type, field, name_, value_, min_, max_) \
    { .name = name_, .kind = VF_CONFIG_NUM, VF_CONFIG_AT(type, field, VF_CONFIG_NUM_SIZE), \
      .value = value_, .min = min_, .max = max_ }
#define VF_NUM_NEEDED(type, field, name_, min_, max_) \
    { .name = name_, .kind = VF_CONFIG_NUM, VF_CONFIG_AT(type, field, VF_CONFIG_NUM_SIZE), \
      .needed = true, .min = min_, .max = max_ }
#define VF_FLAG(type, field, name_, value_) \
    { .name = name_, .kind = VF_CONFIG_FLAG, VF_CONFIG_AT(type, field, VF_CONFIG_FLAG_SIZE), \
      .value = value_, .max = 1 }
#define VF_WORD(type, field, name_, word_, words_) \
    { .name = name_, .kind = VF_CONFIG_WORD, VF_CONFIG_AT(type, field, VF_CONFIG_WORD_SIZE), \
      .word = word_, .words = words_ }

/* A list fills an array of the struct, and the int `count` gets the list's length: `least` up to
 * the length of the array. A missing list leaves both unchanged. A list of words keeps each word's
 * place among `words`, as VF_WORD does; VF_WORDS stores only the length. */
#define VF_INTS(type, field, count_, name_, least_, min_, max_) \
    { .name = name_, .kind = VF_CONFIG_INTS, VF_CONFIG_AT(type, field[0], VF_CONFIG_INT_SIZE), \
      .min = min_, .max = max_, VF_CONFIG_LENGTH(type, field, count_), .least = least_ }
#define VF_NUMS(type, field, count_, name_, least_, min_, max_) \
    { .name = name_, .kind = VF_CONFIG_NUMS, VF_CONFIG_AT(type, field[0], VF_CONFIG_NUM_SIZE), \
      .min = min_, .max = max_, VF_CONFIG_LENGTH(type, field, count_), .least = least_ }
#define VF_FLAGS(type, field, count_, name_, least_) \
    { .name = name_, .kind = VF_CONFIG_FLAGS, VF_CONFIG_AT(type, field[0], VF_CONFIG_FLAG_SIZE), \
      .max = 1, VF_CONFIG_LENGTH(type, field, count_), .least = least_ }
#define VF_WORD_LIST(type, field, count_, name_, least_, words_) \
    { .name = name_, .kind = VF_CONFIG_WORDS, VF_CONFIG_AT(type, field[0], VF_CONFIG_WORD_SIZE), \
      .words = words_, VF_CONFIG_LENGTH(type, field, count_), .least = least_ }
#define VF_WORDS(type, count_, name_, words_) \
    { .name = name_, .kind = VF_CONFIG_WORDS, .words = words_, VF_CONFIG_COUNT(type, count_), \
      .most = 4096 }

/* Fields of which one value is supported; any other value is an error. VF_ONLY allows any word of
 * "a|b"; a missing field means the word `missing_`, or is an error if that is NULL. VF_UNSET allows
 * a field that is missing, null, false or an empty list. */
#define VF_ONLY_INT(name_, v) \
    { .name = name_, .kind = VF_CONFIG_INT, .value = v, .min = v, .max = v }
#define VF_ONLY_NUM(name_, v) \
    { .name = name_, .kind = VF_CONFIG_NUM, .value = v, .min = v, .max = v }
#define VF_ONLY_FLAG(name_, v) \
    { .name = name_, .kind = VF_CONFIG_FLAG, .value = v, .min = v, .max = v }
#define VF_ONLY(name_, words_, missing_) \
    { .name = name_, .kind = VF_CONFIG_WORD, .words = words_, .word = missing_ }
#define VF_UNSET(name_, why_) { .name = name_, .kind = VF_CONFIG_UNSET, .why = why_ }

/* Fills the struct `to`. VC_ENOENT: a needed field is missing; VC_EFORMAT: a field has a kind or
 * value that its row does not allow. Errors name the field, its value and the allowed values. */
int vf_config_read(void *to, const vf_config_row *rows, const cJSON *o, vc_err *err);

/* ---- for the macros above ---- */

#define VF_CONFIG_AT(type, field, size_of) \
    .at = offsetof(type, field), .size = size_of(((type *)0)->field)
#define VF_CONFIG_COUNT(type, count_) \
    .count = offsetof(type, count_) + 0 * _Generic(((type *)0)->count_, int: 1)
#define VF_CONFIG_LENGTH(type, field, count_) \
    VF_CONFIG_COUNT(type, count_), \
    .most = sizeof ((type *)0)->field / sizeof *((type *)0)->field
#define VF_CONFIG_INT_SIZE(v) _Generic((v), int: sizeof (int), int64_t: sizeof (int64_t))
#define VF_CONFIG_NUM_SIZE(v) _Generic((v), double: sizeof (double))
#define VF_CONFIG_FLAG_SIZE(v) _Generic((v), bool: sizeof (bool))
#define VF_CONFIG_WORD_SIZE(v) _Generic((v), int: sizeof (int), unsigned: sizeof (int))

#endif
