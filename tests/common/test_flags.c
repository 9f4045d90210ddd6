/* test_flags.c - the command line: values, messages, flags of other programs, and --help. */
#include "tests/common/flags_run.h"

#include "common/cli/foreign.h"
#include "tests/lib/ok.h"

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

/* Words of a command line, and a line of the resulting settings. */
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
    { { "--enable_bucket", "False", "--rank", "7" }, "enable_bucket: false" },
    { { "--verify_data", "true" }, "verify_data: true" },
    { { "--gradient_checkpointing", "none", "--rank", "7" }, "gradient_checkpointing: none" },
    { { "--gradient_checkpointing", "True" }, "gradient_checkpointing: block" },
    { { "-learning_rate", "0.5", "-rank=5" }, "learning_rate: 0.5" },
    { { "-rank=5" }, "rank: 5" },
    { { "-other_number", "5", "-rank=5" }, "rank: 5" },
    { { "--latents", "a", "b c" }, "latents: [a, \"b c\"]" },
    { { "--latents", "a", "b", "-rank", "3" }, "latents: [a, b]" },
    { { "--targets", "to_q", "to_k", "--rank", "7" }, "targets: \"to_q,to_k\"" },
    { { "--targets", "to_q" }, "targets: to_q" },
    { { "--other_many", "a", "b", "c", "--rank", "7" }, "rank: 7" },
    { { "--other_switch", "True", "--rank", "7" }, "rank: 7" },
    { { "--use_fsdp", "False", "--rank", "7" }, "rank: 7" },
    { { "--latents", "a", "--latents=b c" }, "latents: [a, \"b c\"]" },
    { { "--keys", "image" }, "keys: [image]" },
    { { "--keys", "1", "--keys", "2", "--keys", "3", "--keys", "4", "--keys", "5" },
      "keys: [\"1\", \"2\", \"3\", \"4\", \"5\"]" },
};

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
    const char *words[MOST_WORDS], *message[3];
} bad[] = {
    { { "--rnak", "8" }, { "unknown flag --rnak", "did you mean --rank?" } },
    { { "--learning-rte=1" }, { "unknown flag --learning-rte", "--learning_rate?" } },
    { { "--dataset_metadata_pth", "x" }, { "did you mean --meta?" } },
    { { "--no_enable_bukcet" }, { "did you mean --no_enable_bucket?" } },
    { { "--heigth", "5" }, { "did you mean --fix_sample_size?" } },
    { { "--zzzzzzzzzz" }, { "unknown flag --zzzzzzzzzz", "prog --help" } },
    { { "-rnak", "3" }, { "unknown flag -rnak: did you mean --rank?" } },
    { { "-x" }, { "unknown flag -x: see prog --help" } },
    { { "--text_encoder2", "x" }, { "did you mean --text_encoder_2?" } },
    { { "--text_encoder_4", "x" }, { "unknown flag --text_encoder_4: see" } },
    { { "--num_layers", "4" }, { "unknown flag --num_layers: see" } },
    { { "--rl", "1" }, { "unknown flag --rl: see" } },
    { { "--other_nubmer", "1" }, { "did you mean --other_number?" } },
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
    { { "--enable_bucket", "maybe" },
      { "unexpected \"maybe\" after --enable_bucket, which takes true or false, or no value" } },
    { { "--gradient_checkpointing", "all" }, { "unexpected \"all\"", "takes block|auto|none" } },
    { { "--rank", "8", "9" }, { "unexpected \"9\" after the value of --rank, which takes one" } },
    { { "word" }, { "unexpected \"word\"", "--help" } },
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
    { { "--task", "distill" }, { "--task: \"distill\" is not one of sft: it tunes" } },
};

static void test_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        run r = start(bad[i].words);
        if (r.rc != VC_EUSAGE)
            fail_msg("%s %s: code %d", bad[i].words[0], bad[i].words[1] ? bad[i].words[1] : "",
                     r.rc);
        for (int k = 0; k < 3 && bad[i].message[k]; k++)
            has(r.err.text, bad[i].message[k]);
        finish(&r);
    }
}

/* One run reports all errors in order, without those that only follow from others. */
static void test_all_errors_are_reported(void **state)
{
    (void)state;
    run r = START("--rnak", "8", "9", "--use_fsdp", "a", "b", "--lr", "0", "--fsdp_x", "y",
                  "stray", "--task", "distill", "--height", "3", "--dtype", "q4");
    static const char *const lines[] = {
        "unknown flag --rnak: did you mean --rank?",
        "--use_fsdp, --fsdp_x: not available here: use mpirun",
        "--lr: \"0\" is out of range: above 0, up to 1",
        "--task: \"distill\" is not one of sft: it tunes",
        "--dtype: \"q4\" is not one of f16, bf16, f32",
        "--fix_sample_size: only one of two numbers was given (3 and 0)",
    };
    assert_int_equal(r.rc, VC_EUSAGE);
    assert_string_equal(r.err.text, lines[0]);
    for (int i = 0; i < (int)COUNT(lines); i++)
        assert_string_equal(vc_flags_wrong_line(r.set, i), lines[i]);
    assert_null(vc_flags_wrong_line(r.set, COUNT(lines)));

    /* A program's own errors come last; those about a flag whose value was refused are left out. */
    vc_flags_wrong(r.set, "--%s: needs --learning_rate", "rank");
    vc_flags_wrong(r.set, "--learning_rate_x: %d", 5);
    assert_string_equal(vc_flags_wrong_line(r.set, COUNT(lines)), "--learning_rate_x: 5");
    assert_null(vc_flags_wrong_line(r.set, COUNT(lines) + 1));

    char *text = NULL;
    size_t size;
    FILE *terminal = stderr;
    stderr = open_memstream(&text, &size);
    vc_flags_report(r.set, "prog", &r.err, r.rc);
    fclose(stderr);
    stderr = terminal;
    has(text, "prog: unknown flag --rnak: did you mean --rank?\nprog: --use_fsdp, --fsdp_x: not");
    has(text, "\nprog: --learning_rate_x: 5\n");
    free(text);
    finish(&r);

    r = START("--config", text_file("rnak: 3\nuse_fsdp: true\nrank: 0\nfsdp_y: 3\nseed: 4\n"),
              "--lr", "2");
    assert_int_equal(r.rc, VC_EUSAGE);
    has(vc_flags_wrong_line(r.set, 0), "--lr: \"2\" is out");
    has(vc_flags_wrong_line(r.set, 1), "line 1: unknown flag rnak: did you mean rank?");
    has(vc_flags_wrong_line(r.set, 2), "line 2: use_fsdp, line 4: fsdp_y: not available");
    has(vc_flags_wrong_line(r.set, 3), "line 3: rank: \"0\" is out of range");
    assert_null(vc_flags_wrong_line(r.set, 4));
    assert_int_equal(r.o.seed, 4);
    finish(&r);
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
    /* a long value is cut between two characters */
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

    r = start_with(&p,
                   (const char *const[MOST_WORDS]){ "in1", "--meta", "m", "-", "--", "--rank" });
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

    /* the file may have a required flag */
    r = start_with(&p, (const char *const[MOST_WORDS]){ "--config", text_file("meta: m.json\n") });
    assert_int_equal(r.rc, 0);
    assert_string_equal(r.o.meta, "m.json");
    assert_true(vc_flags_given(r.set, "meta"));
    finish(&r);
}

/* The command line and the file override a value that the program prefers. */
static void test_preferred(void **state)
{
    (void)state;
    char *file = (char *)text_file("rank: 5\n");
    const struct {
        char *words[3];
        int64_t rank;
        bool given;
    } cases[] = {
        { { "p", "--lora-rank", "7" }, 7, true },
        { { "p", "--config", file }, 5, true },
        { { "p", "--prompt", "a" }, 9, false },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        options o;
        vc_flags *set;
        vc_err err = { 0 };
        char text[32], *words[3];
        memcpy(words, cases[i].words, sizeof words);
        assert_int_equal(vc_flags_parse(&set, &program, &o, 3, words, stdout, &err), 0);
        assert_int_equal(vc_flags_prefer(set, "rank", "9", &err), 0);
        assert_int_equal(o.rank, cases[i].rank);
        assert_int_equal(vc_flags_given(set, "rank"), cases[i].given);
        assert_true(vc_flags_decided(set, "rank"));
        assert_false(vc_flags_decided(set, "seed"));
        assert_int_equal(vc_flags_typed(set, "lora_rank"), i == 0);
        assert_false(vc_flags_typed(set, "alpha"));
        assert_int_equal(vc_flags_prefer(set, "rank", "x", &err), VC_EUSAGE);
        assert_int_equal(o.rank, cases[i].rank);
        vc_flags_default(set, "rank", text, sizeof text);
        assert_string_equal(text, "64");
        vc_flags_free(set);
    }
}

static void test_foreign(void **state)
{
    (void)state;
    run r =
        START("--other-number", "5", "--rank", "2", "--no_other_switch", "--other_switch",
              "--other_alias=3", "--other_size", "1", "2", "--task", "sft", "--other_number", "1");
    assert_ok(r.rc, &r.err);
    assert_int_equal(r.o.rank, 2);
    assert_string_equal(vc_flags_note(r.set, 0),
                        "--other-number, --no_other_switch, --other_switch, --other_alias, "
                        "--other_number: used by elsewhere");
    assert_string_equal(vc_flags_note(r.set, 1), "--other_size: used by nobody");
    assert_string_equal(vc_flags_note(r.set, 2), "--task: has no effect");
    assert_null(vc_flags_note(r.set, 3));
    assert_null(vc_flags_note(r.set, -1));
    finish(&r);

    r = START("--other_size", "1x2", "--other_size=3x4", "--other_number", "--rank", "3",
              "--no_use_fsdp", "--use_fsdp=false");
    assert_ok(r.rc, &r.err);
    assert_int_equal(r.o.rank, 3);
    assert_null(vc_flags_note(r.set, 2));
    finish(&r);

    r = START("--config", text_file("other_number: 5\nother_switch: true\nother_size: [1, 2]\n"
                                    "task: sft\nuse_fsdp: false\nother_alias:\n"));
    assert_ok(r.rc, &r.err);
    assert_string_equal(vc_flags_note(r.set, 0),
                        "--other_number, --other_switch: used by elsewhere");
    finish(&r);

    r = START("--config", text_file("rank: 3\nfsdp_wrap: x\n"));
    assert_int_equal(r.rc, VC_EUSAGE);
    has(r.err.text, ": line 2: fsdp_wrap: not available here: use mpirun");
    finish(&r);
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

/* A program whose help has topics. */
static vc_flag topical[COUNT(table)];
static vc_program topics_of(void)
{
    vc_program p = program;
    memcpy(topical, table, sizeof table);
    topical[0].aliases = "input data";
    topical[9].aliases = "texts";
    p.flags = topical;
    p.first = "latents rank";
    return p;
}

static void test_topics(void **state)
{
    (void)state;
    static const struct { const char *words[4]; const char *has, *lacks; } rows[] = {
        { { "--help" }, "\nFlags of most runs\n  --latents ", "--seed" },
        { { "-h" }, "  --help TOPIC            input, texts\n", "--seed" },
        { { "--help" }, "  --help all ", "\nInput\n" },
        { { "--help", "all" }, "\nInput\n", "Flags of most" },
        { { "--help=all" }, "--seed N", "--help TOPIC" },
        { { "-h", "data" }, "\nInput\n  --[no_]enable_bucket", "--prompt" },
        { { "--help", "texts" }, "\nTexts\n  --prompt ", "--rank" },
        { { "--help", "lora-rank" }, "\nInput\n  --rank N", "--seed" },
        { { "--help", "bucket" }, "--[no_]enable_bucket", "--rank" },
        { { "--help", "Explains seed" }, "--seed N", "--rank" },
        { { "--help", "--rank", "3" }, "\nFlags of most runs\n", "--seed" },
    };
    vc_program p = topics_of();
    for (size_t i = 0; i < COUNT(rows); i++) {
        run r = start_with(&p, (const char *[MOST_WORDS]){ rows[i].words[0], rows[i].words[1],
                                                           rows[i].words[2], NULL });
        if (r.rc != 1)
            fail_msg("row %zu: %s", i, r.err.text);
        has(r.out, rows[i].has);
        if (strstr(r.out, rows[i].lacks))
            fail_msg("row %zu: unexpected \"%s\" in %s", i, rows[i].lacks, r.out);
        finish(&r);
    }
    run r = start_with(&p, (const char *[MOST_WORDS]){ "--help", "zebra", NULL });
    assert_int_equal(r.rc, VC_EUSAGE);
    has(r.err.text, "no flag has to do with \"zebra\"; topics are input, texts, all");
    finish(&r);
}

static void test_table(void **state)
{
    (void)state;
    run r = START("--help=table");
    assert_int_equal(r.rc, 1);
    assert_ptr_equal(strstr(r.out, "program\tprog\tprog --meta FILE [flags]\t"), r.out);
    has(r.out, "\ngroup\tInput\n");
    has(r.out, "\nflag\tmeta\tpath\t--meta ");
    has(r.out, "\t--train_data_meta --dataset_metadata_path\t\n");
    has(r.out, "\nflag\tframe_rule\tchoice\t--frame_rule doc|peer|no|full-finetune\t");
    has(r.out, "\tdoc|peer|no|full-finetune\n");
    has(r.out, "\nflag\tconfig\tpath\t--config FILE\t");
    for (char *line = r.out, *end; *line; line = end + 1) {
        int tabs = 0;
        end = strchr(line, '\n');
        assert_non_null(end);
        for (char *p = line; p < end; p++)
            tabs += *p == '\t';
        if (tabs != (*line == 'p' ? 3 : *line == 'g' ? 1 : 7))
            fail_msg("%d tabs: %.*s", tabs, (int)(end - line), line);
    }
    finish(&r);
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
        { "rank", "rank" },
        { "rnak", "rank" },
        { "ran", "rank" },
        { "lora_rnk", "rank" },
        { "Learning_rate", "learning_rate" },
        { "learningrate", "learning_rate" },
        { "lrr", "learning_rate" },
        { "rl", NULL },
        { "train_data_met", "meta" },
        { "q", NULL },
        { "", NULL },
        { "completely_different", NULL },
        { "enable-bucket", "enable_bucket" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *near = vc_flags_nearest(&program, rows[i].name);
        if (!rows[i].near ? near != NULL : !near || strcmp(near, rows[i].near))
            fail_msg("%s -> %s", rows[i].name, near ? near : "nothing");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_all_errors_are_reported),
        cmocka_unit_test(test_hostile_words_make_one_line),
        cmocka_unit_test(test_required_and_given),
        cmocka_unit_test(test_preferred),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_topics),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_nearest),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
