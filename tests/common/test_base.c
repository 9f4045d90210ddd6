/* test_base.c - errors and files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/base/err.h"
#include "common/os/file.h"
#include "common/os/lines.h"
#include "common/os/lock.h"
#include "common/os/temp.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- err ---- */

static void test_messages(void **state)
{
    (void)state;
    vc_err e = { 0 };
    assert_int_equal(vc_fail(&e, VC_EFORMAT, "%d of %d bytes", 12, 4096), VC_EFORMAT);
    assert_int_equal(vc_context(&e, VC_EFORMAT, "record \"%s\"", "a1f0"), VC_EFORMAT);
    assert_int_equal(vc_context(&e, VC_EIO, "shard"), VC_EIO);
    assert_string_equal(e.text, "shard: record \"a1f0\": 12 of 4096 bytes");
    assert_int_equal(e.code, VC_EIO);
    assert_int_equal(vc_context(&e, 0, "nothing"), 0);
    assert_string_equal(e.text, "shard: record \"a1f0\": 12 of 4096 bytes");
    assert_int_equal(vc_fail(NULL, VC_EIO, "x"), VC_EIO);
    assert_int_equal(vc_context(NULL, VC_EIO, "x"), VC_EIO);
    vc_fail(&e, VC_EIO, "%s", "%s %n is no format");
    vc_context(&e, VC_EIO, "%s", "100%");
    assert_string_equal(e.text, "100%: %s %n is no format");
}

static void test_errno(void **state)
{
    (void)state;
    static const struct { int e, code; const char *remedy; } rows[] = {
        { ENOENT, VC_ENOENT, "" }, { ENOMEM, VC_ENOMEM, "" }, { ENOSPC, VC_EFULL, "" },
        { EDQUOT, VC_EFULL, ": remove files of yours, or ask for a larger quota" },
        { EFBIG, VC_EFULL, ": raise the limit on the size of a file (ulimit -f, or the file "
          "system's)" },
        { EACCES, VC_EIO, "" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        vc_err e = { 0 };
        char want[200];
        snprintf(want, sizeof want, "file: %s%s", strerror(rows[i].e), rows[i].remedy);
        errno = rows[i].e;
        assert_int_equal(vc_fail_errno(&e, "%s", "file"), rows[i].code);
        assert_int_equal(e.code, rows[i].code);
        assert_string_equal(e.text, want);
        errno = rows[i].e;
        assert_int_equal(vc_fail_errno(NULL, "x"), rows[i].code);
    }
    for (int code = -12; code <= 0; code++)
        assert_true(*vc_code_name(code));
    assert_string_equal(vc_code_name(-1000), "failed");
}

static void test_long_messages_are_cut(void **state)
{
    (void)state;
    vc_err e = { 0 };
    char word[3000];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = 0;
    vc_fail(&e, VC_EIO, "%s", word);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    vc_context(&e, VC_EIO, "%s", word);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    errno = EIO;
    vc_fail_errno(&e, "%s", word);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    vc_fail(&e, VC_EIO, "short");
    for (int i = 0; i < 1000; i++)
        vc_context(&e, VC_EIO, "level %d", i);
    assert_int_equal(strncmp(e.text, "level 999: level 998: ", 22), 0);
}

/* ---- files ---- */

static char folder[TMP_DIR];

/* Returns folder/name, which stays valid during the next 31 calls. */
static const char *in_folder(const char *name)
{
    static char path[32][600];
    static int k;
    char *p = path[k++ % 32];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

/* Returns the number of a folder's entries, without "." and "..". */
static int entries(const char *path)
{
    DIR *d = opendir(path);
    assert_non_null(d);
    int n = -2;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void file_is(const char *path, const char *text)
{
    char *data;
    size_t size;
    vc_err err = { 0 };
    assert_ok(vc_file_read(&data, &size, path, 1 << 20, &err), &err);
    assert_int_equal(size, strlen(text));
    assert_string_equal(data, text);
    free(data);
}

static void test_write_and_read(void **state)
{
    (void)state;
    vc_err err = { 0 };
    const char *path = in_folder("file");
    assert_int_equal(vc_file_write(path, "one", 3, &err), 0);
    file_is(path, "one");
    assert_int_equal(vc_file_write(path, "", 0, &err), 0);
    file_is(path, "");
    assert_int_equal(vc_file_write(path, NULL, 0, &err), 0);
    assert_int_equal(vc_file_write(path, "two!", 4, &err), 0);
    file_is(path, "two!");
    assert_int_equal(entries(folder), 1);
    assert_true(vc_file_exists(path));
    assert_false(vc_file_exists(in_folder("none")));

    char *data = (char *)&err;
    size_t size = 1;
    assert_int_equal(vc_file_read(&data, &size, path, 3, &err), VC_EFORMAT);
    assert_null(data);
    assert_int_equal(vc_file_read(&data, &size, path, 4, &err), 0);
    free(data);
    assert_int_equal(vc_file_read(&data, &size, in_folder("none"), 9, &err), VC_ENOENT);
    assert_int_equal(vc_file_read(&data, &size, folder, 1 << 20, &err), VC_EFORMAT);
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    assert_int_equal(vc_file_read(&data, &size, in_folder("fifo"), 9, &err), VC_EFORMAT);
    vc_map m;
    assert_int_equal(vc_map_open(&m, in_folder("fifo"), &err), VC_EFORMAT);
    unlink(in_folder("fifo"));

    /* a relative name is replaced in the working folder */
    char here[600];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(vc_file_write("plain", "x", 1, &err), 0);
    assert_int_equal(chdir(here), 0);
    file_is(in_folder("plain"), "x");
    unlink(in_folder("plain"));
    unlink(path);
}

static void test_failed_writes_leave_nothing(void **state)
{
    (void)state;
    vc_err err = { 0 };
    assert_int_equal(vc_file_write(in_folder("no/where"), "x", 1, &err), VC_ENOENT);
    mkdir(in_folder("dir"), 0777);
    assert_int_not_equal(vc_file_write(in_folder("dir"), "x", 1, &err), 0);
    assert_int_equal(entries(folder), 1);
    rmdir(in_folder("dir"));

    /* A full disk keeps the old file. A child runs this, because it cannot raise its limit again.
     * */
    const char *path = in_folder("file");
    assert_int_equal(vc_file_write(path, "old", 3, &err), 0);
    pid_t pid = fork();
    if (!pid) {
        static char big[100000];
        struct rlimit small_files = { 4096, 4096 };
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &small_files);
        int rc = vc_file_write(path, big, sizeof big, &err);
        _exit(rc == VC_EFULL && strstr(err.text, "File too large") ? 7 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    file_is(path, "old");
    assert_int_equal(entries(folder), 1);
    unlink(path);
}

/* A process that was killed while it wrote leaves its temporary file, which the next writer reuses.
 * A writer waits for another one that still writes. */
static void test_file_of_a_killed_process(void **state)
{
    (void)state;
    vc_err err = { 0 };
    const char *path = in_folder("file");
    for (int killed = 0; killed < 2; killed++) {
        pid_t pid = fork();
        if (!pid) {
            int fd;
            char *tmp;
            bool ok = !vc_temp_open(&fd, &tmp, path, &err) && write(fd, "half a file", 11) == 11;
            _exit(ok ? 0 : 1);
        }
        int status;
        waitpid(pid, &status, 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_int_equal(entries(folder), 1);
    }
    assert_int_equal(vc_file_write(path, "whole", 5, &err), 0);
    file_is(path, "whole");
    assert_int_equal(entries(folder), 1);

    int fd, go[2];
    char *tmp, byte = 0;
    assert_int_equal(pipe(go), 0);
    assert_int_equal(vc_temp_open(&fd, &tmp, path, &err), 0);
    pid_t pid = fork();
    if (!pid) {
        close(fd);
        _exit(write(go[1], "", 1) != 1 || vc_file_write(path, "second", 6, &err));
    }
    assert_int_equal(read(go[0], &byte, 1), 1);
    assert_int_equal(write(fd, "first", 5), 5);
    assert_int_equal(rename(tmp, path), 0);
    file_is(path, "first");                  /* the second writer is still waiting */
    close(fd);
    free(tmp);
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    file_is(path, "second");
    assert_int_equal(entries(folder), 1);
    close(go[0]);
    close(go[1]);
    unlink(path);
}

static void test_map(void **state)
{
    (void)state;
    vc_err err = { 0 };
    vc_map m = { 0 };
    vc_map_close(&m);
    vc_file_write(in_folder("file"), "mapped", 6, &err);
    assert_int_equal(vc_map_open(&m, in_folder("file"), &err), 0);
    assert_int_equal(m.size, 6);
    assert_memory_equal(m.data, "mapped", 6);
    vc_map_close(&m);
    assert_null(m.data);
    vc_map_close(&m);
    vc_file_write(in_folder("file"), "", 0, &err);
    assert_int_equal(vc_map_open(&m, in_folder("file"), &err), 0);
    assert_true(!m.data && !m.size);
    vc_map_close(&m);
    assert_int_equal(vc_map_open(&m, in_folder("none"), &err), VC_ENOENT);
    assert_int_equal(vc_map_open(&m, folder, &err), VC_EFORMAT);
    unlink(in_folder("file"));
}

static void test_lines(void **state)
{
    static const char text[] = "one\n\nthree bytes\nlast";
    static const char *const want[] = { "one", "", "three bytes", "last" };
    const char *line;
    size_t n;
    (void)state;
    vc_err err = { 0 };

    vc_lines l = vc_lines_of(text, strlen(text), 11);
    for (int i = 0; i < 4; i++) {
        assert_ok(vc_lines_next(&l, &line, &n, &err), &err);
        assert_int_equal(n, strlen(want[i]));
        assert_memory_equal(line, want[i], n);
        assert_int_equal(l.number, i + 1);
        assert_int_equal(l.ended, i < 3);
    }
    assert_ok(vc_lines_next(&l, &line, &n, &err), &err);
    assert_null(line);
    l = vc_lines_of(NULL, 0, 11);
    assert_ok(vc_lines_next(&l, &line, &n, &err), &err);
    assert_null(line);
    for (size_t cut = 0; cut < 2; cut++) {       /* a long line with an end, and one without */
        l = vc_lines_of(text, strlen(text) - 5 * cut, 10);
        assert_ok(vc_lines_next(&l, &line, &n, &err), &err);
        assert_ok(vc_lines_next(&l, &line, &n, &err), &err);
        assert_int_equal(vc_lines_next(&l, &line, &n, &err), VC_EFORMAT);
        assert_string_equal(err.text, "line 3: longer than 10 bytes");
    }
}

static void test_folders(void **state)
{
    (void)state;
    vc_err err = { 0 };
    assert_int_equal(vc_mkdirs(in_folder("a/b//c/"), &err), 0);
    assert_int_equal(vc_mkdirs(in_folder("a/b/c"), &err), 0);
    assert_int_equal(vc_mkdirs("/", &err), 0);
    assert_int_equal(vc_mkdirs(".", &err), 0);
    assert_int_equal(vc_sync_dir(in_folder("a/b/c"), &err), 0);
    assert_int_equal(vc_sync_dir(in_folder("none"), &err), VC_ENOENT);
    assert_int_equal(vc_file_write(in_folder("a/file"), "x", 1, &err), 0);
    assert_int_not_equal(vc_mkdirs(in_folder("a/file"), &err), 0);
    assert_int_not_equal(vc_mkdirs(in_folder("a/file/b"), &err), 0);
    assert_says(&err, "a/file");

    /* symbolic links are removed, their targets are kept */
    assert_int_equal(vc_mkdirs(in_folder("kept/sub"), &err), 0);
    assert_int_equal(vc_file_write(in_folder("kept/sub/file"), "x", 1, &err), 0);
    assert_int_equal(symlink(in_folder("kept"), in_folder("a/b/link")), 0);
    assert_int_equal(symlink(in_folder("kept/sub/file"), in_folder("a/flink")), 0);
    assert_int_equal(symlink("nowhere", in_folder("a/dangling")), 0);
    assert_int_equal(vc_remove_tree(in_folder("a"), &err), 0);
    assert_false(vc_file_exists(in_folder("a")));
    file_is(in_folder("kept/sub/file"), "x");
    assert_int_equal(symlink(in_folder("kept"), in_folder("link")), 0);
    assert_int_equal(vc_remove_tree(in_folder("link/"), &err), 0);
    assert_int_equal(entries(folder), 1);
    file_is(in_folder("kept/sub/file"), "x");
    assert_int_equal(vc_remove_tree(in_folder("kept"), &err), 0);
    assert_int_equal(vc_remove_tree(in_folder("kept"), &err), 0);   /* it does not exist */
    assert_int_equal(entries(folder), 0);

    /* folders deeper than PATH_MAX */
    char name[60];
    memset(name, 'd', sizeof name - 1);
    name[sizeof name - 1] = 0;
    int top = open(folder, O_RDONLY | O_DIRECTORY), at = top;
    for (int i = 0; i < 200; i++) {
        assert_int_equal(mkdirat(at, name, 0777), 0);
        int next = openat(at, name, O_RDONLY | O_DIRECTORY);
        if (at != top)
            close(at);
        at = next;
    }
    close(at);
    close(top);
    assert_int_equal(vc_remove_tree(in_folder(name), &err), 0);
    assert_int_equal(entries(folder), 0);
}

static void test_lock(void **state)
{
    (void)state;
    vc_err err = { 0 };
    const char *path = in_folder("lock");
    int fd, again;
    assert_int_equal(vc_lock_file(&fd, path, &err), 0);
    assert_int_equal(vc_lock_file(&again, path, &err), VC_EBUSY);   /* another open file */
    char own[64], holder[VC_LOCK_HOLDER];
    snprintf(own, sizeof own, "(process %ld): wait until it ends", (long)getpid());
    assert_says(&err, own);
    assert_int_equal(again, -1);
    assert_true(vc_lock_held(holder, path));
    assert_non_null(strstr(own, strrchr(holder, '(') + 1));
    pid_t pid = fork();
    if (!pid) {
        close(fd);
        int mine;
        _exit(vc_lock_file(&mine, path, &err) == VC_EBUSY ? 7 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    close(fd);

    assert_false(vc_lock_held(holder, path));
    assert_false(vc_lock_held(holder, in_folder("no/lock")));
    assert_int_equal(vc_lock_file(&fd, path, &err), 0);             /* asking left no lock */
    close(fd);

    /* a killed process leaves no lock */
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (!pid) {
        int mine;
        char ok = vc_lock_file(&mine, path, &err) ? 'n' : 'y';
        if (write(ready[1], &ok, 1) == 1)
            pause();
        _exit(1);
    }
    char ok;
    assert_int_equal(read(ready[0], &ok, 1), 1);
    assert_int_equal(ok, 'y');
    assert_int_equal(vc_lock_file(&fd, path, &err), VC_EBUSY);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    assert_int_equal(vc_lock_file(&fd, path, &err), 0);
    close(fd);
    close(ready[0]);
    close(ready[1]);
    assert_int_equal(vc_lock_file(&fd, in_folder("no/lock"), &err), VC_ENOENT);
    unlink(path);
}

static void test_paths(void **state)
{
    (void)state;
    static const struct { const char *dir, *name, *joined; } rows[] = {
        { "a", "b", "a/b" }, { "a/", "b", "a/b" }, { "/", "b", "/b" }, { "a", "/b", "/b" },
        { "", "b", "b" }, { NULL, "b", "b" }, { "a", "", "a/" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *s = vc_path_join(rows[i].dir, rows[i].name);
        assert_string_equal(s, rows[i].joined);
        free(s);
    }
    static const struct { const char *path, *base, *ext; } parts[] = {
        { "a/b.mp4", "b.mp4", ".mp4" },
        { "b", "b", "" },
        { "/x.y/b", "b", "" },
        { "a/.hidden", ".hidden", "" },
        { "a/b.tar.gz", "b.tar.gz", ".gz" },
        { "a/", "", "" },
        { "", "", "" },
        { "b.", "b.", "." },
    };
    for (size_t i = 0; i < COUNT(parts); i++) {
        assert_string_equal(vc_path_base(parts[i].path), parts[i].base);
        assert_string_equal(vc_path_ext(parts[i].path), parts[i].ext);
    }
    char *s = vc_format("%0*d", 5000, 7);
    assert_int_equal(strlen(s), 5000);
    free(s);
}

static int make_folder(void **state)
{
    (void)state;
    return tmp_dir_make(folder);
}

static int remove_folder(void **state)
{
    (void)state;
    return vc_remove_tree(folder, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_errno),
        cmocka_unit_test(test_long_messages_are_cut),
        cmocka_unit_test(test_write_and_read),
        cmocka_unit_test(test_failed_writes_leave_nothing),
        cmocka_unit_test(test_file_of_a_killed_process),
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_lock),
        cmocka_unit_test(test_paths),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
