/* main.c - vlat inspects, checks and rearranges latent datasets: its table of verbs and its exit
 * status. */
#include "formats/vlat/vlat.h"

#include <cjson/cJSON.h>
#include <lmdb.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/base/near.h"
#include "common/os/heap.h"
#include "common/os/lock.h"
#include "common/os/map.h"
#include "common/os/streams.h"

#define FLAG(kind_, field, name_, value_, allowed_, help_) \
    { .name = name_, .kind = kind_, .offset = offsetof(vlat_options, field), .value = value_, \
      .allowed = allowed_, .help = help_ }
#define OUT(what) \
    { .name = "out", .kind = VC_PATH, .offset = offsetof(vlat_options, out), .aliases = "o", \
      .help = what }
#define LOG_FORMAT \
    FLAG(VC_CHOICE, log_format, "log_format", "text", "text|json", "form of messages")
#define END { .kind = VC_BOOLEAN }

static const vc_flag plain_flags[] = { LOG_FORMAT, END };
static const vc_flag info_flags[] = {
    FLAG(VC_BOOLEAN, json, "json", NULL, NULL,
         "print the manifest and the totals as JSON, on one line"),
    FLAG(VC_PATH, of, "of", NULL, NULL,
         "checkpoint folder: show the data that it was trained on (takes no DATASET)"),
    LOG_FORMAT, END
};
static const vc_flag list_flags[] = {
    FLAG(VC_BOOLEAN, json, "json", NULL, NULL, "print the records as JSON, one object per line"),
    FLAG(VC_STRING, where, "where", NULL, NULL,
         "list only the samples that meet a condition (as of vlat select)"),
    FLAG(VC_INT, limit, "limit", "0", "0..", "largest number of samples; 0: all"),
    LOG_FORMAT, END
};
static const vc_flag verify_flags[] = {
    FLAG(VC_BOOLEAN, repair, "repair", NULL, NULL,
         "keep the undamaged samples, list the others in repair.jsonl for vprep --plan, and move "
         "the "
         "damaged files aside"),
    LOG_FORMAT, END
};
static const vc_flag compare_flags[] = {
    OUT("file to write; default: compare.html"), LOG_FORMAT, END
};
static const vc_flag report_flags[] = {
    OUT("file to write; default: report.html in the folder of the dataset, compare.html for runs"),
    FLAG(VC_INT, limit, "limit", "1000", "0..",
         "largest number of thumbnails, spread evenly over the samples; 0: all"),
    FLAG(VC_PATH, browse, "browse", NULL, NULL,
         "NAME.html: write a page to browse all samples of one or two datasets, with NAME.data "
         "beside it; it opens without a server and loads what it shows"),
    FLAG(VC_STRING, serve, "serve", NULL, NULL,
         "[HOST:]PORT: give the pages of runs to browsers, which follow the runs, until the "
         "program is stopped; HOST is 127.0.0.1 unless given, which other machines do not reach"),
    LOG_FORMAT, END
};

#define SHARD_SIZE \
    FLAG(VC_BYTES, shard_size, "shard_size", "4GiB", "1MiB..", \
         "bytes after which a shard is closed")
#define NEW_DATASET(what) \
    OUT(what), \
    SHARD_SIZE
static const vc_flag copy_flags[] = { NEW_DATASET("dataset to create (required)"), LOG_FORMAT,
    END };
static const vc_flag gc_flags[] = {
    FLAG(VC_BOOLEAN, dry_run, "dry_run", NULL, NULL,
         "only say how much would be freed; nothing is written"),
    SHARD_SIZE, LOG_FORMAT, END
};
static const vc_flag split_flags[] = {
    NEW_DATASET("path that the names of the new datasets begin with (required)"),
    FLAG(VC_INT, n, "n", NULL, "0..10000",
         "split into N parts of nearly equal length: OUT-00, OUT-01, ..."),
    FLAG(VC_CHOICE, by, "by", "nothing", "nothing|bucket",
         "bucket: split into one part per latent shape: OUT-13x48x84, ..."),
    LOG_FORMAT, END
};

#define FORMATS \
    "safetensors|webdataset|musubi|finetrainers|causvid|ttt-video|diffsynth|cogvideo|kohya|" \
    "ltx-trainer|diffusion-pipe"
#define CONSTANTS \
    FLAG(VC_PATH, vae, "vae", NULL, NULL, \
         "config.json, folder or file of the VAE with its constants, if they differ from the " \
         "known ones"), \
    FLAG(VC_CHOICE, space, "space", "auto", "auto|raw|normalized", \
         "latents in the files: as the VAE makes them, or normalised; auto: as the trainer's are")
static const vc_flag export_flags[] = {
    FLAG(VC_STRING, to, "to", NULL, FORMATS, "format of the files (required)"),
    OUT("folder to create (required)"),
    CONSTANTS,
    FLAG(VC_BYTES, shard_size, "shard_size", "1GiB", "1MiB..",
         "bytes after which a tar file is closed"),
    LOG_FORMAT, END
};
static const vc_flag import_flags[] = {
    FLAG(VC_STRING, from, "from", NULL, FORMATS "|cogvideox-factory",
         "format of the files (required)"),
    NEW_DATASET("dataset to create (required)"),
    FLAG(VC_STRING, family, "family", NULL, NULL,
         "model family of the latents, if the files do not name it"),
    CONSTANTS,
    FLAG(VC_PATH, audio_vae, "audio_vae", NULL, NULL,
         "folder of the autoencoder of sound with its constants, or of its pipeline, if the files "
         "have sound"),
    FLAG(VC_PATH, empty, "empty", NULL, NULL,
         "embeddings of the empty prompt, if no caption is empty: a safetensors file with "
         "prompt_embeds_1, pooled_1, ..., or `zeros`"),
    FLAG(VC_PATH, texts, "texts", NULL, NULL,
         "dataset whose text embeddings, found by caption, replace those of the cache"),
    FLAG(VC_BOOLEAN, allow_partial, "allow_partial", NULL, NULL,
         "import a cache that lacks files or samples without them; the exit status is then 3"),
    LOG_FORMAT, END
};

#define TRANSFER \
    FLAG(VC_INT, connections, "connections", "4", "1..64", \
         "shards that are copied at the same time, each through a connection of its own"), \
    FLAG(VC_BOOLEAN, remove, "delete", NULL, NULL, \
         "remove the target's shards that the source no longer has, and replace those of the " \
         "same name that differ"), \
    FLAG(VC_BYTES, lowest_speed, "lowest_speed", "1KiB", "1..", \
         "bytes a second: a connection that carries fewer for the seconds of --timeout is " \
         "closed, and the file is asked for again, five times in a row"), \
    FLAG(VC_INT, timeout, "timeout", "60", "1..86400", \
         "seconds that a connection may be slower than --lowest_speed, or silent"), \
    FLAG(VC_INT, max_time, "max_time", "0", "0..", \
         "seconds after which the copy ends unfinished, with exit status 1 (0: any time); the " \
         "same command continues"), \
    LOG_FORMAT
static const vc_flag pull_flags[] = {
    OUT("folder of the dataset, new or from an earlier pull (required)"),
    FLAG(VC_STRING, where, "where", NULL, NULL,
         "bring only the samples that meet a condition (as of vlat select), as a new dataset"),
    FLAG(VC_STRING, shards, "shards", NULL, NULL,
         "bring only the samples in these shards: shard-00000,shard-00003"),
    TRANSFER, END
};
static const vc_flag push_flags[] = { TRANSFER, END };

static const vc_flag average_flags[] = {
    OUT("file or folder to create (required)"),
    FLAG(VC_STRING, weights, "weights", NULL, NULL,
         "weight of each in the order given, 1,2,3; they are divided by their sum (default: all "
         "equal)"),
    FLAG(VC_FLOAT, beta, "beta", NULL, ">0",
         "exponential average: at each further file or step it keeps this part of itself, below 1"),
    FLAG(VC_FLOAT, sigma_rel, "sigma_rel", NULL, ">0",
         "exponential average of this relative width, below 0.28 (Karras et al. 2024)"),
    LOG_FORMAT, END
};

typedef struct verb {
    const char *name, *words, *about;
    const vc_flag *flags;
    int n_words;                             /* at least -n_words if negative */
    int (*run)(const vlat *v, vc_err *err);
    bool prints;                             /* it only prints: nothing can be left half written */
} verb;

static const verb verbs[] = {
    { "info", "DATASET", "Shows how a dataset was made and its contents.", info_flags, 1,
      vlat_info, true },
    { "list", "DATASET",
      "Prints one line per sample: key, type, size, frames, tokens, path, start of the caption.",
      list_flags, 1, vlat_list, true },
    { "show", "DATASET KEY",
      "Prints one sample: its record, statistics of its tensors and the size of its thumbnail. KEY "
      "names a sample (42, 42/1), or is the 32 hex digits of a latent or text.",
      plain_flags, 2, vlat_show, true },
    { "verify", "DATASET",
      "Checks a dataset: every page, checksum, reference, shape and number, and lists all damage. "
      "The exit status is 1 if there is any. DATASET may also be a run folder, a checkpoint or a "
      "LoRA file.",
      verify_flags, 1, vlat_verify, false },
    { "report", "DATASET | RUN...",
      "Writes a page in HTML. Of a dataset the page shows thumbnails, captions, histograms and "
      "skipped inputs; with --browse another page shows all samples, of one dataset or of two. Of "
      "the output folder of a training run the page is that of vtrain; of several runs, or of a "
      "folder that holds them, it is that of vlat compare.",
      report_flags, -1, vlat_report, false },
    { "compare", "RUN...",
      "Ranks training runs: by their least held-out loss if they have one, else by the mean "
      "training loss of the newest tenth of their steps. RUN is the output folder of a run, or a "
      "folder that holds some. A page in HTML lays the curves of the best 8 over each other, with "
      "the newest validation pictures of the same prompts and the settings that differ.",
      compare_flags, -1, vlat_compare, false },
    { "merge", "DATASET...",
      "Merges several datasets into a new one. Samples get new numbers in the order given, and a "
      "sample that occurs twice is kept once. Datasets from different encoders are refused.",
      copy_flags, -2, vlat_merge, false },
    { "split", "DATASET",
      "Splits a dataset into new ones, by number of parts or by latent shape.", split_flags, 1,
      vlat_split, false },
    { "select", "DATASET CONDITION",
      "Makes a new dataset of the samples that meet a condition. They keep their numbers. Example "
      "of a CONDITION: 'width >= 512 and caption ~ \"red|blue\" and not tag = draft'. Names are "
      "caption, "
      "width, height, source_width, source_height, frames, seconds, fps, tokens, type, path, tag, "
      "weight, bucket, sample, variant and extra.COLUMN (vprep --extra_inputs). Operators are = "
      "!= < "
      "<= > >=, and ~ !~ for regular expressions. Each record and value that is copied, and each "
      "record that the condition reads, is compared with its checksum, and damage ends the verb; "
      "a condition on sample, variant, frames and tokens alone reads the index and no other "
      "record. vlat verify checks a whole dataset.",
      copy_flags, 2, vlat_select, false },
    { "diff", "DATASET DATASET",
      "Compares two datasets by row: - and + mark samples that only one of them has, ~ samples "
      "that "
      "differ. The exit status is 1 if there are any.",
      plain_flags, 2, vlat_diff, true },
    { "export", "DATASET",
      "Writes a dataset as another trainer's cache: docs/export.md describes the formats.",
      export_flags, 1, vlat_export, false },
    { "import", "FOLDER", "Makes a new dataset from another trainer's cache.", import_flags, 1,
      vlat_import, false },
    { "pull", "SOURCE",
      "Copies a dataset from another place: http(s)://HOST/PATH, USER@HOST:FOLDER (through ssh) or "
      "a folder. Only shards that the folder --out lacks are copied, so that a second pull brings "
      "what has changed; each is compared with the manifest's checksum while it comes. A pull that "
      "was interrupted continues when the command is given again. Its other name is sync.",
      pull_flags, 1, vlat_pull, false },
    { "push", "DATASET TARGET",
      "Copies a dataset to USER@HOST:FOLDER (through ssh) or to a folder, as pull does in the "
      "other direction: only shards that the target lacks, and the manifest last.",
      push_flags, 2, vlat_push, false },
    { "gc", "DATASET",
      "Compacts a dataset: writes new shards without the values that no sample refers to. The old "
      "files are removed when the new ones are complete, so both must fit on the disk.",
      gc_flags, 1, vlat_gc, false },
    { "average", "FILE... | CHECKPOINT...",
      "Averages weights after training: LoRA files or other .safetensors files of one run, or its "
      "checkpoint folders, of which the new folder has all weights but no state to resume from. "
      "With --beta or --sigma_rel checkpoints are taken in the order of their steps. vtrain's "
      "--use_ema averages all steps while it trains.",
      average_flags, -2, vlat_average, false },
};
enum { VERBS = sizeof verbs / sizeof *verbs };

static const char *version(void)
{
    static const char text[] = "cpu; LMDB %d.%d.%d, cJSON %s, xxHash %u.%u.%u";
    static char line[128];
    int v[3];
    unsigned x = XXH_versionNumber();
    mdb_version(&v[0], &v[1], &v[2]);
    snprintf(line, sizeof line, text, v[0], v[1], v[2], cJSON_Version(), x / 10000, x / 100 % 100,
             x % 100);
    return line;
}

static void print_verbs(FILE *f)
{
    fputs("usage: vlat VERB DATASET [flags]\n\n", f);
    for (int i = 0; i < VERBS; i++)
        fprintf(f, "  vlat %-7s %-18s %.*s\n", verbs[i].name, verbs[i].words,
                (int)strcspn(verbs[i].about, ".:"), verbs[i].about);
    fputs("\n  vlat VERB --help describes a verb and its flags.\n", f);
}

/* Names the program of a verb for vc_flags_parse and vc_flags_table. */
static vc_program program_of(const verb *b, char name[32], char synopsis[96])
{
    snprintf(name, 32, "vlat %s", b->name);
    snprintf(synopsis, 96, "%s %s [flags]", name, b->words);
    return (vc_program){ .name = name, .synopsis = synopsis, .version = version,
                         .about = b->about, .flags = b->flags, .positional = b->words };
}

/* Writes the tables of vlat and of all verbs. */
static void print_table(FILE *f)
{
    char name[32], synopsis[96];
    fputs("program\tvlat\tvlat VERB DATASET [flags]\t"
          "Inspects, checks and rearranges latent datasets.\n", f);
    for (int i = 0; i < VERBS; i++) {
        vc_program p = program_of(&verbs[i], name, synopsis);
        vc_flags_table(&p, f);
    }
}

static const verb *find_verb(const char *name)
{
    if (!strcmp(name, "sync"))               /* its other name, as about says */
        name = "pull";
    for (int i = 0; i < VERBS; i++)
        if (!strcmp(verbs[i].name, name))
            return &verbs[i];
    return NULL;
}

/* Other words for verbs, each list with the verb's name at its end. */
static const char *const other_words[] = {
    "inspect stat stats describe summary info", "ls samples list", "cat print dump get show",
    "check validate fsck test verify", "html page gallery report", "join concat combine cat merge",
    "shard partition divide split", "filter query where subset select", "cmp diff",
    "rank best versus compare",
    "convert save write export", "load read import", "download clone fetch copy sync pull",
    "upload send push", "compact clean vacuum prune gc", "ema mean soup blend average",
    "help --help", "version --version",
};

/* The verb that a word may mean, or NULL. */
static const char *nearest_verb(const char *name, const char *list, size_t *n)
{
    const char *found = vc_near_choice(list, name, n);
    for (size_t i = 0; !found && i < sizeof other_words / sizeof *other_words; i++) {
        size_t k = strlen(name);
        for (const char *s = other_words[i]; *s; s += *n + (s[*n] == ' ')) {
            *n = strcspn(s, " ");
            if (*n == k && !strncmp(s, name, k))
                found = strrchr(other_words[i], ' ') + 1;
        }
    }
    *n = found ? strcspn(found, ", ") : 0;
    return found;
}

static int no_verb(const char *name, vc_err *err)
{
    char list[256] = "";
    size_t n = 0;
    for (int i = 0; i < VERBS; i++) {
        strcat(list, i ? ", " : "");
        strcat(list, verbs[i].name);
    }
    if (!name)
        return vc_fail(err, VC_EUSAGE, "a verb is needed: %s", list);
    const char *near = nearest_verb(name, list, &n);
    return vc_fail(err, VC_EUSAGE, "%s: no such verb; there are %s%s%.*s%s", name, list,
                   near ? ": did you mean " : "", (int)n, near ? near : "", near ? "?" : "");
}

/* Removes slashes at the end of a path, so that the folder's name is its last part. */
static void cut_slashes(char *path)
{
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = 0;
}

static int run(const verb *b, vlat *v, const vc_flags *set, vc_err *err)
{
    const vc_list *words = vc_flags_words(set);
    if (v->o->of && words->n)
        return vc_fail(err, VC_EUSAGE, "--of %s: the checkpoint names its datasets: leave %s out",
                       v->o->of, words->item[0]);
    if (v->o->of)
        return b->run(v, err);
    if (b->n_words < 0 ? words->n < -b->n_words : words->n != b->n_words)
        return vc_fail(err, VC_EUSAGE, "vlat %s takes %s, not %d word%s", b->name, b->words,
                       words->n, words->n == 1 ? "" : "s");
    for (int i = 0; i < words->n; i++)
        cut_slashes(words->item[i]);
    v->path = words->item[0];
    v->words = words;
    for (int i = 0; vc_flags_note(set, i); i++)
        vc_say(v->progress, "%s", vc_flags_note(set, i));
    return b->run(v, err);
}

/* Returns 0 with the verb to run in *b, 1 where help or the version was printed, or VC_EUSAGE. */
static int pick_verb(int argc, char **argv, const verb **b, vc_err *err)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    *b = NULL;
    if (word && !strcmp(word, "--help=table")) {
        print_table(stdout);
        return 1;
    }
    if (word && (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help"))) {
        print_verbs(stdout);
        return 1;
    }
    if (word && !strcmp(word, "--version")) {
        printf("vlat %s (%s)\n", VLT_VERSION, version());
        return 1;
    }
    *b = word ? find_verb(word) : NULL;
    return *b ? 0 : no_verb(word, err);
}

static int exit_status(int rc)
{
    if (rc == VC_ESTOP)
        return 128 + *vc_stop_flag();
    return rc == VC_EUSAGE ? 2 : rc < 0 ? 1 : rc == VLAT_PARTIAL ? 3 : 0;
}

/* cJSON does not report which of its calls had no memory, and a tree of JSON without that part
 * would be written as if it were whole: so the program ends where memory for a tree is missing. An
 * export or an import that ends here starts anew or continues when the command is given again. */
static void *must_malloc(size_t n)
{
    void *p = malloc(n);
    if (!p) {
        fputs("vlat: out of memory\n", stderr);
        _exit(EXIT_FAILURE);
    }
    return p;
}

int main(int argc, char **argv)
{
    vc_heap_return_freed();
    vc_std_open();
    cJSON_InitHooks(&(cJSON_Hooks){ .malloc_fn = must_malloc, .free_fn = free });
    const verb *b;
    vc_err err = { 0 };
    vlat_options options = { 0 };
    vlat v = { .o = &options, .out = stdout };
    vc_flags *set = NULL;
    char name[32], synopsis[96];
    vc_program program;

    int rc = pick_verb(argc, argv, &b, &err);
    if (!rc) {
        program = program_of(b, name, synopsis);
        rc = vc_flags_parse(&set, &program, &options, argc - 1, argv + 1, stdout, &err);
    }
    if (!rc)
        rc = vc_catch_stop(&err);
    if (b && b->prints)
        signal(SIGPIPE, SIG_DFL);                /* `vlat list | head` ends quietly */
    if (!rc)
        rc = vc_progress_open(&v.progress, "vlat", (vc_log_format)options.log_format, false, &err);
    vc_flags_name_typed(set, v.progress);
    if (!rc)
        rc = vc_maps_check(run(b, &v, set, &err), &err);
    vc_lock_say_missing(v.progress);
    if (rc >= 0 && vc_std_flush(stdout, &err))
        rc = err.code;
    vc_progress_close(v.progress);
    if (rc < 0)
        vc_flags_report(set, "vlat", &err, rc);
    vc_flags_free(set);
    return exit_status(rc);
}
