/* shots.c - see shots.h */
#include "formats/report/shots.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.h"
#include "formats/tensors/safetensors.h"

enum { MAX_FILE = 16 << 20 };

/* A kind of picture: the ending of its name and the first bytes of the file. */
typedef struct picture_kind {
    const char *ext, *mime, *magic;
    size_t at, n;                        /* magic is the n bytes from `at` */
} picture_kind;
static const picture_kind kinds[] = {
    { ".png", "image/png", "\x89PNG\r\n\x1a\n", 0, 8 },
    { ".jpg", "image/jpeg", "\xff\xd8\xff", 0, 3 },
    { ".jpeg", "image/jpeg", "\xff\xd8\xff", 0, 3 },
    { ".mp4", "video/mp4", "ftyp", 4, 4 },
};

static const picture_kind *kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcasecmp(vc_path_ext(name), kinds[i].ext))
            return &kinds[i];
    return NULL;
}

static bool is_step(const char *name, int64_t *step)
{
    char *end;
    if (strncmp(name, "step-", 5) || name[5] < '0' || name[5] > '9')
        return false;
    *step = strtoll(name + 5, &end, 10);
    return !*end;
}

static int step_folder(const struct dirent *e)
{
    int64_t step;
    return is_step(e->d_name, &step);
}

#define WAVE "-sound.png"

static bool is_wave(const char *name)
{
    const size_t n = strlen(name), end = strlen(WAVE);
    return n > end && !strcmp(name + n - end, WAVE);
}

/* The contact sheet repeats the other pictures, and a wave stands beside its clip. */
static int picture_file(const struct dirent *e)
{
    return e->d_name[0] != '.' && strncmp(e->d_name, "sheet.", 6) && !is_wave(e->d_name) &&
           kind_of(e->d_name) != NULL;
}

static int newest_first(const struct dirent **a, const struct dirent **b)
{
    int64_t x = 0, y = 0;
    is_step((*a)->d_name, &x);
    is_step((*b)->d_name, &y);
    return x > y ? -1 : x < y;
}

/* Prompt of the sample in "003.png" or "003-000.png", malloc'ed; "" if it is unknown. */
static char *prompt_of(const char *dir, const char *name)
{
    char *path = vc_format("%s/%.*s.safetensors", dir, (int)strcspn(name, "-."), name);
    vf_safetensors *f = NULL;
    const char *prompt = NULL;
    if (path && !vf_safetensors_open(&f, path, NULL))
        prompt = vf_safetensors_meta(f, "prompt");
    char *copy = strdup(prompt ? prompt : "");
    vf_safetensors_close(f);
    free(path);
    return copy;
}

static void free_names(struct dirent **names, int n)
{
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

/* ---- one picture ---- */

/* Opens a file without waiting for the other end of a pipe, and checks its first bytes. */
static int open_picture(const picture_kind *k, const char *path, vc_err *err)
{
    char head[16];
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return vc_fail_errno(err, "%s", path);
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) &&
        pread(fd, head, k->at + k->n, 0) == (ssize_t)(k->at + k->n) &&
        !memcmp(head + k->at, k->magic, k->n))
        return fd;
    close(fd);
    return vc_fail(err, VC_EFORMAT, "%s: not a picture", path);
}

int vf_shots_open(const char *step_dir, const char *file, const char **mime, vc_err *err)
{
    const picture_kind *k = kind_of(file);
    int64_t step;
    const char *folder = vc_path_base(step_dir);
    if ((!is_step(folder, &step) && strcmp(folder, VF_SHOTS_INPUTS)) || *file == '.' ||
        strchr(file, '/') || !k)
        return vc_fail(err, VC_ENOENT, "no such picture");
    char *path = vc_path_join(step_dir, file);
    int fd = path ? open_picture(k, path, err) : vc_no_memory(err);
    *mime = k->mime;
    free(path);
    return fd;
}

const char *vf_shots_read(const vf_shot *s, size_t room, char **data, size_t *n)
{
    const picture_kind *k = kind_of(s->file);
    char *path = vc_path_join(s->dir, s->file);
    *data = NULL;
    const bool good = path &&
                      !vc_file_read(data, n, path, room < MAX_FILE ? room : MAX_FILE, NULL) &&
                      *n >= k->at + k->n && !memcmp(*data + k->at, k->magic, k->n);
    free(path);
    return good ? k->mime : NULL;
}

/* ---- the pictures of a run ---- */

int vf_shots_steps(char ***names, int *n, const char *dir, vc_err *err)
{
    struct dirent **list = NULL;
    char *validation = vc_path_join(dir, "validation");
    int all = validation ? scandir(validation, &list, step_folder, newest_first) : 0;
    *n = 0;
    *names = calloc((size_t)(all > 0 ? all : 0) + 1, sizeof **names);
    for (int i = 0; *names && i < all; i++)
        if (((*names)[*n] = strdup(list[i]->d_name)))
            ++*n;
    free_names(list, all);
    free(validation);
    return validation && *names ? 0 : vc_no_memory(err);
}

void vf_shots_steps_free(char **names, int n)
{
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

void vf_shots_free(vf_shots *s)
{
    for (int i = 0; i < s->n; i++) {
        free(s->item[i].dir);
        free(s->item[i].file);
        free(s->item[i].prompt);
        free(s->item[i].wave);
    }
    free(s->item);
}

bool vf_shots_same(const char *a, const char *b)
{
    size_t n = strcspn(a, "-.");
    return n == strcspn(b, "-.") && !strncmp(a, b, n);
}

static int64_t size_of(const char *dir, const char *file)
{
    char *path = vc_path_join(dir, file);
    struct stat st;
    const bool found = path && !stat(path, &st) && st.st_size >= 0;
    free(path);
    return found ? (int64_t)st.st_size : 0;
}

/* Finds the wave of a clip's sound. */
static void find_wave(vf_shot *s)
{
    char *name = NULL;
    if (s->dir && s->file && !strcasecmp(vc_path_ext(s->file), ".mp4"))
        name = vc_format("%.*s" WAVE, (int)strcspn(s->file, "."), s->file);
    if (name && vc_file_exists_in(s->dir, name)) {
        s->wave = name;
        s->bytes += size_of(s->dir, name);
    } else
        free(name);
}

/* Adds a shot unless the run's last one is of the same sample, which a clip then replaces. Without
 * memory the shot is left out. */
static void add_shot(vf_shots *s, int run, int64_t step, const char *dir, const char *file)
{
    vf_shot *last = s->n ? &s->item[s->n - 1] : NULL;
    char *copy = strdup(file);
    if (copy && last && last->run == run && last->step == step &&
        vf_shots_same(last->file, file)) {
        bool clip = !strcasecmp(vc_path_ext(file), ".mp4");
        free(clip ? last->file : copy);
        last->file = clip ? copy : last->file;
        last->bytes = size_of(dir, last->file);
        return;
    }
    vf_shot *more = copy ? realloc(s->item, ((size_t)s->n + 1) * sizeof *more) : NULL;
    if (!more) {
        free(copy);
        return;
    }
    s->item = more;
    s->item[s->n++] = (vf_shot){ .dir = strdup(dir), .file = copy, .prompt = prompt_of(dir, file),
                                 .run = run, .step = step, .bytes = size_of(dir, file) };
    s->first = s->n == 1 || step < s->first ? step : s->first;
}

/* Adds the shots of a step's folder, and returns their number. */
static int add_shots(vf_shots *s, int run, const char *validation, const char *folder)
{
    struct dirent **names = NULL;
    int64_t step = 0;
    int before = s->n;
    char *dir = vc_path_join(validation, folder);
    int n = dir ? scandir(dir, &names, picture_file, versionsort) : 0;
    is_step(folder, &step);
    for (int i = 0; i < n; i++)
        add_shot(s, run, step, dir, names[i]->d_name);
    for (int i = before; i < s->n; i++)
        find_wave(&s->item[i]);
    free_names(names, n);
    free(dir);
    return s->n - before;
}

int vf_shots_find(vf_shots *s, int run, const char *dir, bool all)
{
    struct dirent **names = NULL;
    char *validation = vc_path_join(dir, "validation");
    int n = validation ? scandir(validation, &names, step_folder, newest_first) : 0;
    for (int i = 0; i < n; i++)
        if (add_shots(s, run, validation, names[i]->d_name) && !all)
            break;
    free_names(names, n);
    free(validation);
    return n;
}

/* ---- inputs ---- */

/* The length of the role's name in "003-reference_1.png" or "003-control-000.png", which begins
 * behind the first '-'. */
static size_t role_length(const char *file)
{
    const char *dash = strchr(file, '-');
    return dash ? strcspn(dash + 1, "-.") : 0;
}

static bool same_input(const char *a, const char *b)
{
    const size_t n = strcspn(a, "-") + 1 + role_length(a);
    return n == strcspn(b, "-") + 1 + role_length(b) && !strncmp(a, b, n);
}

static int input_file(const struct dirent *e)
{
    return picture_file(e) && role_length(e->d_name);
}

/* The target is the last: it is what the sample is compared with. */
static int by_role(const struct dirent **a, const struct dirent **b)
{
    const bool x = strstr((*a)->d_name, "-target") != NULL;
    const bool y = strstr((*b)->d_name, "-target") != NULL;
    return x != y ? x - y : versionsort(a, b);
}

/* Makes the title of an input: "reference 1". */
static void name_input(char title[40], const char *file)
{
    snprintf(title, 40, "%.*s", (int)role_length(file), strchr(file, '-') + 1);
    for (char *s = title; *s; s++)
        *s = *s == '_' ? ' ' : *s;
}

vf_inputs vf_inputs_find(const char *dir)
{
    vf_inputs in = { .dir = vc_format("%s/validation/" VF_SHOTS_INPUTS, dir) };
    in.n = in.dir ? scandir(in.dir, &in.name, input_file, by_role) : 0;
    in.n = in.n < 0 ? 0 : in.n;
    return in;
}

void vf_inputs_free(vf_inputs *in)
{
    free_names(in->name, in->n);
    free(in->dir);
}

bool vf_inputs_has(const vf_inputs *in, const vf_shot *of)
{
    char *path = in->n ? vc_format("%s/%.*s.safetensors", in->dir, (int)strcspn(of->file, "-."),
                                   of->file) : NULL;
    char *prompt = path && vc_file_exists(path) ? prompt_of(in->dir, of->file) : NULL;
    const bool same = prompt && !strcmp(prompt, of->prompt);
    free(prompt);
    free(path);
    return same;
}

char *vf_inputs_next(const vf_inputs *in, const vf_shot *of, int *at, char title[40])
{
    for (int i = *at; i < in->n; i++) {
        char *file = in->name[i]->d_name;
        if (!vf_shots_same(file, of->file) || (i && same_input(file, in->name[i - 1]->d_name)))
            continue;
        for (int k = i + 1; k < in->n && same_input(file, in->name[k]->d_name); k++)
            if (!strcasecmp(vc_path_ext(in->name[k]->d_name), ".mp4"))
                file = in->name[k]->d_name;
        name_input(title, file);
        *at = i + 1;
        return file;
    }
    return NULL;
}
