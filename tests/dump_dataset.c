/* dump_dataset.c - one line per stored value of a latent dataset: sub-database, key, hash of the
 * bytes; for tests that compare datasets whatever their shards are. `dump_dataset DIR | sort`. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/dataset/dataset.h"
#include "formats/dataset/lmdb_read.h"

static int dump_tree(const vf_lmdb *m, const char *name, vc_err *err)
{
    vf_tree t;
    int rc = vf_lmdb_tree(m, name, &t, err);
    if (rc)
        return rc == VC_ENOENT ? 0 : rc;

    vf_lmdb_cursor c;
    vf_bytes key, value;
    char hex[VF_KEY_HEX];
    vf_lmdb_start(&c, m, &t);
    while ((rc = vf_lmdb_next(&c, &key, &value, err)) == 1) {
        printf("%s ", name);
        for (size_t i = 0; i < key.size; i++)
            printf(key.data[i] > 32 && key.data[i] < 127 ? "%c" : "%02x", key.data[i]);
        printf(" %s\n", vf_key_hex(hex, vf_hash(value.data, value.size)));
    }
    return rc;
}

static int dump_file(const char *path, vc_err *err)
{
    static const char *const trees[] = { "sample", "latent", "thumb", "text", "validation" };
    vf_lmdb *m;
    int rc = vf_lmdb_open(&m, path, err);

    for (size_t i = 0; !rc && i < sizeof trees / sizeof *trees; i++)
        rc = dump_tree(m, trees[i], err);
    vf_lmdb_close(m);
    return vc_context(err, rc, "%s", path);
}

int main(int argc, char **argv)
{
    vc_err err = { 0 };
    DIR *d = argc == 2 ? opendir(argv[1]) : NULL;
    int rc = 0, files = 0;

    if (!d) {
        fprintf(stderr, "usage: dump_dataset DIR\n");
        return 2;
    }
    for (struct dirent *e; !rc && (e = readdir(d));)
        if (!strncmp(e->d_name, "shard-", 6) || !strncmp(e->d_name, "text-", 5)) {
            char *path = vc_path_join(argv[1], e->d_name);
            rc = path ? dump_file(path, &err) : VC_ENOMEM;
            files++;
            free(path);
        }
    closedir(d);
    if (rc)
        fprintf(stderr, "dump_dataset: %s\n", err.text);
    return rc || !files;
}
