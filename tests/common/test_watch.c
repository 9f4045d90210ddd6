/* test_watch.c - ranks that watch each other (common/comm/watch.h), up to a thousand threads whose
 * messages are moved in memory: how many they send, whom they name, and who gives whom up. Each
 * case runs in a child, since a rank that is lost stays as it is. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/comm/watch.h"
#include "common/os/progress.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { MOST = 1000, BYTES = 1024, WAITING = 4096, TEXT = 1 << 20 };

/* ---- ranks ---- */

typedef struct message {
    int from;
    size_t n;
    char x[BYTES];
} message;

/* A rank and what it has not heard yet, a ring. */
static struct rank {
    vc_comm comm;
    vc_watch *watch;
    vc_progress *ui;
    pthread_mutex_t lock;
    message *box[WAITING];
    int first, n;
    int number;
} ranks[MOST];
static int size;
static atomic_bool stopped[MOST];
static atomic_long sent;

/* Everything that ranks have said, as "by N: TEXT". */
static char said[TEXT];
static size_t n_said;
static pthread_mutex_t saying = PTHREAD_MUTEX_INITIALIZER;

static char *note_said(const void *ctx, const char *text)
{
    const struct rank *r = ctx;
    pthread_mutex_lock(&saying);
    if (n_said < sizeof said)
        n_said += (size_t)snprintf(said + n_said, sizeof said - n_said, "by %d: %s\n", r->number,
                                   text);
    pthread_mutex_unlock(&saying);
    return NULL;
}

static void nap(double seconds)
{
    time_t whole = (time_t)seconds;
    nanosleep(&(struct timespec){ whole, (long)((seconds - (double)whole) * 1e9) }, NULL);
}

/* A stopped rank stays within its next call. */
static void freeze(const vc_comm *c)
{
    while (atomic_load(&stopped[c->rank]))
        nap(0.01);
}

static void tell(vc_comm *c, int to, const void *x, size_t n)
{
    freeze(c);
    struct rank *r = &ranks[to];
    message *m = n <= BYTES ? malloc(sizeof *m) : NULL;
    if (!m)
        abort();
    m->from = c->rank;
    m->n = n;
    memcpy(m->x, x, n);
    pthread_mutex_lock(&r->lock);
    if (r->n < WAITING)
        r->box[(r->first + r->n++) % WAITING] = m;
    else
        free(m);
    pthread_mutex_unlock(&r->lock);
    atomic_fetch_add(&sent, 1);
}

static bool hear(vc_comm *c, int *from, void *x, size_t n)
{
    freeze(c);
    struct rank *r = &ranks[c->rank];
    message *m = NULL;
    pthread_mutex_lock(&r->lock);
    if (r->n) {
        m = r->box[r->first];
        r->first = (r->first + 1) % WAITING;
        r->n--;
    }
    pthread_mutex_unlock(&r->lock);
    if (!m)
        return false;
    if (m->n > n)
        abort();
    *from = m->from;
    memcpy(x, m->x, m->n);
    free(m);
    return true;
}

static const vc_comm_ops ops = { .tell = tell, .hear = hear };

static void note(int r, int step)
{
    char text[32];
    snprintf(text, sizeof text, "step %d of %d", step, r);
    vc_watch_note(ranks[r].watch, text);
}

static void start(int n, double patience)
{
    vc_err err = { 0 };
    size = n;
    for (int r = 0; r < n; r++) {
        struct rank *k = &ranks[r];
        k->comm = (vc_comm){ .ops = &ops, .rank = r, .size = n };
        k->number = r;
        pthread_mutex_init(&k->lock, NULL);
        if (vc_progress_open(&k->ui, "test", VC_LOG_TEXT, false, &err))
            abort();
        vc_progress_edit(k->ui, note_said, k);
    }
    for (int r = 0; r < n; r++) {
        if (vc_watch_open(&ranks[r].watch, &ranks[r].comm, &err))
            abort();
        vc_watch_set(ranks[r].watch, &(vc_comm_watch_opts){ patience, ranks[r].ui });
        note(r, 7);
    }
}

/* ---- checks, in the child ---- */

static void fails(const char *what)
{
    fprintf(stderr, "%d ranks: %s; said:\n%s", size, what, said);
    _exit(1);
}

static bool says(const char *text)
{
    pthread_mutex_lock(&saying);
    bool is = strstr(said, text) != NULL;
    pthread_mutex_unlock(&saying);
    return is;
}

static void until_said(const char *text, double seconds)
{
    for (double end = vc_seconds() + seconds; !says(text); nap(0.02))
        if (vc_seconds() > end)
            fails(text);
}

/* Messages of a rank in a second. */
static double rate(double seconds)
{
    long before = atomic_load(&sent);
    double from = vc_seconds();
    for (int step = 8; vc_seconds() - from < seconds; nap(0.2), step++)
        for (int r = 0; r < size; r++)
            note(r, step);
    return (double)(atomic_load(&sent) - before) / size / (vc_seconds() - from);
}

/* Beats of 5 s and news of steps, on a thousand ranks. */
static void scales(void)
{
    char text[80];
    start(MOST, 600);
    nap(3);
    double r = rate(6);
    snprintf(text, sizeof text, "%.1f messages a second from each", r);
    fprintf(stderr, "%d ranks: %s\n", MOST, text);
    if (r > 15 || n_said)
        fails(text);
}

/* ---- ranks that stop ---- */

/* Ranks [from, from + n) of `size` stop. */
typedef struct loss {
    int size, from, n;
} loss;
static loss now;

static void stop_rank(bool is)
{
    for (int r = now.from; r < now.from + now.n; r++)
        atomic_store(&stopped[r], is);
}

/* The lowest rank that answers. */
static int lowest(void)
{
    return now.from ? 0 : now.n;
}

static void check_warned(double seconds)
{
    char text[80];
    for (int r = now.from; r < now.from + now.n; r++) {
        snprintf(text, sizeof text, "by %d: rank %d (", lowest(), r);
        until_said(text, seconds);
        const char *line = strstr(said, text) + strlen(text);
        snprintf(text, sizeof text, "process %d; step 7 of %d) has not answered for", (int)getpid(),
                 r);
        if (!memmem(line, strcspn(line, "\n"), text, strlen(text)))
            fails(text);
    }
}

/* They go on before they are given up. */
static void answer_again(void)
{
    char text[80];
    start(now.size, 24);
    nap(3);
    stop_rank(true);
    check_warned(30);
    stop_rank(false);
    for (int r = now.from; r < now.from + now.n; r++) {
        snprintf(text, sizeof text, "step 7 of %d) answers again, after", r);
        until_said(text, 60);
    }
    nap(26);
    for (int r = 0; r < size; r++)
        if (vc_watch_lost(ranks[r].watch))
            fails("a rank is lost");
    pthread_mutex_lock(&saying);
    n_said = 0;
    *said = '\0';
    pthread_mutex_unlock(&saying);
    atomic_store(&sent, 0);
    nap(4);
    if (n_said || atomic_load(&sent) > 30L * size)
        fails("it is not as before");
}

static void *leave(void *arg)
{
    vc_watch_leave(((struct rank *)arg)->watch);
    pthread_mutex_lock(&saying);
    n_said += (size_t)snprintf(said + n_said, sizeof said - n_said, "left: %d\n",
                               ((struct rank *)arg)->number);
    pthread_mutex_unlock(&saying);
    return NULL;
}

static bool is_stopped(int r)
{
    return r >= now.from && r < now.from + now.n;
}

/* All others give them up soon after the patience, name them, and the lowest ends the run. */
static void are_lost(void)
{
    char text[80];
    vc_err err;
    pthread_t thread;
    start(now.size, 8);
    nap(2);
    stop_rank(true);
    double end = vc_seconds() + 120;
    for (int r = 0; r < size; r++)
        while (!is_stopped(r) && !vc_watch_lost(ranks[r].watch)) {
            if (vc_seconds() > end)
                fails("they are not given up");
            nap(0.02);
        }
    check_warned(10);
    nap(3);
    for (int r = 0; r < size; r++) {
        if (is_stopped(r))
            continue;
        if (vc_watch_first(ranks[r].watch) != lowest() || !vc_watch_fail(ranks[r].watch, &err))
            fails("another rank is the first");
        snprintf(text, sizeof text, "process %d; step 7 of %d)", (int)getpid(), now.from);
        if (!strstr(err.text, text))
            fails(err.text);
        for (int k = 0; k < size; k++) {
            snprintf(text, sizeof text, "rank %d (", k);
            if (!is_stopped(k) && strstr(err.text, text))
                fails(err.text);
        }
    }
    for (int r = 0; r < size; r++)
        if (!is_stopped(r) && pthread_create(&thread, NULL, leave, &ranks[r]))
            abort();
    snprintf(text, sizeof text, "left: %d\n", lowest());
    until_said(text, 60);
    nap(1);
    if (strstr(strstr(said, "left: ") + 1, "left: "))
        fails("several ranks end the run");
}

/* ---- the cases ---- */

/* Starts f in a child. */
static pid_t begin(void (*f)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid)
        return pid;
    f();
    _exit(0);
}

static void end(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_scales(void **state)
{
    (void)state;
    end(begin(scales));
}

/* One rank, ranks of a machine, the first ones, half of all. */
static const loss losses[] = {
    { 2, 1, 1 }, { 2, 0, 1 }, { 3, 0, 2 }, { 5, 4, 1 }, { 64, 5, 1 }, { 64, 0, 1 }, { 64, 24, 8 },
    { 64, 0, 8 }, { 33, 0, 16 },
};

static void each(void (*f)(void))
{
    pid_t pid[COUNT(losses)];
    for (size_t i = 0; i < COUNT(losses); i++) {
        now = losses[i];
        pid[i] = begin(f);
    }
    for (size_t i = 0; i < COUNT(losses); i++)
        end(pid[i]);
}

static void test_answer_again(void **state)
{
    (void)state;
    each(answer_again);
}

static void test_lost(void **state)
{
    (void)state;
    each(are_lost);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_scales), cmocka_unit_test(test_lost),
                                        cmocka_unit_test(test_answer_again) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
