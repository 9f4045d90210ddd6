/* config_toml.h - a TOML text as the document that the same settings in YAML are: tables are
 * mappings, in the file's order, and a key knows its line. All of C++ is behind it, which
 * includes this as C. */
#ifndef COMMON_CLI_CONFIG_TOML_H
#define COMMON_CLI_CONFIG_TOML_H

#include <stddef.h>
#include <yaml.h>

#include "common/base/err.h"

enum { VC_CONFIG_DEPTH = 16 };      /* of tables and arrays, or mappings and sequences, in a file */

/* *doc is to be deleted where 0 is returned. VC_EUSAGE: no valid TOML, with line and column;
 * VC_ENOMEM. Nothing is thrown. */
int vc_toml_document(yaml_document_t *doc, const char *text, size_t size, vc_err *err);

#endif
