/* folder.c - see folder.h */
#include "tests/lib/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/os/file.h"

void folder_put(const folder *dir, const char *name, const void *text, size_t n)
{
    char *path = vc_path_join(dir->path, name);
    char *parent = vc_format("%.*s", (int)(vc_path_base(path) - path), path);
    assert_int_equal(vc_mkdirs(parent, NULL), 0);
    assert_int_equal(vc_file_write(path, text, n, NULL), 0);
    free(parent);
    free(path);
}

int folder_read(const folder *dir, vf_metadata *m, const char *ext, const char *text, size_t n,
                const vf_metadata_opts *opts, vc_err *err)
{
    static const vf_metadata_opts none = { .allow_empty_captions = true };
    char *name = vc_format("list.%s", ext), *path = vc_path_join(dir->path, name);
    *err = (vc_err){ 0 };
    folder_put(dir, name, text, n);
    int rc = vf_metadata_read(m, path, opts ? opts : &none, err);
    free(name);
    free(path);
    return rc;
}
