/* next.c - the command that one gives after a dataset is made; see dataset.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/os/file.h"
#include "formats/dataset/dataset.h"

static char *shell_word(const char *s)
{
    vc_buf b = { 0 };
    vc_buf_shell(&b, s);
    return vc_buf_take(&b);
}

char *vf_next_train(const char *path)
{
    vf_made m;
    vf_dataset_made(&m, path);
    bool built_in = m.family && !strcmp(m.family, "builtin");
    char *set = shell_word(path), *model = m.model ? shell_word(m.model) : NULL;
    char *line = set ? vc_format("next: vtrain --latents %s%s%s --output_dir run", set,
                                 built_in ? "" : " --model ",
                                 built_in ? "" : model ? model : "FOLDER") : NULL;
    vf_made_free(&m);
    free(set);
    free(model);
    return line;
}

char *vf_next_decode(const char *run, const char *model)
{
    char *dir = shell_word(run), *of = model ? shell_word(model) : NULL;
    char *line = dir && (of || !model) ? vc_format("next: vdecode %s%s%s", dir,
                                                   of ? " --model " : "", of ? of : "") : NULL;
    free(dir);
    free(of);
    return line;
}
