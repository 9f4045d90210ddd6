/* text_keys.c - the keys of texts; see vprep.h */
#include "precompute/run/vprep.h"
#include "precompute/text/prompt.h"

bool vprep_sees(const vprep *p, int encoder)
{
    return p->encoders.text_part[encoder].opts.text.interleave > 0;
}

vf_key vprep_text_key(const vprep *p, int encoder, const char *prompt, const vf_key *picture)
{
    const bool seen = picture && vprep_sees(p, encoder);
    const text_picture seen_as = { .key = seen ? *picture : (vf_key){ { 0 } } };

    return text_prompt_key(&p->encoders.text[encoder], p->encoders.text_part[encoder].opts.dtype,
                           p->c.dtype, &(text_input){ prompt, seen ? &seen_as : NULL });
}

int vprep_row_texts(const vf_row *row)
{
    return row->segments ? 1 : row->n_captions;
}

vf_key vprep_caption_key(const vprep *p, int encoder, const vf_row *row, int k,
                         const vf_key *picture)
{
    return vprep_text_key(p, encoder, row->captions[k], row->segments ? NULL : picture);
}

vf_key vprep_row_key(const vprep *p, int encoder, const vf_row *row, int k, const vf_key *picture)
{
    vf_hasher h;

    if (row->segments < 2)
        return vprep_caption_key(p, encoder, row, k, picture);
    vf_hasher_begin(&h, "segments");
    for (int i = 0; i < row->segments; i++) {
        const vf_key key = vprep_caption_key(p, encoder, row, i, NULL);
        vf_hasher_bytes(&h, "text", key.b, sizeof key.b);
    }
    return vf_hasher_end(&h);
}
