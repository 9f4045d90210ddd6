/* thumb.c - a sample's thumbnail, drawn where the terminal can. libjpeg-turbo is loaded only
 * when there is something to draw: vlat links no decoder. */
#include "formats/vlat/vlat.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/report/term.h"

#define LIBRARY "libturbojpeg.so.0"

enum { MAX_SIDE = 2048, TJ_RGB = 0 };        /* thumbnails are at most 1024 */

/* What is called of TurboJPEG's API, which is the same in 1.x to 3.x. */
typedef struct turbojpeg {
    void *library;
    void *(*open)(void);
    int (*header)(void *, const unsigned char *, unsigned long, int *w, int *h, int *, int *);
    int (*decode)(void *, const unsigned char *, unsigned long, unsigned char *, int w, int pitch,
                  int h, int format, int flags);
    int (*close)(void *);
} turbojpeg;

static bool find(void *library, const char *name, void *function)
{
    void *at = dlsym(library, name);
    memcpy(function, &at, sizeof at);
    return at;
}

static bool load(turbojpeg *t)
{
    t->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    return t->library && find(t->library, "tjInitDecompress", &t->open) &&
           find(t->library, "tjDecompressHeader3", &t->header) &&
           find(t->library, "tjDecompress2", &t->decode) &&
           find(t->library, "tjDestroy", &t->close);
}

/* The pixels [h,w,3] in malloc'ed memory, or NULL and *why. */
static uint8_t *decode(const turbojpeg *t, const uint8_t *jpeg, size_t n, int *w, int *h,
                       const char **why)
{
    int sampling, space;
    uint8_t *rgb = NULL;
    void *decoder = t->open();

    *why = "no JPEG that can be decoded";
    if (decoder && !t->header(decoder, jpeg, n, w, h, &sampling, &space) && *w > 0 && *h > 0 &&
        *w <= MAX_SIDE && *h <= MAX_SIDE)
        rgb = malloc(3 * (size_t)*w * (size_t)*h);
    if (rgb && t->decode(decoder, jpeg, n, rgb, *w, 0, *h, TJ_RGB, 0)) {
        free(rgb);
        rgb = NULL;
    }
    if (decoder)
        t->close(decoder);
    return rgb;
}

static vf_term wanted(const vlat *v)
{
    if (v->o->draw)
        return (vf_term)(v->o->draw - 1);
    return isatty(fileno(v->out)) ? vf_term_of(getenv) : VF_TERM_NONE;
}

void vlat_draw(const vlat *v, const void *jpeg, size_t n)
{
    vf_term how = wanted(v);
    turbojpeg t = { 0 };
    const char *why = "it takes " LIBRARY;
    uint8_t *rgb = NULL;
    vc_buf b = { 0 };
    int w, h;

    if (how == VF_TERM_NONE)
        return;
    if (load(&t))
        rgb = decode(&t, jpeg, n, &w, &h, &why);
    if (rgb)
        vf_term_draw(&b, how, rgb, w, h, vf_term_columns(getenv));
    if (rgb && !b.failed)
        fwrite(b.data, 1, b.n, v->out);
    else
        fprintf(v->out, "not drawn: %s\n", rgb ? "out of memory" : why);
    vc_buf_free(&b);
    free(rgb);
    if (t.library)
        dlclose(t.library);
}
