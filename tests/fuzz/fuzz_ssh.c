/* fuzz_ssh.c - any bytes are what a shell behind ssh prints, with the statuses of its commands: no
 * process is started. A failure has a message, sizes are read for all files, and a lock that was
 * taken has the name of this process. */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The double of the processes: the script's output is a piece of the input. */
static int play(pid_t *pid, const char *file, const posix_spawn_file_actions_t *acts,
                const posix_spawnattr_t *attr, char *const *argv, char *const *env);
static int note_pipe(posix_spawn_file_actions_t *acts, int fd, int as);
static pid_t play_end(pid_t pid, int *status, int options);
#define posix_spawnp play
#define posix_spawn_file_actions_adddup2 note_pipe
#define waitpid play_end
#define kill(pid, signal) ((void)(pid), 0)
#include "formats/vlat/place_ssh.c"
#include "tests/lib/mutate.h"

static const uint8_t *input;
static size_t input_size;
static int output = -1, exit_status;

static uint8_t next(void)
{
    return input_size ? (input_size--, *input++) : 0;
}

static int note_pipe(posix_spawn_file_actions_t *acts, int fd, int as)
{
    (void)acts;
    if (as == STDOUT_FILENO)
        output = fd;
    return 0;
}

static int play(pid_t *pid, const char *file, const posix_spawn_file_actions_t *acts,
                const posix_spawnattr_t *attr, char *const *argv, char *const *env)
{
    static const uint8_t statuses[] = { 0, 0, 0, 1, MISSING, CHANGED, NO_CONNECTION, 127 };
    (void)file, (void)acts, (void)attr, (void)argv, (void)env;
    uint8_t how = next();
    size_t n = next();
    n = n < input_size ? n : input_size;
    *pid = 1;
    exit_status = statuses[how % 8] << 8;
    if (how & 8 && write(output, mark, MARK) != MARK)
        abort();
    if (write(output, input, n) != (ssize_t)n)           /* a pipe has room for them */
        abort();
    input += n;
    input_size -= n;
    return how == 255 ? ENOENT : 0;
}

static pid_t play_end(pid_t pid, int *status, int options)
{
    (void)options;
    *status = exit_status;
    return pid;
}

static int sum(void *arg, const void *data, size_t n, vc_err *err)
{
    const volatile uint8_t *p = data;
    for (size_t i = 0; i < n; i++)
        *(unsigned *)arg += p[i];
    return n && p[0] == 'E' ? vc_fail(err, VC_EFULL, "the sink is full") : 0;
}

static int ask_one(vlat_place *p, uint8_t what, vc_err *err)
{
    char a[] = "shard-00000.lmdb", b[] = "it's", *const names[] = { a, b };
    int64_t size[2];
    unsigned total = 0;
    uint32_t cksum = 4038471504u;
    bool again;
    int rc;
    switch (what % 7) {
    case 0: return p->kind->get(p, a, what, UINT64_MAX, &(vlat_sink){ sum, &total }, &again, err);
    case 1: return p->kind->get(p, b, 0, what, &(vlat_sink){ sum, &total }, &again, err);
    case 2: return p->kind->sizes(p, names, 2, size, err);
    case 3: return p->kind->rename(p, names, names, 2, err);
    case 4: return p->kind->remove(p, names, 2, err);
    case 5:
        rc = p->kind->put_begin(p, a, what, err);
        return rc ? p->kind->put_end(p, NULL, NULL), rc : p->kind->put_end(p, &cksum, err);
    default:
        free(((ssh *)p)->owner);
        ((ssh *)p)->owner = NULL;
        rc = p->kind->prepare(p, err);
        return rc ? rc : p->kind->release(p, what & 64, err);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static vlat_limits limits = { .lowest_speed = 1, .timeout = 60 };
    static vlat_place *place;                /* each call leaves it without a script */
    input = data;
    input_size = size;
    if (!place && vlat_place_open(&place, "user@host:set", &limits, NULL))
        abort();
    for (int i = 0; i < 4 && input_size; i++) {
        vc_err err = { 0 };
        int rc = ask_one(place, next(), &err);
        if (rc && (!*err.text || err.code != rc))
            abort();
        if (((ssh *)place)->pid || ((ssh *)place)->out >= 0)
            abort();                         /* the script or its pipe is left */
    }
    return 0;
}
