/* flags.h - one table of flags per program: parsing, aliases, configuration file, --help,
 * defaults and the resolved settings all come from it.
 *
 * A value comes from the command line, else from --config FILE (YAML, or TOML if its name ends in
 * .toml; keys are flag names), else from vc_flags_prefer, else from the table. '-' and '_' are the
 * same in a flag's name. If a flag is given twice on the command line, the last value counts, and a
 * list grows; twice in the file is an error. --help (-h), --version and --config belong to every
 * program and are in no table. Values are UTF-8 text.
 *
 * A program's options are a plain struct; each row has the offset of its value. Strings belong to
 * the flag set and live until vc_flags_free. Not thread-safe, but for vc_flags_as_typed and the
 * questions; used by main() only. */
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
    VC_GROUP,        /* a heading of --help, no flag: the text is in `name`, and the words that
                      * show it (--help lora) are in `aliases` */
    VC_BOOLEAN,      /* bool; --flag, --no_flag, --flag=true|false */
    VC_INT,          /* int64_t */
    VC_FLOAT,        /* double, finite; 10% is 0.1 */
    VC_STRING,       /* char * or NULL */
    VC_PATH,         /* char * or NULL, shown as a path */
    VC_CHOICE,       /* int: index into `allowed` ("doc|peer|tokens"), also by the word after a
                      * module of Python: "torch.optim.AdamW" is adamw */
    VC_OPTIONAL,     /* int: as VC_CHOICE, but the value needs '='; without a value the
                      * first allowed; --no_flag: "none" or "no", if allowed */
    VC_DTYPE_KIND,   /* vc_dtype, one of `allowed`; without a default VC_DTYPE_NONE */
    VC_BYTES,        /* int64_t: 512M, 4GiB (2^20, 2^30), 4GB (10^9) */
    VC_PAIR,         /* int64_t[2]: --flag H W, --flag HxW; in a file [H, W] or "HxW" */
    VC_LIST,         /* vc_list: the flag may be given several times, or with several
                      * words; in a file a sequence or one value */
    VC_WORDS         /* char * or NULL: words, or a sequence in a file, joined by commas */
} vc_kind;

typedef struct vc_list {
    char **item;
    int n;
} vc_list;

typedef struct vc_flag {
    const char *name;      /* canonical, with '_' */
    vc_kind kind;
    size_t offset;         /* offset of the field in the options struct */
    const char *value;     /* default as text, NULL: 0/NULL/none */
    const char *allowed;   /* choices "a|b"; of numbers a range "1..", "..9", "0..1", ">0", "<1",
                            * ">0..1", NULL: any; of text only shown ("auto|cpu|cuda:N") */
    const char *aliases;   /* more names, separated by blanks, or NULL; one letter is a short -o;
                            * "height:0" and "width:1" name the halves of a pair */
    const char *help;      /* one sentence */
    bool required;
} vc_flag;

/* Flags that other programs have: accepted with one line, or refused with the remedy. A name of
 * the program's own table is never looked for here. Refused flags may still be switched off
 * (--no_use_fsdp, `use_fsdp: false`). */
typedef struct vc_foreign {
    const char *name;      /* blank-separated names, as in vc_flag.aliases; a trailing '*' matches
                            * any ending */
    int values;            /* number of words after the flag (0: boolean; -1: any number) */
    bool refused;
    const char *say;       /* "used by vprep", "has no effect here: ...", "use mpirun instead" */
    const char *only;      /* accepted values "a|b", others are refused; NULL: any */
    const char *why;       /* with only: why other values are refused */
    const char *means;     /* accepted values that switch on a flag of the program's own, where it
                            * has that flag: "av>with_audio|va>with_audio"; NULL: none */
} vc_foreign;

/* A name of another program's flag that means exactly the same as ours. */
typedef struct vc_renamed {
    const char *name, *flag;
} vc_renamed;

/* A page of --help that is not of flags. */
typedef struct vc_page {
    const char *topic;                     /* --help TOPIC; NULL ends a table */
    void (*write)(FILE *out);
} vc_page;

typedef struct vc_program {
    const char *name, *synopsis, *about;   /* about: a paragraph for --help */
    const vc_flag *flags;                  /* ended by a row without a name: { 0 } */
    const vc_foreign *partner;             /* flags of a program that runs from the same command;
                                            * names may be in `flags` too; NULL: no such program */
    const vc_foreign *const *foreign;      /* NULL-ended list of tables (each ended by a NULL
                                            * name), or NULL */
    const vc_renamed *renamed;             /* ended by a NULL name, or NULL: more names of flags of
                                            * this program or of its partner, and of --config; a
                                            * row whose flag neither has is skipped */
    const char *positional;                /* name of other words ("IN..."); NULL: they are
                                            * refused */
    const char *(*version)(void);          /* text of --version after name and version, or NULL */
    const char *alone;                     /* flag beside which no other is required, or NULL */
    const char *first;                     /* names of the flags on the first page of --help, which
                                            * lists topics beside them; NULL: --help has all
                                            * flags */
    const vc_page *pages;                  /* or NULL */
} vc_program;

typedef struct vc_flags vc_flags;

/* Writes the table of --help=table, from which scripts/pages makes manual pages and completions:
 * lines of columns with tabs between them,
 *     program NAME SYNOPSIS ABOUT    group TITLE
 *     flag NAME KIND USAGE HELP FACTS ALIASES CHOICES
 * with KIND switch, path, choice, optional or value, ALIASES "--gpus -n", CHOICES "doc|peer". */
void vc_flags_table(const vc_program *prog, FILE *out);

/* --help is the first page (vc_program.first); --help all has every flag, and --help WORD those
 * whose topic is the word, else those whose name has it, else those whose explanation has it.
 *
 * Reads argv (and --config) into *options: it sets the field of every row and no others. Returns 0
 * if the program shall run; 1 if help or version was written to out (VC_EIO, VC_EFULL: it could not
 * be written); VC_EUSAGE if there are errors. Reading continues after an error, up to 100 of them:
 * each is kept as a line with its reason and the allowed values, or the nearest known flag, and err
 * has the first. The program then makes its own checks, adds their errors and calls
 * vc_flags_verdict. The caller frees *set in every case. Notes (lines about foreign flags) are kept
 * for vc_flags_note. In a program without words of its own a switch may be followed by true or
 * false, and a list by several words. With out NULL help and version are not written: 1 is
 * returned, and vc_flags_print writes them. */
int vc_flags_parse(vc_flags **set, const vc_program *prog, void *options, int argc, char **argv,
                   FILE *out, vc_err *err);
void vc_flags_free(vc_flags *set);
/* After vc_flags_parse has returned 1: writes help or version to out. VC_EIO, VC_EFULL: not all was
 * written. */
int vc_flags_print(const vc_flags *set, FILE *out, vc_err *err);

/* Returns the text, malloc'ed, with each flag of the program ("--name") by the name that was typed,
 * which may be an alias; NULL when out of memory. Notes and errors already have these names. */
char *vc_flags_as_typed(const vc_flags *set, const char *text);
/* From now on messages of p name flags as they were typed. p may be NULL; set must outlive p. */
void vc_flags_name_typed(const vc_flags *set, vc_progress *p);

/* Adds a line to the errors. A line that names a flag ("--rank") whose value was refused is left
 * out, as it may have no other cause. */
void vc_flags_wrong(vc_flags *set, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Adds a failure of VC_EUSAGE as such a line and returns 0; any other rc is returned. */
int vc_flags_catch(vc_flags *set, int rc, const vc_err *err);
/* Returns VC_EUSAGE with the first error, if there is one; else 0. */
int vc_flags_verdict(const vc_flags *set, vc_err *err);
/* Returns error i, or NULL past the last. */
const char *vc_flags_wrong_line(const vc_flags *set, int i);
/* Reports on stderr why the program ends with rc: each error of the flags, or, without any, err.
 * After VC_ESTOP the name of the signal comes first. set may be NULL. */
void vc_flags_report(const vc_flags *set, const char *program, const vc_err *err, int rc);

/* Returns true if the flag was given on the command line or in the file, by its canonical name. */
bool vc_flags_given(const vc_flags *set, const char *name);
/* Returns true if all flags were read: if --config could not be, a flag that seems to be missing
 * may be in it. */
bool vc_flags_whole(const vc_flags *set);
/* Returns true if a flag was given by exactly this name, which may be an alias or a foreign
 * flag's. */
bool vc_flags_typed(const vc_flags *set, const char *name);

/* Sets a flag that was not given to `text`, in place of the table's default. If the flag was given,
 * the text is only checked. vc_flags_given does not change. */
int vc_flags_prefer(vc_flags *set, const char *name, const char *text, vc_err *err);
/* Sets a flag, also one that was given, to `text`. */
int vc_flags_replace(vc_flags *set, const char *name, const char *text, vc_err *err);
/* Returns true if the flag was given or has a preferred value, so that the program must not set
 * it. */
bool vc_flags_decided(const vc_flags *set, const char *name);
/* Writes the table's default as text; without one, the default that the help names, "(default: the
 * family's)", or "none". Returns true if the table has one. */
bool vc_flags_default(const vc_flags *set, const char *name, char *buf, size_t size);
/* Writes the value that the flag has in options, a struct as the program's; "none": not set. */
void vc_flags_show(const vc_flags *set, const char *name, const void *options, char *buf,
                   size_t size);
/* Sets a flag, which is no list, in a copy of the program's options. */
int vc_flags_put(vc_flags *set, const char *name, const char *text, void *options, vc_err *err);
/* Adds a note. */
void vc_flags_say(vc_flags *set, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Returns note i, one line for stderr, or NULL past the last. Flags with the same note share a
 * line. */
const char *vc_flags_note(const vc_flags *set, int i);
/* Returns the words that belong to no flag. */
const vc_list *vc_flags_words(const vc_flags *set);

/* Returns the resolved settings as YAML that --config reads back, malloc'ed; NULL when out of
 * memory. The text leaves out --config itself and flags without a value: NULL, none, an empty list,
 * a pair of zeros without default, a number that is 0 if the table has no default and does not
 * allow 0. */
char *vc_flags_yaml(const vc_program *prog, const void *options);

/* Returns the canonical name of the flag whose name or alias is closest to `name`, or NULL if none
 * is near. */
const char *vc_flags_nearest(const vc_program *prog, const char *name);

/* For a program's tests. VC_EFAIL if the table contradicts itself: a default that is not allowed, a
 * name that occurs twice or in a foreign table, a row without help. */
int vc_flags_check(const vc_program *prog, vc_err *err);

#endif
