/* place_ssh.c - a dataset in a folder of another machine, through the system's ssh program.
 *
 * That program knows the user's keys, host names and jump hosts; the other machine needs a POSIX
 * shell and its usual commands, and neither vlat nor rsync. Each call runs a short script there.
 * Bytes come and go through pipes, so they are hashed on their way as those of any other place. A
 * file that was sent is read again there by cksum. See place.h */
#include "formats/vlat/place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/os/file.h"
#include "formats/vlat/owner.h"

extern char **environ;

/* A script whose output is read prints this first: text before it is the shell's own. */
static const char mark[] = "vlat answers:\n";
enum { MARK = sizeof mark - 1 };

enum {
    BLOCK = 1 << 18,
    POLL_MS = 500,                           /* between looks at the stop flag */
    BATCH = 100,                             /* files in one script: its length is limited */
    MOST_ANSWER = 1 << 20,                   /* bytes of a script's answer, and of what is behind
                                              * text that does not belong there */
    NO_CONNECTION = 255,                     /* exit status of ssh */
    ANSWER_TIMEOUTS = 10,                    /* a command's answer, as cksum's of a large file, may
                                              * take this many times --timeout */
    MISSING = 44, CHANGED = 45               /* exit status of the scripts here */
};

typedef struct ssh {
    vlat_place place;
    char *host, *dir;                        /* dir is quoted for the shell */
    pid_t pid;                               /* 0: no script runs */
    int in, out;                             /* pipes to and from the script, or -1 */
    bool asks, loud;                         /* the output is read; other text came before it */
    size_t marked;                           /* bytes of the mark that have come */
    bool moves, slow;                        /* a file's bytes come or go; they were too slow */
    uint64_t moved;                          /* bytes since `since`, in vc_seconds() */
    double since;
    char *name;                              /* of the file that is sent, quoted */
    char *owner;                             /* name of this process in the lock, or NULL */
    uint8_t block[BLOCK];
} ssh;

/* ---- one script ---- */

static void add_quoted(vc_buf *b, const char *s)
{
    vc_buf_str(b, "'");
    for (; *s; s++)
        if (*s == '\'')
            vc_buf_str(b, "'\\''");
        else
            vc_buf_add(b, s, 1);
    vc_buf_str(b, "'");
}

static char *quoted(const char *s)
{
    vc_buf b = { 0 };
    add_quoted(&b, s);
    return vc_buf_take(&b);
}

static void close_pipe(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int spawn(ssh *s, char *command, vc_err *err)
{
    int in[2] = { -1, -1 }, out[2] = { -1, -1 };
    char *argv[] = { "ssh", "-T", s->host, command, NULL };
    posix_spawn_file_actions_t acts;
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || posix_spawn_file_actions_init(&acts)) {
        for (int i = 0; i < 2; i++) {
            close_pipe(&in[i]);
            close_pipe(&out[i]);
        }
        return vc_fail_errno(err, "ssh %s", s->host);
    }
    posix_spawn_file_actions_adddup2(&acts, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&acts, out[1], STDOUT_FILENO);
    int code = posix_spawnp(&s->pid, "ssh", &acts, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&acts);
    close(in[0]);
    close(out[1]);
    s->in = in[1];
    s->out = out[0];
    fcntl(s->in, F_SETFL, O_NONBLOCK);       /* a stop must not wait for a stuck connection */
    if (!code)
        return 0;
    s->pid = 0;
    errno = code;
    return vc_fail_errno(err, "the program ssh, which reaches %s, could not be started", s->host);
}

/* Starts a script in the dataset's folder there. `asks`: receive gets its output. */
static int start(ssh *s, const vc_buf *script, bool asks, vc_err *err)
{
    vc_buf all = { 0 }, command = { 0 };
    s->asks = asks;
    s->loud = false;
    s->marked = 0;
    s->moves = s->slow = false;
    s->moved = 0;
    s->since = vc_seconds();
    if (asks) {
        vlat_place_asks(&s->place);
        vc_buf_printf(&all, "echo '%.*s'; ", MARK - 1, mark);
    }
    vc_buf_printf(&all, "cd %s 2>/dev/null || exit %d; ", s->dir, MISSING);
    vc_buf_add(&all, script->data, script->n);
    char *text = vc_buf_take(&all);
    vc_buf_str(&command, "exec sh -c ");
    if (text)
        add_quoted(&command, text);
    char *line = vc_buf_take(&command);
    int rc = text && line && !script->failed ? spawn(s, line, err) : vc_no_memory(err);
    free(text);
    free(line);
    return rc;
}

/* Fails if the bytes of a file come or go slower than the limits allow, or if the answer of a
 * command is overdue. */
static int check_pace(ssh *s, vc_err *err)
{
    const vlat_limits *l = s->place.limits;
    double seconds = vc_seconds() - s->since;
    int64_t most = s->moves ? l->timeout : l->timeout * ANSWER_TIMEOUTS;
    if (seconds < (double)most)
        return 0;
    s->slow = s->moves ? (double)s->moved < (double)l->lowest_speed * seconds : !s->moved;
    s->since += seconds;
    s->moved = 0;
    if (!s->slow)
        return 0;
    return s->moves ? vc_fail(err, VC_EIO, "less than %" PRId64 " bytes a second came or went for "
                              "%" PRId64 " s (--lowest_speed, --timeout)", l->lowest_speed, most)
                    : vc_fail(err, VC_EIO, "%s: a command there has not answered for %" PRId64
                              " s (10 times --timeout): does `ssh %s true` work?", s->place.where,
                              most, s->host);
}

/* Waits until a pipe is ready. */
static int await(ssh *s, int fd, short event, vc_err *err)
{
    struct pollfd p = { .fd = fd, .events = event };
    for (;;) {
        int n = poll(&p, 1, POLL_MS);
        int failed = n < 0 && errno != EINTR ? vc_fail_errno(err, "ssh %s", s->host) : 0;
        int rc = vlat_place_stopped(&s->place, err);
        if (!rc)
            rc = failed ? failed : check_pace(s, err);
        if (rc || n > 0)
            return rc;
    }
}

/* Waits for the end of the script, whose pipes are closed, unless rc is an error. A script that
 * `must` end is waited for after a stop too. */
static int await_end(ssh *s, bool must, int rc, int *status, vc_err *err)
{
    struct timespec pause = { .tv_nsec = 1000000 };
    while (!rc && !waitpid(s->pid, status, WNOHANG)) {
        rc = must ? 0 : vlat_place_stopped(&s->place, err);
        if (!rc)
            rc = check_pace(s, err);
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < POLL_MS * 1000000L / 2)
            pause.tv_nsec *= 2;
    }
    if (rc) {
        kill(s->pid, SIGTERM);
        while (waitpid(s->pid, status, 0) < 0 && errno == EINTR)
            ;
    }
    s->pid = 0;
    return rc;
}

/* Ends the script, whose result so far is rc; *again: the connection failed. */
static int finish(ssh *s, bool must, int rc, bool *again, vc_err *err)
{
    int status = 0;
    vlat_place_rests(&s->place);
    close_pipe(&s->in);
    close_pipe(&s->out);
    if (!s->pid)
        return rc;
    rc = await_end(s, must, rc, &status, err);
    *again = s->slow && s->moves;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : NO_CONNECTION;
    if (!rc && !code && s->asks && s->marked < MARK)
        return vc_fail(err, VC_EINVAL, "%s: the shell of %s did not run a command: does `ssh %s "
                       "echo yes` print yes?", s->place.where, s->host, s->host);
    if (rc || !code)
        return rc;
    if (code == MISSING)
        return vc_fail(err, VC_ENOENT, "%s: no such folder or file", s->place.where);
    *again = code == NO_CONNECTION;
    return *again ? vc_fail(err, VC_EIO, "%s: ssh lost the connection to %s, or made none: does "
                            "`ssh %s true` work?", s->place.where, s->host, s->host)
                  : vc_fail(err, VC_EIO, "%s: a command there failed with status %d; its message "
                            "is above", s->place.where, code);
}

/* Names the shell's first words, of those that came and were no mark. */
static int name_text(ssh *s, const char *text, size_t n, vc_err *err)
{
    enum { SOME = 60 };
    char line[SOME + 1] = "";
    size_t at = 0, k = 0;
    while (at < n && (text[at] == '\n' || text[at] == '\r' || text[at] == ' '))
        at++;
    for (; at < n && k < SOME && text[at] != '\n' && text[at] != '\r'; at++)
        line[k++] = (unsigned char)text[at] < ' ' || text[at] > '~' ? '?' : text[at];
    s->loud = true;
    return vc_fail(err, VC_EINVAL, "%s: the shell of %s prints text before a command (\"%s\"): "
                   "its startup files, as ~/.bashrc, must print nothing where there is no "
                   "terminal, and `ssh %s true` nothing at all", s->place.where, s->host, line,
                   s->host);
}

/* Compares the first bytes of the output with the mark; *n of the k bytes in s->block belong to
 * it. */
static int take_mark(ssh *s, size_t k, size_t *n, vc_err *err)
{
    *n = MARK - s->marked < k ? MARK - s->marked : k;
    vlat_place_hears(&s->place);
    if (memcmp(mark + s->marked, s->block, *n))
        return name_text(s, (const char *)s->block, k, err);
    s->marked += *n;
    return 0;
}

static int receive(ssh *s, const vlat_sink *to, uint64_t n, vc_err *err)
{
    int rc = 0;
    while (!rc && n) {
        rc = await(s, s->out, POLLIN, err);
        ssize_t k = rc ? 0 : read(s->out, s->block, n < BLOCK ? (size_t)n : BLOCK);
        if (k < 0 && errno != EINTR)
            rc = vc_fail_errno(err, "ssh %s", s->host);
        else if (!rc && !k)
            return 0;
        size_t skip = 0;
        if (!rc && k > 0)
            rc = take_mark(s, (size_t)k, &skip, err);
        size_t some = k > 0 ? (size_t)k - skip : 0;
        n -= some;
        s->moved += some;
        if (!rc && some)
            rc = to->take(to->arg, s->block + skip, some, err);
    }
    return rc;
}

/* Reads what is left of an answer, so that a script ends by itself after text of the shell. */
static void drain(ssh *s)
{
    ssize_t k = 1;
    for (size_t n = 0; k && n < MOST_ANSWER && !await(s, s->out, POLLIN, NULL); n += (size_t)k) {
        k = read(s->out, s->block, BLOCK);
        if (k < 0)
            k = errno == EINTR;
    }
}

static int into_text(void *arg, const void *data, size_t n, vc_err *err)
{
    vc_buf *text = arg;
    if (n > MOST_ANSWER - text->n)
        return vc_fail(err, VC_EFORMAT, "ssh: an answer of more than %d bytes", MOST_ANSWER);
    vc_buf_add(text, data, n);
    return text->failed ? vc_no_memory(err) : 0;
}

/* Runs a script and gets its output. */
static int ask(ssh *s, const vc_buf *script, char **text, vc_err *err)
{
    vc_buf out = { 0 };
    bool again;
    int rc = start(s, script, true, err);
    close_pipe(&s->in);
    if (!rc)
        rc = receive(s, &(vlat_sink){ into_text, &out }, UINT64_MAX, err);
    if (s->loud)
        drain(s);
    rc = finish(s, false, rc, &again, err);
    *text = vc_buf_take(&out);
    return rc || *text ? rc : vc_no_memory(err);
}

/* ---- the calls of a place ---- */

static int get(vlat_place *p, const char *name, uint64_t from, uint64_t n, const vlat_sink *to,
               bool *again, vc_err *err)
{
    ssh *s = (ssh *)p;
    vc_buf script = { 0 };
    char *file = quoted(name);
    *again = false;
    vc_buf_printf(&script, "[ -f %s ] || exit %d; exec tail -c +%" PRIu64 " %s", file ? file : "",
                  MISSING, from + 1, file ? file : "");
    if (n != UINT64_MAX)
        vc_buf_printf(&script, " | head -c %" PRIu64, n);
    int rc = file ? start(s, &script, true, err) : vc_no_memory(err);
    s->moves = true;
    close_pipe(&s->in);
    if (!rc)
        rc = receive(s, to, n, err);
    rc = finish(s, false, rc, again, err);
    vc_buf_free(&script);
    free(file);
    return vc_context(err, rc, "%s", name);
}

/* Does not look at the stop flag, because the lock must go. VLAT_COMING gets another name before it
 * is removed, as the next transfer may make its own at once. */
static int release(vlat_place *p, bool done, vc_err *err)
{
    ssh *s = (ssh *)p;
    vc_buf script = { 0 };
    bool again;
    if (done)
        vc_buf_printf(&script, "mv " VLAT_COMING " " VLAT_COMING ".%s && rm -rf " VLAT_COMING ".%s",
                      s->owner, s->owner);
    else
        vc_buf_printf(&script, "rm -f " VLAT_LOCK "/%s && rmdir " VLAT_LOCK, s->owner);
    int rc = start(s, &script, false, err);
    rc = finish(s, true, rc, &again, err);
    vc_buf_free(&script);
    return rc;
}

/* Runs a script in the dataset's folder, or in the home folder if there is none yet; its words go
 * to VLAT_COMING and may make the lock. *owner: the lock's files after that. Where the lock is ours
 * now but a transfer on that machine has locked VLAT_COMING, the lock is removed again. */
static int try_lock(ssh *s, const char *words, char **owner, vc_err *err)
{
    vc_buf script = { 0 };
    char *dir = s->dir, home[] = ".";
    s->dir = home;                           /* the folder may not exist yet */
    vc_buf_printf(&script, "mkdir -p %s/" VLAT_COMING " && cd %s/" VLAT_COMING " || exit 1; %s; "
                  "held() { command -v flock >/dev/null && { flock -n . true; [ $? -eq 1 ]; }; }; "
                  "if [ -f lock/%s ] && held; then rm -r lock; echo another; else ls lock; fi",
                  dir, dir, words, s->owner);
    int rc = ask(s, &script, owner, err);
    s->dir = dir;
    vc_buf_free(&script);
    if (rc && s->loud)                       /* the script has run nevertheless */
        release(&s->place, false, NULL);
    if (!rc)
        (*owner)[strcspn(*owner, "\n")] = 0;
    return rc;
}

/* Takes the lock over from a process that has ended; the rename fails if another was faster. */
static int take_over(ssh *s, char **owner, vc_err *err)
{
    vc_buf words = { 0 };
    vc_buf_str(&words, "mv lock/");
    add_quoted(&words, *owner);
    vc_buf_printf(&words, " lock/%s 2>/dev/null", s->owner);
    char *text = vc_buf_take(&words);
    free(*owner);
    *owner = NULL;
    int rc = text ? try_lock(s, text, owner, err) : vc_no_memory(err);
    free(text);
    return rc;
}

static int prepare(vlat_place *p, vc_err *err)
{
    ssh *s = (ssh *)p;
    char *owner = NULL, *words = NULL;
    s->owner = vlat_owner_self();
    if (s->owner)
        words = vc_format("if mkdir lock 2>/dev/null; then : >lock/%s || exit 1; fi", s->owner);
    int rc = words ? try_lock(s, words, &owner, err) : vc_no_memory(err);
    if (!rc && vlat_owner_gone(owner))
        rc = take_over(s, &owner, err);
    if (!rc && strcmp(owner, s->owner))
        rc = vlat_owner_busy(owner, p->where, VLAT_LOCK, err);
    free(owner);
    free(words);
    return rc;
}

/* Runs a script that begins with `head` and has for each file the words of `each`, a format with up
 * to two %s, in batches. `read` gets the output and the place of the batch's first file. */
static int for_all(ssh *s, const char *each, char *const *a, char *const *b, int n,
                   int (*read_batch)(char *text, int n, int64_t *size, vc_err *err), int64_t *size,
                   vc_err *err)
{
    int rc = 0;
    for (int from = 0; !rc && from < n; from += BATCH) {
        vc_buf script = { 0 };
        char *text = NULL;
        int many = n - from < BATCH ? n - from : BATCH;
        for (int i = from; i < from + many; i++) {
            vc_buf_str(&script, each);
            vc_buf_str(&script, " ");
            add_quoted(&script, a[i]);
            if (b) {
                vc_buf_str(&script, " ");
                add_quoted(&script, b[i]);
            }
            vc_buf_str(&script, " || exit 1; ");
        }
        rc = ask(s, &script, &text, err);
        if (!rc && read_batch)
            rc = read_batch(text, many, size + from, err);
        vc_buf_free(&script);
        free(text);
    }
    return rc;
}

static int read_sizes(char *text, int n, int64_t *size, vc_err *err)
{
    char *at = text;
    for (int i = 0; i < n; i++) {
        char *end;
        size[i] = strtoll(at, &end, 10);
        if (end == at)
            return vc_fail(err, VC_EFORMAT, "ssh: sizes of %d files expected, found \"%.100s\"", n,
                           text);
        at = end;
    }
    return 0;
}

static int sizes(vlat_place *p, char *const *name, int n, int64_t *size, vc_err *err)
{
    static const char each[] = "f() { if [ -f \"$1\" ]; then wc -c <\"$1\"; else echo -1; fi; }; f";
    return for_all((ssh *)p, each, name, NULL, n, read_sizes, size, err);
}

static int rename_all(vlat_place *p, char *const *from, char *const *to, int n, vc_err *err)
{
    int rc = for_all((ssh *)p, "mv -f", from, to, n, NULL, NULL, err);
    char *text = NULL;
    vc_buf script = { .data = "sync", .n = 4 };
    if (!rc)
        rc = ask((ssh *)p, &script, &text, err);
    free(text);
    return rc;
}

static int remove_all(vlat_place *p, char *const *name, int n, vc_err *err)
{
    return for_all((ssh *)p, "rm -rf", name, NULL, n, NULL, NULL, err);
}

static int put_begin(vlat_place *p, const char *name, uint64_t from, vc_err *err)
{
    ssh *s = (ssh *)p;
    vc_buf script = { 0 };
    free(s->name);
    s->name = quoted(name);
    if (!s->name)
        return vc_no_memory(err);
    if (from)
        vc_buf_printf(&script, "[ $(wc -c <%s) -eq %" PRIu64 " ] || exit %d; exec cat >>%s",
                      s->name, from, CHANGED, s->name);
    else
        vc_buf_printf(&script, "exec cat >%s", s->name);
    int rc = start(s, &script, false, err);
    s->moves = true;
    vc_buf_free(&script);
    return rc;
}

static int put(vlat_place *p, const void *data, size_t n, vc_err *err)
{
    ssh *s = (ssh *)p;
    int rc = 0;
    for (size_t at = 0; !rc && at < n;) {
        rc = await(s, s->in, POLLOUT, err);
        ssize_t k = rc ? 0 : write(s->in, (const char *)data + at, n - at);
        if (k < 0 && errno != EINTR && errno != EAGAIN)
            rc = vc_fail(err, VC_EIO, "%s: ssh lost the connection to %s", p->where, s->host);
        at += k > 0 ? (size_t)k : 0;
        s->moved += k > 0 ? (size_t)k : 0;
    }
    return rc;
}

static int put_end(vlat_place *p, const uint32_t *sum, vc_err *err)
{
    ssh *s = (ssh *)p;
    vc_buf script = { 0 };
    bool again;
    char *text = NULL;
    close_pipe(&s->in);                      /* `cat` there ends with its input */
    int rc = finish(s, false, 0, &again, err);
    if (rc || !sum || !s->name)
        return rc;
    vc_buf_printf(&script, "cksum <%s", s->name);
    rc = ask(s, &script, &text, err);
    if (!rc && strtoull(text, NULL, 10) != *sum)
        rc = vc_fail(err, VC_EMISMATCH, "%s: the file %s arrived with another checksum: does "
                     "another push write there? Its disk may be faulty", p->where, s->name);
    vc_buf_free(&script);
    free(text);
    return rc;
}

static void close_ssh(vlat_place *p)
{
    ssh *s = (ssh *)p;
    bool again;
    finish(s, false, VC_ESTOP, &again, NULL);
    free(s->host);
    free(s->dir);
    free(s->name);
    free(s->owner);
    free(s);
}

static const vlat_place_kind kind = {
    .get = get, .close = close_ssh, .prepare = prepare, .release = release, .sizes = sizes,
    .put_begin = put_begin, .put = put, .put_end = put_end, .rename = rename_all,
    .remove = remove_all
};

/* A folder is relative to the home folder there, with or without "~/" in front; "./" keeps a name
 * that begins with - from being an option. */
static char *relative(const char *dir)
{
    char *path = vc_format("./%s", !strncmp(dir, "~/", 2) ? dir + 2 : dir);
    char *q = path ? quoted(path) : NULL;
    free(path);
    return q;
}

int vlat_ssh_open(vlat_place **out, const char *where, vc_err *err)
{
    size_t n = strcspn(where, ":");
    const char *dir = where + n + 1;
    *out = NULL;
    if (*where == '-' || !*dir)
        return vc_fail(err, VC_EUSAGE, "%s: USER@HOST:FOLDER expected, with a host's name that "
                       "does not begin with - and a folder", where);
    ssh *s = calloc(1, sizeof *s);
    if (!s)
        return vc_no_memory(err);
    s->in = s->out = -1;
    s->place.kind = &kind;
    s->host = strndup(where, n);
    s->dir = *dir == '/' ? quoted(dir) : relative(dir);
    if (!s->host || !s->dir) {
        close_ssh(&s->place);
        return vc_no_memory(err);
    }
    *out = &s->place;
    return 0;
}
