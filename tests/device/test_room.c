/* test_room.c - training steps that find no memory on the device in spite of the plan: the device
 * "host" refuses bytes beyond a limit that it has not told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "common/os/file.h"
#include "tests/device/device_host.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "tests/lib/train_run.h"

enum { STEPS = 4 };

static char dir[256];

/* Two buckets, so that a step's second micro-batch may be the first of its bucket. */
static int train(const char *out, const char *how, int micros, vc_err *err)
{
    char *args = vc_format("--dit_width 32 --dit_layers 4 --dit_heads 2 --device host "
                           "--gradient_checkpointing=%s --max_train_steps %d "
                           "--gradient_accumulation_steps %d", how, STEPS, micros);
    int rc = run(dir, out, args, err);

    free(args);
    return rc;
}

static void same_weights(const char *a, const char *b)
{
    static const char *const file = "checkpoint-4/transformer/diffusion_pytorch_model.safetensors";
    char *x = vc_format("%s/%s", a, file), *y = vc_format("%s/%s", b, file);

    if (!run_same_file(dir, x, y))
        fail_msg("%s and %s differ", x, y);
    free(x);
    free(y);
}

/* Reduces the room until not even a step that recomputes all blocks has room. The weights of runs
 * that end well are those of a run with room. Returns the number of those that were refused bytes
 * of the pool. */
static int shrink(const char *name, int micros)
{
    vc_err err = { 0 };
    int n = 0, rc = 0;

    host_has = (host_room){ 0 };
    assert_ok(train(name, "auto", micros, &err), &err);
    for (size_t bytes = 1 << 21; !rc; bytes -= bytes / 16) {
        char *out = vc_format("%s-%zu", name, bytes);
        host_has = (host_room){ .bytes = bytes };
        rc = train(out, "auto", micros, &err);
        if (!rc)
            same_weights(name, out);
        free(out);
        n += !rc && host_has.pool;
    }
    assert_fails(rc, VC_ENOMEM, &err, "no memory for ");
    return n;
}

static void test_room(void **state)
{
    (void)state;
    int one = shrink("one", 1), two = shrink("two", 2);

    print_message("%d and %d runs planned again\n", one, two);
    assert_true(one > 2 && two > 2);
}

/* Scratch has no room for the first requests. In a micro-batch its kernels then fail, and it runs
 * again, with a smaller pool; the gradients' norm, the last to make a request, ends the run. */
static void scratch(const char *name, const char *how)
{
    vc_err err = { 0 };
    int again = 0, rc = 0;

    host_has = (host_room){ 0 };
    assert_ok(train(name, how, 1, &err), &err);
    for (int lack = 1; !rc; lack *= 2) {
        char *out = vc_format("%s-%d", name, lack);
        host_has = (host_room){ .lack = lack };
        rc = train(out, how, 1, &err);
        if (!rc)
            same_weights(name, out);
        again += !rc;
        free(out);
    }
    print_message("%d runs planned again for scratch\n", again);
    assert_true(again > 0);
    assert_fails(rc, VC_ENOMEM, &err, "no memory for ");
}

static void test_scratch(void **state)
{
    (void)state;
    scratch("queued", "auto");
    scratch("timed", "auto --profile");       /* which asks for faults after each kernel */
}

/* With another choice than auto the step fails. */
static void test_chosen(void **state)
{
    vc_err err = { 0 };

    (void)state;
    host_has = (host_room){ .bytes = 1 << 16 };
    assert_fails(train("none", "none", 1, &err), VC_ENOMEM, &err, "give --gradient_checkpointing");
    host_has = (host_room){ 0 };
}

static int setup(void **state)
{
    (void)state;
    run_dir_make(dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    toy_dir_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_scratch),
        cmocka_unit_test(test_chosen),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
