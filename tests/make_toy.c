/* make_toy.c - PATH: the dataset of train_run.h, for tests of vtrain as a user runs it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/train_run.h"

static char *path;

static void make(void **state)
{
    (void)state;
    run_set_make(path);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    path = argv[1];
    const struct CMUnitTest one[] = { cmocka_unit_test(make) };
    return cmocka_run_group_tests(one, NULL, NULL);
}
