/* test_spill.c - memory in a file without a name: it holds its values, leaves the process's memory,
 * takes all of its room at once, and reports pages that cannot be read or written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

#include "common/os/file.h"
#include "common/os/map.h"
#include "common/os/spill.h"
#include "tests/lib/tmp_dir.h"

enum { PAGE = 4096, PARTS = 8, PART = 4 << 20 };

static int entries(const char *dir)
{
    DIR *d = opendir(dir);
    int n = -2;                                /* . and .. */
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* Bytes of the process that are in memory. */
static long long resident(void)
{
    long long all = 0, here = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_int_equal(fscanf(f, "%lld %lld", &all, &here), 2);
    fclose(f);
    return here * sysconf(_SC_PAGESIZE);
}

static void test_values(void **state)
{
    vc_spill *s;
    unsigned char *at[PARTS];
    long long most = 0, begin;
    assert_int_equal(vc_spill_room(1), PAGE);
    assert_int_equal(vc_spill_room(PAGE), PAGE);
    assert_int_equal(vc_spill_open(&s, *state, PARTS * (PART + PAGE), "x", false, NULL), 0);
    assert_int_equal(vc_spill_bytes(s), PARTS * (PART + PAGE));
    assert_int_equal(entries(*state), 0);
    begin = resident();
    for (int i = 0; i < PARTS; i++) {
        at[i] = vc_spill_take(s, PART + 1);
        assert_non_null(at[i]);
        assert_int_equal((uintptr_t)at[i] % PAGE, 0);
        assert_int_equal(at[i][PART], 0);
        memset(at[i], i + 1, PART + 1);
        vc_spill_rest(s, at[i], PART + 1);
        long long now = resident() - begin;
        most = now > most ? now : most;
    }
    assert_null(vc_spill_take(s, 1));
    assert_true(most < PART);
    for (int i = 0; i < PARTS; i++) {
        vc_spill_want(s, at[i], PART);
        for (int k = 0; k <= PART; k += PAGE)
            assert_int_equal(at[i][k], i + 1);
        assert_true(resident() - begin >= PART);
        vc_spill_rest(s, at[i], PART + 1);
    }
    assert_true(resident() - begin < PART);
    vc_spill_take_back(s, PART + PAGE);
    assert_ptr_equal(vc_spill_take(s, 5), at[PARTS - 1]);
    assert_int_equal(at[PARTS - 1][3], PARTS);
    vc_spill_rest(s, &most, sizeof most);      /* other memory, and none */
    vc_spill_rest(NULL, at[0], 1);
    vc_spill_want(NULL, at[0], 1);
    assert_int_equal(vc_spill_bytes(NULL), 0);
    assert_int_equal(vc_spill_check(s, NULL), 0);
    assert_int_equal(vc_spill_check(NULL, NULL), 0);
    vc_spill_close(s);
    vc_spill_close(NULL);
}

/* A disk with too little room, a limit and a folder that is not there, also dry. */
static void test_room(void **state)
{
    const size_t most = (size_t)1 << 46;
    vc_spill *s;
    char path[TMP_DIR + 32];
    struct rlimit was, is;
    for (int dry = 0; dry < 2; dry++) {
        vc_err e = { 0 };
        assert_int_equal(vc_spill_open(&s, *state, most, "state", dry, &e), dry ? 0 : VC_EFULL);
        assert_int_equal(!s, !dry);
        assert_int_equal(vc_spill_check(s, &e), dry ? VC_EFULL : 0);
        vc_spill_close(s);
        assert_non_null(strstr(e.text, ": state: 64.0 TiB (70368744177664 bytes) are needed, "
                                       "but only "));
    }
    snprintf(path, sizeof path, "%s/not/there", (char *)*state);
    assert_int_equal(vc_spill_open(&s, path, 10, "state", true, NULL), 0);
    assert_non_null(vc_spill_take(s, 10));
    vc_spill_rest(s, path, 1);
    vc_spill_close(s);
    assert_int_equal(vc_spill_open(&s, "not/there", 10, "state", true, NULL), 0);
    vc_spill_close(s);
    assert_int_equal(vc_spill_open(&s, path, 10, "state", false, NULL), VC_ENOENT);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    is = (struct rlimit){ 10 * PAGE, was.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &is), 0);
    vc_err e = { 0 };
    assert_int_equal(vc_spill_open(&s, *state, 11 * PAGE, "state", false, &e), VC_EFULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_non_null(strstr(e.text, ": state: no 45056 bytes: File too large"));
    assert_int_equal(entries(*state), 0);
}

/* The descriptor of the file that has no name. */
static int file_of(const char *dir)
{
    for (int fd = 3; fd < 64; fd++) {
        char link[64], to[TMP_DIR + 64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, to, sizeof to - 1);
        if (n > 0 && !strncmp(to, dir, strlen(dir)))
            return fd;
    }
    return -1;
}

/* A page that cannot be read becomes zeroes that can be written, and is reported by its file. */
static void test_torn(void **state)
{
    vc_spill *s;
    vc_err e = { 0 };
    assert_int_equal(vc_maps_guard(NULL), 0);
    assert_int_equal(vc_spill_open(&s, *state, 4 * PAGE, "state", false, NULL), 0);
    unsigned char *p = vc_spill_take(s, 4 * PAGE);
    memset(p, 1, 4 * PAGE);
    vc_spill_rest(s, p, 4 * PAGE);
    assert_int_equal(vc_spill_check(s, &e), 0);
    assert_int_equal(ftruncate(file_of(*state), PAGE), 0);
    p[2 * PAGE + 5] = 7;
    assert_int_equal(p[2 * PAGE + 5], 7);
    assert_int_equal(p[2 * PAGE + 6], 0);
    assert_int_equal(vc_spill_check(s, &e), VC_ETORN);
    assert_non_null(strstr(e.text, ": state: byte 8192 of 16384 could not be read back"));
    assert_int_equal(vc_maps_check(0, NULL), VC_ETORN);
    vc_maps_reported();
    assert_int_equal(vc_spill_check(s, &e), VC_ETORN);           /* the values are lost for good */
    vc_spill_close(s);
    vc_maps_reported();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_values, tmp_dir_setup, tmp_dir_teardown),
        cmocka_unit_test_setup_teardown(test_room, tmp_dir_setup, tmp_dir_teardown),
        cmocka_unit_test_setup_teardown(test_torn, tmp_dir_setup, tmp_dir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
