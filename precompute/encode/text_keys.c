/* text_keys.c - the keys of texts; see vprep.h */
#include "precompute/run/vprep.h"
#include "precompute/text/prompt.h"

prep_sees vprep_sees(const vprep *p, int encoder)
{
    const text_rule *rule = &p->encoders.text_part[encoder].opts.text;
    return rule->interleave > 0 ? PREP_SEES_FIRST : rule->each ? PREP_SEES_REFERENCES
                                                               : PREP_SEES_NONE;
}

prep_sees vprep_texts_see(const vprep *p)
{
    prep_sees sees = PREP_SEES_NONE;
    for (int i = 0; i < p->encoders.n_text && !sees; i++)
        sees = vprep_sees(p, i);
    return sees;
}

vf_key vprep_text_key(const vprep *p, int encoder, const char *prompt,
                      const prep_pictures *pictures)
{
    const int n = pictures && vprep_sees(p, encoder) ? pictures->n : 0;
    text_picture seen[VC_REFERENCES] = { { .rgb = NULL } };

    for (int k = 0; k < n; k++)
        seen[k].key = pictures->key[k];
    return text_prompt_key(&p->encoders.text[encoder], p->encoders.text_part[encoder].opts.dtype,
                           p->c.dtype, &(text_input){ prompt, n ? seen : NULL, n });
}

int vprep_row_texts(const vf_row *row)
{
    return row->segments ? 1 : row->n_captions;
}

vf_key vprep_caption_key(const vprep *p, int encoder, const vf_row *row, int k,
                         const prep_pictures *pictures)
{
    return vprep_text_key(p, encoder, row->captions[k], row->segments ? NULL : pictures);
}

vf_key vprep_row_key(const vprep *p, int encoder, const vf_row *row, int k,
                     const prep_pictures *pictures)
{
    vf_hasher h;

    if (row->segments < 2)
        return vprep_caption_key(p, encoder, row, k, pictures);
    vf_hasher_begin(&h, "segments");
    for (int i = 0; i < row->segments; i++) {
        const vf_key key = vprep_caption_key(p, encoder, row, i, NULL);
        vf_hasher_bytes(&h, "text", key.b, sizeof key.b);
    }
    return vf_hasher_end(&h);
}
