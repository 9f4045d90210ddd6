/* ptx_words.h - what the two files that read PTX share: statements, operands, variables. */
#ifndef TESTS_DEVICE_PTX_WORDS_H
#define TESTS_DEVICE_PTX_WORDS_H

#include "tests/device/ptx_code.h"

/* The registers of one declaration: .reg .b32 %r<76>. */
typedef struct ptx_bank {
    char prefix[32];
    int first, count;
} ptx_bank;

typedef struct ptx_label {
    char name[48];
    int at;
} ptx_label;

enum { PTX_SLOT_BITS = 16 };                   /* of the table that finds constants */
enum { PTX_BANKS = 64, PTX_SCOPES = 8 };       /* declarations and nested scopes of a function */

typedef struct ptx_reader {
    ptx *p;
    int *slot;                                 /* number of the constant + 1 */
    const char *at;
    int line;
    ptx_function *f;
    ptx_bank bank[PTX_BANKS];
    int banks;
    ptx_label *label;
    int labels, label_room;
    struct { int ins; char name[48]; } *jump;
    int jumps, jump_room;
    vc_err *err;
    int rc;
} ptx_reader;

/* The first error sticks to the reader. */
__attribute__((format(printf, 2, 3))) void ptx_fault(ptx_reader *r, const char *fmt, ...);

/* Skips spaces and comments. */
void ptx_skip(ptx_reader *r);
/* Copies a statement up to one of `ends` outside of brackets, with spaces for line ends. */
void ptx_statement(ptx_reader *r, char *to, size_t n, const char *ends);
/* Splits at commas outside of brackets and trims spaces; the parts point into s. */
int ptx_split(char *s, char **part, int most);

/* Returns the index of a function's variable, or -1; adds one, unless it is there already. */
int ptx_place_of(const ptx_function *f, const char *name);
int ptx_place_add(ptx_reader *r, ptx_function *f, const char *name, int64_t bytes);

/* Reads one operand; or {a, b}, of which it returns the number; or [a + 8] into x. */
int ptx_operand(ptx_reader *r, const char *s);
int ptx_operands(ptx_reader *r, char *s, int *to);
void ptx_address(ptx_reader *r, ptx_ins *x, char *s);

#endif
