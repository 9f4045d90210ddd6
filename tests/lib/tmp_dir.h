/* tmp_dir.h - a new folder for one test, below $TMPDIR or /tmp. The set-up and teardown functions
 * are cmocka's; the state is the folder's path. */
#ifndef TESTS_LIB_TMP_DIR_H
#define TESTS_LIB_TMP_DIR_H

#include <stdio.h>
#include <stdlib.h>

#include "common/os/file.h"

enum { TMP_DIR = 256 };

/* Makes the folder and stores its path in dir. Returns 0, or -1. */
static inline int tmp_dir_make(char dir[TMP_DIR])
{
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(dir, TMP_DIR, "%s/vlt-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    return n < TMP_DIR && mkdtemp(dir) ? 0 : -1;
}

static inline int tmp_dir_setup(void **state)
{
    *state = malloc(TMP_DIR);
    return *state ? tmp_dir_make(*state) : -1;
}

static inline int tmp_dir_teardown(void **state)
{
    int rc = vc_remove_tree(*state, NULL);
    free(*state);
    return rc;
}

#endif
