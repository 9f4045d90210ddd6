/* near.h - finds the known name that a mistyped one may mean, by its letters or by its words.
 *
 * Names are compared without regard to '-' and '_'. The nearest name is the one with the lowest
 * cost: a slip of the finger costs less than a name that has the same words and others. Digits are
 * never mistyped: text_encoder_4 is not text_encoder_3. */
#ifndef COMMON_BASE_NEAR_H
#define COMMON_BASE_NEAR_H

#include <stdbool.h>
#include <stddef.h>

typedef struct vc_near {
    const char *name;              /* the mistyped name, borrowed */
    size_t len;
    int cost;                      /* of the best name so far */
    const char *best;              /* NULL: none is near */
    size_t best_len;
} vc_near;

vc_near vc_near_begin(const char *name, size_t len);
/* Compares a known name, by its words too if by_words; else, as one of another program's, by fewer
 * slips. If it is the nearest so far, `shown` becomes the best. */
void vc_near_try(vc_near *g, const char *known, size_t len, const char *shown, size_t shown_len,
                 bool by_words);
/* Returns the item of "a|b|c" or "a, b, c" that is nearest to the text, with its length in *len, or
 * NULL. */
const char *vc_near_choice(const char *choices, const char *text, size_t *len);

#endif
