/* fuzz_settings.h - reads a file of settings with the flags of a program. */
#ifndef TESTS_FUZZ_FUZZ_SETTINGS_H
#define TESTS_FUZZ_FUZZ_SETTINGS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli/flags.h"
#include "tests/fuzz/fuzz_file.h"
#include "tests/lib/mutate.h"

/* The first byte chooses one of the n names of the file that the others are. */
static inline void fuzz_settings(const vc_program *program, void *options, const char *const *names,
                                 int n, const uint8_t *data, size_t size)
{
    char path[256], name[] = "prog", flag[] = "--config";
    char *argv[] = { name, flag, path, NULL };
    vc_flags *set;
    vc_err err;

    if (size == 0)
        return;
    snprintf(path, sizeof path, "%s", fuzz_file(names[data[0] % n], data + 1, size - 1));
    int rc = vc_flags_parse(&set, program, options, 3, argv, stdout, &err);
    if (rc && rc != VC_EUSAGE)
        abort();
    const char *line;
    for (int i = 0; (line = vc_flags_wrong_line(set, i)); i++)
        mutate_touch(line, strlen(line));
    char *yaml = rc ? NULL : vc_flags_yaml(program, options);
    if (yaml)
        mutate_touch(yaml, strlen(yaml));
    free(yaml);
    vc_flags_free(set);
}

#endif
