/* fuzz_chat.c - any bytes are a tokenizer's chat_template.jinja, or with an even first byte its
 * tokenizer_config.json. Of the first it is known whether the template has the text. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/text/chat.h"
#include "tests/fuzz/fuzz_file.h"
#include "tests/lib/mutate.h"

static const char part[] = "enable_thinking";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vc_err err = { 0 };
    if (size == 0)
        return 0;
    const bool jinja = data[0] % 2;
    const uint8_t *nul = memchr(data + 1, 0, size - 1);
    const size_t n = nul ? (size_t)(nul - data - 1) : size - 1;
    const bool has = memmem(data + 1, n, part, sizeof part - 1) != NULL;
    const char *path = fuzz_file(jinja ? "chat_template.jinja" : "tokenizer_config.json", data + 1,
                                 size - 1);
    int rc = text_chat_check(part, fuzz_folder(), &err);
    fuzz_unlink(path);
    if (rc && (!*err.text || err.code != rc))
        abort();                             /* a failure without a message */
    if (jinja && rc != (has ? 0 : VC_EMISMATCH))
        abort();
    return 0;
}
