/* config_internal.h - shared by the parts that read files of --config: config.c (lines that are
 * flags), config_peers.c (files of other trainers), config_paths.c (their settings by paths),
 * config_settings.c (what a row makes of one) and config_commands.c (the commands that such a file
 * stands for). No other file includes this header. */
#ifndef COMMON_CLI_CONFIG_INTERNAL_H
#define COMMON_CLI_CONFIG_INTERNAL_H

#include <yaml.h>

#include "common/cli/flags_internal.h"
#include "common/cli/peers/peers.h"

/* Reads a file; the caller deletes *doc. */
int vc_config_load(yaml_document_t *doc, const char *path, vc_err *err);
const char *vc_config_text(const yaml_node_t *n);         /* of a scalar */
bool vc_config_null(const yaml_node_t *n);

/* Returns the peer whose file it is, or NULL. */
const vc_peer_file *vc_peer_of(yaml_document_t *doc);
/* Sets the flags that the file's settings mean, and adds the commands and the reasons of settings
 * without a flag to the notes, those that are refused to the errors. `path` lives as long as the
 * set. */
int vc_peer_read(vc_flags *set, const vc_peer_file *peer, yaml_document_t *doc, const char *path,
                 vc_err *err);

/* A flag of a command, as a file gives it. */
typedef struct vc_given {
    const char *flag, *text;
    vc_place at;
    bool by_default;                /* the peer's default, which the file does not have */
    bool each;                      /* the flag may be given again */
    int part;                       /* of vc_commands.part, where it is given; 0: the file */
} vc_given;

typedef struct vc_command {
    vc_given *given;
    int n;
} vc_command;

/* A part of a file, and the datasets in it. */
typedef struct vc_part_datasets {
    int first, end;
} vc_part_datasets;

/* The commands that a file stands for: one of vtrain, and one of vprep for each dataset. */
typedef struct vc_commands {
    vc_flags *set;
    vc_command vtrain, vprep;       /* vprep: of the part of the file that is being read */
    vc_command *dataset;
    int n_datasets;
    vc_part_datasets *part;
    int n_parts, now;               /* the part that is being read */
    int level, settings;            /* sections within each other, and settings read, which aliases
                                     * of YAML may multiply */
} vc_commands;

/* Begins a part of the file, and ends the one that `now` was before. Returns VC_ENOMEM or 0. */
int vc_commands_begin(vc_commands *c, vc_err *err);
void vc_commands_end(vc_commands *c, int before);

/* Adds a flag to the commands of the programs that have it. All texts are copied. VC_EFAIL: neither
 * has it. */
int vc_commands_add(vc_commands *c, const vc_given *given, vc_err *err);
/* Ends a dataset: the flags of vprep from `mark` on are its own. size: n texts, each a dataset with
 * this value of the flags in the blank-separated list; n is 0 where there is one. */
int vc_commands_dataset(vc_commands *c, int mark, const char *flags, const char *const *size, int n,
                        vc_err *err);
/* Sets the program's flags and notes the commands. `peer` and `file` are for messages. */
int vc_commands_take(vc_commands *c, const char *peer, const char *file, vc_err *err);
void vc_commands_free(vc_commands *c);
/* Returns true if the command line has the flag. */
bool vc_commands_typed(const vc_flags *set, const char *flag, size_t len);

/* ---- config_paths.c ---- */

/* The name of a key, which a file may write as a flag, with two dashes. */
const char *vc_peer_name(const char *key);
/* A value's text, or NULL. */
const char *vc_peer_text(const yaml_node_t *n);
/* The setting of a path below n, through the first section of each list; a path's part may end with
 * '*'. NULL: none. */
const yaml_node_t *vc_peer_below(yaml_document_t *doc, const yaml_node_t *n, const char *path,
                                 size_t len);
/* Whether the text is the pattern of n characters, which may end with '*'. */
bool vc_peer_same(const char *s, const char *pattern, size_t n);
/* Whether one of the patterns in the list is the text. */
bool vc_peer_listed(const char *list, const char *text, char between);
/* Whether the file has "a.b" below root, or "a.b=text*"; a path without a dot may be in any
 * section. */
bool vc_peer_sign(yaml_document_t *doc, const yaml_node_t *root, const char *sign, size_t len);
/* Whether it has all signs of one alternative, "a b|c". */
bool vc_peer_signs(yaml_document_t *doc, const yaml_node_t *root, const char *signs);
const yaml_node_t *vc_peer_root(yaml_document_t *doc, const vc_peer_file *peer);
const vc_peer_row *vc_peer_row_of(const vc_peer_file *peer, const char *path);
/* Whether a row has a path below this one. */
bool vc_peer_deeper(const vc_peer_file *peer, const char *path);

/* ---- config_settings.c ---- */

enum { MOST_LISTS = 64, MOST_ITEMS = 32 };

typedef struct vc_peer_reader {
    vc_flags *set;
    const vc_peer_file *peer;
    yaml_document_t *doc;
    const char *path;                /* of the file, for messages */
    const char *run_name;            /* what [name] stands for, or NULL */
    vc_commands *commands;
    const struct vc_peer_part *part;    /* that is being read */
    int depth;                       /* of files that files name */
} vc_peer_reader;

/* A list of sections, or a file, which is read after the settings beside it. */
typedef struct vc_later {
    const char *path, *file;
    const yaml_node_t *list;
    vc_place at;
} vc_later;

/* A part of the file that may be a dataset: the file itself, or one section of a list. */
typedef struct vc_peer_part {
    vc_later later[MOST_LISTS];
    int n_later;
    const char *size[MOST_ITEMS], *size_flags;     /* sizes that each make a dataset */
    int n_sizes;
    const struct vc_peer_part *outer;   /* the part that this one is in, or NULL */
} vc_peer_part;

/* The texts of a value or of a list of values, at most MOST_ITEMS, in which names of variables are
 * replaced where the peer does so. */
int vc_peer_texts(const vc_peer_reader *r, const yaml_node_t *n, const char **out, int *count,
                  vc_err *err);
int vc_peer_give(vc_peer_reader *r, const char *flag, size_t len, const char *text, bool each,
                 const vc_place *at, vc_err *err);
/* What the row makes of a setting with n texts; `beside` is the section that the setting is in. */
int vc_peer_value(vc_peer_reader *r, vc_peer_part *p, const vc_peer_row *row,
                  const yaml_node_t *beside, const char *path, const char *const *text, int n,
                  const vc_place *at, vc_err *err);
/* A setting that is not available or has no effect; text is NULL if it is a list or a section. */
int vc_peer_no_flag(vc_peer_reader *r, const vc_peer_row *row, const char *text,
                    const vc_place *at);
/* A key without a row, in a file whose keys are flags: the flag is looked up by its own name.
 * beside is the key's section. */
int vc_peer_flag(vc_peer_reader *r, vc_peer_part *p, const yaml_node_t *beside,
                 const yaml_node_t *value, const char *path, vc_place *at, vc_err *err);
int vc_peer_put_later(vc_peer_part *p, vc_later l, vc_err *err);
/* The flags that the map has for a value, with their length; NULL: none. */
const char *vc_peer_mapped(const char *map, const char *text, size_t *len);

#endif
