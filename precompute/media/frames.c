/* frames.c - the pictures of a folder, in the order in which media.c reads them as a video, as in
 * musubi's video_path; see internal.h */
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/metadata/metadata.h"
#include "precompute/media/internal.h"

static int is_picture(const struct dirent *e)
{
    return *e->d_name != '.' && vf_type_of_name(e->d_name) == VF_TYPE_IMAGE;
}

/* ---- the order of the frames ---- */

/* The stem of a frame's name. */
typedef struct stem {
    const char *s;
    size_t n;
} stem;

static stem stem_of(const char *path)
{
    const char *name = vc_path_base(path);
    return (stem){ name, (size_t)(vc_path_ext(name) - name) };
}

static bool is_digit(stem a, size_t i)
{
    return i < a.n && a.s[i] >= '0' && a.s[i] <= '9';
}

/* True for a '-' before a digit that is a sign: at the begin, or after one of the marks that
 * separate a frame's number. Elsewhere it is such a mark itself, as in shot-1_frame-10. */
static bool is_minus(stem a, size_t i)
{
    return i < a.n && a.s[i] == '-' && is_digit(a, i + 1)
           && (!i || a.s[i - 1] == '_' || a.s[i - 1] == '.');
}

/* Moves *i behind the number that begins there, and returns its digits without leading zeros. */
static stem take_number(stem a, size_t *i, bool *minus)
{
    *minus = is_minus(a, *i);
    *i += *minus;
    while (is_digit(a, *i) && a.s[*i] == '0')
        ++*i;
    stem digits = { a.s + *i, 0 };
    for (; is_digit(a, *i); ++*i)
        digits.n++;
    *minus &= digits.n > 0;
    return digits;
}

/* Numbers of any length are compared, so their digits are. */
static int compare_numbers(stem a, size_t *i, stem b, size_t *j)
{
    bool am, bm;
    stem x = take_number(a, i, &am), y = take_number(b, j, &bm);
    int d = x.n != y.n ? (x.n > y.n) - (x.n < y.n) : memcmp(x.s, y.s, x.n);

    return am != bm ? bm - am : am ? -d : d;
}

/* Natural order: numbers by their value, other characters by their byte. */
static int compare_natural(stem a, stem b)
{
    for (size_t i = 0, j = 0;;) {
        bool x = is_digit(a, i) || is_minus(a, i), y = is_digit(b, j) || is_minus(b, j);
        int d;
        if (x && y) {
            if ((d = compare_numbers(a, &i, b, &j)))
                return d;
            continue;
        }
        int ca = x ? '0' : i < a.n ? (unsigned char)a.s[i] : 0;
        int cb = y ? '0' : j < b.n ? (unsigned char)b.s[j] : 0;
        if (ca != cb || !ca)
            return ca - cb;
        i++, j++;
    }
}

static int by_number(const void *a, const void *b)
{
    return compare_natural(stem_of(*(char *const *)a), stem_of(*(char *const *)b));
}

static int by_bytes(const void *a, const void *b)
{
    stem x = stem_of(*(char *const *)a), y = stem_of(*(char *const *)b);
    int d = memcmp(x.s, y.s, x.n < y.n ? x.n : y.n);
    return d ? d : (x.n > y.n) - (x.n < y.n);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(vc_path_base(*(char *const *)a), vc_path_base(*(char *const *)b));
}

/* True for names like 000f.png, hexadecimal numbers of one length, whose order is bytewise. */
static bool are_hexadecimal(const media_frames *f)
{
    for (int i = 0; i < f->n; i++) {
        stem a = stem_of(f->path[i]);
        if (a.n != stem_of(f->path[0]).n)
            return false;
        for (size_t k = 0; k < a.n; k++)
            if (!isxdigit((unsigned char)a.s[k]))
                return false;
    }
    return true;
}

/* Sorts the frames. Two frames of one number, as 1.png and 01.png, are refused, because two
 * sequences would be interleaved. */
static int sort(media_frames *f, vc_err *err)
{
    int (*compare)(const void *a, const void *b) = are_hexadecimal(f) ? by_bytes : by_number;

    qsort(f->path, (size_t)f->n, sizeof *f->path, by_name);
    for (int i = 1; i < f->n; i++)
        f->reordered |= compare(&f->path[i - 1], &f->path[i]) > 0;
    if (f->reordered)
        qsort(f->path, (size_t)f->n, sizeof *f->path, compare);
    for (int i = 1; i < f->n; i++)
        if (!compare(&f->path[i - 1], &f->path[i]))
            return vc_fail(err, VC_EFORMAT, "%s and %s have the same number: which is the frame? "
                           "Remove one", vc_path_base(f->path[i - 1]), vc_path_base(f->path[i]));
    return 0;
}

int media_frames_list(media_frames *f, const char *folder, vc_err *err)
{
    struct dirent **name = NULL;
    int n = scandir(folder, &name, is_picture, NULL), rc = 0;

    *f = (media_frames){ 0 };
    if (n < 0)
        return vc_fail_errno(err, "cannot open");
    if (!(f->path = calloc((size_t)n + 1, sizeof *f->path)))
        rc = vc_no_memory(err);
    for (int i = 0; i < n; i++) {
        if (!rc && !(f->path[f->n++] = vc_path_join(folder, name[i]->d_name)))
            rc = vc_no_memory(err);
        free(name[i]);
    }
    free(name);
    if (!rc && !n)
        rc = vc_fail(err, VC_EFORMAT, "a folder without pictures: a video may be a file, or a "
                     "folder of its frames");
    if (!rc)
        rc = sort(f, err);
    if (rc)
        media_frames_free(f);
    return rc;
}

void media_frames_free(media_frames *f)
{
    for (int i = 0; i < f->n; i++)
        free(f->path[i]);
    free(f->path);
    *f = (media_frames){ 0 };
}
