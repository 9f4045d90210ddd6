/* make_dataset.c - makes $VLT_BUILD/tests/made.lmdb for the tests that read it from outside. */
#include <stdio.h>
#include <stdlib.h>

#include "common/os/file.h"
#include "tests/shards_make.h"

int main(void)
{
    vc_err err = { 0 };
    char *path = vc_path_join(getenv("VLT_BUILD"), "tests/made.lmdb");
    int rc = vc_remove_tree(path, &err);
    if (!rc)
        rc = make_dataset(path, 60, 100000, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.text);
    free(path);
    return rc ? 1 : 0;
}
