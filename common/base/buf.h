/* buf.h - bytes that grow at their end. An all-zero vf_buf is an empty one. Running out of memory
 * sticks: later calls do nothing, and vf_buf_take gives NULL. One thread at a time. */
#ifndef VF_BUF_H
#define VF_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct vf_buf {
    char *data;                /* not NUL-terminated until taken */
    size_t n, cap;
    bool failed;
} vf_buf;

/* Room for more bytes at data + n (the caller writes them and adds to n), or NULL. */
char *vf_buf_room(vf_buf *b, size_t more);
void vf_buf_add(vf_buf *b, const void *p, size_t n);
static inline void vf_buf_str(vf_buf *b, const char *s)     /* inline: literals know their length */
{
    vf_buf_add(b, s, strlen(s));
}
void vf_buf_printf(vf_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* n bytes as a JSON string with its quotes: control characters escaped, UTF-8 kept, bytes that
 * are no UTF-8 replaced by U+FFFD. */
void vf_buf_json(vf_buf *b, const char *s, size_t n);
void vf_buf_base64(vf_buf *b, const void *data, size_t n);

void vf_buf_int(vf_buf *b, int64_t v);
/* The shortest digits that read back the same; NaN and infinity as null. */
void vf_buf_number(vf_buf *b, double v);

/* The bytes with a NUL after them, to be freed by the caller, or NULL; b is empty again. */
char *vf_buf_take(vf_buf *b);
void vf_buf_free(vf_buf *b);

#endif
