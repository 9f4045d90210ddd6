/* test_map.c - maps of files that are cut short while they are open: unreadable pages read as zeros
 * and are reported; other bus errors end the program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common/os/file.h"
#include "tests/lib/tmp_dir.h"

enum { PAGE = 4096, PAGES = 200 };

static char *path_in(void **state, const char *name)
{
    static char path[TMP_DIR + 32];
    snprintf(path, sizeof path, "%s/%s", (char *)*state, name);
    return path;
}

/* Makes and maps a file of ones. */
static vc_map map_ones(const char *path)
{
    char *ones = malloc(PAGES * PAGE);
    vc_map m;
    memset(ones, 1, PAGES * PAGE);
    assert_int_equal(vc_file_write(path, ones, PAGES * PAGE, NULL), 0);
    assert_int_equal(vc_map_open(&m, path, NULL), 0);
    assert_int_equal(vc_maps_guard(NULL), 0);
    free(ones);
    return m;
}

static bool holds(const char *text, const char *a, const char *b)
{
    return strstr(text, a) && strstr(text, b);
}

static void test_cut_short(void **state)
{
    const char *path = path_in(state, "file");
    vc_map m = map_ones(path);
    vc_err e = { 0 };
    assert_int_equal(m.data[7 * PAGE], 1);
    assert_int_equal(vc_maps_check(0, &e), 0);
    assert_int_equal(truncate(path, 5 * PAGE), 0);
    assert_int_equal(vc_maps_check(0, &e), 0);                   /* no page was read yet */
    assert_int_equal(m.data[9 * PAGE + 17], 0);
    assert_int_equal(m.data[5 * PAGE - 1], 1);
    assert_int_equal(vc_maps_check(0, &e), VC_ETORN);
    assert_true(holds(e.text, path, "byte 36864 could not be read: the file was cut short, "
                                    "from 819200 bytes to 20480"));
    assert_int_equal(vc_maps_check(VC_EFORMAT, &e), VC_ETORN);   /* the cause replaces its effect */

    /* vc_map_check() reports the unreadable pages of a range */
    assert_int_equal(vc_map_check(m.data, 9 * PAGE, &e), 0);
    assert_int_equal(vc_map_check(m.data, 9 * PAGE + 1, &e), VC_ETORN);
    assert_int_equal(vc_map_check(m.data + 9 * PAGE + 5, 1, &e), VC_ETORN);
    assert_int_equal(vc_map_check(m.data + 10 * PAGE, PAGE, &e), 0);
    assert_int_equal(vc_map_check(&e, sizeof e, &e), 0);
    assert_int_equal(vc_map_touch(m.data + 10 * PAGE, PAGE, &e), VC_ETORN);

    /* After a report the range stays torn; another unreadable page is reported again. */
    vc_maps_reported();
    assert_int_equal(vc_maps_check(0, &e), 0);
    assert_int_equal(vc_map_check(m.data + 9 * PAGE, 1, &e), VC_ETORN);
    vc_map_release(&m);
    assert_int_equal(m.data[9 * PAGE], 0);
    assert_int_equal(vc_maps_check(0, &e), 0);
    assert_int_equal(m.data[150 * PAGE], 0);
    vc_map_close(&m);
    assert_int_equal(vc_maps_check(0, &e), VC_ETORN);            /* the map is closed */
    assert_true(holds(e.text, path, "byte 614400"));

    /* no file is written before the fault is reported: the data may come from the zeros */
    const char *out = path_in(state, "out");
    assert_int_equal(vc_file_write(out, "x", 1, &e), VC_ETORN);
    assert_false(vc_file_exists(out));
    vc_maps_reported();
    assert_int_equal(vc_file_write(out, "x", 1, &e), 0);
}

/* A new map at the address of a closed torn one is whole. */
static void test_again(void **state)
{
    const char *path = path_in(state, "again");
    for (int i = 0; i < 3; i++) {
        vc_map m = map_ones(path);
        assert_int_equal(vc_map_touch(m.data, m.size, NULL), 0);
        assert_int_equal(truncate(path, 0), 0);
        assert_int_equal(m.data[0], 0);
        assert_int_equal(vc_map_check(m.data, 1, NULL), VC_ETORN);
        vc_map_close(&m);
        assert_int_equal(vc_maps_check(0, NULL), VC_ETORN);
        vc_maps_reported();
        assert_int_equal(unlink(path), 0);
    }
}

/* A file that lost a part of its last page causes no bus error; the loss is found when the map is
 * closed. */
static void test_last_page(void **state)
{
    const char *path = path_in(state, "last");
    vc_err e = { 0 };
    for (int renamed = 0; renamed < 2; renamed++) {
        vc_map m = map_ones(path);
        assert_int_equal(vc_map_touch(m.data, m.size, &e), 0);
        if (renamed)                         /* the map keeps the older file */
            assert_int_equal(vc_file_write(path, "x", 1, NULL), 0);
        else
            assert_int_equal(truncate(path, PAGES * PAGE - 100), 0);
        assert_int_equal(vc_map_touch(m.data, m.size, &e), 0);
        vc_map_close(&m);
        assert_int_equal(vc_maps_check(0, &e), renamed ? 0 : VC_ETORN);
        assert_true(holds(e.text, path, "byte 819100 could not be read"));
        vc_maps_reported();
    }
}

/* Many threads read every page at once, and open and close other maps meanwhile. */
static void test_threads(void **state)
{
    const char *path = path_in(state, "threads");
    vc_map m = map_ones(path);
    long sum = 0;
    assert_int_equal(truncate(path, PAGE), 0);
#pragma omp parallel for num_threads(8) reduction(+ : sum) schedule(static, 1)
    for (int i = 0; i < 8 * PAGES; i++) {
        vc_map other = { 0 };
        sum += m.data[i / 8 * PAGE];
        if (i % 16 == 0)
            sum += vc_map_open(&other, "/proc/self/exe", NULL);
        vc_map_close(&other);
    }
    assert_int_equal(sum, 8);
    for (int i = 0; i < PAGES; i++)
        assert_int_equal(vc_map_check(m.data + i * PAGE, PAGE, NULL), i ? VC_ETORN : 0);
    vc_map_close(&m);
    vc_maps_reported();
}

/* ---- other libraries' maps ---- */

static int touch_other(void *arg)
{
    const volatile char *p = arg;
    return *p ? 1 : 2;
}

static void *map_other(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT, 0666);
    assert_int_equal(ftruncate(fd, PAGE), 0);
    void *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(p != MAP_FAILED);
    close(fd);
    return p;
}

static void test_run(void **state)
{
    const char *path = path_in(state, "other");
    vc_err e = { 0 };
    void *p = map_other(path);
    assert_int_equal(vc_maps_guard(NULL), 0);
    assert_int_equal(vc_map_run(touch_other, p, path, &e), 2);
    assert_int_equal(truncate(path, 0), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(vc_map_run(touch_other, p, path, &e), VC_ETORN);
        assert_true(holds(e.text, path, "could not be read"));
    }
    assert_int_equal(vc_maps_check(0, &e), 0);
    munmap(p, PAGE);
}

/* ---- bus errors outside of guarded maps ---- */

static void read_an_unguarded_map(char *path)
{
    volatile char *p = map_other(path);
    if (truncate(path, 0))
        _exit(3);
    _exit(*p);
}

static void raise_sigbus(char *path)
{
    (void)path;
    raise(SIGBUS);
    _exit(4);
}

/* Runs fn in a child and returns the status of waitpid(). A sanitizer's handler ends the child with
 * status 1. */
static int status_of_child(void (*fn)(char *path), char *path)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        struct rlimit none = { 0, 0 };
        int quiet = open("/dev/null", O_WRONLY);
        setrlimit(RLIMIT_CORE, &none);
        dup2(quiet, STDERR_FILENO);
#ifndef __SANITIZE_ADDRESS__
        signal(SIGBUS, SIG_DFL);             /* in place of cmocka's handler */
#endif
        vc_maps_guard(NULL);
        fn(path);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void test_elsewhere(void **state)
{
    void (*const fns[])(char *path) = { read_an_unguarded_map, raise_sigbus };
    for (int i = 0; i < 2; i++) {
        int status = status_of_child(fns[i], path_in(state, "elsewhere"));
#ifdef __SANITIZE_ADDRESS__
        assert_int_equal(WEXITSTATUS(status), 1);
#else
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
#endif
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_short), cmocka_unit_test(test_again),
        cmocka_unit_test(test_last_page), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_run), cmocka_unit_test(test_elsewhere),
    };
    return cmocka_run_group_tests(tests, tmp_dir_setup, tmp_dir_teardown);
}
