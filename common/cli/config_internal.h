/* config_internal.h - shared by the parts that read files of --config: config.c (lines that are
 * flags), config_peers.c (files of other trainers) and config_commands.c (the commands that such a
 * file stands for). No other file includes this header. */
#ifndef COMMON_CLI_CONFIG_INTERNAL_H
#define COMMON_CLI_CONFIG_INTERNAL_H

#include <yaml.h>

#include "common/cli/flags_internal.h"
#include "common/cli/peers/peers.h"

/* Reads a file; the caller deletes *doc. */
int vc_config_load(yaml_document_t *doc, const char *path, vc_err *err);
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
} vc_given;

typedef struct vc_command {
    vc_given *given;
    int n;
} vc_command;

/* The commands that a file stands for: one of vtrain, and one of vprep for each dataset. */
typedef struct vc_commands {
    vc_flags *set;
    vc_command vtrain, vprep;       /* vprep: of the part of the file that is being read */
    vc_command *dataset;
    int n_datasets;
} vc_commands;

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

#endif
