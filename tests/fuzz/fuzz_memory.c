/* fuzz_memory.c - see fuzz_file.h: files that never reach the system, which takes as long to open
 * and map one as a reader takes to read it. Each map is memory of the file's size, so that the
 * address sanitizer reports a read behind its end, which the last page of a real map hides, and a
 * read after it was closed. The linker calls __wrap_x where code calls x (CMakeLists.txt). */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.h"
#include "tests/fuzz/fuzz_file.h"

#define FOLDER "/fuzz"                       /* no folder of the system */

typedef struct file {
    char path[256];
    uint8_t *data;                           /* NULL: no file */
    size_t size;
} file;
static file files[8];

int __real_vc_map_open(vc_map *m, const char *path, vc_err *err);
int __wrap_vc_map_open(vc_map *m, const char *path, vc_err *err);
void __real_vc_map_release(const vc_map *m);
void __wrap_vc_map_release(const vc_map *m);
void __real_vc_map_close(vc_map *m);
void __wrap_vc_map_close(vc_map *m);
int __real_vc_file_open(int *fd, struct stat *st, const char *path, vc_err *err);
int __wrap_vc_file_open(int *fd, struct stat *st, const char *path, vc_err *err);
int __real_vc_file_read(char **data, size_t *size, const char *path, size_t max, vc_err *err);
int __wrap_vc_file_read(char **data, size_t *size, const char *path, size_t max, vc_err *err);
int __real_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st);

const char *fuzz_folder(void)
{
    return FOLDER;
}

static bool is_ours(const char *path)
{
    return !strncmp(path, FOLDER "/", sizeof FOLDER);
}

static file *find(const char *path)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i].data && !strcmp(files[i].path, path))
            return &files[i];
    errno = ENOENT;
    return NULL;
}

static uint8_t *copy(const void *data, size_t n)
{
    uint8_t *to = malloc(n ? n : 1);
    if (!to)
        abort();
    if (n)
        memcpy(to, data, n);
    return to;
}

const char *fuzz_file(const char *name, const void *data, size_t n)
{
    static char path[sizeof files->path];
    snprintf(path, sizeof path, "%s%s", *name == '/' ? "" : FOLDER "/", name);
    file *f = find(path);
    for (file *next = files; !f; next++) {
        if (next == files + sizeof files / sizeof *files)
            abort();
        if (!next->data)
            strcpy((f = next)->path, path);
    }
    free(f->data);
    f->data = copy(data, n);
    f->size = n;
    return path;
}

void fuzz_unlink(const char *path)
{
    file *f = find(path);
    if (!f)
        abort();
    free(f->data);
    f->data = NULL;
}

/* ---- the doubles ---- */

int __wrap_vc_map_open(vc_map *m, const char *path, vc_err *err)
{
    const file *f = find(path);
    if (!f)
        return is_ours(path) ? vc_fail_errno(err, "%s", path) : __real_vc_map_open(m, path, err);
    *m = (vc_map){ .data = f->size ? copy(f->data, f->size) : NULL, .size = f->size };
    return 0;
}

void __wrap_vc_map_release(const vc_map *m)
{
    if (m->guard)
        __real_vc_map_release(m);
}

void __wrap_vc_map_close(vc_map *m)
{
    if (m->guard)
        __real_vc_map_close(m);
    else
        free((void *)(uintptr_t)m->data);
    *m = (vc_map){ 0 };
}

/* One file can be open at a time: what was opened before would have its end and place. */
int __wrap_vc_file_open(int *fd, struct stat *st, const char *path, vc_err *err)
{
    const file *f = find(path);
    if (!f && !is_ours(path))
        return __real_vc_file_open(fd, st, path, err);
    *fd = -1;
    if (!f)
        return vc_fail_errno(err, "%s", path);
    static int kept = -1;                    /* making one takes longer than filling it */
    if (kept < 0)
        kept = memfd_create("file", MFD_CLOEXEC);
    if ((*fd = dup(kept)) < 0 || lseek(*fd, 0, SEEK_SET) ||
        pwrite(*fd, f->data, f->size, 0) != (ssize_t)f->size || ftruncate(*fd, (off_t)f->size) ||
        fstat(*fd, st))
        abort();
    return 0;
}

int __wrap_vc_file_read(char **data, size_t *size, const char *path, size_t max, vc_err *err)
{
    const file *f = find(path);
    if (!f && !is_ours(path))
        return __real_vc_file_read(data, size, path, max, err);
    *data = NULL;
    *size = 0;
    if (!f)
        return vc_fail_errno(err, "%s", path);
    if (f->size > max)
        return vc_fail(err, VC_EFORMAT, "%s: %zu bytes, at most %zu expected", path, f->size, max);
    if (!(*data = malloc(f->size + 1)))
        abort();
    memcpy(*data, f->data, f->size);
    (*data)[f->size] = 0;
    *size = f->size;
    return 0;
}

int __wrap_stat(const char *path, struct stat *st)
{
    const file *f = find(path);
    if (!f)
        return is_ours(path) ? -1 : __real_stat(path, st);
    *st = (struct stat){ .st_mode = S_IFREG | 0600, .st_size = (off_t)f->size };
    return 0;
}
