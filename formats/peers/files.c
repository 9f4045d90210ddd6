/* files.c - the files of an export or import: their names, and writing them. See exchange.h */
#include "formats/peers/exchange.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"

int exchange_stopped(vc_err *err)
{
    return *vc_stop_flag() ? vc_fail(err, VC_ESTOP, "stopped") : 0;
}

int exchange_write(const char *dir, const char *name, const void *data, size_t n, vc_err *err)
{
    char *path = vc_path_join(dir, name), *slash = path ? strrchr(path, '/') : NULL;
    int rc = path ? 0 : vc_no_memory(err);
    if (slash) {
        *slash = 0;
        rc = vc_mkdirs(path, err);
        *slash = '/';
    }
    FILE *f = rc ? NULL : fopen(path, "wbxe");
    if (!rc && !f)
        rc = vc_fail_errno(err, "%s", path);
    if (!rc && n && fwrite(data, 1, n, f) != n)
        rc = vc_fail_errno(err, "%s", path);
    if (f && fclose(f) && !rc)
        rc = vc_fail_errno(err, "%s", path);
    free(path);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void exchange_list_free(vc_list *names)
{
    for (int i = 0; i < names->n; i++)
        free(names->item[i]);
    free(names->item);
    *names = (vc_list){ 0 };
}

static int add_name(vc_list *l, const char *name, vc_err *err)
{
    if (!(l->n & (l->n - 1))) {
        char **more = realloc(l->item, (size_t)(l->n ? 2 * l->n : 1) * sizeof *more);
        if (!more)
            return vc_no_memory(err);
        l->item = more;
    }
    if (!(l->item[l->n] = strdup(name)))
        return vc_no_memory(err);
    l->n++;
    return 0;
}

int exchange_list(vc_list *names, const char *dir, const char *ending, vc_err *err)
{
    *names = (vc_list){ 0 };
    DIR *d = opendir(dir);
    struct dirent *e;
    size_t k = strlen(ending);
    int rc = 0;
    if (!d)
        return vc_fail_errno(err, "%s", dir);
    while ((e = vc_dir_next(d, dir, &rc, err))) {
        size_t n = strlen(e->d_name);
        if (*e->d_name != '.' && n > k && !strcmp(e->d_name + n - k, ending))
            rc = add_name(names, e->d_name, err);
    }
    closedir(d);
    if (names->n)
        qsort(names->item, (size_t)names->n, sizeof *names->item, by_name);
    if (rc)
        exchange_list_free(names);
    return rc;
}

static int by_base(const void *a, const void *b)
{
    return strcmp(vc_path_base(*(char *const *)a), vc_path_base(*(char *const *)b));
}

int exchange_list_more(vc_list *files, const char *dir, const char *sub, const char *ending,
                       vc_err *err)
{
    vc_list more = { 0 };
    char *path = vc_path_join(dir, sub);
    int rc = path ? 0 : vc_no_memory(err);
    if (!rc && vc_file_exists(path))
        rc = exchange_list(&more, path, ending, err);
    char **item = rc || !more.n ? NULL
                                : realloc(files->item, (size_t)(files->n + more.n) * sizeof *item);
    if (!rc && more.n && !item)
        rc = vc_no_memory(err);
    if (item)
        files->item = item;
    for (int i = 0; !rc && i < more.n; i++) {
        if ((files->item[files->n] = vc_format("%s%s", sub, more.item[i])))
            files->n++;
        else
            rc = vc_no_memory(err);
    }
    if (more.n && files->n)
        qsort(files->item, (size_t)files->n, sizeof *files->item, by_base);
    exchange_list_free(&more);
    free(path);
    return rc;
}

bool exchange_two_numbers(const char *s, size_t n, char between, int64_t *a, int64_t *b)
{
    char text[24], *end;
    if (!n || n >= sizeof text || *s < '0' || *s > '9')
        return false;
    memcpy(text, s, n);
    text[n] = 0;
    *a = strtoll(text, &end, 10);
    if (*end != between || end[1] < '0' || end[1] > '9')
        return false;
    *b = strtoll(end + 1, &end, 10);
    return !*end && *a < 1 << 30 && *b < 1 << 20;
}
