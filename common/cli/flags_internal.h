/* flags_internal.h - shared by the parts of the flag parser: flags.c (command line), flags_set.c
 * (storing values), config.c (YAML), flags_names.c (finding a flag), flags_given.c (questions about
 * flags), flags_value.c (text and values), flags_lines.c (notes, and what is wrong), flags_help.c
 * (--help, --version), flags_check.c (the table), flags_keep.c (memory), and config_internal.h
 * (other trainers' files). No other file includes this header. */
#ifndef COMMON_CLI_FLAGS_INTERNAL_H
#define COMMON_CLI_FLAGS_INTERNAL_H

#include "common/cli/flags.h"

enum { VC_MOST_FAULTS = 100 };      /* a file that is no list of flags has as many as lines */

/* Sources of a value; a higher one takes precedence. */
enum { VC_FROM_DEFAULT, VC_FROM_LIKE, VC_FROM_FILE, VC_FROM_WORDS };

/* A line for the user. Flags with the same text share one line, which has all their names. */
typedef struct vc_line {
    const char *say, *file;         /* borrowed; say NULL: the line is not shared */
    char *names;                    /* "--rank, --lr" */
    char *text;                     /* the whole line */
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
    const char *config;             /* value of --config */
    void (*said)(const vc_program *prog, const char *topic, FILE *out);   /* writes help or version;
                                     * else NULL */
    const char *topic;              /* the word after --help, or NULL */
    struct vc_kept *kept;           /* all memory that values point to */
    vc_lines notes, wrong;
    vc_lines meaning;               /* commands that another trainer's file stands for */
    bool *told;                     /* they were asked for as notes */
    int faults;                     /* errors in `wrong`; reading ends at VC_MOST_FAULTS */
    bool lost;                      /* memory for a line was missing */
    bool unread;                    /* flags of a file, or of further words, were not read */
    vc_list words;
    vc_list typed;                  /* names of flags as they were typed */
};

/* A flag found by its name: part is -1, or the half of a pair that the name stands for. */
typedef struct vc_found {
    const vc_flag *flag;
    int part;
    bool negated;                   /* no_NAME */
} vc_found;

/* Returns the next name of a blank-separated list, with its length in *len; NULL at the end. Of
 * "height:0" the name is "height" and *part 0; of a name without ':' *part is -1. */
const char *vc_flags_next_name(const char **list, size_t *len, int *part);
bool vc_flags_same_name(const char *a, size_t n, const char *b, size_t m);
/* Returns the name of our flag where `name` is another program's for it (vc_program.renamed), else
 * name. */
const char *vc_flags_renamed(const vc_program *prog, const char *name, size_t *len);
bool vc_flags_find(const vc_program *prog, const char *name, size_t len, vc_found *found);
/* Finds a flag of other programs that is not the program's own. negated: it was given as
 * no_NAME. */
const vc_foreign *vc_flags_find_foreign(const vc_program *prog, const char *name, size_t len,
                                        bool *negated);

/* Whether a name is a flag's, or one of its aliases; sets *part as vc_flags_next_name does. */
bool vc_flags_has_name(const vc_flag *f, const char *name, size_t len, int *part);
/* Finds a flag in one table of other programs' flags, as vc_flags_find_foreign does in all. */
const vc_foreign *vc_flags_find_in(const vc_foreign *table, const char *name, size_t len,
                                   bool *negated);

bool vc_flags_is_name(const char *name, size_t len, const char *what);
/* Returns true if the name is help, version or config, which every program has. */
bool vc_flags_builtin_name(const char *name, size_t len);

/* Remembers that the flag was given by this name. */
int vc_flags_type(vc_flags *set, const char *name, size_t len, vc_err *err);

/* Allocates n bytes that live as long as the set; NULL when out of memory. */
void *vc_flags_keep(vc_flags *set, size_t n);
char *vc_flags_keep_text(vc_flags *set, const char *s, size_t n);
void vc_flags_drop_kept(vc_flags *set);          /* frees all of it */

/* Holds a value of any kind. */
typedef union vc_any_value {
    bool b;
    int64_t i[2];
    double d;
    char *s;
    int c;
    vc_dtype t;
    vc_list l;
} vc_any_value;

/* Converts n texts (2 for a pair given as two words, else 1) and stores them as the flag's value.
 * If a higher source has set the value, they are only checked. found->negated needs no text. The
 * error says "\"7\" is out of range: 0 to 1"; the caller puts the flag in front. */
int vc_flags_set(vc_flags *set, const vc_found *found, const char *const *text, int n, int from,
                 vc_err *err);
/* The place of a flag, for messages: "--rank", or "FILE: line 3: rank". */
typedef struct vc_place {
    const char *file;               /* NULL: the command line */
    size_t line;
    char name[100];                 /* "rank"; "": the line as a whole */
} vc_place;
/* Adds the note or the error that a foreign flag gets. value may be NULL. */
int vc_flags_set_foreign(vc_flags *set, const vc_foreign *f, const vc_place *at, bool negated,
                         const char *value, vc_err *err);
/* Fails with "unknown flag" and the nearest known one; dashes: "--" or "". */
int vc_flags_unknown(const vc_program *prog, const char *dashes, const char *name, size_t len,
                     vc_err *err);

/* flags_lines.c: adds a line "NAMES: BETWEEN SAY", or the name to a line of the same file and
 * say. */
void vc_flags_line(vc_flags *set, vc_lines *lines, const vc_place *at, const char *between,
                   const char *say);

/* Adds a command that a file stands for: a note, which is also reported beside errors. */
void vc_flags_meaning(vc_flags *set, const char *text);
/* Adds a failure of VC_EUSAGE to the errors, for flag f unless it is NULL, and returns 0; any other
 * code is returned. */
int vc_flags_take(vc_flags *set, const vc_place *at, const vc_flag *f, int rc, const vc_err *err);
void vc_flags_free_lines(vc_lines *lines);

/* flags_value.c: converts one text to *dst, an object of the flag's kind. For a pair it sets both
 * halves, or one if part >= 0; for a list it appends. Strings are kept in the set. */
int vc_flags_value(vc_flags *set, const vc_flag *f, int part, const char *text, void *dst,
                   vc_err *err);
/* Returns true if the value counts as not set, so that the settings leave it out. */
bool vc_flags_no_value(const vc_flag *f, const void *src);
/* Formats the value of a flag that is no string or list. */
void vc_flags_text(const vc_flag *f, const void *src, char *buf, size_t size);
/* Returns item `index` of "a|b|c", with its length in *len; NULL past the last. */
const char *vc_flags_choice(const char *allowed, int index, size_t *len);
/* Returns the choice that switches a VC_OPTIONAL off, or -1. */
int vc_flags_off(const vc_flag *f);
/* Formats a range: "1 or more" for "1.."; "" where any number is allowed. */
void vc_flags_range_text(const char *allowed, char *buf, size_t size);
/* A text for a message: one line in quotes, cut if the text is long. */
typedef struct vc_quoted {
    char s[80];
} vc_quoted;
vc_quoted vc_flags_quote(const char *s, size_t len);

/* config.c: applies the settings of a file. */
int vc_flags_read_config(vc_flags *set, const char *path, vc_err *err);

/* flags_help.c, with vc_flags_table */
/* Writes the first page of help, or with a topic its flags: "all", or a word of which
 * vc_flags_find_topic has found flags. */
void vc_flags_help(const vc_program *prog, const char *topic, FILE *out);
/* Fails with the topics that there are if no flag belongs to the word. */
int vc_flags_find_topic(const vc_program *prog, const char *topic, vc_err *err);
/* Fails if a word of vc_program.first is no flag, or a group of such a program has no topic. */
int vc_flags_check_topics(const vc_program *prog, vc_err *err);
void vc_flags_version(const vc_program *prog, const char *topic, FILE *out);

#endif
