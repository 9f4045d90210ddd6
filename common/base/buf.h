/* buf.h - a growing buffer of bytes. An all-zero vc_buf is an empty one. After a call that runs out
 * of memory later calls do nothing, and vc_buf_take returns NULL. One thread at a time uses a
 * buffer.
 *
 * Arrays of other types grow by realloc where they stand: most of those places have an error, a
 * limit or a first size of their own, so that a shared function would save two lines in each. */
#ifndef COMMON_BASE_BUF_H
#define COMMON_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct vc_buf {
    char *data;                /* not NUL-terminated until taken */
    size_t n, cap;
    bool failed;
} vc_buf;

/* Makes room for `more` bytes and returns their address, data + n, or NULL. The caller writes the
 * bytes and adds to n. */
char *vc_buf_room(vc_buf *b, size_t more);
void vc_buf_add(vc_buf *b, const void *p, size_t n);
static inline void vc_buf_str(vc_buf *b, const char *s)     /* inline: literals know their length */
{
    vc_buf_add(b, s, strlen(s));
}
void vc_buf_printf(vc_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Adds n bytes as a JSON string with its quotes: control characters are escaped, UTF-8 is kept,
 * bytes that are no UTF-8 are replaced by U+FFFD. */
void vc_buf_json(vc_buf *b, const char *s, size_t n);
/* Adds a word as a shell takes it: in single quotes, unless it has harmless letters only. */
void vc_buf_shell(vc_buf *b, const char *s);
void vc_buf_base64(vc_buf *b, const void *data, size_t n);

void vc_buf_int(vc_buf *b, int64_t v);
/* Adds the shortest decimal that reads back as v, or "null" for NaN and infinity. */
void vc_buf_number(vc_buf *b, double v);

/* Returns the bytes with a NUL after them, which the caller frees, or NULL; b is empty again. */
char *vc_buf_take(vc_buf *b);
void vc_buf_free(vc_buf *b);

#endif
