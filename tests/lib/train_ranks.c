/* train_ranks.c - see train_ranks.h */
#include "tests/lib/train_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "tests/lib/sanitized.h"
#include "tests/lib/train_dataset.h"

char *ranks_output;
const char *ranks_program = "vtrain", *ranks_device = "cpu", *ranks_model = RANKS_BUILTIN;

int ranks_begin(void)
{
    if (strcmp(getenv("VLT_MPI"), "ON") || system("command -v mpirun >/dev/null")) {
        printf("skipped: there is no MPI\n");
        return 77;
    }
    if (getenv("VLT_PROGRAM"))
        ranks_program = getenv("VLT_PROGRAM");
    if (getenv("VLT_DEVICE"))
        ranks_device = getenv("VLT_DEVICE");
    return 0;
}

static int run_group(const ranks_group *g)
{
    return g->n ? _cmocka_run_group_tests("ranks", g->test, g->n, NULL, NULL) : 0;
}

int ranks_end(const ranks_tests *t, const char *dir)
{
    cmocka_set_test_filter(getenv("VLT_TEST"));
    int bad = run_group(&t->all);
    bad += run_group(strcmp(ranks_device, "cpu") ? &t->elsewhere : &t->on_cpu);
    toy_dir_remove(dir);
    free(ranks_output);
    return bad;
}

bool ranks_fewer(void)
{
    return SANITIZED || strcmp(ranks_device, "cpu");
}

/* Returns whether the sanitizer looks for leaks in the run, which takes three times as long: in the
 * first run with each choice of the flags below. */
static bool look_for_leaks(int ranks, const char *args)
{
    static const char *const flags[] = {
        "zero2", "fsdp", "--dp_degree", "--dp_shards", "--sp", "--resume", "lora", "adamw8bit",
        "adamw_bf16", "lion8bit", "--reduce_dtype", "--transformer",
    };
    enum { FLAGS = sizeof flags / sizeof *flags };
    static bool seen[2][1 << FLAGS];
    const char *always = getenv("VLT_LEAKS");
    unsigned has = 0;

    for (unsigned i = 0; i < FLAGS; i++)
        has |= (unsigned)!!strstr(args, flags[i]) << i;
    bool first = !seen[ranks > 1][has];
    seen[ranks > 1][has] = true;
    return first || (always && !strcmp(always, "1"));
}

int ranks_run(int ranks, const char *dir, const char *out, const char *args)
{
    const char *build = getenv("VLT_BUILD"), *source = getenv("VLT_SOURCE");
    char *starts = ranks == 1 ? strdup("") : vc_format("%s/tests/lib/ranks.sh %d", source,
                                                                abs(ranks));
    /* Open MPI 4 removes the folder of its sessions when one ends and finds no other, and another
     * test that is about to use it fails: each test has such a folder of its own. */
    char *line = vc_format("OMPI_MCA_orte_tmpdir_base=%s VLT_LEAKS=%d %s %s/%s "
                           "--latents %s/set.lmdb --output_dir %s/%s %s "
                           RANKS_TINY "--device %s --report_to none %s >%s/output 2>&1", dir,
                           look_for_leaks(ranks, args), starts, build, ranks_program, dir, dir, out,
                           strstr(args, "--model ") ? "" : ranks_model, ranks_device, args, dir);
    int status = system(line);
    size_t n;
    vc_err err = { 0 };
    char *path = vc_path_join(dir, "output");
    free(ranks_output);
    ranks_output = NULL;
    assert_ok(vc_file_read(&ranks_output, &n, path, 1 << 20, &err), &err);
    free(path);
    free(line);
    free(starts);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

void ranks_ok(int ranks, const char *dir, const char *out, const char *args)
{
    int status = ranks_run(ranks, dir, out, args);
    if (status)
        fail_msg("%d ranks, %s: status %d: %s", ranks, args, status, ranks_output);
}

int ranks_say(const char *what)
{
    int n = 0;
    for (const char *p = ranks_output; (p = strstr(p, what)); p++)
        n++;
    return n;
}
