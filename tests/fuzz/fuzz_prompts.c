/* fuzz_prompts.c - any bytes are read as a list of validation prompts; the first byte chooses its
 * form. */
#include <stdlib.h>
#include <string.h>

#include "precompute/run/prompts.h"
#include "tests/fuzz/fuzz_file.h"
#include "tests/lib/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "p.json", "p.jsonl", "p.csv", "p.txt", "p.toml" };
    vprep_prompts v = { 0 };
    vc_err err = { 0 };
    if (size == 0)
        return 0;
    const char *path = fuzz_file(names[data[0] % 5], data + 1, size - 1);
    int rc = vprep_prompts_read(&v, path, &err);
    if (rc && (!*err.text || err.code != rc))
        abort();                             /* a failure without a message */
    for (int i = 0; !rc && i < v.n; i++) {
        const cJSON *prompt = cJSON_GetObjectItemCaseSensitive(v.row[i], "prompt");
        if (!cJSON_IsString(prompt))
            abort();
        mutate_touch(prompt->valuestring, strlen(prompt->valuestring));
    }
    vprep_prompts_free(&v);
    return 0;
}
