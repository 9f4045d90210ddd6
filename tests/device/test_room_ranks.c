/* test_room_ranks.c - one rank of several finds no memory on its device in spite of the plan: all
 * ranks plan again and repeat the step, with the bits of a run that had room. Without MPI the test
 * is skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "tests/lib/sanitized.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_ranks.h"
#include "tests/lib/train_run.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
#define ALL "--max_train_steps 3 --gradient_accumulation_steps 2 --max_grad_norm 0.5 "
#define WEIGHTS "checkpoint-3/transformer/diffusion_pytorch_model.safetensors"

enum { MOST = 12 };                            /* runs with ever less memory */

/* Runs with that room on the rank, or with as much as is wanted. */
static int run_in(int rank, size_t bytes, int lack, int ranks, const char *dir, const char *out,
                  const char *args)
{
    char *room = vc_format("%d %zu %d", rank, bytes, lack);

    setenv("VLT_HOST_ROOM", room, 1);
    int status = ranks_run(ranks, dir, out, args);
    unsetenv("VLT_HOST_ROOM");
    free(room);
    return status;
}

static void same_weights(const char *dir, const char *a, const char *b)
{
    char *x = vc_format("%s/" WEIGHTS, a), *y = vc_format("%s/" WEIGHTS, b);

    if (!run_same_file(dir, x, y))
        fail_msg("%s and %s differ: %s", x, y, ranks_output);
    free(x);
    free(y);
}

typedef struct room_row { const char *name; int ranks, rank; const char *args; } room_row;

static const room_row rows[] = {               /* `rank` alone lacks memory */
    { "ddp", 2, 1, "" },
    { "ddp3", 3, 0, "" },
    { "zero2", 3, 2, "--parallel zero2 --dp_shards 3" },
    { "fsdp", 2, 0, "--parallel fsdp" },
    { "fsdp3", 3, 1, "--parallel fsdp --dp_shards 3" },
    { "sp-fsdp", 2, 0, "--sp 2 --parallel fsdp" },
    { "sp", 2, 1, "--sp 2" },
};

/* The line that reports a new plan, once: one rank writes. */
static void planned_again(const room_row *r, bool once)
{
    char *who = vc_format(": rank %d: ", r->rank);
    int n = ranks_say("blocks from now on") + ranks_say("but not their attention, from now on");

    if (!ranks_say(who) || !ranks_say("no memory for ") || n < 1 || (once && n != 1))
        fail_msg("%s: %d plans: %s", r->name, n, ranks_output);
    free(who);
}

/* The pool of a rank has room for ever less, until even a step that recomputes all blocks has none:
 * that ends all ranks with the bucket and the flags that would need less. */
static void shrink(const char *dir, const room_row *r, const char *args)
{
    int again = 0, status = 0;

    for (size_t bytes = 560000, i = 0; !status && i < MOST; i++, bytes -= bytes / 4) {
        char *out = vc_format("%s-%zu", r->name, bytes);
        status = run_in(r->rank, bytes, 0, r->ranks, dir, out, args);
        if (!status)
            same_weights(dir, r->name, out);
        if (!status && ranks_say("no memory for ")) {
            planned_again(r, false);
            again++;
        }
        free(out);
    }
    assert_int_equal(status, 1);
    if (!ranks_say("To need less memory, give ") || !ranks_say("no memory for "))
        fail_msg("%s: %s", r->name, ranks_output);
    print_message("%s: %d runs planned again for the pool\n", r->name, again);
    assert_true(again > 0);
}

/* Sanitizers run some rows, without ever less memory. */
static void test_rows(void **state)
{
    for (size_t i = 0; i < COUNT(rows); i += SANITIZED ? 4 : 1) {
        const room_row *r = &rows[i];
        char *args = vc_format(ALL "--gradient_checkpointing=auto %s", r->args);
        char *out = vc_format("%s-lack", r->name);
        ranks_ok(r->ranks, *state, r->name, args);
        int status = run_in(r->rank, 0, 1, r->ranks, *state, out, args);
        if (status)
            fail_msg("%s: status %d: %s", r->name, status, ranks_output);
        planned_again(r, true);
        same_weights(*state, r->name, out);
        if (!SANITIZED && (!strcmp(r->name, "ddp") || !strcmp(r->name, "sp")))
            shrink(*state, r, args);
        free(args);
        free(out);
    }
}

/* With another choice than auto all ranks end, with the rank that lacks memory named. */
static void test_chosen(void **state)
{
    int status = run_in(1, 0, 1, 2, *state, "none",
                        ALL "--parallel fsdp --gradient_checkpointing=none");

    assert_int_equal(status, 1);
    assert_true(ranks_say("rank 1: host: no memory for "));
    assert_true(ranks_say("give --gradient_checkpointing=block"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_chosen),
    };
    int skip = ranks_begin();

    return skip ? skip
                : cmocka_run_group_tests(tests, run_dir_setup, toy_dir_teardown);
}
