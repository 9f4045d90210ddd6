/* bytes.c - the tokenizer of ByT5 (Xue et al. 2022): each byte is a token. Its folder has no
 * vocabulary, only tokenizer_config.json and the names of added tokens. See parts.h */
#include <stdio.h>
#include <string.h>

#include "precompute/tokenizer/parts.h"

enum { BYTES = 256 };
static const char *const first[] = { "<pad>", "</s>", "<unk>" };
enum { FIRST = 3, END = 1, UNKNOWN = 2, EXTRA_IDS = 125, EXTRA_IDS_MAX = 10000 };

static int add_piece(tokenizer *t, const char *piece, int id, vc_err *err)
{
    return tok_vocab_add(&t->vocab, piece, strlen(piece), id) ? vc_no_memory(err) : 0;
}

/* Files that were not saved with their added tokens have a number of extra_ids alone. */
static int add_extra(tokenizer *t, int64_t extra, vc_err *err)
{
    int rc = 0;
    if (extra < 0 || extra > EXTRA_IDS_MAX)
        return vc_fail(err, VC_EFORMAT, "extra_ids %lld is not in 0..%d", (long long)extra,
                       EXTRA_IDS_MAX);
    for (int i = 0; !rc && i < extra; i++) {
        char name[32];
        snprintf(name, sizeof name, "<extra_id_%d>", i);
        rc = tok_add_token(t, &(tok_added){ .text = name, .id = FIRST + BYTES + i }, err);
    }
    return rc;
}

int tok_read_bytes(tokenizer *t, const cJSON *config, bool has_added, vc_err *err)
{
    char name[8];
    int64_t extra = EXTRA_IDS;
    int rc = vf_json_int_opt(config, "extra_ids", &extra, err);

    t->model = TOK_BPE;                      /* without merges, all of whose symbols are bytes */
    t->bpe.byte_fallback = true;
    t->bpe.unk = UNKNOWN;
    for (int i = 0; !rc && i < FIRST; i++)
        rc = add_piece(t, first[i], i, err);
    for (int i = 0; !rc && i < BYTES; i++) {
        snprintf(name, sizeof name, "<0x%02X>", i);
        rc = add_piece(t, name, FIRST + i, err);
    }
    for (int i = 0; !rc && i < FIRST; i++)
        rc = tok_add_token(t, &(tok_added){ .text = (char *)(uintptr_t)first[i], .id = i,
                                            .lstrip = true, .rstrip = true }, err);
    if (!rc && !has_added)
        rc = add_extra(t, extra, err);
    return rc ? rc : tok_set_template(t, -1, END) ? vc_no_memory(err) : 0;
}
