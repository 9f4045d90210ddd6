/* owner.c - see owner.h
 *
 * A name is HOST,PID,START,SPACE: the time at which the system started the process, since a process
 * id is used again, and a hash of the boot and of the space in which process ids count. */
#include "formats/vlat/owner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/os/file.h"
#include "formats/keys/keys.h"

enum { HOST = 64 };

typedef struct owner {
    char host[HOST + 1], space[VF_KEY_HEX];
    long pid;
    unsigned long long start;
} owner;

static bool parse(owner *o, const char *text)
{
    int n = 0;
    return sscanf(text, "%64[A-Za-z0-9._-],%ld,%llu,%32[0-9a-f]%n", o->host, &o->pid, &o->start,
                  o->space, &n) == 4 && !text[n] && o->pid > 0;
}

/* Reads a file of the system, whose size is not known before, and ends the text with a NUL. */
static size_t read_text(const char *path, char *text, size_t room)
{
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, room - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    return n;
}

/* Returns the time at which a process was started, in the system's ticks; 0: no such process. */
static unsigned long long start_of(long pid)
{
    char path[64], line[1024];
    unsigned long long start = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    read_text(path, line, sizeof line);
    const char *at = strrchr(line, ')');     /* the program's name before may hold anything */
    if (at)
        sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
               "%*d %llu", &start);
    return start;
}

/* Writes a hash of the boot and of the space of process ids, "0" if the system does not show
 * them. */
static void find_space(char hex[VF_KEY_HEX])
{
    char boot[64], ids[64];
    size_t size = read_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    ssize_t n = readlink("/proc/self/ns/pid", ids, sizeof ids);
    snprintf(hex, VF_KEY_HEX, "0");
    if (size && n > 0)
        vf_key_hex(hex, vf_hash2(boot, size, ids, (size_t)n));
}

char *vlat_owner_self(void)
{
    char host[HOST + 1] = "", space[VF_KEY_HEX];
    gethostname(host, HOST);
    for (char *c = host; *c; c++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", *c))
            *c = '_';
    find_space(space);
    return vc_format("%s,%ld,%llu,%s", *host ? host : "unknown", (long)getpid(),
                     start_of(getpid()), space);
}

bool vlat_owner_gone(const char *text)
{
    owner o;
    char space[VF_KEY_HEX];
    find_space(space);
    return parse(&o, text) && strcmp(space, "0") && !strcmp(space, o.space) &&
           start_of(o.pid) != o.start;
}

int vlat_owner_busy(const char *text, const char *where, const char *lock, vc_err *err)
{
    owner o;
    bool known = parse(&o, text);
    char *by = known ? vc_format(", process %ld on %s", o.pid, o.host) : vc_format("%s", "");
    if (!by)
        return vc_no_memory(err);
    vc_fail(err, VC_EBUSY, "%s: another vlat push writes there%s: wait until that push ends. If it "
            "no longer runs, remove its lock, the folder %s/%s", where, by, where, lock);
    free(by);
    return VC_EBUSY;
}
