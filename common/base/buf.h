/* buf.h - bytes that grow at their end. An all-zero vc_buf is an empty one. Running out of memory
 * sticks: later calls do nothing, and vc_buf_take gives NULL. One thread at a time. */
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

/* Room for more bytes at data + n (the caller writes them and adds to n), or NULL. */
char *vc_buf_room(vc_buf *b, size_t more);
void vc_buf_add(vc_buf *b, const void *p, size_t n);
static inline void vc_buf_str(vc_buf *b, const char *s)     /* inline: literals know their length */
{
    vc_buf_add(b, s, strlen(s));
}
void vc_buf_printf(vc_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* n bytes as a JSON string with its quotes: control characters escaped, UTF-8 kept, bytes that
 * are no UTF-8 replaced by U+FFFD. */
void vc_buf_json(vc_buf *b, const char *s, size_t n);
void vc_buf_base64(vc_buf *b, const void *data, size_t n);

void vc_buf_int(vc_buf *b, int64_t v);
/* The shortest digits that read back the same; NaN and infinity as null. */
void vc_buf_number(vc_buf *b, double v);

/* The bytes with a NUL after them, to be freed by the caller, or NULL; b is empty again. */
char *vc_buf_take(vc_buf *b);
void vc_buf_free(vc_buf *b);

#endif
