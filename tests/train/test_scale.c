/* test_scale.c - the memory that a sample takes in the handles of a run: a dataset of ten million
 * samples must leave room for the model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/heap.h"
#include "tests/lib/ok.h"
#include "tests/lib/train_dataset.h"
#include "train/data/order.h"

enum { FEW = 1000, MANY = 9000 };

typedef struct sizes {                       /* bytes of a handle */
    size_t dataset, data, order;
} sizes;

static char *make(int n)
{
    char *path = vc_format("%s/%d", toy_dir, n);
    toy_sample *s = calloc((size_t)n, sizeof *s);
    for (int i = 0; i < n; i++)
        s[i] = (toy_sample){ .number = (uint32_t)i, .h = 1, .w = 1, .weight = 1,
                             .caption = { "x" } };
    toy_make(&(toy){ .path = path, .sample = s, .n = n });
    free(s);
    return path;
}

static sizes measure(char *path)
{
    vc_list list = { .item = &path, .n = 1 };
    const vtrain_data_opts o = { .paths = &list, .dataset_repeat = 1, .seed = 1 };
    uint32_t rows[4], n;
    char *note;
    vf_dataset *set;
    vtrain_data *d;
    vtrain_order *order;
    vc_err err = { 0 };
    size_t at[4] = { heap_bytes() };
    assert_ok(vf_dataset_open(&set, path, false, &err), &err);
    at[1] = heap_bytes();
    assert_ok(vtrain_data_open(&d, &o, &note, &err), &err);
    at[2] = heap_bytes();
    const vtrain_order_plan plan = { .batch = 4, .seed = 1 };
    assert_ok(vtrain_order_open(&order, d, &plan, &err), &err);
    assert_ok(vtrain_order_get(order, 0, rows, &n, &err), &err);
    at[3] = heap_bytes();
    vtrain_order_close(order);
    vtrain_data_close(d);
    vf_dataset_close(set);
    free(note);
    return (sizes){ at[1] - at[0], at[2] - at[1], at[3] - at[2] };
}

/* A dataset's handle takes 6 bytes, the list of samples and of the epoch's numbers 20 on top, the
 * order 16. */
static void bytes_a_sample(void **state)
{
    (void)state;
    char *few = make(FEW), *many = make(MANY);
    const sizes a = measure(few), b = measure(many);
    const size_t n = MANY - FEW;
    assert_between(100 * (b.dataset - a.dataset) / n, 0, 630);
    assert_between(100 * (b.data - a.data) / n, 0, 2650);
    assert_between(100 * (b.order - a.order) / n, 0, 1650);
    free(few);
    free(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(bytes_a_sample) };
    return cmocka_run_group_tests(tests, toy_dir_setup, toy_dir_teardown);
}
