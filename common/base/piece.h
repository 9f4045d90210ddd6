/* piece.h - a part of a buffer, where data is exchanged between processes. */
#ifndef COMMON_BASE_PIECE_H
#define COMMON_BASE_PIECE_H

#include <stddef.h>

/* n bytes that begin `at` bytes after an address. */
typedef struct vc_piece { size_t at, n; } vc_piece;

#endif
