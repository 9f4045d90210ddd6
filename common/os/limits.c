/* limits.c - see limits.h; Linux's documentation of cgroup-v2, and of the controllers cpu and
 * memory of version 1 */
#include "common/os/limits.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The names of a version's files. A limit is a number, or a text where there is none. */
typedef struct version {
    const char *type;                        /* of the mount's file system */
    const char *limit[2], *used;
    const char *files[2];                    /* lines of memory.stat: pages of files, also those of
                                              * groups below */
    const char *quota, *period;              /* period NULL: it stands behind the quota */
} version;
static const version versions[] = {
    { "cgroup", { "memory.limit_in_bytes", NULL }, "memory.usage_in_bytes",
      { "total_active_file", "total_inactive_file" }, "cpu.cfs_quota_us", "cpu.cfs_period_us" },
    { "cgroup2", { "memory.max", "memory.high" }, "memory.current",
      { "active_file", "inactive_file" }, "cpu.max", NULL },
};
#define NO_LIMIT ((int64_t)1 << 60)          /* version 1 has all pages that a number can count */

static FILE *open_in(const char *dir, const char *name)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return n < (int)sizeof path ? fopen(path, "re") : NULL;
}

/* Reads the first one or two numbers of a file; returns how many there are. */
static int numbers(const char *dir, const char *name, int64_t *a, int64_t *b)
{
    FILE *f = name ? open_in(dir, name) : NULL;
    const int n = f ? fscanf(f, "%" SCNd64 " %" SCNd64, a, b) : 0;
    if (f)
        fclose(f);
    return n < 0 ? 0 : n;
}

/* Bytes of files in memory that the group's limit counts, and that the kernel takes first. */
static int64_t file_pages(const version *v, const char *dir)
{
    char key[64];
    int64_t value, sum = 0;
    FILE *f = open_in(dir, "memory.stat");
    while (f && fscanf(f, "%63s %" SCNd64, key, &value) == 2)
        if (!strcmp(key, v->files[0]) || !strcmp(key, v->files[1]))
            sum += value;
    if (f)
        fclose(f);
    return sum;
}

static void take_memory(vc_limits *l, const version *v, const char *dir)
{
    int64_t limit = INT64_MAX, used, n, unused;
    for (int i = 0; i < 2; i++)
        if (numbers(dir, v->limit[i], &n, &unused) && n >= 0 && n < NO_LIMIT && n < limit)
            limit = n;
    if (limit == INT64_MAX)
        return;
    l->memory = limit < l->memory ? limit : l->memory;
    if (!numbers(dir, v->used, &used, &unused))
        return;
    const int64_t files = file_pages(v, dir), held = used > files ? used - files : 0;
    const int64_t left = limit > held ? limit - held : 0;
    l->memory_left = left < l->memory_left ? left : l->memory_left;
}

static void take_quota(vc_limits *l, const version *v, const char *dir)
{
    int64_t quota, period = 0, unused;
    const int n = numbers(dir, v->quota, &quota, &period);
    if (n < 1 || (v->period && !numbers(dir, v->period, &period, &unused)))
        return;
    const double processors = quota > 0 && period > 0 ? (double)quota / (double)period : 0;
    if (processors > 0 && (l->processors == 0 || processors < l->processors))
        l->processors = processors;
}

/* True if a list with commas has the word. */
static bool has_word(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ',') && (!at[n] || strchr(",\n", at[n])))
            return true;
    return false;
}

/* Finds where a hierarchy is mounted, and which of its groups is there. */
static bool find_mount(const char *root, const version *v, const char *controller,
                       char group[PATH_MAX], char at[PATH_MAX])
{
    char line[3 * PATH_MAX], type[64], options[512];
    bool found = false;
    FILE *f = open_in(root, "proc/self/mountinfo");
    while (f && !found && fgets(line, sizeof line, f)) {
        const char *rest = strstr(line, " - ");
        found = rest && sscanf(rest, " - %63s %*s %511s", type, options) == 2 &&
                !strcmp(type, v->type) && (!controller || has_word(options, controller)) &&
                sscanf(line, "%*s %*s %*s %4095s %4095s", group, at) == 2;
    }
    if (f)
        fclose(f);
    return found;
}

/* Reads the limits of a group and of those above it, as far as they are mounted. `controller` is
 * NULL for version 2, which has all in one hierarchy. */
static void walk(vc_limits *l, const char *root, const version *v, const char *controller,
                 const char *path)
{
    char group[PATH_MAX], at[PATH_MAX], dir[2 * PATH_MAX];
    if (!find_mount(root, v, controller, group, at))
        return;
    const size_t above = strcmp(group, "/") ? strlen(group) : 0;
    const bool below = !strncmp(path, group, above) && (!path[above] || path[above] == '/');
    const size_t mount = (size_t)snprintf(dir, sizeof dir, "%s%s", root, at);
    if (below && !strstr(path, "/.."))
        snprintf(dir + mount, sizeof dir - mount, "%s", path + above);
    for (;;) {
        if (!controller || !strcmp(controller, "memory"))
            take_memory(l, v, dir);
        if (!controller || !strcmp(controller, "cpu"))
            take_quota(l, v, dir);
        char *end = strrchr(dir, '/');
        if (!end || (size_t)(end - dir) < mount)
            break;
        *end = '\0';
    }
}

vc_limits vc_limits_read(const char *root)
{
    vc_limits l = { .memory = INT64_MAX, .memory_left = INT64_MAX };
    char line[2 * PATH_MAX];
    FILE *f = open_in(root, "proc/self/cgroup");
    while (f && fgets(line, sizeof line, f)) {
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        list++;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        if (!*list)
            walk(&l, root, &versions[1], NULL, path);
        if (has_word(list, "memory"))
            walk(&l, root, &versions[0], "memory", path);
        if (has_word(list, "cpu"))
            walk(&l, root, &versions[0], "cpu", path);
    }
    if (f)
        fclose(f);
    return l;
}

int vc_within_quota(int n)
{
    const double quota = vc_limits_read("").processors;
    return quota > 0 && quota < n ? (int)ceil(quota) : n;
}
