/* fuzz_tokenizer.c - any bytes are read as a tokenizer.json, or as a spiece.model: an error, or a
 * tokenizer that gives ids for any text. */
#include <stdlib.h>
#include <string.h>

#include "precompute/tokenizer/parts.h"
#include "tests/lib/mutate.h"

static const char text[] =
    "the Cat\xcc\x81's  12\n\xef\xac\x81 \xe2\x96\x81<s> \xff\xf0\x9f\x98\x80 <mark> aaaa\0b";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n = 0;
    int64_t *ids, row[12], mask[12];
    vc_err err;
    int used;

    tokenizer *t = tok_new();
    if (!t)
        return 0;
    int rc = size && data[0] == '{' ? tok_read_json(t, (const char *)data, size, &err)
                                    : tok_read_spiece(t, data, size, 3, &err);
    if (!rc && !tok_finish(t, &err)) {
        if (!tokenizer_ids(t, text, sizeof text - 1, &ids, &n, &err)) {
            for (size_t i = 0; i < n; i++)
                if (ids[i] < 0)
                    abort();
            free(ids);
        }
        if (!tokenizer_prompt(t, "a cat", 12, row, mask, &used, &err) && (used < 0 || used > 12))
            abort();
    }
    tokenizer_close(t);
    return 0;
}
