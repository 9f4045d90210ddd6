/* entities.h - HTML's names and numbers of characters, as Python's html.unescape reads them. */
#ifndef PRECOMPUTE_TEXT_ENTITIES_H
#define PRECOMPUTE_TEXT_ENTITIES_H

#include <stddef.h>

#include "common/base/buf.h"

/* Each adds the character of the reference whose ampersand stands before s ("amp;"), or whose "&#"
 * does ("39;"), and returns the reference's bytes behind that; 0: there is no reference. */
size_t text_named(vc_buf *out, const char *s);
size_t text_numbered(vc_buf *out, const char *s);

/* Returns the text of the n bytes of name s, which a semicolon would follow; NULL: it is none. */
const char *text_entity(const char *s, size_t n);

#endif
