/* test_heap.c - freed buffers go back to the system, and what is in use is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* Of memory that was made executable the written pages count, wherever they lie in it, and in maps
 * of many pages. */
static void test_used(void **state)
{
    enum { PAGES = 10000 };
    static const size_t written_pages[] = { 0, 1, 4095, 4096, PAGES - 1 };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), n = sizeof written_pages / sizeof (size_t);
    (void)state;
    vc_heap_used();                           /* stdio's buffers, if it keeps any */
    const size_t before = vc_heap_used();
    char *code = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                      0);
    assert_true(code != MAP_FAILED);
    (void)madvise(code, PAGES * page, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < n; i++)
        code[written_pages[i] * page] = 1;
    assert_int_equal(vc_heap_used(), before);
    assert_int_equal(mprotect(code, PAGES * page, PROT_READ | PROT_EXEC), 0);
    assert_int_equal(vc_heap_used(), before + n * page);
    munmap(code, PAGES * page);
    assert_int_equal(vc_heap_used(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_returned), cmocka_unit_test(test_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
