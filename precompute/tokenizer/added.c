/* added.c - the tokens that are added to a vocabulary, and the ids around a text; see parts.h */
#include <stdlib.h>
#include <string.h>

#include "precompute/tokenizer/parts.h"

tok_added *tok_find_added(const tokenizer *t, const char *text)
{
    int32_t place = tok_vocab_id(&t->places, text, strlen(text));
    return place < 0 ? NULL : &t->added[place];
}

int32_t tok_id_of(const tokenizer *t, const char *s)
{
    const tok_added *a = tok_find_added(t, s);
    return a ? a->id : tok_vocab_id(&t->vocab, s, strlen(s));
}

int tok_add_token(tokenizer *t, const tok_added *a, vc_err *err)
{
    if (!*a->text)
        return 0;                        /* no text becomes this token */
    if (strlen(a->text) > TOK_ADDED_MAX)
        return vc_fail(err, VC_EFORMAT, "added token \"%.40s...\": longer than %d bytes", a->text,
                       TOK_ADDED_MAX);

    tok_added *to = tok_find_added(t, a->text);
    int32_t known = tok_id_of(t, a->text);
    if (!to) {
        if (tok_grow((void **)&t->added, &t->cap_added, t->n_added, sizeof *t->added))
            return vc_no_memory(err);
        to = &t->added[t->n_added];
        *to = (tok_added){ .text = strdup(a->text) };
        if (!to->text)
            return vc_no_memory(err);
        t->n_added++;
        if (tok_vocab_add(&t->places, a->text, strlen(a->text), (int32_t)t->n_added - 1))
            return vc_no_memory(err);
    }
    char *text = to->text;
    *to = *a;
    to->text = text;
    if (known >= 0)
        to->id = known;                  /* the vocabulary decides, as in the reference */
    return 0;
}

int tok_set_template(tokenizer *t, int64_t front, int64_t back)
{
    t->front.n = t->back.n = 0;
    if ((front >= 0 && tok_add_id(&t->front, front)) || (back >= 0 && tok_add_id(&t->back, back)))
        return VC_ENOMEM;
    return 0;
}

bool tok_has_bytes(const tokenizer *t, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (t->byte_id[(uint8_t)s[i]] < 0)
            return false;
    return true;
}
