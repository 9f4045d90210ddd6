/* fuzz_config.c - any bytes are read as a file of settings; the first byte chooses TOML, YAML,
 * SimpleTuner's config.env or JSON. */
#include "tests/fuzz/fuzz_settings.h"

typedef struct options {
    int64_t rank, size[2];
    char *prompt, *targets;
    vc_list latents;
    bool bucket;
} options;

#define ROW(kind_, field, name_) \
    { .name = name_, .kind = kind_, .offset = offsetof(options, field), .help = "A row." }

static const vc_flag rows[] = {
    ROW(VC_INT, rank, "rank"),
    ROW(VC_PAIR, size, "size"),
    ROW(VC_STRING, prompt, "prompt"),
    ROW(VC_WORDS, targets, "targets"),
    ROW(VC_LIST, latents, "latents"),
    ROW(VC_BOOLEAN, bucket, "bucket"),
    { 0 }
};
static const vc_foreign others[] = {
    { .name = "other adapter.type", .values = 1, .say = "has no effect", .only = "lora",
      .why = "so" },
    { .name = "datasets fsdp_*", .values = 1, .refused = true, .say = "use mpirun" },
    { 0 }
};
static const vc_foreign *const foreign[] = { others, NULL };
static const vc_program program = {
    .name = "prog", .synopsis = "prog", .about = "Fuzzed.", .flags = rows, .foreign = foreign,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "c.toml", "c.yaml", "c.env", "c.json" };
    options o;
    fuzz_settings(&program, &o, names, 4, data, size);
    return 0;
}
