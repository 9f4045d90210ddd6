/* two_models.c - see two_models.h */
#include "tests/lib/two_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/train_run.h"

#define TINY "--dit_width 32 --dit_layers 2 --dit_heads 2 "

void two_put(const char *dir, const char *name, const char *text, size_t n)
{
    char *path = vc_path_join(dir, name);
    char *folder = strndup(path, (size_t)(vc_path_base(path) - path));
    vc_err err = { 0 };
    if (vc_mkdirs(folder, &err) || vc_file_write(path, text, n, &err))
        fail_msg("%s", err.text);
    free(folder);
    free(path);
}

char *two_text(const char *dir, const char *name, size_t *n)
{
    char *path = vc_path_join(dir, name), *text;
    vc_err err = { 0 };
    if (vc_file_read(&text, n, path, 1 << 24, &err))
        fail_msg("%s", err.text);
    free(path);
    return text;
}

static void copy(const char *dir, const char *from, const char *to)
{
    static const char *const files[] = { "config.json", TWO_FILE };
    for (int i = 0; i < 2; i++) {
        char *a = vc_path_join(from, files[i]), *b = vc_path_join(to, files[i]);
        size_t n;
        char *text = two_text(dir, a, &n);
        two_put(dir, b, text, n);
        free(text);
        free(a);
        free(b);
    }
}

void two_make(const char *dir)
{
    static const char index[] =
        "{\"_class_name\":\"P\",\"boundary_ratio\":0.6,\"transformer\":[\"diffusers\",\"T\"],"
        "\"transformer_2\":[\"diffusers\",\"T\"]}\n";
    run_ok(dir, "high", TINY "--max_train_steps 2");
    run_ok(dir, "low", TINY "--max_train_steps 2 --learning_rate 1e-2");
    copy(dir, "high/checkpoint-2/transformer", "two/transformer");
    copy(dir, "low/checkpoint-2/transformer", "two/transformer_2");
    copy(dir, "high/checkpoint-2/transformer", "same/transformer");
    copy(dir, "high/checkpoint-2/transformer", "same/transformer_2");
    two_put(dir, "two/model_index.json", index, strlen(index));
    two_put(dir, "same/model_index.json", index, strlen(index));
}
