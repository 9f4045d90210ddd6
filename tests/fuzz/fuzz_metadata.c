/* fuzz_metadata.c - any bytes are read as a list of clips; the first byte chooses csv, json, jsonl
 * or a tar, which is made of its members: a byte for the kind ('1' is a hard link, '2' a symbolic
 * one, others are files), the name, NUL, and the data or the link's target, NUL. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
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

enum { BLOCK = 512 };

/* Adds a member with a header as POSIX's ustar has it. */
static void add_member(vc_buf *tar, char kind, const char *name, size_t len, const char *data,
                       size_t n)
{
    const bool link = kind == '1' || kind == '2';
    char head[BLOCK] = { 0 }, sum[8];
    unsigned all = 8 * ' ';

    memcpy(head, name, len < 100 ? len : 100);
    snprintf(head + 100, 8, "%07o", 0644);
    snprintf(head + 124, 12, "%011o", link ? 0 : (unsigned)n);
    head[156] = link ? kind : '0';
    if (link)
        memcpy(head + 157, data, n < 100 ? n : 100);
    memcpy(head + 257, "ustar\00000", 8);
    for (int i = 0; i < BLOCK; i++)
        all += (uint8_t)head[i];
    snprintf(sum, sizeof sum, "%06o", all % 0777777);
    memcpy(head + 148, sum, sizeof sum);
    vc_buf_add(tar, head, sizeof head);
    if (link)
        return;
    vc_buf_add(tar, data, n);
    vc_buf_add(tar, (char[BLOCK]){ 0 }, (BLOCK - n % BLOCK) % BLOCK);
}

static void make_tar(vc_buf *tar, const char *at, size_t n)
{
    while (n) {
        const char kind = *at++, *name = at;
        const size_t len = strnlen(name, --n);
        const char *data = name + len + (len < n);
        n -= (size_t)(data - name);
        const size_t size = strnlen(data, n);
        add_member(tar, kind, name, len, data, size);
        at = data + size + (size < n);
        n -= (size_t)(at - data);
    }
    vc_buf_add(tar, (char[2 * BLOCK]){ 0 }, 2 * BLOCK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "m.csv", "m.json", "m.jsonl", "m.tar" };
    vf_metadata_opts opts = { .data_dir = "data", .file_keys = "clip", .extra_inputs = "pose" };
    vf_metadata m;
    vc_buf tar = { 0 };
    vc_err err;

    if (size == 0)
        return 0;
    const char *path = names[data[0] % 4];
    if (data[0] % 4 == 3)
        make_tar(&tar, (const char *)data + 1, size - 1);
    path = tar.n ? fuzz_file(path, (const uint8_t *)tar.data, tar.n)
                 : fuzz_file(path, data + 1, size - 1);
    vc_buf_free(&tar);
    if (!vf_metadata_read(&m, path, &opts, &err)) {
        for (int64_t i = 0; i < m.n; i++)
            touch_row(&m.rows[i]);
        vf_metadata_free(&m);
    }
    return 0;
}
