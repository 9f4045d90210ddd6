/* gallery.c - see gallery.h */
#include "formats/report/gallery.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/os/file.h"
#include "formats/report/html_parts.h"
#include "formats/report/shots.h"

#define MARK "validation"

enum { MAX_BYTES = 48 << 20, MAX_INPUTS = 16 << 20 };

/* ---- pictures ---- */

void vf_gallery_escape(vc_buf *b, const char *name)
{
    for (const unsigned char *s = (const unsigned char *)name; *s; s++)
        vc_buf_printf(b, isalnum(*s) || strchr("-._~/", *s) ? "%c" : "%%%02X", *s);
}

/* Adds a picture with this title to the page. */
typedef void (*put_fn)(vf_html *h, const vf_shot *s, const char *title, const void *data, size_t n,
                       const char *mime);

/* Adds a picture to the open row or grid with `put` and returns its bytes in the page; 0 if the
 * file is no picture. */
static size_t add_picture(vf_html *h, const vf_shot *s, const char *title, size_t room, put_fn put)
{
    char *data;
    size_t n = 0;
    const char *mime = vf_shots_read(s, room, &data, &n);
    if (mime)
        put(h, s, title, data, n, mime);
    free(data);
    return mime ? n : 0;
}

/* The same for a served page, which names the picture by its address. */
static size_t add_address(vf_html *h, const vf_shot *s, const char *of_run, const char *title,
                          put_fn put)
{
    const char *mime;
    vc_buf b = { 0 };
    int fd = vf_shots_open(s->dir, s->file, &mime, NULL);
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

static void put_wave(vf_html *h, const vf_shot *s, const char *title, const void *data, size_t n,
                     const char *mime)
{
    (void)s;
    vf_html_wave(h, data, n, mime, title);
}

/* Adds the wave of the clip that comes next, of at most `room` bytes, and returns its bytes. */
static size_t add_wave(vf_html *h, const vf_shot *s, const char *of_run, size_t room)
{
    const char *title = "wave of the sound";
    h->wave.n = 0;                             /* of a clip that could not be read */
    if (!s->wave)
        return 0;
    const vf_shot one = { .dir = s->dir, .file = s->wave };
    if (h->served)
        add_address(h, &one, of_run, title, put_wave);
    return h->served ? 0 : add_picture(h, &one, title, room, put_wave);
}

static void put_card(vf_html *h, const vf_shot *s, const char *title, const void *data, size_t n,
                     const char *mime)
{
    (void)s;
    vf_html_card(h, data, n, mime, title, "");
}

static void put_step(vf_html *h, const vf_shot *s, const char *title, const void *data, size_t n,
                     const char *mime)
{
    vf_html_step(h, data, n, mime, title, s->step);
}

/* ---- a run ---- */

/* What stands over a sample's row: its prompt, or its number where no prompt is known. */
static void put_heading(vf_html *h, const vf_shot *s)
{
    char *text = *s->prompt ? strdup(s->prompt)
                            : vc_format("Sample %.*s", (int)strcspn(s->file, "-."), s->file);
    vf_html_steps(h, text ? text : "");
    free(text);
}

static void put_input(vf_html *h, const vf_shot *s, const char *title, const void *data, size_t n,
                      const char *mime)
{
    (void)s;
    vf_html_input(h, data, n, mime, title);
}

/* Adds the inputs of a sample, of at most *room bytes, which is left smaller. */
static void put_inputs(vf_html *h, const vf_inputs *in, const vf_shot *of, const char *of_run,
                       size_t *room, put_fn put)
{
    char title[40], *file;
    if (!vf_inputs_has(in, of))
        return;
    for (int i = 0; (file = vf_inputs_next(in, of, &i, title));) {
        const vf_shot one = { .dir = in->dir, .file = file };
        if (h->served)
            add_address(h, &one, of_run, title, put);
        else
            *room -= add_picture(h, &one, title, *room, put);
    }
}

/* The order of the page: samples by their numbers, then prompts, then steps. */
static int by_sample(const void *a, const void *b)
{
    const vf_shot *x = a, *y = b;
    if (!vf_shots_same(x->file, y->file))
        return strverscmp(x->file, y->file);
    const int prompt = strcmp(x->prompt ? x->prompt : "", y->prompt ? y->prompt : "");
    return prompt ? prompt : (x->step > y->step) - (x->step < y->step);
}

/* Leaves out the oldest steps but the first until the files fit into MAX_BYTES; returns their
 * number. A sample's first step is what it is compared with. */
static uint64_t leave_out(vf_shots *s)
{
    uint64_t out = 0;
    int64_t sum = 0;
    for (int i = 0; i < s->n; i++)
        sum += s->item[i].bytes;
    while (sum > MAX_BYTES) {
        vf_shot *oldest = NULL;
        for (int i = 0; i < s->n; i++) {
            vf_shot *at = &s->item[i];
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

static bool same_row(const vf_shot *a, const vf_shot *b)
{
    return vf_shots_same(a->file, b->file) && !strcmp(a->prompt ? a->prompt : "",
                                                    b->prompt ? b->prompt : "");
}

/* Whether one slider for all rows has something to move: two rows with two pictures or more, and
 * three steps. */
static bool has_slider(const vf_shots *s)
{
    int rows = 0, steps = 0;
    for (int i = 0, run = 0; i < s->n; i++) {
        const vf_shot *at = &s->item[i];
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
static void add_rows(vf_html *h, vf_shots *s, const vf_inputs *in, uint64_t *left_out,
                     uint64_t *shown)
{
    size_t room = MAX_INPUTS;
    const vf_shot *before = NULL;
    for (int i = 0; i < s->n; i++) {
        vf_shot *at = &s->item[i];
        if (at->shown || !at->prompt || !at->dir)
            continue;
        if (!before || !same_row(before, at)) {
            put_heading(h, at);
            put_inputs(h, in, at, "", &room, put_input);
        }
        char title[48];
        snprintf(title, sizeof title, "step %" PRId64, at->step);
        add_wave(h, at, "", SIZE_MAX);
        const bool good = h->served ? add_address(h, at, "", title, put_step)
                                    : add_picture(h, at, title, SIZE_MAX, put_step);
        *(good ? shown : left_out) += 1;
        before = at;
    }
}

void vf_gallery(vf_html *h, const char *dir)
{
    vf_shots s = { 0 };
    uint64_t shown = 0;
    vf_html_mark(h, MARK);
    const int steps = vf_shots_find(&s, 0, dir, true);
    uint64_t left_out = h->served ? 0 : leave_out(&s);
    if (s.n)
        qsort(s.item, (size_t)s.n, sizeof *s.item, by_sample);
    vf_inputs in = vf_inputs_find(dir);
    if (has_slider(&s))
        vf_html_all_steps(h);
    add_rows(h, &s, &in, &left_out, &shown);
    vf_inputs_free(&in);
    if (steps > 0 && !shown)
        vf_html_text(h, "There are validation samples, but no pictures yet: `vdecode` with this "
                     "folder decodes them and puts them here.");
    else if (!shown)
        vf_html_text(h, "No validation samples (--validation_steps).");
    else if (left_out)
        vf_html_text(h, "%" PRIu64 " more are only in validation/: this page holds %d MiB at most.",
                     left_out, MAX_BYTES >> 20);
    vf_html_mark(h, "/" MARK);
    vf_shots_free(&s);
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

static size_t show_shot(vf_html *h, vf_shot *s, const char *name, size_t room)
{
    char *title = vc_format("%s, step %" PRId64, name, s->step);
    char *run = h->served ? address_of_run(name) : NULL;
    bool whole = title && s->dir && s->file;
    size_t took = whole && (run || !h->served) ? add_wave(h, s, run, room) : 0;
    if (whole && run)
        add_address(h, s, run, title, put_card);
    else if (whole)
        took += add_picture(h, s, title, room - took, put_card);
    s->shown = true;
    free(run);
    free(title);
    return took;
}

/* Adds cards of the inputs that one of the runs has for a prompt. */
static void put_inputs_beside(vf_html *h, const vf_shot *s, const char *dir, const char *name)
{
    size_t room = MAX_INPUTS;
    char *run = h->served ? address_of_run(name) : NULL;
    vf_inputs in = vf_inputs_find(dir);
    if (run || !h->served)
        put_inputs(h, &in, s, run ? run : "", &room, put_card);
    vf_inputs_free(&in);
    free(run);
}

void vf_gallery_beside(vf_html *h, const char *const *dir, const char *const *name, int n)
{
    size_t room = MAX_BYTES;
    vf_shots s = { 0 };
    for (int i = 0; i < n; i++)
        vf_shots_find(&s, i, dir[i], false);
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
                (*prompt || vf_shots_same(s.item[k].file, s.item[i].file)))
                room -= show_shot(h, &s.item[k], name[s.item[k].run], room);
    }
    if (!s.n)
        vf_html_text(h, "No run has decoded validation samples: `vdecode RUN` decodes them.");
    vf_shots_free(&s);
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
