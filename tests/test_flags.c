/* The flag parser: command line, file, defaults, messages, and the way back to a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/file.h"
#include "common/flags.h"
#include "common/foreign.h"
#include "common/progress.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

typedef struct options {
    char before;                   /* odd neighbours show a write of the wrong size */
    bool bucket, verify;
    int64_t rank, seed, frames;
    double lr, alpha, fps;
    char *prompt, *meta, *name;
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
    { .kind = VC_GROUP, .help = "Texts" },
    ROW(VC_STRING, prompt, "prompt", NULL, NULL, NULL),
    ROW(VC_PATH, meta, "meta", NULL, NULL, "train_data_meta dataset_metadata_path"),
    ROW(VC_STRING, name, "name", "a b", NULL, NULL),
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
    { .name = "task", .values = 1, .say = "has no job", .only = "sft" },
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
    char *out;                     /* what --help wrote */
} run;

enum { MOST_WORDS = 16 };

static run start_with(const vc_program *prog, const char *const words[MOST_WORDS])
{
    run r = { .o = { .before = 'b', .after = 'a' } };
    char *argv[MOST_WORDS + 1] = { (char *)(uintptr_t)"prog" };
    int argc = 1;
    size_t size;

    memset(&r.o, 0x5a, sizeof r.o);            /* nothing is zero by luck */
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

static run start(const char *const words[MOST_WORDS])
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

/* A file of the test's folder with this text; its name is static. */
static const char *file_with(const char *text, size_t size)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/config-%d.yaml", folder, made++ % 4);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    return path;
}

static const char *text_file(const char *text)
{
    return file_with(text, strlen(text));
}

static void test_defaults(void **state)
{
    (void)state;
    run r = START(NULL);

    assert_int_equal(r.rc, 0);
    assert_true(r.o.bucket);
    assert_false(r.o.verify);
    assert_int_equal(r.o.rank, 64);
    assert_int_equal(r.o.frames, 0);
    assert_true(r.o.lr == 1e-4);
    assert_true(r.o.alpha == 0);
    assert_null(r.o.prompt);
    assert_string_equal(r.o.name, "a b");
    assert_int_equal(r.o.rule, 1);
    assert_int_equal(r.o.remat, 1);
    assert_int_equal(r.o.dtype, VC_F16);
    assert_int_equal(r.o.weights, VC_DTYPE_NONE);
    assert_int_equal(r.o.shard, 4ll << 30);
    assert_int_equal(r.o.size[0], 0);
    assert_int_equal(r.o.latents.n, 0);
    assert_int_equal(r.o.keys.n, 1);
    assert_string_equal(r.o.keys.item[0], "video");
    assert_false(vc_flags_given(r.set, "rank"));
    assert_null(vc_flags_note(r.set, 0));
    assert_int_equal(vc_flags_words(r.set)->n, 0);
    finish(&r);
}

/* words -> a line of the resolved settings */
static const struct {
    const char *words[MOST_WORDS], *line;
} good[] = {
    { { "--rank", "8" }, "rank: 8" },
    { { "--rank=8" }, "rank: 8" },
    { { "--lora-rank", "9" }, "rank: 9" },
    { { "--lora_rank=4096" }, "rank: 4096" },
    { { "--rank", "1", "--rank", "2" }, "rank: 2" },
    { { "--seed", "-5" }, "seed: -5" },
    { { "--seed", "9223372036854775807" }, "seed: 9223372036854775807" },
    { { "--seed=-9223372036854775808" }, "seed: -9223372036854775808" },
    { { "--seed", "0" }, "seed: 0" },
    { { "--no_enable_bucket" }, "enable_bucket: false" },
    { { "--no-enable-bucket" }, "enable_bucket: false" },
    { { "--enable_bucket=no" }, "enable_bucket: false" },
    { { "--verify-data" }, "verify_data: true" },
    { { "--verify_data=TRUE" }, "verify_data: true" },
    { { "--check_data", "--no_check_data" }, "verify_data: false" },
    { { "--lr", "2.5e-5" }, "learning_rate: 2.5e-05" },
    { { "--learning_rate=1" }, "learning_rate: 1" },
    { { "--lr", ".1" }, "learning_rate: 0.1" },
    { { "--dropout", "0" }, "dropout: 0" },
    { { "--lora_alpha", "0.30000000000000004" }, "network_alpha: 0.30000000000000004" },
    { { "--prompt", "a cat" }, "prompt: \"a cat\"" },
    { { "--prompt", "-5 degrees" }, "prompt: \"-5 degrees\"" },
    { { "--prompt=--odd" }, "prompt: \"--odd\"" },
    { { "--prompt=" }, "prompt: \"\"" },
    { { "--prompt=a=b" }, "prompt: \"a=b\"" },
    { { "--prompt", "plain" }, "prompt: plain" },
    { { "--prompt", "no" }, "prompt: \"no\"" },
    { { "--dataset_metadata_path", "a/b.json" }, "meta: a/b.json" },
    { { "--frame_rule", "DOC" }, "frame_rule: doc" },
    { { "--frame_rule", "full_finetune" }, "frame_rule: full-finetune" },
    { { "--frame-rule=no" }, "frame_rule: \"no\"" },
    { { "--gradient_checkpointing" }, "gradient_checkpointing: block" },
    { { "--use_gradient_checkpointing=none" }, "gradient_checkpointing: none" },
    { { "--no_gradient_checkpointing" }, "gradient_checkpointing: none" },
    { { "--gradient-checkpointing=true" }, "gradient_checkpointing: block" },
    { { "--gradient_checkpointing", "--rank", "7" }, "rank: 7" },
    { { "--dtype", "torch.bfloat16" }, "dtype: bf16" },
    { { "--dtype", "fp32" }, "dtype: f32" },
    { { "--transformer_dtype", "fp8" }, "transformer_dtype: fp8" },
    { { "--shard_size", "512M" }, "shard_size: 512MiB" },
    { { "--shard_size", "1.5GiB" }, "shard_size: 1536MiB" },
    { { "--shard_size", "2GB" }, "shard_size: 1953125KiB" },
    { { "--shard_size", "1048577" }, "shard_size: 1048577" },
    { { "--shard_size", "1048577B" }, "shard_size: 1048577" },
    { { "--fix_sample_size", "384", "672" }, "fix_sample_size: [384, 672]" },
    { { "--fix_sample_size", "384x672" }, "fix_sample_size: [384, 672]" },
    { { "--fix-sample-size=384,672" }, "fix_sample_size: [384, 672]" },
    { { "--fix_sample_size", "384 672" }, "fix_sample_size: [384, 672]" },
    { { "--height", "384", "--width=672" }, "fix_sample_size: [384, 672]" },
    { { "--fix_sample_size", "384x672", "--width", "5" }, "fix_sample_size: [384, 5]" },
    { { "--latents", "a", "--latents=b c" }, "latents: [a, \"b c\"]" },
    { { "--keys", "image" }, "keys: [image]" },
    { { "--keys", "1", "--keys", "2", "--keys", "3", "--keys", "4", "--keys", "5" },
      "keys: [\"1\", \"2\", \"3\", \"4\", \"5\"]" },
};

static bool has_line(const char *text, const char *line)
{
    size_t n = strlen(line);
    for (const char *s = text; (s = strstr(s, line)); s++)
        if ((s == text || s[-1] == '\n') && (s[n] == '\n' || !s[n]))
            return true;
    return false;
}

static void test_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        run r = start(good[i].words);
        if (r.rc)
            fail_msg("%s: %s", good[i].line, r.err.text);
        char *yaml = vc_flags_yaml(&program, &r.o);
        if (!has_line(yaml, good[i].line))
            fail_msg("%s is not in\n%s", good[i].line, yaml);

        run again = START("--config", text_file(yaml));
        if (again.rc)
            fail_msg("read back: %s\n%s", again.err.text, yaml);
        char *twice = vc_flags_yaml(&program, &again.o);
        assert_string_equal(yaml, twice);
        free(twice);
        free(yaml);
        finish(&again);
        finish(&r);
    }
}

static const struct {
    const char *words[MOST_WORDS], *say[3];
} bad[] = {
    { { "--rnak", "8" }, { "unknown flag --rnak", "did you mean --rank?" } },
    { { "--learning-rte=1" }, { "unknown flag --learning-rte", "--learning_rate?" } },
    { { "--dataset_metadata_pth", "x" }, { "did you mean --meta?" } },
    { { "--no_enable_bukcet" }, { "did you mean --no_enable_bucket?" } },
    { { "--heigth", "5" }, { "did you mean --fix_sample_size?" } },
    { { "--zzzzzzzzzz" }, { "unknown flag --zzzzzzzzzz", "prog --help" } },
    { { "-rank", "3" }, { "unknown flag -rank" } },
    { { "--=3" }, { "unknown flag" } },
    { { "--no_rank" }, { "unknown flag --no_rank" } },
    { { "--rank" }, { "--rank: needs a value" } },
    { { "--rank", "--seed", "3" }, { "--rank: needs a value" } },
    { { "--rank", "0" }, { "--rank: \"0\" is out of range: 1 to 4096" } },
    { { "--rank", "4097" }, { "out of range" } },
    { { "--rank", "8.5" }, { "--rank: \"8.5\" is not a whole number", "1 to 4096" } },
    { { "--rank", "1e3" }, { "not a whole number" } },
    { { "--rank", " 8" }, { "not a whole number" } },
    { { "--rank=" }, { "not a whole number" } },
    { { "--seed", "9223372036854775808" }, { "--seed", "not a whole number" } },
    { { "--lr", "0" }, { "--lr: \"0\" is out of range: above 0, up to 1" } },
    { { "--lr", "nan" }, { "--lr: \"nan\" is not a number" } },
    { { "--lr", "1e999" }, { "not a number" } },
    { { "--lora_alpha", "-1" }, { "--lora_alpha: \"-1\" is out of range: above 0" } },
    { { "--enable_bucket=maybe" }, { "--enable_bucket", "\"maybe\" is not one of true, false" } },
    { { "--no_enable_bucket=true" }, { "--no_enable_bucket: takes no value" } },
    { { "--enable_bucket", "true" }, { "unexpected \"true\" after --enable_bucket" } },
    { { "--gradient_checkpointing", "none" }, { "unexpected \"none\"", "--flag=value" } },
    { { "word" }, { "unexpected \"word\"", "--help" } },
    { { "--latents", "a", "b" }, { "unexpected \"b\"" } },
    { { "--frame_rule", "best" }, { "--frame_rule: \"best\" is not one of doc, peer, no" } },
    { { "--gradient_checkpointing=all" }, { "not one of block, auto, none" } },
    { { "--dtype", "fp8" }, { "--dtype: \"fp8\" is not one of f16, bf16, f32" } },
    { { "--dtype", "torch" }, { "not one of" } },
    { { "--transformer_dtype", "q4" }, { "not one of f32, bf16, f16, fp8" } },
    { { "--shard_size", "1K" }, { "--shard_size: \"1K\" is out of range: 1048576 or more" } },
    { { "--shard_size", "4 GiB" }, { "not a number of bytes" } },
    { { "--shard_size", "9999999999G" }, { "not a number of bytes" } },
    { { "--shard_size", "4GG" }, { "not a number of bytes" } },
    { { "--fix_sample_size", "384" }, { "--fix_sample_size: needs two numbers" } },
    { { "--fix_sample_size", "384", "--rank", "3" }, { "needs two numbers" } },
    { { "--fix_sample_size=384" }, { "not a pair" } },
    { { "--fix_sample_size", "384x" }, { "\"\" is not a whole number" } },
    { { "--fix_sample_size", "0x5" }, { "out of range: 1 or more" } },
    { { "--height", "384" }, { "--fix_sample_size: only one of two numbers" } },
    { { "--prompt", "\xff" }, { "not UTF-8" } },
    { { "--config" }, { "--config: needs the name" } },
    { { "--config", "/nowhere/x.yaml" }, { "--config: /nowhere/x.yaml: No such file" } },
    { { "--config", "a", "--config", "b" }, { "--config: given twice" } },
    { { "--use_fsdp" }, { "--use_fsdp: not available here: use mpirun" } },
    { { "--fsdp_auto_wrap", "x" }, { "--fsdp_auto_wrap: not available here: use mpirun" } },
    { { "--task", "distill" }, { "--task: \"distill\" is not one of sft" } },
};

static void test_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        run r = start(bad[i].words);
        if (r.rc != VC_EUSAGE)
            fail_msg("%s %s: code %d", bad[i].words[0], bad[i].words[1] ? bad[i].words[1] : "", r.rc);
        for (int k = 0; k < 3 && bad[i].say[k]; k++)
            has(r.err.text, bad[i].say[k]);
        finish(&r);
    }
}

static void test_hostile_words_make_one_line(void **state)
{
    (void)state;
    char *name = malloc(100001);
    memset(name, 'x', 100000);
    name[100000] = 0;
    memcpy(name, "--", 2);
    run r = START(name);
    assert_int_equal(r.rc, VC_EUSAGE);
    assert_true(strlen(r.err.text) < 300);
    finish(&r);
    r = START("--rank", name + 2);
    assert_int_equal(r.rc, VC_EUSAGE);
    assert_true(strlen(r.err.text) < 300);
    finish(&r);
    free(name);

    r = START("--rank", "1\n2\x1b[31m");
    assert_int_equal(r.rc, VC_EUSAGE);
    assert_null(strchr(r.err.text, '\x1b'));
    finish(&r);
    /* a cut text stays UTF-8 */
    r = START("--rank", "a" "ääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää");
    has(r.err.text, "ä...\" is not");
    finish(&r);
}

static void test_required_and_given(void **state)
{
    (void)state;
    static const vc_flag need[] = {
        { .name = "meta", .kind = VC_PATH, .offset = offsetof(options, meta), .help = "the list",
          .required = true },
        ROW(VC_INT, rank, "rank", "64", NULL, NULL),
        { .kind = VC_BOOLEAN },
    };
    vc_program p = { .name = "p", .synopsis = "p", .flags = need, .positional = "IN..." };

    run r = start_with(&p, (const char *const[MOST_WORDS]){ "--rank", "3" });
    assert_int_equal(r.rc, VC_EUSAGE);
    has(r.err.text, "--meta is required: the list");
    finish(&r);

    r = start_with(&p, (const char *const[MOST_WORDS]){ "in1", "--meta", "m", "-", "--", "--rank" });
    assert_int_equal(r.rc, 0);
    assert_true(vc_flags_given(r.set, "meta"));
    assert_false(vc_flags_given(r.set, "rank"));
    assert_false(vc_flags_given(r.set, "nonesuch"));
    const vc_list *w = vc_flags_words(r.set);
    assert_int_equal(w->n, 3);
    assert_string_equal(w->item[0], "in1");
    assert_string_equal(w->item[1], "-");
    assert_string_equal(w->item[2], "--rank");
    finish(&r);

    /* required may come from the file */
    r = start_with(&p, (const char *const[MOST_WORDS]){ "--config", text_file("meta: m.json\n") });
    assert_int_equal(r.rc, 0);
    assert_string_equal(r.o.meta, "m.json");
    assert_true(vc_flags_given(r.set, "meta"));
    finish(&r);
}

static void test_foreign(void **state)
{
    (void)state;
    run r = START("--other-number", "5", "--rank", "2", "--no_other_switch", "--other_switch",
                  "--other_alias=3", "--other_size", "1", "2", "--task", "sft", "--other_number", "1");
    if (r.rc)
        fail_msg("%s", r.err.text);
    assert_int_equal(r.o.rank, 2);
    assert_string_equal(vc_flags_note(r.set, 0),
                        "--other-number, --no_other_switch, --other_switch, --other_alias, "
                        "--other_number: used by elsewhere");
    assert_string_equal(vc_flags_note(r.set, 1), "--other_size: used by nobody");
    assert_string_equal(vc_flags_note(r.set, 2), "--task: has no job");
    assert_null(vc_flags_note(r.set, 3));
    assert_null(vc_flags_note(r.set, -1));
    finish(&r);

    r = START("--other_size", "1x2", "--other_size=3x4", "--other_number", "--rank", "3",
              "--no_use_fsdp", "--use_fsdp=false");
    if (r.rc)
        fail_msg("%s", r.err.text);
    assert_int_equal(r.o.rank, 3);
    assert_null(vc_flags_note(r.set, 2));
    finish(&r);

    r = START("--config", text_file("other_number: 5\nother_switch: true\nother_size: [1, 2]\n"
                                    "task: sft\nuse_fsdp: false\nother_alias:\n"));
    if (r.rc)
        fail_msg("%s", r.err.text);
    assert_string_equal(vc_flags_note(r.set, 0), "--other_number, --other_switch: used by elsewhere");
    finish(&r);

    r = START("--config", text_file("rank: 3\nfsdp_wrap: x\n"));
    assert_int_equal(r.rc, VC_EUSAGE);
    has(r.err.text, ": line 2: fsdp_wrap: not available here: use mpirun");
    finish(&r);
}

static const struct {
    const char *yaml, *line;
} good_files[] = {
    { "rank: 8\n", "rank: 8" },
    { "{\"rank\": 8, \"lora-alpha\": 2.5}", "network_alpha: 2.5" },
    { "# only a comment\n", "rank: 64" },
    { "", "rank: 64" },
    { "---\nrank: 8\n...\n", "rank: 8" },
    { "lora-rank: '8'", "rank: 8" },
    { "rank:\n", "rank: 64" },
    { "rank: ~\n", "rank: 64" },
    { "prompt: null\n", "seed: 42" },
    { "prompt: 'null'\n", "prompt: \"null\"" },
    { "enable_bucket: no\n", "enable_bucket: false" },
    { "no_enable_bucket: true\n", "enable_bucket: false" },
    { "no_enable_bucket: false\n", "enable_bucket: true" },
    { "prompt: 1e3\n", "prompt: \"1e3\"" },
    { "prompt: |\n  two\n  lines\n", "prompt: \"two\\nlines\\n\"" },
    { "prompt: >\n  two\n  lines\n", "prompt: \"two lines\\n\"" },
    { "fix_sample_size: [1, 2]\n", "fix_sample_size: [1, 2]" },
    { "fix-sample-size: 1x2\n", "fix_sample_size: [1, 2]" },
    { "height: 1\nwidth: 2\n", "fix_sample_size: [1, 2]" },
    { "latents: one\n", "latents: [one]" },
    { "latents: [one, two]\n", "latents: [one, two]" },
    { "latents:\n- one\n- 'a: b'\n", "latents: [one, \"a: b\"]" },
    { "keys: []\n", "keys: [video]" },
    { "gradient_checkpointing: true\n", "gradient_checkpointing: block" },
    { "gradient_checkpointing: false\n", "gradient_checkpointing: none" },
    { "gradient_checkpointing: auto\n", "gradient_checkpointing: auto" },
    { "no_gradient_checkpointing: true\n", "gradient_checkpointing: none" },
    { "shard_size: 1GiB\n", "shard_size: 1GiB" },
    { "a: &x 3\n", NULL },
    { "seed: &x 3\nrank: *x\n", "rank: 3" },
};

static void test_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(good_files); i++) {
        run r = START("--config", text_file(good_files[i].yaml));
        if (!good_files[i].line) {
            assert_int_equal(r.rc, VC_EUSAGE);
        } else {
            if (r.rc)
                fail_msg("%s: %s", good_files[i].yaml, r.err.text);
            char *yaml = vc_flags_yaml(&program, &r.o);
            if (!has_line(yaml, good_files[i].line))
                fail_msg("%s: %s is not in\n%s", good_files[i].yaml, good_files[i].line, yaml);
            free(yaml);
        }
        finish(&r);
    }
}

static const struct {
    const char *yaml, *say;
} bad_files[] = {
    { "seed: 1\nrnak: 8\n", "line 2: unknown flag rnak: did you mean rank?" },
    { "\n\nrank: 0\n", "line 3: rank: \"0\" is out of range: 1 to 4096" },
    { "rank: 1\nseed: 2\nlora-rank: 1\n", "line 3: lora-rank: set twice (as rank before)" },
    { "fix_sample_size: [1, 2]\nwidth: 3\n", "line 2: width: set twice" },
    { "rank: [1]\n", "line 1: rank: one value is expected, not a sequence" },
    { "rank: {a: 1}\n", "rank: one value is expected, not a mapping" },
    { "fix_sample_size: [1]\n", "two numbers are expected" },
    { "fix_sample_size: [1, 2, 3]\n", "two numbers are expected" },
    { "fix_sample_size: [1, [2]]\n", "one value is expected" },
    { "latents: [[a]]\n", "one value is expected" },
    { "latents: {a: b}\n", "one value is expected" },
    { "[1, 2]: 3\n", "line 1: a key: one value is expected" },
    { "- rank\n", "lines of \"flag: value\"" },
    { "rank\n", "lines of \"flag: value\"" },
    { "rank: 8\n---\nrank: 9\n", "more than one YAML document" },
    { "rank: \"8\n", "no valid YAML" },
    { "seed: 1\nrank: [1, 2\n", "no valid YAML" },
    { "rank: 1\n\tseed: 3\n", "line 2: no valid YAML" },
    { "rank: *nowhere\n", "no valid YAML" },
    { "prompt: \"a\\0b\"\n", "prompt: a NUL character" },
    { "config: other.yaml\n", "unknown flag config" },
    { "help: true\n", "unknown flag help" },
    { "no_rank: true\n", "unknown flag no_rank" },
    { "no_enable_bucket: 3\n", "true or false is expected" },
    { "prompt: \"\xff\"\n", "byte " },
};

static void test_bad_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_files); i++) {
        run r = START("--config", text_file(bad_files[i].yaml));
        if (r.rc != VC_EUSAGE)
            fail_msg("%s: code %d", bad_files[i].yaml, r.rc);
        has(r.err.text, ".yaml: ");
        has(r.err.text, bad_files[i].say);
        finish(&r);
    }
    run r = START("--config", text_file("height: 3\n"));
    assert_int_equal(r.rc, VC_EUSAGE);
    has(r.err.text, "--fix_sample_size: only one of two numbers was given");
    finish(&r);
    r = START("--config", folder);
    assert_int_equal(r.rc, VC_EUSAGE);
    has(r.err.text, "not a regular file");
    finish(&r);
}

static void test_command_line_wins(void **state)
{
    (void)state;
    const char *path = text_file("rank: 8\nseed: 9\nenable_bucket: false\nlatents: [x, y]\n"
                                 "fix_sample_size: [10, 20]\nprompt: file\nframe_rule: doc\n"
                                 "dtype: f32\nshard_size: 1G\nlr: 0.5\ngradient_checkpointing: none\n");
    run r = START("--rank", "1", "--config", path, "--enable_bucket", "--latents", "z", "--width",
                  "7", "--prompt=line", "--dtype", "bf16");
    if (r.rc)
        fail_msg("%s", r.err.text);
    assert_int_equal(r.o.rank, 1);
    assert_int_equal(r.o.seed, 9);
    assert_true(r.o.bucket);
    assert_int_equal(r.o.latents.n, 1);
    assert_string_equal(r.o.latents.item[0], "z");
    assert_int_equal(r.o.size[0], 10);
    assert_int_equal(r.o.size[1], 7);
    assert_string_equal(r.o.prompt, "line");
    assert_int_equal(r.o.rule, 0);
    assert_int_equal(r.o.dtype, VC_BF16);
    assert_int_equal(r.o.shard, 1 << 30);
    assert_true(r.o.lr == 0.5);
    assert_int_equal(r.o.remat, 2);
    finish(&r);

    /* what the file says is checked even where the command line wins */
    r = START("--rank", "1", "--config", text_file("rank: 0\n"));
    assert_int_equal(r.rc, VC_EUSAGE);
    finish(&r);
}

static const char *const texts[] = {
    "", " ", "  leading", "trailing  ", "two\nlines", "\n", "\n\nblank lines\n\n", "a\tb", "\t",
    "a: b", "a #b", "#", "- a", "? a", "! a", "&a", "*a", "{a}", "[a]", "a, b", "'single'",
    "\"double\"", "back\\slash", "\\n", "%d", "@a", "`a`", "|", ">", "no", "No", "yes", "on", "off",
    "true", "FALSE", "null", "Null", "~", "y", "n", "1e3", "0x10", "1_000", "12:30:45", "010", "0o7",
    "1.0", "-1", ".5", ".inf", ".nan", "2001-01-01", "=", "<<", "---", "...", "--- a", "ünïcödé",
    "日本語", "\xf0\x9f\x98\x80 emoji", "\xc2\x85next line", "a\xe2\x80\xa8" "b", "\xe2\x80\xa9",
    "\xef\xbb\xbf" "bom", "\xef\xbf\xbe", "\xef\xbf\xbf", "\xc2\xa0nbsp", "\xc2\x80", "\x7f", "\x01\x1f",
    "\r\n", "\r", "a\x1b[31mb", "very long: \"the quick brown fox jumps over the lazy dog\" and then "
    "some more words so that a writer that folds lines at eighty columns would have to fold this one",
    "/abs/path", "rel/path.yaml", "a.b-c_d", "x86", "e5", "to_q,to_k", "$HOME", "a\\", "\xf4\x8f\xbf\xbf",
};

static void test_texts_round_trip(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        char prompt[400];
        snprintf(prompt, sizeof prompt, "--prompt=%s", texts[i]);
        char item[400];
        snprintf(item, sizeof item, "--latents=%s", texts[i]);
        run r = START(prompt, item, "--latents=x", item, "--name", "z");
        if (r.rc)
            fail_msg("%s: %s", texts[i], r.err.text);
        assert_string_equal(r.o.prompt, texts[i]);
        char *yaml = vc_flags_yaml(&program, &r.o);
        run again = START("--config", text_file(yaml));
        if (again.rc)
            fail_msg("%s\n%s", again.err.text, yaml);
        assert_string_equal(again.o.prompt, texts[i]);
        assert_int_equal(again.o.latents.n, 3);
        assert_string_equal(again.o.latents.item[0], texts[i]);
        assert_string_equal(again.o.latents.item[1], "x");
        assert_string_equal(again.o.latents.item[2], texts[i]);
        assert_string_equal(again.o.name, "z");
        free(yaml);
        finish(&again);
        finish(&r);
    }
}

static uint32_t dice(uint32_t *s)
{
    *s = *s * 1664525u + 1013904223u;
    return *s >> 8;
}

/* Any valid UTF-8 text comes back; the characters that YAML treats specially come often. */
static void test_random_texts_round_trip(void **state)
{
    (void)state;
    static const char *const bits[] = { "\n", " ", ":", "#", "\"", "\\", "'", "-", "a", "\t", "{", "]",
                                        ",", "|", "%", "\r", "ä", "\xc2\x85", "\xe2\x80\xa8", "\x02",
                                        "no", "1", "&", "*", "!", "?", "\xf0\x9f\x98\x80" };
    uint32_t seed = 7;
    for (int round = 0; round < 300; round++) {
        char word[256] = "--prompt=";
        for (uint32_t k = dice(&seed) % 24; k; k--)
            strcat(word, bits[dice(&seed) % COUNT(bits)]);
        run r = START(word);
        assert_int_equal(r.rc, 0);
        char *yaml = vc_flags_yaml(&program, &r.o);
        run again = START("--config", text_file(yaml));
        if (again.rc)
            fail_msg("%s\n%s", again.err.text, yaml);
        assert_string_equal(again.o.prompt, word + 9);
        free(yaml);
        finish(&again);
        finish(&r);
    }
}

/* Damaged files are an error or a setting, never a crash. */
static void test_random_files(void **state)
{
    (void)state;
    static const char seedling[] = "rank: 8\nprompt: \"a \\x41\"\nlatents: [a, {b: c}]\n"
                                   "fix_sample_size: [1, 2]\nseed: &x 3\nkeys: [*x, 'y']\n";
    static const char odd[] = "[]{}:,&*!|>'\"%@`#-?\n \t\\\0\xff\xc3";
    uint32_t seed = 11;
    for (int round = 0; round < 1500; round++) {
        char text[sizeof seedling];
        memcpy(text, seedling, sizeof text);
        for (uint32_t k = 1 + dice(&seed) % 4; k; k--)
            text[dice(&seed) % sizeof text] = odd[dice(&seed) % sizeof odd];
        run r = START("--config", file_with(text, 1 + dice(&seed) % sizeof text));
        assert_true(r.rc == 0 || r.rc == VC_EUSAGE);
        finish(&r);
    }
}

/* Whose cost would grow with the square of their size. */
static void test_costly_files(void **state)
{
    (void)state;
    enum { SIZE = 256 << 10 };
    static const char *const parts[] = { "[", "{a: ", "[{", "{a,", "- ", "? ", "a: b\n" };
    char *text = malloc(SIZE + 1);
    for (size_t i = 0; i < COUNT(parts); i++) {
        for (size_t k = 0; k < SIZE; k++)
            text[k] = parts[i][k % strlen(parts[i])];
        double since = vc_seconds();
        run r = START("--config", file_with(text, SIZE));
        assert_int_equal(r.rc, VC_EUSAGE);
        finish(&r);
        if (vc_seconds() - since > 5)
            fail_msg("%s: %.1f s", parts[i], vc_seconds() - since);
    }
    memset(text, ' ', SIZE + 1);
    run r = START("--config", file_with(text, SIZE + 1));
    assert_int_equal(r.rc, VC_EUSAGE);
    has(r.err.text, "at most");
    finish(&r);
    free(text);
}

static void test_help(void **state)
{
    (void)state;
    const char *const asks[] = { "--help", "-h" };
    for (size_t i = 0; i < COUNT(asks); i++) {
        run r = START("--rank", "3", asks[i], "--nonesuch");
        assert_int_equal(r.rc, 1);
        has(r.out, "usage: prog --meta FILE [flags]\n");
        has(r.out, "Does what it does.\n");
        has(r.out, "\nInput\n");
        has(r.out, "\nTexts\n");
        has(r.out, "--[no_]enable_bucket");
        has(r.out, "default on");
        has(r.out, "(1 to 4096; default 64)");
        has(r.out, "(above 0, up to 1; default\n                          1e-4)\n");
        has(r.out, "also --train_data_meta --dataset_metadata_path\n");
        has(r.out, "--frame_rule doc|peer|no|full-finetune");
        has(r.out, "--gradient_checkpointing[=block|auto|none]");
        has(r.out, "also --height (first) --width (second)");
        has(r.out, "--config FILE");
        has(r.out, "--version");
        for (char *line = r.out, *end; *line; line = end + 1) {
            end = strchr(line, '\n');
            assert_non_null(end);
            if (end - line > 80)
                fail_msg("%.*s", (int)(end - line), line);
            assert_true(end == line || end[-1] != ' ');
        }
        finish(&r);
    }
}

static void test_version(void **state)
{
    (void)state;
    run r = START("--version");
    assert_int_equal(r.rc, 1);
    assert_int_equal(strncmp(r.out, "prog ", 5), 0);
    has(r.out, "\nlibfoo 1.2\n");
    finish(&r);
}

static void test_nearest(void **state)
{
    (void)state;
    static const struct { const char *name, *near; } rows[] = {
        { "rank", "rank" }, { "rnak", "rank" }, { "ran", "rank" }, { "lora_rnk", "rank" },
        { "Learning_rate", "learning_rate" }, { "learningrate", "learning_rate" },
        { "lrr", "learning_rate" }, { "train_data_met", "meta" }, { "q", NULL }, { "", NULL },
        { "completely_different", NULL }, { "enable-bucket", "enable_bucket" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *near = vc_flags_nearest(&program, rows[i].name);
        if (!rows[i].near ? near != NULL : !near || strcmp(near, rows[i].near))
            fail_msg("%s -> %s", rows[i].name, near ? near : "nothing");
    }
}

/* ---- tables that contradict themselves ---- */

static void check_says(const vc_flag *rows, const vc_foreign *const *tables, const char *say)
{
    vc_program p = { .name = "p", .synopsis = "p", .flags = rows, .foreign = tables };
    vc_err err = { 0 };
    int rc = vc_flags_check(&p, &err);
    if (!say && rc)
        fail_msg("%s", err.text);
    if (!say)
        return;
    if (rc != VC_EFAIL)
        fail_msg("no \"%s\"", say);
    has(err.text, say);
}

static void test_check(void **state)
{
    (void)state;
    const vc_flag end = { 0 };
    vc_flag rank = ROW(VC_INT, rank, "rank", "64", "1..", "lora_rank");
    check_says(table, foreign, NULL);
    check_says((vc_flag[]){ rank, end }, NULL, NULL);

    vc_flag f = rank;
    f.value = "0";
    check_says((vc_flag[]){ f, end }, NULL, "default of --rank: \"0\" is out of range");
    vc_flag twin = ROW(VC_INT, seed, "lora-rank", NULL, NULL, NULL);
    check_says((vc_flag[]){ rank, twin, end }, NULL, "also a name of --");
    vc_flag config = ROW(VC_INT, seed, "config", NULL, NULL, NULL);
    check_says((vc_flag[]){ config, end }, NULL, "every program has it");
    vc_flag shared = ROW(VC_INT, seed, "seed", NULL, NULL, "other_alias");
    check_says((vc_flag[]){ shared, end }, foreign, "--other_alias: also in a table of foreign");
    f = rank;
    f.help = NULL;
    check_says((vc_flag[]){ f, end }, NULL, "no help");
    vc_flag choice = ROW(VC_CHOICE, rule, "rule", NULL, NULL, NULL);
    check_says((vc_flag[]){ choice, end }, NULL, "a choice of nothing");
    f = rank;
    f.aliases = "height:0";
    check_says((vc_flag[]){ f, end }, NULL, "alias height:0");
}

static void test_foreign_tables(void **state)
{
    (void)state;
    static const vc_flag none[] = { { 0 } };
    static const vc_foreign *const vprep[] = { vc_vtrain_flags, vc_jobless_flags, vc_refused_flags, NULL };
    static const vc_foreign *const vtrain[] = { vc_vprep_flags, vc_jobless_flags, vc_refused_flags, NULL };
    const vc_program in_vprep = { .name = "vprep", .synopsis = "s", .flags = none, .foreign = vprep };
    const vc_program in_vtrain = { .name = "vtrain", .synopsis = "s", .flags = none, .foreign = vtrain };
    static const struct { const char *words[MOST_WORDS], *say; bool refused, both; } rows[] = {
        { { "--learning_rate", "1e-4" }, "--learning_rate: used by vtrain", false, false },
        { { "--use_gradient_checkpointing_offload" }, "vtrain", false, false },
        { { "--low_vram" }, "--low_vram: has no job here", false, true },
        { { "--vae_mini_batch", "1" }, "has no job here", false, true },
        { { "--lora_base_model", "dit" }, "has no job here", false, true },
        { { "--lora_base_model", "text_encoder" }, "not one of dit", true, true },
        { { "--task", "sft" }, "has no job here", false, true },
        { { "--task", "direct_distill" }, "not one of sft", true, true },
        { { "--use_deepspeed" }, "mpirun", true, true },
        { { "--fsdp_transformer_layer_cls_to_wrap", "X" }, "mpirun", true, true },
        { { "--model_id_with_origin_paths", "a/b:c" }, "give a folder", true, true },
        { { "--train_text_encoder" }, "only the transformer", true, true },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        for (int k = 0; k < (rows[i].both ? 2 : 1); k++) {
            run r = start_with(k ? &in_vtrain : &in_vprep, rows[i].words);
            assert_int_equal(r.rc, rows[i].refused ? VC_EUSAGE : 0);
            has(rows[i].refused ? r.err.text : vc_flags_note(r.set, 0), rows[i].say);
            finish(&r);
        }
    run r = start_with(&in_vtrain, (const char *const[MOST_WORDS]){
        "--train_data_meta", "m.json", "--fix_sample_size", "384", "672", "--no_enable_bucket" });
    assert_int_equal(r.rc, 0);
    assert_string_equal(vc_flags_note(r.set, 0),
                        "--train_data_meta, --fix_sample_size, --no_enable_bucket: "
                        "used by vprep, not here");
    finish(&r);
}

/* No name is in two tables that one program reads. */
static void test_foreign_tables_are_apart(void **state)
{
    (void)state;
    static const vc_foreign *const tables[] = { vc_vprep_flags, vc_vtrain_flags, vc_jobless_flags,
                                                vc_refused_flags };
    const char *seen[400];
    size_t len[400], n = 0;
    for (size_t t = 0; t < COUNT(tables); t++)
        for (const vc_foreign *f = tables[t]; f->name; f++)
            for (const char *s = f->name; *s; s += len[n - 1], s += strspn(s, " ")) {
                assert_true(n < COUNT(seen));
                seen[n] = s;
                len[n] = strcspn(s, " ");
                for (size_t i = 0; i < n; i++)
                    if (len[i] == len[n] && !strncmp(seen[i], s, len[n]))
                        fail_msg("%.*s is there twice", (int)len[n], s);
                n++;
            }
    assert_true(n > 150);
}

static int make_folder(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/vlt-flags-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return vc_remove_tree(folder, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_values),
        cmocka_unit_test(test_errors), cmocka_unit_test(test_hostile_words_make_one_line),
        cmocka_unit_test(test_required_and_given), cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_files), cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_command_line_wins), cmocka_unit_test(test_texts_round_trip),
        cmocka_unit_test(test_random_texts_round_trip), cmocka_unit_test(test_random_files),
        cmocka_unit_test(test_costly_files), cmocka_unit_test(test_help), cmocka_unit_test(test_version), cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_check), cmocka_unit_test(test_foreign_tables),
        cmocka_unit_test(test_foreign_tables_are_apart),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
