/* flags_run.h - a program with a flag of every kind, and one call that runs its parser.
 * test_flags.c and test_config.c include this header. */
#ifndef TESTS_COMMON_FLAGS_RUN_H
#define TESTS_COMMON_FLAGS_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/cli/flags.h"
#include "common/os/file.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

typedef struct options {
    char before;                   /* neighbours reveal writes of a wrong size */
    bool bucket, verify;
    int64_t rank, seed, frames, layers;
    double lr, alpha, fps;
    char *prompt, *meta, *name, *targets, *encoder[3];
    int rule, remat;
    vc_dtype dtype, weights;
    int64_t shard;
    int64_t size[2];
    vc_list latents, keys;
    char after;
} options;

#define ROW(kind_, field, name_, value_, allowed_, aliases_) \
    { .name = name_, .kind = kind_, .offset = offsetof(options, field), .value = value_, \
      .allowed = allowed_, .aliases = aliases_, .help = "Explains " name_ "." }

static const vc_flag table[] = {
    { .name = "Input", .kind = VC_GROUP },
    ROW(VC_BOOLEAN, bucket, "enable_bucket", "true", NULL, NULL),
    ROW(VC_BOOLEAN, verify, "verify_data", NULL, NULL, "check_data"),
    ROW(VC_INT, rank, "rank", "64", "1..4096", "lora_rank"),
    ROW(VC_INT, seed, "seed", "42", NULL, NULL),
    ROW(VC_INT, frames, "frames", NULL, "1..", NULL),
    ROW(VC_FLOAT, lr, "learning_rate", "1e-4", ">0..1", "lr"),
    ROW(VC_FLOAT, alpha, "network_alpha", NULL, ">0", "lora_alpha"),
    ROW(VC_FLOAT, fps, "dropout", NULL, "0..1", NULL),
    { .kind = VC_GROUP, .name = "Texts" },
    ROW(VC_STRING, prompt, "prompt", NULL, NULL, NULL),
    ROW(VC_PATH, meta, "meta", NULL, NULL, "train_data_meta dataset_metadata_path"),
    ROW(VC_STRING, name, "name", "a b", NULL, NULL),
    ROW(VC_WORDS, targets, "targets", NULL, NULL, NULL),
    ROW(VC_PATH, encoder[0], "text_encoder", NULL, NULL, NULL),
    ROW(VC_PATH, encoder[1], "text_encoder_2", NULL, NULL, NULL),
    ROW(VC_PATH, encoder[2], "text_encoder_3", NULL, NULL, NULL),
    ROW(VC_INT, layers, "dit_layers", NULL, "1..", NULL),
    ROW(VC_CHOICE, rule, "frame_rule", "peer", "doc|peer|no|full-finetune", NULL),
    ROW(VC_OPTIONAL, remat, "gradient_checkpointing", "auto", "block|auto|none",
        "use_gradient_checkpointing"),
    ROW(VC_DTYPE_KIND, dtype, "dtype", "f16", "f16|bf16|f32", NULL),
    ROW(VC_DTYPE_KIND, weights, "transformer_dtype", NULL, NULL, NULL),
    ROW(VC_BYTES, shard, "shard_size", "4G", "1M..", NULL),
    ROW(VC_PAIR, size, "fix_sample_size", NULL, "1..", "height:0 width:1"),
    ROW(VC_LIST, latents, "latents", NULL, "DIR[:weight]", NULL),
    ROW(VC_LIST, keys, "keys", "video", NULL, NULL),
    { 0 }
};

static const vc_foreign others[] = {
    { .name = "other_number other_alias", .values = 1, .say = "used by elsewhere" },
    { .name = "other_switch", .values = 0, .say = "used by elsewhere" },
    { .name = "other_size", .values = 2, .say = "used by nobody" },
    { .name = "adapter.type", .values = 1, .say = "has no effect", .only = "lora", .why = "it is" },
    { .name = "other_many", .values = -1, .say = "used by nobody" },
    { .name = "task", .values = 1, .say = "has no effect", .only = "sft", .why = "it tunes" },
    { .name = "use_fsdp", .refused = true, .say = "use mpirun" },
    { .name = "fsdp_*", .values = 1, .refused = true, .say = "use mpirun" },
    { 0 }
};
static const vc_foreign *const foreign[] = { others, NULL };

static const char *version(void)
{
    return "libfoo 1.2";
}

static const vc_program program = {
    .name = "prog", .synopsis = "prog --meta FILE [flags]",
    .about = "Does what it does.", .flags = table, .foreign = foreign, .version = version,
};

typedef struct run {
    options o;
    vc_flags *set;
    vc_err err;
    int rc;
    char *out;                     /* the output of --help */
} run;

enum { MOST_WORDS = 24 };

static run start_with(const vc_program *prog, const char *const words[MOST_WORDS])
{
    run r = { .o = { .before = 'b', .after = 'a' } };
    char *argv[MOST_WORDS + 1] = { (char *)(uintptr_t)"prog" };
    int argc = 1;
    size_t size;

    memset(&r.o, 0x5a, sizeof r.o);            /* no field is zero by accident */
    r.o.before = 'b';
    r.o.after = 'a';
    for (; argc <= MOST_WORDS - 1 && words[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    FILE *out = open_memstream(&r.out, &size);
    assert_non_null(out);
    r.rc = vc_flags_parse(&r.set, prog, &r.o, argc, argv, out, &r.err);
    fclose(out);
    assert_int_equal(r.o.before, 'b');
    assert_int_equal(r.o.after, 'a');
    if (r.rc < 0) {
        assert_int_equal(r.err.code, r.rc);
        assert_true(*r.err.text);
        assert_null(strchr(r.err.text, '\n'));
    }
    return r;
}

static inline run start(const char *const words[MOST_WORDS])
{
    return start_with(&program, words);
}

static void finish(run *r)
{
    vc_flags_free(r->set);
    free(r->out);
}

#define START(...) start((const char *const[MOST_WORDS]){ __VA_ARGS__ })

static void has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" lacks \"%s\"", text, part);
}

static char folder[256];
static int made;

/* Writes a file with this text to the test's folder and returns its path, which is static. */
static inline const char *file_with(const char *text, size_t size)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/config-%d.yaml", folder, made++ % 4);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    return path;
}

static inline const char *text_file(const char *text)
{
    return file_with(text, strlen(text));
}

static inline bool has_line(const char *text, const char *line)
{
    size_t n = strlen(line);
    for (const char *s = text; (s = strstr(s, line)); s++)
        if ((s == text || s[-1] == '\n') && (s[n] == '\n' || !s[n]))
            return true;
    return false;
}

static inline int make_folder(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/vlt-flags-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state)
{
    (void)state;
    return vc_remove_tree(folder, NULL);
}

#endif
