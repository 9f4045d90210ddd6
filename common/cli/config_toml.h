/* config_toml.h - reads TOML into the document that libyaml makes of the same settings in YAML:
 * tables are mappings, in the file's order, and each key has its line. The only C++ of the tree is
 * behind this header. */
#ifndef COMMON_CLI_CONFIG_TOML_H
#define COMMON_CLI_CONFIG_TOML_H

#include <stddef.h>
#include <yaml.h>

#include "common/base/err.h"

enum { VC_CONFIG_DEPTH = 16 };      /* largest depth of tables and arrays in a file */

/* On success the caller deletes *doc. VC_EUSAGE: the text is not valid TOML, with line and column;
 * VC_ENOMEM. It throws no exception. */
int vc_toml_document(yaml_document_t *doc, const char *text, size_t size, vc_err *err);

#endif
