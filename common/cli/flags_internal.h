/* flags_internal.h - what the parts of the flag parser share: flags.c (command line), config.c
 * (YAML), flags_value.c (text and values), flags_lines.c (notes, and what is wrong), flags_help.c
 * (--help, --version). Nobody else includes it. */
#ifndef COMMON_CLI_FLAGS_INTERNAL_H
#define COMMON_CLI_FLAGS_INTERNAL_H

#include "common/cli/flags.h"

enum { VC_MOST_FAULTS = 100 };      /* a file that is no list of flags has as many as lines */

/* where a value came from; a higher one wins */
enum { VC_FROM_DEFAULT, VC_FROM_LIKE, VC_FROM_FILE, VC_FROM_WORDS };

/* A line for the user. Lines of which the same is to be said are one, with all their names. */
typedef struct vc_line {
    const char *say, *file;         /* borrowed; say NULL: the line is alone */
    char *names;                    /* "--rank, --lr" */
    char *text;                     /* all of it */
} vc_line;

typedef struct vc_lines {
    vc_line *line;
    int n;
} vc_lines;

struct vc_flags {
    const vc_program *prog;
    char *options;
    unsigned char (*from)[2];       /* [row][half of a pair, else 0] */
    bool *bad;                      /* [row]: a value of it was refused */
    const char *config;             /* of --config */
    struct vc_kept *kept;           /* all memory that values point into */
    vc_lines notes, wrong;
    int faults;                     /* things in `wrong`; reading ends at VC_MOST_FAULTS */
    bool lost;                      /* there was no memory for one of them */
    vc_list words;
    vc_list typed;                  /* names as they were written */
};

/* A name looked up: part is -1, or the half of a pair that the name stands for. */
typedef struct vc_found {
    const vc_flag *flag;
    int part;
    bool negated;                   /* no_NAME */
} vc_found;

/* The next name of a blank-separated list: its length in *len, NULL at the end. Of "height:0" the
 * name is "height" and *part 0; of a name without ':' *part is -1. */
const char *vc_flags_next_name(const char **list, size_t *len, int *part);
bool vc_flags_same_name(const char *a, size_t n, const char *b, size_t m);
bool vc_flags_find(const vc_program *prog, const char *name, size_t len, vc_found *found);
/* negated: it was found as no_NAME. */
const vc_foreign *vc_flags_find_foreign(const vc_program *prog, const char *name, size_t len,
                                        bool *negated);

/* help, version, config: names that every program has. */
bool vc_flags_builtin_name(const char *name, size_t len);

/* Remembers that the flag was given by this name. */
int vc_flags_type(vc_flags *set, const char *name, size_t len, vc_err *err);

/* n bytes that live as long as the set; NULL when out of memory. */
void *vc_flags_keep(vc_flags *set, size_t n);
char *vc_flags_keep_text(vc_flags *set, const char *s, size_t n);

/* Puts n texts (2 for a pair given as two words, else 1) where the flag's value belongs, unless a
 * higher source has set it: then they are only checked. found->negated needs no text.
 * The error says "\"7\" is out of range: 0 to 1", the caller puts the flag in front. */
int vc_flags_set(vc_flags *set, const vc_found *found, const char *const *text, int n, int from,
                 vc_err *err);
/* Where a flag stands, for messages: "--rank", or "FILE: line 3: rank". */
typedef struct vc_place {
    const char *file;               /* NULL: the command line */
    size_t line;
    char name[100];                 /* "rank"; "": the line as a whole */
} vc_place;
/* As above for a foreign flag: a note, or what is wrong. value may be NULL. */
int vc_flags_set_foreign(vc_flags *set, const vc_foreign *f, const vc_place *at, bool negated,
                         const char *value, vc_err *err);
/* "unknown flag", with the nearest one; dashes: "--" or "". */
int vc_flags_unknown(const vc_program *prog, const char *dashes, const char *name, size_t len,
                     vc_err *err);

/* flags_lines.c: adds a line, NAMES: BETWEEN SAY, or joins the one of the same file and say. */
void vc_flags_line(vc_flags *set, vc_lines *lines, const vc_place *at, const char *between,
                   const char *say);

/* Takes a failure of VC_EUSAGE as a thing that is wrong, of flag f unless it is NULL, and returns
 * 0; any other code is returned. */
int vc_flags_take(vc_flags *set, const vc_place *at, const vc_flag *f, int rc, const vc_err *err);
void vc_flags_free_lines(vc_lines *lines);

/* flags_value.c: one text to *dst, an object of the flag's kind (of a pair: both halves, or one
 * where part >= 0; of a list: appended). Strings are kept in the set. */
int vc_flags_value(vc_flags *set, const vc_flag *f, int part, const char *text, void *dst,
                   vc_err *err);
/* Whether the flag's value is "without a value", so that the settings leave it out. */
bool vc_flags_no_value(const vc_flag *f, const void *src);
/* The value of a flag (no string or list) as text. */
void vc_flags_text(const vc_flag *f, const void *src, char *buf, size_t size);
/* Item `index` of "a|b|c": its length in *len, or NULL past the last. */
const char *vc_flags_choice(const char *allowed, int index, size_t *len);
/* The choice that switches a VC_OPTIONAL off, or -1. */
int vc_flags_off(const vc_flag *f);
/* "1.." -> "1 or more"; "" where any number will do. */
void vc_flags_range_text(const char *allowed, char *buf, size_t size);
/* Text for a message: cut, one line, in quotes. */
typedef struct vc_quoted {
    char s[80];
} vc_quoted;
vc_quoted vc_flags_quote(const char *s, size_t len);

/* config.c: applies the file's settings. */
int vc_flags_read_config(vc_flags *set, const char *path, vc_err *err);

/* flags_help.c */
void vc_flags_help(const vc_program *prog, FILE *out);
void vc_flags_version(const vc_program *prog, FILE *out);

#endif
