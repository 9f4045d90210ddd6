/* test_config.c - settings from YAML, TOML and JSON files: accepted and refused files, and files
 * that the program writes and reads again. */
#include "tests/common/flags_run.h"

#include "common/os/progress.h"
#include "tests/lib/ok.h"

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
    { "targets: [a, b]\n", "targets: \"a,b\"" },
    { "targets: a\n", "targets: a" },
    { "targets: []\n", "rank: 64" },
    { "--rank: 8\n", "rank: 8" },
    { "{\"--lora-rank\": 8}", "rank: 8" },
    { "adapter:\n  rank: 8\n  type: lora\noptimizer: {lr: 0.5}\n", "rank: 8" },
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
    const char *yaml, *message;
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
    { "adapter:\n  type: lokr\n", "line 2: adapter.type: \"lokr\" is not one of lora: it is" },
    { "adapter:\n  rnak: 8\n", "line 2: unknown flag adapter.rnak" },
    { "adapter:\n  more: {rank: 8}\n", "line 2: unknown flag adapter.more" },
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
    { "# one\nprompt: \"\xe9\"\n",
      "line 2: byte 10 is not UTF-8 (0xe9): save it as UTF-8, as with" },
    { "prompt: \"a\1\"\n", "byte 10: control characters are not allowed" },
};

static void test_bad_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_files); i++) {
        run r = START("--config", text_file(bad_files[i].yaml));
        if (r.rc != VC_EUSAGE)
            fail_msg("%s: code %d", bad_files[i].yaml, r.rc);
        has(r.err.text, ".yaml: ");
        has(r.err.text, bad_files[i].message);
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

/* Writes a file with this text and suffix and returns its path. */
static const char *named(const char *text, size_t size, const char *suffix)
{
    static char name[400];
    const char *path = file_with(text, size);
    snprintf(name, sizeof name, "%s%s", path, suffix);
    assert_int_equal(rename(path, name), 0);
    return name;
}

static const char *toml_with(const char *text, size_t size)
{
    return named(text, size, ".toml");
}

/* A pair of JSON's \u escapes that make one character is read as this character; an escaped
 * backslash begins no escape, and half of a pair is refused. */
static void test_json(void **state)
{
    static const struct {
        const char *json, *prompt, *message;
    } rows[] = {
        { "{\"prompt\": \"a \\ud83d\\uDFEB!\", \"rank\": 8}", "a \360\237\237\253!", NULL },
        { "{\"prompt\": \"\\uD800\\udc00\\udbff\\udffd\"}", "\360\220\200\200\364\217\277\275",
          NULL },
        { "{\"prompt\":\"\\\\ud83d\\\\udfeb \\u00e9\"}", "\\ud83d\\udfeb \303\251", NULL },
        { "{\"prompt\": \"\\ud83d\"}", NULL, "no valid YAML" },
        { "{\"prompt\": \"\\ud83d\\u0041\"}", NULL, "no valid YAML" },
        { "{\"prompt\": \"\\ud83d\\udf", NULL, "no valid YAML" },
        { "{\"prompt\": \"\\", NULL, "no valid YAML" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        run r = START("--config", named(rows[i].json, strlen(rows[i].json), ".json"));
        assert_int_equal(r.rc, rows[i].message ? VC_EUSAGE : 0);
        if (rows[i].message)
            has(r.err.text, rows[i].message);
        else
            assert_string_equal(r.o.prompt, rows[i].prompt);
        finish(&r);
    }
}

static const char *toml_file(const char *text)
{
    return toml_with(text, strlen(text));
}

static const struct {
    const char *toml, *line;
} good_tomls[] = {
    { "", "rank: 64" },
    { "# only a comment\n", "rank: 64" },
    { "rank = 8\n", "rank: 8" },
    { "\xef\xbb\xbf" "rank = 8\r\n", "rank: 8" },
    { "rank = 0x10\n", "rank: 16" },
    { "lora-rank = '8'\n", "rank: 8" },
    { "'lora-rank' = 1_0\n", "rank: 10" },
    { "network_alpha = 2.5\n", "network_alpha: 2.5" },
    { "lr = 2e-5\n", "learning_rate: 2e-05" },
    { "lr = 1.0\n", "learning_rate: 1" },
    { "prompt = ''\nseed = 3\n", "prompt: \"\"" },
    { "prompt = 'null'\n", "prompt: \"null\"" },
    { "prompt = \"\"\"a \"quote\"\"\"\"\nseed = 3\n", "prompt: \"a \\\"quote\\\"\"" },
    { "prompt = \"\"\"\nx.y.z = 1\n'\"\"\"\nseed = 3\n", "seed: 3" },
    { "prompt = \"a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v\"\n", "seed: 42" },
    { "# a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v\n", "seed: 42" },
    { "prompt = \"\"\"a\\\n \xd0\x87x\"\"\"\nseed = 3\n", "prompt: \"a\xd0\x87x\"" },
    { "prompt = '1979-05-27'\n", "prompt: \"1979-05-27\"" },
    { "prompt = 1979-05-27T07:32:00Z\n", "prompt: \"1979-05-27T07:32:00Z\"" },
    { "enable_bucket = false\n", "enable_bucket: false" },
    { "no_enable_bucket = true\n", "enable_bucket: false" },
    { "fix_sample_size = [1, 2]\n", "fix_sample_size: [1, 2]" },
    { "height = 1\nwidth = 2\n", "fix_sample_size: [1, 2]" },
    { "targets = ['a', \"b\"]\n", "targets: \"a,b\"" },
    { "latents = [\n  'one', # a comment\n  'two',\n]\n", "latents: [one, two]" },
    { "gradient_checkpointing = true\n", "gradient_checkpointing: block" },
    { "[adapter]\ntype = 'lora'\nrank = 8\n[optimizer]\nlr = 0.5\n", "rank: 8" },
    { "adapter.rank = 8\nadapter.type = 'lora'\n", "rank: 8" },
    { "adapter = { rank = 8, type = 'lora' }\n", "rank: 8" },
};

static const struct {
    const char *toml, *message;
} bad_tomls[] = {
    { "seed = 1\nrnak = 8\n", ".toml: line 2: unknown flag rnak: did you mean rank?" },
    { "\n\nrank = 0\n", "line 3: rank: \"0\" is out of range: 1 to 4096" },
    { "rank = 8.5\n", "line 1: rank: \"8.5\"" },
    { "rank = 8.0\n", "line 1: rank: \"8.0\"" },
    { "rank = 1\nlora-rank = 1\n", "line 2: lora-rank: set twice (as rank before)" },
    { "rank = 1\nrank = 1\n", "line 2: column " },
    { "seed = 1\nrank = \n", "line 2: column " },
    { "rank: 8\n", "line 1: column 5: no valid TOML" },
    { "seed = 1\n[!]\n", "line 2: column 2: no valid TOML" },
    { "rank = [1]\n", "one value is expected, not a sequence" },
    { "[adapter]\ntype = 'lokr'\n", "line 2: adapter.type: \"lokr\" is not one of lora: it is" },
    { "[adapter.more]\nrank = 8\n", "unknown flag adapter.more" },
    { "prompt = \"a\\u0000b\"\n", "prompt: a NUL character" },
    { "\nprompt = \"\xff\"\n", "line 2: byte 11 is not UTF-8 (0xff): save it as UTF-8, as with" },
    { "\xff\xfep\x70", "UTF-16: save it as UTF-8" },
    { "seed = 1\n\xd0\x87nk = 3\n", "line 2: column 1: no valid TOML" },
    { "'\xd0\x87nk' = 3\n", "unknown flag \xd0\x87nk" },
    { "rank = inf\n", "rank: \"inf\"" },
    { "lr = nan\n", "lr: \"nan\"" },
    { "seed = 1\na.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r = 1\n", "line 2: nested more than 16 deep" },
    { "[a.b.c.d . e.f.g.h.i.'j'.k.l.m.n.o.p.q.r]\n", "nested more than 16 deep" },
    { "prompt = \"\"\"\"\"\", a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r\n", "line 1: nested more than" },
    { "x = {a.b.c.d.e.f.g = {a.b.c.d.e.f.g = {a.b.c.d.e.f.g = 1}}}\n", "nested more than 16" },
};

static void test_toml(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(good_tomls); i++) {
        run r = START("--config", toml_file(good_tomls[i].toml));
        if (r.rc)
            fail_msg("%s: %s", good_tomls[i].toml, r.err.text);
        char *yaml = vc_flags_yaml(&program, &r.o);
        if (!has_line(yaml, good_tomls[i].line))
            fail_msg("%s: %s is not in\n%s", good_tomls[i].toml, good_tomls[i].line, yaml);
        free(yaml);
        finish(&r);
    }
    for (size_t i = 0; i < COUNT(bad_tomls); i++) {
        run r = START("--config", toml_file(bad_tomls[i].toml));
        if (r.rc != VC_EUSAGE)
            fail_msg("%s: code %d", bad_tomls[i].toml, r.rc);
        has(r.err.text, ".toml: ");
        has(r.err.text, bad_tomls[i].message);
        finish(&r);
    }
}

/* Errors are reported in the order of the file's lines. */
static void test_toml_order(void **state)
{
    (void)state;
    run r = START("--config", toml_file("zz = 1\nmm = 2\n[b]\nx = 1\naa = 3\n[a]\nx = 2\n"));
    static const char *const order[] = { "zz", "mm", "b.x", "b.aa", "a.x" };
    assert_int_equal(r.rc, VC_EUSAGE);
    for (int i = 0; i < (int)COUNT(order); i++) {
        assert_non_null(vc_flags_wrong_line(r.set, i));
        has(vc_flags_wrong_line(r.set, i), order[i]);
    }
    assert_null(vc_flags_wrong_line(r.set, COUNT(order)));
    finish(&r);
}

static void test_command_line_wins(void **state)
{
    (void)state;
    const char *path =
        text_file("rank: 8\nseed: 9\nenable_bucket: false\nlatents: [x, y]\n"
                  "fix_sample_size: [10, 20]\nprompt: file\nframe_rule: doc\n"
                  "dtype: f32\nshard_size: 1G\nlr: 0.5\ngradient_checkpointing: none\n");
    run r = START("--rank", "1", "--config", path, "--enable_bucket", "--latents", "z", "--width",
                  "7", "--prompt=line", "--dtype", "bf16");
    assert_ok(r.rc, &r.err);
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

    /* a value of the file is checked even if the command line has the same flag */
    r = START("--rank", "1", "--config", text_file("rank: 0\n"));
    assert_int_equal(r.rc, VC_EUSAGE);
    finish(&r);
}

static const char *const texts[] = {
    "", " ", "  leading", "trailing  ", "two\nlines", "\n", "\n\nblank lines\n\n", "a\tb", "\t",
    "a: b", "a #b", "#", "- a", "? a", "! a", "&a", "*a", "{a}", "[a]", "a, b", "'single'",
    "\"double\"", "back\\slash", "\\n", "%d", "@a", "`a`", "|", ">", "no", "No", "yes", "on",
    "off", "true", "FALSE", "null", "Null", "~", "y", "n", "1e3", "0x10", "1_000", "12:30:45",
    "010", "0o7", "1.0", "-1", ".5", ".inf", ".nan", "2001-01-01", "=", "<<", "---", "...",
    "--- a", "ünïcödé", "日本語", "\xf0\x9f\x98\x80 emoji", "\xc2\x85next line", "a\xe2\x80\xa8" "b",
    "\xe2\x80\xa9", "\xef\xbb\xbf" "bom", "\xef\xbf\xbe", "\xef\xbf\xbf", "\xc2\xa0nbsp",
    "\xc2\x80",
    "\x7f", "\x01\x1f", "\r\n", "\r", "a\x1b[31mb",
    "very long: \"the quick brown fox jumps over the lazy dog\" and then some more words so that a "
    "writer that folds lines at eighty columns would have to fold this one",
    "/abs/path", "rel/path.yaml", "a.b-c_d", "x86", "e5", "to_q,to_k", "$HOME", "a\\",
    "\xf4\x8f\xbf\xbf",
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

static uint32_t random_number(uint32_t *s)
{
    *s = *s * 1664525u + 1013904223u;
    return *s >> 8;
}

/* Any valid UTF-8 text reads back; these texts have many characters with a meaning in YAML. */
static void test_random_texts_round_trip(void **state)
{
    (void)state;
    static const char *const bits[] = {
        "\n",           " ",    ":",  "#", "\"", "\\", "'",  "-", "a",
        "\t",           "{",    "]",  ",", "|",  "%",  "\r", "ä", "\xc2\x85",
        "\xe2\x80\xa8", "\x02", "no", "1", "&",  "*",  "!",  "?", "\xf0\x9f\x98\x80"
    };
    uint32_t seed = 7;
    for (int round = 0; round < 300; round++) {
        char word[256] = "--prompt=";
        for (uint32_t k = random_number(&seed) % 24; k; k--)
            strcat(word, bits[random_number(&seed) % COUNT(bits)]);
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

/* A damaged file is read or refused, and never crashes the parser. */
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
        for (uint32_t k = 1 + random_number(&seed) % 4; k; k--)
            text[random_number(&seed) % sizeof text] = odd[random_number(&seed) % sizeof odd];
        run r = START("--config", file_with(text, 1 + random_number(&seed) % sizeof text));
        assert_true(r.rc == 0 || r.rc == VC_EUSAGE);
        finish(&r);
    }
}

static void test_random_tomls(void **state)
{
    (void)state;
    static const char seedling[] =
        "rank = 8\nprompt = \"\"\"a \\u0041\"\"\"\nadapter.type = 'lora'\nfix_sample_size = [1, "
        "2]\n"
        "adapter.rank = 0x8\n[[other]]\nseed = 1979-05-27\nx = { y = 1e3, z.'a' = [true] }"
        "\n[a.b]\n";
    static const char odd[] = "[]{}=.,'\"\\#-+_e0x:TZ\n \t\r\0\xff\xc3";
    uint32_t seed = 13;
    for (int round = 0; round < 3000; round++) {
        char text[sizeof seedling];
        memcpy(text, seedling, sizeof text);
        for (uint32_t k = 1 + random_number(&seed) % 4; k; k--)
            text[random_number(&seed) % sizeof text] = odd[random_number(&seed) % sizeof odd];
        const char *path = toml_with(text, 1 + random_number(&seed) % sizeof text);
        run r = START("--config", path);
        assert_true(r.rc == 0 || r.rc == VC_EUSAGE);
        finish(&r);
        unlink(path);
    }
}

/* These files would take a careless parser a time that grows with the square of their size. */
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
        assert_null(vc_flags_wrong_line(r.set, 100));
        finish(&r);
        if (vc_seconds() - since > 5)
            fail_msg("%s: %.1f s", parts[i], vc_seconds() - since);
    }
    static const char *const tomls[] = { "[", "a=[", "a.", "[a.", "x={a=", "'", "\"\"\"",
                                         "[[a]]\n",
                                         "[a.b]\n", "a={b={c={d={", "\n", "x=[{},", "[[a.a]]\n" };
    for (size_t i = 0; i < COUNT(tomls); i++) {
        for (size_t k = 0; k < SIZE; k++)
            text[k] = tomls[i][k % strlen(tomls[i])];
        double since = vc_seconds();
        run r = START("--config", toml_with(text, SIZE));
        assert_true(r.rc == VC_EUSAGE || *tomls[i] == '\n');
        finish(&r);
        if (vc_seconds() - since > 5)
            fail_msg("%s: %.1f s", tomls[i], vc_seconds() - since);
    }
    memset(text, ' ', SIZE + 1);
    run r = START("--config", file_with(text, SIZE + 1));
    assert_int_equal(r.rc, VC_EUSAGE);
    has(r.err.text, "at most");
    finish(&r);
    free(text);
}

/* A file that cannot be read may have the flags that seem to be missing. */
static void test_no_false_required(void **state)
{
    static const struct { const char *text; bool whole; } rows[] = {
        { "seed: [1, 2\n", false }, { "rank\n", false }, { "prompt: \"\xff\"\n", false },
        { "rnak: 3\n", true }, { "seed: 1\n", true },
    };
    (void)state;
    static const vc_flag one[] = {
        ROW(VC_INT, seed, "seed", "42", NULL, NULL),
        { .name = "meta", .kind = VC_PATH, .offset = offsetof(options, meta), .help = "Is needed.",
          .required = true },
        { 0 }
    };
    const vc_program p = { .name = "prog", .synopsis = "", .about = "", .flags = one };
    for (size_t i = 0; i < COUNT(rows) + 2; i++) {
        options o;
        vc_flags *set;
        vc_err err = { 0 };
        bool there = i < COUNT(rows);
        char *argv[] = { "prog", "--config", "broken.yaml" };
        if (there)
            assert_int_equal(vc_file_write(argv[2], rows[i].text, strlen(rows[i].text), &err), 0);
        int argc = i == COUNT(rows) + 1 ? 2 : 3;
        assert_int_equal(vc_flags_parse(&set, &p, &o, argc, argv, stdout, &err), VC_EUSAGE);
        bool said = false;
        for (int k = 0; vc_flags_wrong_line(set, k); k++)
            said = said || strstr(vc_flags_wrong_line(set, k), "required");
        assert_int_equal(said, there && rows[i].whole);
        assert_int_equal(vc_flags_whole(set), there && rows[i].whole);
        vc_flags_free(set);
        remove(argv[2]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_false_required),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_toml),
        cmocka_unit_test(test_toml_order),
        cmocka_unit_test(test_command_line_wins),
        cmocka_unit_test(test_texts_round_trip),
        cmocka_unit_test(test_random_texts_round_trip),
        cmocka_unit_test(test_random_files),
        cmocka_unit_test(test_random_tomls),
        cmocka_unit_test(test_costly_files),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
