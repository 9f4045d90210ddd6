/* fuzz_metadata.c - any bytes are read as a list of clips; the first byte chooses csv, json, jsonl
 * or a tar. */
#include <string.h>

#include "formats/metadata/metadata.h"
#include "tests/fuzz/fuzz_file.h"
#include "tests/lib/mutate.h"

static void touch(const char *text)
{
    mutate_touch(text, strlen(text));
}

static void touch_row(const vf_row *r)
{
    if (r->n_captions < 1 || !(r->weight >= 0))
        abort();
    touch(r->path);
    touch(r->file);
    touch(r->bad ? r->bad : "");
    for (int i = 0; i < r->n_captions; i++)
        touch(r->captions[i]);
    for (int i = 0; i < r->n_tags; i++)
        touch(r->tags[i]);
    for (int i = 0; i < r->n_extra; i++) {
        touch(r->extra[i].column);
        touch(r->extra[i].value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "m.csv", "m.json", "m.jsonl", "m.tar" };
    vf_metadata_opts opts = { .data_dir = "data", .file_keys = "clip", .extra_inputs = "pose" };
    vf_metadata m;
    vc_err err;

    if (size == 0)
        return 0;
    const char *path = fuzz_file(names[data[0] % 4], data + 1, size - 1);
    if (!vf_metadata_read(&m, path, &opts, &err)) {
        for (int64_t i = 0; i < m.n; i++)
            touch_row(&m.rows[i]);
        vf_metadata_free(&m);
    }
    return 0;
}
