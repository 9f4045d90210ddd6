/* fuzz_clean.c - any bytes are a prompt that is cleaned as Wan's pipelines clean theirs. A clean
 * text of UTF-8 is UTF-8, without white space at its ends. What the clean text has in quotes is
 * found too. */
#include <stdlib.h>
#include <string.h>

#include "common/base/utf8.h"
#include "precompute/text/clean.h"
#include "tests/lib/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *prompt = strndup((const char *)data, size), *clean = prompt ? text_clean(prompt) : NULL;
    if (!clean)
        abort();
    const size_t n = strlen(clean);
    if (vc_utf8_prefix(clean, n) < n || (n && (strchr(" \t\n", *clean) || clean[n - 1] == ' ')))
        abort();
    if (text_is_clean(prompt) && !text_is_repaired(prompt) && strcmp(prompt, clean))
        abort();
    char *glyphs = text_glyphs(clean), *bare = text_strip(clean);
    if (!glyphs || !bare || vc_utf8_prefix(glyphs, strlen(glyphs)) < strlen(glyphs)
        || strlen(bare) > n)
        abort();
    free(glyphs);
    free(bare);
    free(clean);
    free(prompt);
    return 0;
}
