/* test_progress.c - progress on stderr as plain text, on a terminal and as JSON; signals; readable
 * numbers. Each case runs in a child whose stderr is a pipe or a pseudo-terminal, and the parent
 * reads the output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common/os/progress.h"

typedef void (*child)(vc_progress *p);
enum { PIPE = 0, WIDE = 120, NARROW = 30 };

static char output[1 << 20];

static int open_terminal(int *slave, int columns)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0 && !grantpt(master) && !unlockpt(master));
    char name[128];
    assert_int_equal(ptsname_r(master, name, sizeof name), 0);
    *slave = open(name, O_RDWR | O_NOCTTY);
    struct winsize w = { .ws_row = 25, .ws_col = (unsigned short)columns };
    assert_int_equal(ioctl(*slave, TIOCSWINSZ, &w), 0);
    return master;
}

static void read_all(int fd)
{
    size_t n = 0;
    for (;;) {
        ssize_t r = read(fd, output + n, sizeof output - 1 - n);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)                  /* a terminal that the child has closed gives EIO */
            break;
        n += (size_t)r;
    }
    output[n] = 0;
    close(fd);
}

/* Runs f in a child and stores its stderr in `output`. The child's stderr is a terminal with
 * `columns` columns, or a pipe if columns is 0. Returns the status of waitpid(). */
static int run(child f, vc_log_format format, bool quiet, int columns)
{
    int fd[2];
    if (columns)
        fd[0] = open_terminal(&fd[1], columns);
    else
        assert_int_equal(pipe(fd), 0);
    setenv("TERM", "xterm", 1);
    pid_t pid = fork();
    if (!pid) {
        close(fd[0]);
        dup2(fd[1], STDERR_FILENO);
        vc_progress *p;
        if (vc_progress_open(&p, "prog", format, quiet, NULL))
            _exit(99);
        f(p);
        vc_progress_close(p);
        _exit(0);
    }
    close(fd[1]);
    read_all(fd[0]);
    int status = 0;
    waitpid(pid, &status, 0);
    return status;
}

static void has(const char *part)
{
    if (!strstr(output, part))
        fail_msg("\"%s\" is not in \"%s\"", part, output);
}

static void lacks(const char *part)
{
    if (strstr(output, part))
        fail_msg("\"%s\" is in \"%s\"", part, output);
}

static int count(const char *part)
{
    int n = 0;
    for (const char *s = output; (s = strstr(s, part)); s += strlen(part))
        n++;
    return n;
}

/* ---- messages ---- */

static void messages(vc_progress *p)
{
    vc_say(p, "made %d of %s", 3, "a\nb\x1b[31m\xc2\x9b" "c \xff\"q\" \\ \xf0\x9f\x98\x80");
    vc_warn(p, "%s", "careful");
    vc_say(NULL, "nobody");
    vc_progress_begin(NULL, "x", "y", 1);
    vc_progress_at(NULL, 1, NULL);
    vc_progress_end(NULL);
    vc_progress_close(NULL);
}

static void test_messages(void **state)
{
    (void)state;
    run(messages, VC_LOG_TEXT, false, PIPE);
    assert_string_equal(output,
                        "prog: made 3 of a b\\x1b[31m\\x9bc \\xff\"q\" \\ \xf0\x9f\x98\x80\n"
                                "prog: warning: careful\n");
    run(messages, VC_LOG_JSON, false, PIPE);
    assert_string_equal(
        output, "{\"event\":\"message\",\"program\":\"prog\",\"level\":\"info\",\"text\":"
                "\"made 3 of a\\u000ab\\u001b[31m\\u009bc \\ufffd\\\"q\\\" \\\\ "
                "\xf0\x9f\x98\x80\"}\n"
                "{\"event\":\"message\",\"program\":\"prog\",\"level\":\"warning\",\"text\":"
                "\"careful\"}\n");
    run(messages, VC_LOG_TEXT, true, PIPE);
    assert_string_equal(output, "prog: warning: careful\n");
}

static void long_message(vc_progress *p)
{
    static char text[100000];
    memset(text, '\\', sizeof text - 1);
    vc_say(p, "%s", text);
}

static void test_long_messages_are_cut(void **state)
{
    (void)state;
    run(long_message, VC_LOG_TEXT, false, PIPE);
    assert_true(strlen(output) > 1000 && strlen(output) < 4096);
    assert_int_equal(count("\n"), 1);
    assert_int_equal(output[strlen(output) - 1], '\n');
    run(long_message, VC_LOG_JSON, false, PIPE);
    assert_int_equal(count("\n"), 1);
    has("\\\\\"}\n");
}

/* ---- a phase ---- */

static void phase(vc_progress *p)
{
    vc_progress_begin(p, "encoding", "clips", 2000);
    for (uint64_t i = 1; i <= 2000; i++) {
        vc_progress_at(p, i, i == 2000 ? "1,990 done, 10 skipped" : NULL);
        if (i % 10 == 0)
            usleep(1000);
        if (i == 1000)
            vc_say(p, "half way");
    }
}

static void test_plain_phase(void **state)
{
    (void)state;
    run(phase, VC_LOG_TEXT, false, PIPE);
    has("prog: half way\nprog: encoding: 2,000 clips in ");
    has(" s  1,990 done, 10 skipped\n");
    assert_int_equal(count("\n"), 2);                /* too short for a line in between */
    lacks("\r");
    lacks("\x1b");
}

static void test_json_phase(void **state)
{
    (void)state;
    run(phase, VC_LOG_JSON, false, WIDE);
    has("\"text\":\"half way\"}");
    has("{\"event\":\"end\",\"program\":\"prog\",\"phase\":\"encoding\",\"unit\":\"clips\","
        "\"done\":2000,\"total\":2000,\"elapsed_s\":");
    has("\"rate\":");
    has("\"extra\":\"1,990 done, 10 skipped\"}");
    lacks("\x1b");
}

static void test_quiet_phase(void **state)
{
    (void)state;
    run(phase, VC_LOG_TEXT, true, WIDE);
    assert_string_equal(output, "");
}

static void test_terminal(void **state)
{
    (void)state;
    double began = vc_seconds();
    run(phase, VC_LOG_TEXT, false, WIDE);
    double took = vc_seconds() - began;
    has("\rencoding [                        ] 0/2,000 0%");
    has("\r\x1b[Kprog: half way\r\n\rencoding [");   /* the bar is drawn again after the message */
    has("clips/s");
    has("ETA ");
    has("\r\x1b[Kprog: encoding: 2,000 clips in ");
    int drawn = count("\rencoding");
    /* at most ten times a second, at the begin, and behind the message */
    if (drawn < 2 || drawn > 10 * took + 4)
        fail_msg("drawn %d times in %g s", drawn, took);
}

static void test_narrow_terminal(void **state)
{
    (void)state;
    run(phase, VC_LOG_TEXT, false, NARROW);
    for (const char *s = output; (s = strstr(s, "\rencoding")); s++) {
        size_t n = strcspn(s + 1, "\r\x1b");
        if (n >= NARROW)
            fail_msg("%zu columns: %.*s", n, (int)n, s + 1);
    }
}

static void dumb(vc_progress *p)
{
    (void)p;
    setenv("TERM", "dumb", 1);
    vc_progress *q;
    vc_progress_open(&q, "q", VC_LOG_TEXT, false, NULL);
    phase(q);
    vc_progress_close(q);
}

static void test_dumb_terminal(void **state)
{
    (void)state;
    run(dumb, VC_LOG_TEXT, false, WIDE);
    lacks("\x1b");
}

/* The rate counts new work only: 100,000 units were done before, then 10 are done in a second. */
static void resumed(vc_progress *p)
{
    vc_progress_begin(p, "training", "steps", 200000);
    vc_progress_at(p, 100000, NULL);
    for (uint64_t i = 1; i <= 4; i++) {
        usleep(100000);
        vc_progress_at(p, 100000 + i, NULL);
    }
}

static void test_rate_of_resumed_phase(void **state)
{
    (void)state;
    run(resumed, VC_LOG_JSON, false, PIPE);
    const char *rate = strstr(output, "\"rate\":");
    assert_non_null(rate);
    double r = strtod(rate + 7, NULL);
    if (!(r > 0 && r <= 10.5))                       /* a busy machine sleeps longer */
        fail_msg("rate: %g a second", r);
}

/* Half of a clip is done, then one and a half, and none of them is whole. */
static void within(vc_progress *p)
{
    vc_progress_begin(p, "clips", "clips", 2);
    usleep(600000);
    vc_progress_within(p, 0, 0.5, "frame 4 of 8");
    vc_progress_within(p, 0, 0.25, "late");          /* another thread reports late */
    usleep(200000);
    vc_progress_within(p, 0, 1.5, NULL);             /* one is being written */
    usleep(200000);
    vc_progress_at(p, 2, NULL);
}

static void test_units_in_work(void **state)
{
    (void)state;
    run(within, VC_LOG_TEXT, false, WIDE);
    has("\rclips [######                  ] 0/2 25%  ");
    has(" each  ETA ");
    has("  frame 4 of 8\x1b[K");
    has("\rclips [##################      ] 0/2 75%  ");
    has("\rclips [########################] 2/2 100%  ");
    lacks("2/2 100%  ETA");
    double each = strtod(strstr(output, "25%  ") + strlen("25%  "), NULL);
    if (!(each >= 1.2))                              /* half a clip takes 0.6 s, or longer */
        fail_msg("%g s each", each);
    run(within, VC_LOG_JSON, false, PIPE);
    has("\"done\":2,\"total\":2,");                  /* at the end */
}

static void unknown_total(vc_progress *p)
{
    vc_progress_begin(p, "reading", "rows", 0);
    usleep(600000);
    vc_progress_at(p, 3, NULL);
    vc_progress_at(p, 2, NULL);                      /* another thread reports late */
    vc_progress_begin(p, "next", "rows", 1);         /* this ends the first phase */
}

/* Seconds that are no time of the steps, and an hour of them to come. It says the time of the
 * steps, as a busy machine sleeps longer. */
static void paused(vc_progress *p)
{
    double began = vc_seconds();
    vc_progress_begin(p, "training", "steps", 100);
    usleep(600000);
    vc_progress_at(p, 6, NULL);
    vc_progress_pause(p);
    double worked = vc_seconds() - began;
    usleep(300000);
    vc_progress_at(p, 6, "sample 1 of 2");
    usleep(900000);
    began = vc_seconds();
    vc_progress_go_on(p);
    usleep(200000);
    vc_progress_ahead(p, 3600);
    vc_progress_at(p, 8, NULL);
    worked += vc_seconds() - began;
    vc_say(p, "worked %.3f s", worked);
}

static void test_pauses(void **state)
{
    (void)state;
    run(paused, VC_LOG_JSON, false, PIPE);
    const char *rate = strstr(output, "\"rate\":"), *eta = strstr(output, "\"eta_s\":");
    const char *said = strstr(output, "worked ");
    assert_true(rate && eta && said);
    double r = strtod(rate + 7, NULL), e = strtod(eta + 8, NULL), worked = strtod(said + 7, NULL);
    if (!(fabs(r * worked - 8) < 0.8))               /* about 3, if the pause counted */
        fail_msg("rate: %g a second, where 8 steps took %g s", r, worked);
    if (!(fabs(e - 3600 - 92 / r) < 2))
        fail_msg("%g s are left at %g a second", e, r);
    run(paused, VC_LOG_TEXT, false, WIDE);
    has("sample 1 of 2");
    has("ETA 1 h 00 min");
}

static void test_unknown_total(void **state)
{
    (void)state;
    run(unknown_total, VC_LOG_TEXT, false, PIPE);
    has("prog: reading: 3 rows in ");
    lacks("next: ");                                 /* a phase in which nothing was done */
    run(unknown_total, VC_LOG_TEXT, false, WIDE);
    has("reading 3 rows  ");
    double r = strtod(strstr(output, "reading 3 rows  ") + strlen("reading 3 rows  "), NULL);
    if (!(r > 0 && r <= 5.05))                       /* 3 rows take 0.6 s, or longer */
        fail_msg("%g a second", r);
    has(" rows/s");
    lacks("ETA");
}

static void bytes(vc_progress *p)
{
    vc_progress_begin(p, "copying", "B", 3 << 20);
    usleep(600000);
    vc_progress_at(p, 3 << 19, NULL);
    vc_progress_end(p);
}

static void test_bytes(void **state)
{
    (void)state;
    run(bytes, VC_LOG_TEXT, false, WIDE);
    has("] 1.5 MiB/3.0 MiB 50%  ");
    has("iB/s  ETA ");
    run(bytes, VC_LOG_TEXT, false, PIPE);
    has("prog: copying: 1.5 MiB in ");
}

/* ---- threads ---- */

static void *talk(void *arg)
{
    for (int i = 0; i < 200; i++) {
        vc_say(arg, "line");
        vc_progress_at(arg, (uint64_t)i, "extra");
    }
    return NULL;
}

static void many_threads(vc_progress *p)
{
    pthread_t t[4];
    vc_progress_begin(p, "talking", "words", 200);
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, talk, p);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
}

static void test_threads(void **state)
{
    (void)state;
    run(many_threads, VC_LOG_TEXT, false, PIPE);
    assert_int_equal(count("prog: line\n"), 800);
    run(many_threads, VC_LOG_TEXT, false, WIDE);
    assert_int_equal(count("prog: line\r\n"), 800);
}

/* ---- signals ---- */

static int sent;                     /* signal that the children below send to themselves */

static void stop_once(vc_progress *p)
{
    (void)p;
    if (vc_catch_stop(NULL) || *vc_stop_flag())
        _exit(1);
    raise(sent);
    _exit(*vc_stop_flag() == sent ? 7 : 1);
}

static void stop_twice(vc_progress *p)
{
    (void)p;
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });    /* SIGQUIT would leave one */
    vc_catch_stop(NULL);
    raise(sent);
    raise(sent);
    _exit(1);
}

/* A closed terminal causes two signals: one of the shell, one of the system. Schedulers repeat
 * theirs. */
static void again(vc_progress *p)
{
    (void)p;
    vc_catch_stop(NULL);
    raise(sent);
    raise(sent);
    _exit(*vc_stop_flag() == sent ? 7 : 1);
}

static void ignored(vc_progress *p)
{
    (void)p;
    signal(sent, SIG_IGN);
    vc_catch_stop(NULL);
    raise(sent);
    _exit(*vc_stop_flag() ? 1 : 7);
}

/* A shell starts its jobs in the background with SIGINT and SIGQUIT ignored; a signal that another
 * rank got is this rank's too. */
static void stop_in_background(vc_progress *p)
{
    (void)p;
    signal(sent, SIG_IGN);
    vc_catch_stop(NULL);
    raise(sent);
    if (*vc_stop_flag() != sent)
        _exit(1);
    vc_stop_adopt(SIGUSR1);
    _exit(*vc_stop_flag() == SIGUSR1 && !strcmp(vc_stop_name(), "SIGUSR1") ? 7 : 1);
}

static void full_disk(vc_progress *p)
{
    (void)p;
    struct rlimit none = { 0, 0 };
    FILE *f = tmpfile();
    int pipes[2];
    if (!f || vc_catch_stop(NULL) || setrlimit(RLIMIT_FSIZE, &none))
        _exit(1);
    if (write(fileno(f), "x", 1) >= 0 || errno != EFBIG || pipe(pipes))
        _exit(1);
    close(pipes[0]);
    _exit(write(pipes[1], "x", 1) < 0 && errno == EPIPE ? 7 : 1);
}

static void test_signals(void **state)
{
    (void)state;
    static const struct { int number; child then[3]; } rows[] = {
        { SIGINT, { stop_once, stop_in_background } },
        { SIGTERM, { stop_once, stop_in_background } },
        { SIGQUIT, { stop_once, stop_in_background } },
        { SIGHUP, { stop_once, again, ignored } },
        { SIGUSR1, { stop_once, again, ignored } },
        { SIGUSR2, { stop_once, again, ignored } },
        { SIGXCPU, { stop_once, again } },
        { 0, { full_disk } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sent = rows[i].number;
        for (int k = 0; k < 3 && rows[i].then[k]; k++) {
            int status = run(rows[i].then[k], VC_LOG_TEXT, true, PIPE);
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
                fail_msg("signal %d, child %d: status %d", sent, k, status);
        }
    }
    static const int deadly[] = { SIGINT, SIGTERM, SIGQUIT };
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) {
        sent = deadly[i];
        int status = run(stop_twice, VC_LOG_TEXT, true, PIPE);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == sent);
    }
}

/* ---- numbers ---- */

static void test_human(void **state)
{
    (void)state;
    char b[32];
    static const struct { double v; const char *s; } bytes[] = {
        { 0, "0 B" },           { 812, "812 B" },      { 1023, "1023 B" },
        { 1023.6, "1.0 KiB" },  { 1024, "1.0 KiB" },   { 4.2 * (1 << 30), "4.2 GiB" },
        { 1048575, "1.0 MiB" }, { -2048, "-2.0 KiB" }, { 0x1p62, "4.0 EiB" },
    };
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        assert_string_equal(vc_human_bytes(b, bytes[i].v), bytes[i].s);
    static const struct { double v; const char *s; } times[] = {
        { 0, "0.0 s" },
        { 0.25, "0.2 s" },
        { 9.94, "9.9 s" },
        { 9.96, "10 s" },
        { 37, "37 s" },
        { 59.4, "59 s" },
        { 59.6, "1 min 00 s" },
        { 125, "2 min 05 s" },
        { 3599.4, "59 min 59 s" },
        { 3599.6, "1 h 00 min" },
        { 3720, "1 h 02 min" },
        { 172799, "2 d 00 h" },
        { 864000, "10 d 00 h" },
        { -1, "?" },
        { NAN, "?" },
        { INFINITY, "?" },
        { 1e30, "?" },
    };
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        assert_string_equal(vc_human_time(b, times[i].v), times[i].s);
    static const struct { uint64_t v; const char *s; } counts[] = {
        { 0, "0" }, { 12, "12" }, { 999, "999" }, { 1000, "1,000" }, { 8412, "8,412" },
        { 123456, "123,456" }, { UINT64_MAX, "18,446,744,073,709,551,615" },
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        assert_string_equal(vc_human_count(b, counts[i].v), counts[i].s);
    for (double v = 1e-300; v < 1e300; v *= 1e10) {  /* no text exceeds its buffer */
        vc_human_bytes(b, v);
        vc_human_time(b, v);
    }
}

static void test_time(void **state)
{
    (void)state;
    double t = vc_seconds();
    usleep(20000);
    assert_true(vc_seconds() - t >= 0.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_long_messages_are_cut),
        cmocka_unit_test(test_plain_phase),
        cmocka_unit_test(test_json_phase),
        cmocka_unit_test(test_quiet_phase),
        cmocka_unit_test(test_terminal),
        cmocka_unit_test(test_narrow_terminal),
        cmocka_unit_test(test_dumb_terminal),
        cmocka_unit_test(test_rate_of_resumed_phase),
        cmocka_unit_test(test_units_in_work),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_unknown_total),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_human),
        cmocka_unit_test(test_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
