/* test_heap.c - freed buffers go back to the system. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/heap.h"
#include "tests/lib/heap.h"

enum { MIB = 1 << 20, BUFFERS = 24 };

/* Returns a buffer of n bytes, all of them written. */
static char *written(size_t n)
{
    char *p = malloc(n);
    assert_non_null(p);
    return memset(p, 1, n);
}

/* The first free would raise glibc's threshold to 24 MiB, so that the buffers below it, each with a
 * small one behind it, would stay in the heap. */
static void test_returned(void **state)
{
    char *large[BUFFERS], *small[BUFFERS];
    (void)state;
    vc_heap_return_freed();
    free(written(24 * MIB));
    size_t before = heap_resident_bytes();
    for (int i = 0; i < BUFFERS; i++) {
        large[i] = written(MIB);
        small[i] = written(100);
    }
    assert_true(heap_resident_bytes() > before + BUFFERS / 2 * MIB);
    for (int i = 0; i < BUFFERS; i++)
        free(large[i]);
    assert_true(heap_resident_bytes() < before + 4 * MIB);
    for (int i = 0; i < BUFFERS; i++)
        free(small[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_returned) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
