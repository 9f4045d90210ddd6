/* folder.h - a folder with lists of clips, for tests of their readers. Failures end the test. */
#ifndef TESTS_LIB_FOLDER_H
#define TESTS_LIB_FOLDER_H

#include "formats/metadata/metadata.h"
#include "tests/lib/tmp_dir.h"

/* The state that tmp_dir_setup makes is one. */
typedef struct folder {
    char path[TMP_DIR];
} folder;

/* Writes the file `name` of n bytes, and the folders that the name has. */
void folder_put(const folder *dir, const char *name, const void *text, size_t n);
/* Writes a list of n bytes to the file list.EXT, and reads this file; opts NULL: captions may be
 * empty. */
int folder_read(const folder *dir, vf_metadata *m, const char *ext, const char *text, size_t n,
                const vf_metadata_opts *opts, vc_err *err);

#endif
