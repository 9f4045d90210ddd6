/* flags.h - one table of flags per program: parsing, aliases, configuration file, --help,
 * defaults and the resolved settings all come from it.
 *
 * Values come from the command line, else from --config FILE (YAML, or TOML where its name ends in
 * .toml; keys are flag names), else from what the program prefers (vc_flags_prefer), else from the
 * table. '-' and '_' are the same in a flag's name. Given twice on the command line the last one
 * counts, a list grows; twice in the file is an error. --help (-h), --version and
 * --config belong to every program and are in no table. Values are UTF-8 text.
 *
 * A program's options are a plain struct; each row says at which offset its value goes. Strings
 * belong to the flag set and live until vc_flags_free. Not thread-safe; used by main() only. */
#ifndef COMMON_CLI_FLAGS_H
#define COMMON_CLI_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/dtype.h"
#include "common/base/err.h"
#include "common/os/progress.h"

typedef enum vc_kind {
    VC_GROUP,        /* a heading of --help, no flag; the text is in `name` */
    VC_BOOLEAN,      /* bool; --flag, --no_flag, --flag=true|false */
    VC_INT,          /* int64_t */
    VC_FLOAT,        /* double, finite */
    VC_STRING,       /* char * or NULL */
    VC_PATH,         /* char * or NULL, shown as a path */
    VC_CHOICE,       /* int: index into `allowed` ("doc|peer|tokens") */
    VC_OPTIONAL,     /* int: as VC_CHOICE, the value only with '='; bare = the first allowed;
                      * --no_flag = "none" or "no" where that is allowed */
    VC_DTYPE_KIND,   /* vc_dtype; `allowed` lists which; no default: VC_DTYPE_NONE */
    VC_BYTES,        /* int64_t: 512M, 4GiB (2^20, 2^30), 4GB (10^9) */
    VC_PAIR,         /* int64_t[2]: --flag H W, --flag HxW; in a file [H, W] or "HxW" */
    VC_LIST,         /* vc_list: may be given several times, or several words to one flag; in a
                      * file a sequence or one value */
    VC_WORDS         /* char * or NULL: several words, or a file's sequence, are joined by commas */
} vc_kind;

typedef struct vc_list {
    char **item;
    int n;
} vc_list;

typedef struct vc_flag {
    const char *name;      /* canonical, with '_' */
    vc_kind kind;
    size_t offset;         /* of the field in the options struct */
    const char *value;     /* default as text, NULL: 0/NULL/none */
    const char *allowed;   /* choices "a|b"; for numbers a range "1..", "..9", "0..1", ">0", "<1",
                            * ">0..1", NULL: any; for text only shown ("auto|cpu|cuda:N") */
    const char *aliases;   /* blank-separated further names, or NULL; one letter is a short -o;
                            * of a pair, "height:0" and "width:1" are names of one half */
    const char *help;      /* one sentence */
    bool required;
} vc_flag;

/* Flags that other programs have: accepted with one line, or refused with the remedy. A name of
 * the program's own table is never looked for here. Refused flags may still be switched off
 * (--no_use_fsdp, `use_fsdp: false`). */
typedef struct vc_foreign {
    const char *name;      /* blank-separated names, as in vc_flag.aliases; a trailing '*' matches
                            * any ending */
    int values;            /* how many words follow the flag (0: boolean; -1: any number) */
    bool refused;
    const char *say;       /* "used by vprep", "has no job here: ...", "use mpirun instead" */
    const char *only;      /* values "a|b" it is accepted with, others are refused; NULL: any */
    const char *why;       /* with only: why no other will do */
} vc_foreign;

typedef struct vc_program {
    const char *name, *synopsis, *about;   /* about: a paragraph for --help */
    const vc_flag *flags;                  /* ended by a row without a name: { 0 } */
    const vc_foreign *partner;             /* flags of a program that runs from the same command;
                                            * names may be in `flags` too; NULL: no such program */
    const vc_foreign *const *foreign;      /* NULL-ended list of tables (each ended by a NULL
                                            * name), or NULL */
    const char *positional;                /* what other words are ("IN..."), NULL: refused */
    const char *(*version)(void);          /* text of --version after name and version, or NULL */
} vc_program;

typedef struct vc_flags vc_flags;

/* Reads argv (and --config) into *options: the field of every row is set, others stay as they are.
 * Returns 0: run; 1: help or version was written to out, exit 0 (VC_EIO, VC_EFULL: it could not
 * be); VC_EUSAGE: something is wrong. It is read to the end all the same, and everything that is wrong
 * is kept, a line each, that says what, why and what is allowed, with the nearest known flag for an
 * unknown one (at 100 reading ends): err has the first.
 * A program goes on to its own checks then, adds what they find, and asks for the verdict.
 * *set (for vc_flags_given and friends) is to be freed in every case. Notes (lines about foreign
 * flags) are kept for vc_flags_note. In a program without words of its own a switch may be followed
 * by true or false, and a list by several words. */
int vc_flags_parse(vc_flags **set, const vc_program *prog, void *options, int argc, char **argv,
                   FILE *out, vc_err *err);
void vc_flags_free(vc_flags *set);

/* The text with each "--name" of the program's own as it was typed, which may be an alias, malloc'ed;
 * NULL when out of memory. Notes and lines about what is wrong are so of themselves. */
char *vc_flags_as_typed(const vc_flags *set, const char *text);
/* From here on messages of p name flags as they were typed. p may be NULL; set outlives p. */
void vc_flags_name_typed(const vc_flags *set, vc_progress *p);

/* Adds a line to what is wrong. One that names a flag ("--rank") whose value was refused is left
 * out: it may have no other cause. */
void vc_flags_wrong(vc_flags *set, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Takes a failure of VC_EUSAGE as such a line and returns 0; any other rc is returned. */
int vc_flags_catch(vc_flags *set, int rc, const vc_err *err);
/* VC_EUSAGE with the first line, if anything is wrong; else 0. */
int vc_flags_verdict(const vc_flags *set, vc_err *err);
/* Line i of what is wrong, or NULL past the last. */
const char *vc_flags_wrong_line(const vc_flags *set, int i);
/* Says on stderr why the program ends with rc: each thing that is wrong, or, where nothing is, what
 * err has. set may be NULL. */
void vc_flags_tell(const vc_flags *set, const char *program, const vc_err *err, int rc);

/* Whether a flag was given on the command line or in the file, by its canonical name. */
bool vc_flags_given(const vc_flags *set, const char *name);
/* Whether this very name, which may be an alias or a foreign flag's, was one of those given. */
bool vc_flags_typed(const vc_flags *set, const char *name);

/* Instead of the table's default: sets a flag that was not given; of one that was, the text is only
 * checked. vc_flags_given stays as it is. */
int vc_flags_prefer(vc_flags *set, const char *name, const char *text, vc_err *err);
/* Whether a flag was given, or has a preferred value: it is not for the program to fill in. */
bool vc_flags_decided(const vc_flags *set, const char *name);
/* The table's default as text; where it has none, what the explanation says, "(default: the
 * family's)", or "none". */
void vc_flags_default(const vc_flags *set, const char *name, char *buf, size_t size);
/* Adds a note. */
void vc_flags_say(vc_flags *set, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Note i, or NULL past the last: one line for stderr each. Flags of which the same is to be said
 * share a line. */
const char *vc_flags_note(const vc_flags *set, int i);
/* Words without a flag. */
const vc_list *vc_flags_words(const vc_flags *set);

/* The resolved settings as YAML that --config reads back, malloc'ed; NULL when out of memory.
 * Left out: flags without a value (NULL, none, an empty list, a pair of zeros without default, a
 * number that is 0 where the table has no default and does not allow 0), and --config itself. */
char *vc_flags_yaml(const vc_program *prog, const void *options);

/* The flag whose name or alias is closest to `name`, by its canonical name, or NULL if nothing is
 * near. */
const char *vc_flags_nearest(const vc_program *prog, const char *name);

/* For a program's tests. VC_EFAIL if the table contradicts itself: a default that is not allowed,
 * a name twice, a name that a foreign table has too, a row without help. */
int vc_flags_check(const vc_program *prog, vc_err *err);

#endif
