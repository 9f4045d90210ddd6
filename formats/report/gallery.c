/* gallery.c - see gallery.h */
#include "formats/report/gallery.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.h"
#include "formats/report/html_parts.h"
#include "formats/tensors/safetensors.h"

#define MARK "validation"

enum { MAX_BYTES = 48 << 20, MAX_FILE = 16 << 20, MAX_INPUTS = 16 << 20 };

/* A kind of picture: the ending of its name and the first bytes of the file. The page takes only
 * files that match both, whatever their names or links. */
typedef struct kind {
    const char *ext, *mime, *magic;
    size_t at, n;                        /* magic is the n bytes from `at` */
} kind;
static const kind kinds[] = {
    { ".png", "image/png", "\x89PNG\r\n\x1a\n", 0, 8 },
    { ".jpg", "image/jpeg", "\xff\xd8\xff", 0, 3 },
    { ".jpeg", "image/jpeg", "\xff\xd8\xff", 0, 3 },
    { ".mp4", "video/mp4", "ftyp", 4, 4 },
};

static const kind *kind_of(const char *name)
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

/* The contact sheet repeats the other pictures. */
static int picture_file(const struct dirent *e)
{
    return e->d_name[0] != '.' && strncmp(e->d_name, "sheet.", 6) && kind_of(e->d_name) != NULL;
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

/* ---- for a server ---- */

void vf_gallery_escape(vc_buf *b, const char *name)
{
    for (const unsigned char *s = (const unsigned char *)name; *s; s++)
        vc_buf_printf(b, isalnum(*s) || strchr("-._~/", *s) ? "%c" : "%%%02X", *s);
}

/* Opens a file without waiting for the other end of a pipe, and checks its first bytes. */
static int open_picture(const kind *k, const char *path, vc_err *err)
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

int vf_gallery_open(const char *step_dir, const char *file, const char **mime, vc_err *err)
{
    const kind *k = kind_of(file);
    int64_t step;
    const char *folder = vc_path_base(step_dir);
    if ((!is_step(folder, &step) && strcmp(folder, VF_GALLERY_INPUTS)) || *file == '.' ||
        strchr(file, '/') || !k)
        return vc_fail(err, VC_ENOENT, "no such picture");
    char *path = vc_path_join(step_dir, file);
    int fd = path ? open_picture(k, path, err) : vc_no_memory(err);
    *mime = k->mime;
    free(path);
    return fd;
}

int vf_gallery_steps(char ***names, int *n, const char *dir, vc_err *err)
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

void vf_gallery_steps_free(char **names, int n)
{
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

/* ---- the pictures of runs ---- */

/* The picture or clip of one sample at a step of a run. */
typedef struct shot {
    char *dir, *file, *prompt;
    int run;
    int64_t step, bytes;
    bool shown;                          /* it is in the page, or stays out of it */
} shot;
typedef struct shots {
    shot *item;
    int n;
    int64_t first;                       /* the least step that has pictures */
} shots;

/* Adds a picture with this title to the page. */
typedef void (*put_fn)(vf_html *h, const shot *s, const char *title, const void *data, size_t n,
                       const char *mime);

static void shots_free(shots *s)
{
    for (int i = 0; i < s->n; i++) {
        free(s->item[i].dir);
        free(s->item[i].file);
        free(s->item[i].prompt);
    }
    free(s->item);
}

/* True if both files are of one sample: "003-000.png" and "003.mp4". */
static bool same_sample(const char *a, const char *b)
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

/* Adds a shot unless the run's last one is of the same sample, which a clip then replaces. Without
 * memory the shot is left out. */
static void add_shot(shots *s, int run, int64_t step, const char *dir, const char *file)
{
    shot *last = s->n ? &s->item[s->n - 1] : NULL;
    char *copy = strdup(file);
    if (copy && last && last->run == run && last->step == step && same_sample(last->file, file)) {
        bool clip = !strcasecmp(vc_path_ext(file), ".mp4");
        free(clip ? last->file : copy);
        last->file = clip ? copy : last->file;
        last->bytes = size_of(dir, last->file);
        return;
    }
    shot *more = copy ? realloc(s->item, ((size_t)s->n + 1) * sizeof *more) : NULL;
    if (!more) {
        free(copy);
        return;
    }
    s->item = more;
    s->item[s->n++] = (shot){ .dir = strdup(dir), .file = copy, .prompt = prompt_of(dir, file),
                              .run = run, .step = step, .bytes = size_of(dir, file) };
    s->first = s->n == 1 || step < s->first ? step : s->first;
}

/* Adds the shots of a step's folder, and returns their number. */
static int add_shots(shots *s, int run, const char *validation, const char *folder)
{
    struct dirent **names = NULL;
    int64_t step = 0;
    int before = s->n;
    char *dir = vc_path_join(validation, folder);
    int n = dir ? scandir(dir, &names, picture_file, versionsort) : 0;
    is_step(folder, &step);
    for (int i = 0; i < n; i++)
        add_shot(s, run, step, dir, names[i]->d_name);
    free_names(names, n);
    free(dir);
    return s->n - before;
}

/* Finds the shots of a run's steps, or of its newest step that has some; returns the number of
 * steps that have samples. */
static int find_shots(shots *s, int run, const char *dir, bool all)
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

/* A whole picture file whose first bytes are of its kind; false without one of at most `room`
 * bytes. The caller frees data. */
static bool read_picture(char **data, size_t *n, const kind *k, const char *path, size_t room)
{
    *data = NULL;
    return !vc_file_read(data, n, path, room < MAX_FILE ? room : MAX_FILE, NULL) &&
           *n >= k->at + k->n && !memcmp(*data + k->at, k->magic, k->n);
}

/* Adds a picture to the open row or grid with `put` and returns its bytes in the page; 0 if the
 * file is no picture. */
static size_t add_picture(vf_html *h, const shot *s, const char *title, size_t room, put_fn put)
{
    const kind *k = kind_of(s->file);
    char *path = vc_path_join(s->dir, s->file), *data = NULL;
    size_t n = 0;
    bool good = path && read_picture(&data, &n, k, path, room);
    if (good)
        put(h, s, title, data, n, k->mime);
    free(data);
    free(path);
    return good ? n : 0;
}

/* The same for a served page, which names the picture by its address. */
static size_t add_address(vf_html *h, const shot *s, const char *of_run, const char *title,
                          put_fn put)
{
    const char *mime;
    vc_buf b = { 0 };
    int fd = vf_gallery_open(s->dir, s->file, &mime, NULL);
    if (fd < 0)
        return 0;
    h->size = vf_picture_size_of_file(fd);
    close(fd);
    vc_buf_str(&b, of_run);
    vc_buf_printf(&b, VF_GALLERY_FILES "/%s/", vc_path_base(s->dir));
    vf_gallery_escape(&b, s->file);
    char *address = vc_buf_take(&b);
    h->address = address;
    if (address)
        put(h, s, title, NULL, 0, mime);
    h->address = NULL;
    free(address);
    return address != NULL;
}

static void put_card(vf_html *h, const shot *s, const char *title, const void *data, size_t n,
                     const char *mime)
{
    (void)s;
    vf_html_card(h, data, n, mime, title, "");
}

static void put_step(vf_html *h, const shot *s, const char *title, const void *data, size_t n,
                     const char *mime)
{
    vf_html_step(h, data, n, mime, title, s->step);
}

/* ---- a run ---- */

/* What stands over a sample's row: its prompt, or its number where no prompt is known. */
static void put_heading(vf_html *h, const shot *s)
{
    char *text = *s->prompt ? strdup(s->prompt)
                            : vc_format("Sample %.*s", (int)strcspn(s->file, "-."), s->file);
    vf_html_steps(h, text ? text : "");
    free(text);
}

static void put_input(vf_html *h, const shot *s, const char *title, const void *data, size_t n,
                      const char *mime)
{
    (void)s;
    vf_html_input(h, data, n, mime, title);
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

typedef struct inputs {
    char *dir;                           /* DIR/validation/inputs */
    struct dirent **name;
    int n;
    size_t room;                         /* bytes that the page still has for inputs */
} inputs;

static inputs find_inputs(const char *dir)
{
    inputs in = { .dir = vc_format("%s/validation/" VF_GALLERY_INPUTS, dir),
                  .room = MAX_INPUTS };
    in.n = in.dir ? scandir(in.dir, &in.name, input_file, by_role) : 0;
    in.n = in.n < 0 ? 0 : in.n;
    return in;
}

static void free_inputs(inputs *in)
{
    free_names(in->name, in->n);
    free(in->dir);
}

/* Whether the inputs of the sample's number are of its prompt: prompts of a resumed run may be
 * others. */
static bool has_inputs(const inputs *in, const shot *of)
{
    char *path = in->n ? vc_format("%s/%.*s.safetensors", in->dir, (int)strcspn(of->file, "-."),
                                   of->file) : NULL;
    char *prompt = path && vc_file_exists(path) ? prompt_of(in->dir, of->file) : NULL;
    const bool same = prompt && !strcmp(prompt, of->prompt);
    free(prompt);
    free(path);
    return same;
}

/* Adds the inputs of a sample, a clip in place of its frames. */
static void put_inputs(vf_html *h, inputs *in, const shot *of, const char *of_run, put_fn put)
{
    if (!has_inputs(in, of))
        return;
    for (int i = 0; i < in->n; i++) {
        char title[40], *file = in->name[i]->d_name;
        if (!same_sample(file, of->file) || (i && same_input(file, in->name[i - 1]->d_name)))
            continue;
        for (int k = i + 1; k < in->n && same_input(file, in->name[k]->d_name); k++)
            if (!strcasecmp(vc_path_ext(in->name[k]->d_name), ".mp4"))
                file = in->name[k]->d_name;
        const shot one = { .dir = in->dir, .file = file };
        name_input(title, file);
        if (h->served)
            add_address(h, &one, of_run, title, put);
        else
            in->room -= add_picture(h, &one, title, in->room, put);
    }
}

/* The order of the page: samples by their numbers, then prompts, then steps. */
static int by_sample(const void *a, const void *b)
{
    const shot *x = a, *y = b;
    if (!same_sample(x->file, y->file))
        return strverscmp(x->file, y->file);
    const int prompt = strcmp(x->prompt ? x->prompt : "", y->prompt ? y->prompt : "");
    return prompt ? prompt : (x->step > y->step) - (x->step < y->step);
}

/* Leaves out the oldest steps but the first until the files fit into MAX_BYTES; returns their
 * number. A sample's first step is what it is compared with. */
static uint64_t leave_out(shots *s)
{
    uint64_t out = 0;
    int64_t sum = 0;
    for (int i = 0; i < s->n; i++)
        sum += s->item[i].bytes;
    while (sum > MAX_BYTES) {
        shot *oldest = NULL;
        for (int i = 0; i < s->n; i++) {
            shot *at = &s->item[i];
            if (!at->shown && at->step > s->first && (!oldest || at->step < oldest->step))
                oldest = at;
        }
        for (int i = 0; i < s->n && !oldest; i++)
            oldest = s->item[i].shown ? NULL : &s->item[i];
        if (!oldest)
            break;
        sum -= oldest->bytes;
        oldest->shown = true;
        out++;
    }
    return out;
}

static bool same_row(const shot *a, const shot *b)
{
    return same_sample(a->file, b->file) && !strcmp(a->prompt ? a->prompt : "",
                                                    b->prompt ? b->prompt : "");
}

/* Whether one slider for all rows has something to move: two rows with two pictures or more, and
 * three steps. */
static bool has_slider(const shots *s)
{
    int rows = 0, steps = 0;
    for (int i = 0, run = 0; i < s->n; i++) {
        const shot *at = &s->item[i];
        bool known = at->shown;
        for (int k = 0; !known && k < i; k++)
            known = !s->item[k].shown && s->item[k].step == at->step;
        steps += steps < 3 && !known;
        run = i && same_row(&s->item[i - 1], at) ? run + 1 : 1;
        rows += run == 2;
    }
    return rows > 1 && steps > 2;
}

/* Adds a row for each sample with its pictures by step, and counts those that cannot be shown. */
static void add_rows(vf_html *h, shots *s, inputs *in, uint64_t *left_out, uint64_t *shown)
{
    const shot *before = NULL;
    for (int i = 0; i < s->n; i++) {
        shot *at = &s->item[i];
        if (at->shown || !at->prompt || !at->dir)
            continue;
        if (!before || !same_row(before, at)) {
            put_heading(h, at);
            put_inputs(h, in, at, "", put_input);
        }
        char title[48];
        snprintf(title, sizeof title, "step %" PRId64, at->step);
        const bool good = h->served ? add_address(h, at, "", title, put_step)
                                    : add_picture(h, at, title, MAX_FILE, put_step);
        *(good ? shown : left_out) += 1;
        before = at;
    }
}

void vf_gallery(vf_html *h, const char *dir)
{
    shots s = { 0 };
    uint64_t shown = 0;
    vf_html_mark(h, MARK);
    const int steps = find_shots(&s, 0, dir, true);
    uint64_t left_out = h->served ? 0 : leave_out(&s);
    if (s.n)
        qsort(s.item, (size_t)s.n, sizeof *s.item, by_sample);
    inputs in = find_inputs(dir);
    if (has_slider(&s))
        vf_html_all_steps(h);
    add_rows(h, &s, &in, &left_out, &shown);
    free_inputs(&in);
    if (steps > 0 && !shown)
        vf_html_text(h, "There are validation samples, but no pictures yet: `vdecode` with this "
                     "folder decodes them and puts them here.");
    else if (!shown)
        vf_html_text(h, "No validation samples (--validation_steps).");
    else if (left_out)
        vf_html_text(h, "%" PRIu64 " more are only in validation/: this page holds %d MiB at most.",
                     left_out, MAX_BYTES >> 20);
    vf_html_mark(h, "/" MARK);
    shots_free(&s);
}

/* ---- several runs ---- */

/* The address of a run's pages, below that of the server, malloc'ed. */
static char *address_of_run(const char *name)
{
    vc_buf b = { 0 };
    vc_buf_str(&b, VF_GALLERY_RUN "/");
    vf_gallery_escape(&b, name);
    vc_buf_str(&b, "/");
    return vc_buf_take(&b);
}

static size_t show_shot(vf_html *h, shot *s, const char *name, size_t room)
{
    char *title = vc_format("%s, step %" PRId64, name, s->step);
    char *run = h->served ? address_of_run(name) : NULL;
    bool whole = title && s->dir && s->file;
    size_t took = 0;
    if (whole && run)
        add_address(h, s, run, title, put_card);
    else if (whole)
        took = add_picture(h, s, title, room, put_card);
    s->shown = true;
    free(run);
    free(title);
    return took;
}

/* Adds cards of the inputs that one of the runs has for a prompt. */
static void put_inputs_beside(vf_html *h, const shot *s, const char *dir, const char *name)
{
    char *run = h->served ? address_of_run(name) : NULL;
    inputs in = find_inputs(dir);
    if (run || !h->served)
        put_inputs(h, &in, s, run ? run : "", put_card);
    free_inputs(&in);
    free(run);
}

void vf_gallery_beside(vf_html *h, const char *const *dir, const char *const *name, int n)
{
    size_t room = MAX_BYTES;
    shots s = { 0 };
    for (int i = 0; i < n; i++)
        find_shots(&s, i, dir[i], false);
    for (int i = 0; i < s.n; i++) {
        const char *prompt = s.item[i].prompt;
        if (s.item[i].shown || !prompt)
            continue;
        if (*prompt)
            vf_html_text(h, "%s", prompt);
        else
            vf_html_text(h, "Sample %.*s", (int)strcspn(s.item[i].file, "-."), s.item[i].file);
        vf_html_grid(h, false);
        put_inputs_beside(h, &s.item[i], dir[s.item[i].run], name[s.item[i].run]);
        for (int k = i; k < s.n; k++)
            if (!s.item[k].shown && s.item[k].prompt && !strcmp(s.item[k].prompt, prompt) &&
                (*prompt || same_sample(s.item[k].file, s.item[i].file)))
                room -= show_shot(h, &s.item[k], name[s.item[k].run], room);
    }
    if (!s.n)
        vf_html_text(h, "No run has decoded validation samples: `vdecode RUN` decodes them.");
    shots_free(&s);
}

/* ---- replacing the gallery of a page ---- */

#define BEGIN "<!-- " MARK " -->\n"
#define END "<!-- /" MARK " -->\n"

int vf_gallery_update(const char *dir, vc_err *err)
{
    char *path = vc_path_join(dir, "report.html"), *page = NULL;
    vf_html *h = NULL;
    vc_buf made = { 0 };
    size_t n;

    if (!path)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", dir);
    if (!vc_file_exists(path)) {
        free(path);
        return 0;
    }
    int rc = vc_file_read(&page, &n, path, (size_t)1 << 30, err);
    char *begin = rc ? NULL : strstr(page, BEGIN), *end = begin ? strstr(begin, END) : NULL;
    if (end) {
        rc = vf_html_open(&h, "", err);
        if (!rc) {
            vf_gallery(h, dir);
            vc_buf_add(&made, page, (size_t)(begin - page));
            vc_buf_add(&made, h->body.data, h->body.n);
            vc_buf_str(&made, end + strlen(END));
            rc = made.failed || h->body.failed ? vc_fail(err, VC_ENOMEM, "%s: out of memory", path)
                                               : vc_file_write(path, made.data, made.n, err);
        }
    }
    vf_html_close(h);
    vc_buf_free(&made);
    free(page);
    free(path);
    return rc;
}
