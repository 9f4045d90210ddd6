/* progress.c - messages and progress on stderr; see progress.h
 *
 * Every line is written by one write(2), so that the lines of several ranks do not mix. */
#include "common/os/progress.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "common/base/secrets.h"
#include "common/base/utf8.h"
#include "common/os/map.h"
#include "common/os/streams.h"

#define LINE 4096              /* bytes of an outgoing line */
#define REDRAW_S 0.1           /* least seconds between drawings on a terminal */
#define PLAIN_S 10.0           /* least seconds between lines elsewhere */
#define RATE_S 30.0            /* seconds that the rate is averaged over */
#define BAR 24                 /* columns of the bar */

struct vc_progress {
    pthread_mutex_t lock;
    char program[32];
    vc_log_format format;
    bool quiet, terminal;
    vc_edit *edit;             /* of messages, or NULL */
    const void *edit_ctx;
    bool drawn;                /* the terminal's current line holds a bar */

    bool active;               /* a phase is running, with the fields below */
    char what[48], unit[24], extra[256], before[256];   /* before: extra before the pause */
    uint64_t total, done;
    double place;              /* done, and the shares of the units in work */
    double start, shown;       /* seconds at its begin and at the last line or drawing */
    double paused;             /* seconds when the phase was paused; 0: it is not */
    double ahead;              /* seconds of pauses to come */
    double at, sum, time;      /* rate = sum / time, both decaying over RATE_S; at: last update */
};

/* A line that is being built; a line that is too long is truncated. */
typedef struct log_line {
    char s[LINE];
    size_t n;
} log_line;

static void add(log_line *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(log_line *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(l->s + l->n, sizeof l->s - l->n, fmt, ap);
    va_end(ap);
    if (n > 0)
        l->n = l->n + (size_t)n < sizeof l->s ? l->n + (size_t)n : sizeof l->s - 1;
}

static void send_line(log_line *l)
{
    if (l->n == sizeof l->s - 1)
        l->s[l->n - 1] = '\n';                   /* the line was truncated */
    for (size_t i = 0; i < l->n;) {
        ssize_t w = write(STDERR_FILENO, l->s + i, l->n - i);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return;                              /* an unwritable stderr must not stop the run */
        i += (size_t)w;
    }
}

static void add_clean(log_line *l, const char *s)
{
    char shown[VC_SHOWN];
    while (*s) {
        s += vc_show(shown, s);
        add(l, "%s", shown);
    }
}

static void add_json(log_line *l, const char *s)
{
    /* a long text is truncated, so that the rest of the object has room and the line stays JSON */
    add(l, "\"");
    while (*s && l->n + 256 < sizeof l->s) {
        uint32_t c;
        size_t n = vc_utf8(s, &c);
        if (*s == '"' || *s == '\\')
            add(l, "\\%c", *s);
        else if (n && vc_utf8_plain(c))
            add(l, "%.*s", (int)n, s);
        else
            add(l, "\\u%04x", n ? (unsigned)c : 0xfffdu);
        s += n ? n : 1;
    }
    add(l, "\"");
}

int vc_progress_open(vc_progress **out, const char *program, vc_log_format format, bool quiet,
                     vc_err *err)
{
    vc_progress *p = *out = calloc(1, sizeof *p);
    if (!p)
        return vc_fail(err, VC_ENOMEM, "out of memory for messages");

    const char *term = getenv("TERM");
    snprintf(p->program, sizeof p->program, "%s", program);
    p->format = format;
    p->quiet = quiet;
    p->terminal = format == VC_LOG_TEXT && isatty(STDERR_FILENO) && term && strcmp(term, "dumb");
    pthread_mutex_init(&p->lock, NULL);
    return 0;
}

void vc_progress_edit(vc_progress *p, vc_edit *edit, const void *ctx)
{
    if (!p)
        return;
    p->edit = edit;
    p->edit_ctx = ctx;
}

void vc_progress_close(vc_progress *p)
{
    if (!p)
        return;
    vc_progress_end(p);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static double rate_of(const vc_progress *p)
{
    return p->time > 0 ? p->sum / p->time : 0;
}

static bool in_bytes(const vc_progress *p)
{
    return !strcmp(p->unit, "B");
}

static double share_of(const vc_progress *p)
{
    return fmin(1, p->place / (double)p->total);
}

/* The seconds that remain; 0: unknown, or none. */
static double eta_of(const vc_progress *p)
{
    double left = (double)p->total - p->place, rate = rate_of(p);
    return left > 0 && rate > 0 ? left / rate + p->ahead : 0;
}

/* Formats a number of units: "1,234", or "1.2 MiB" of bytes. */
static char *amount(char buf[32], const vc_progress *p, uint64_t n)
{
    return in_bytes(p) ? vc_human_bytes(buf, (double)n) : vc_human_count(buf, n);
}

/* Adds "1,234/8,412 14%  3.2 clips/s  ETA 37 s  extra". */
static void add_numbers(log_line *l, const vc_progress *p)
{
    char a[32], b[32];
    double rate = rate_of(p), eta = eta_of(p);
    add(l, "%s", amount(a, p, p->done));
    if (p->total)
        add(l, "/%s %d%%", amount(b, p, p->total), (int)(100 * share_of(p)));
    else if (!in_bytes(p))
        add(l, " %s", p->unit);
    if (rate >= 1 && in_bytes(p))
        add(l, "  %s/s", vc_human_bytes(a, rate));
    else if (rate >= 1)
        add(l, "  %.*f %s/s", rate < 100 ? 1 : 0, rate, p->unit);
    else if (rate > 0)
        add(l, "  %s each", vc_human_time(a, 1 / rate));
    if (eta > 0)
        add(l, "  ETA %s", vc_human_time(a, eta));
    if (*p->extra) {
        add(l, "  ");
        add_clean(l, p->extra);
    }
}

static void add_event(log_line *l, const vc_progress *p, const char *event)
{
    double rate = rate_of(p), eta = eta_of(p), within = p->place - (double)p->done;
    add(l, "{\"event\":\"%s\",\"program\":", event);
    add_json(l, p->program);
    add(l, ",\"phase\":");
    add_json(l, p->what);
    add(l, ",\"unit\":");
    add_json(l, p->unit);
    add(l, ",\"done\":%llu", (unsigned long long)p->done);
    if (within > 0)
        add(l, ",\"within\":%.6g", within);
    if (p->total)
        add(l, ",\"total\":%llu", (unsigned long long)p->total);
    add(l, ",\"elapsed_s\":%.3f", vc_seconds() - p->start);
    if (rate > 0)
        add(l, ",\"rate\":%.6g", rate);
    if (eta > 0)
        add(l, ",\"eta_s\":%.1f", eta);
    if (*p->extra) {
        add(l, ",\"extra\":");
        add_json(l, p->extra);
    }
    add(l, "}\n");
}

static size_t columns(void)
{
    struct winsize w;
    return !ioctl(STDERR_FILENO, TIOCGWINSZ, &w) && w.ws_col ? w.ws_col : 80;
}

/* Returns the number of bytes of s that fill at most `most` columns, one per character. */
static size_t cut(const char *s, size_t most)
{
    size_t i = 0;
    while (s[i] && most--) {
        uint32_t c;
        size_t n = vc_utf8(s + i, &c);
        i += n ? n : 1;
    }
    return i;
}

static void draw(vc_progress *p)
{
    log_line text = { .n = 0 }, out = { .n = 0 };
    add_clean(&text, p->what);
    add(&text, " ");
    if (p->total) {
        int full = (int)(BAR * share_of(p));
        add(&text, "[%.*s%*s] ", full, "########################", BAR - full, "");
    }
    add_numbers(&text, p);
    size_t wide = columns();
    /* the last column stays free: some terminals wrap as soon as it is written */
    add(&out, "\r%.*s\033[K", (int)cut(text.s, wide > 1 ? wide - 1 : 1), text.s);
    send_line(&out);
    p->drawn = true;
}

static void erase(vc_progress *p)
{
    log_line l = { .n = 0 };
    if (p->drawn) {
        add(&l, "\r\033[K");
        send_line(&l);
    }
    p->drawn = false;
}

static void plain(vc_progress *p)
{
    log_line l = { .n = 0 };
    if (p->format == VC_LOG_JSON) {
        add_event(&l, p, "progress");
    } else {
        add(&l, "%s: ", p->program);
        add_clean(&l, p->what);
        add(&l, ": ");
        add_numbers(&l, p);
        add(&l, "\n");
    }
    send_line(&l);
}

static void message(vc_progress *p, const char *level, const char *fmt, va_list ap)
{
    char text[LINE];
    log_line l = { .n = 0 };
    vsnprintf(text, sizeof text, fmt, ap);
    char *edited = p->edit ? p->edit(p->edit_ctx, text) : NULL;
    char *safe = vc_without_secrets(edited ? edited : text, false);
    const char *shown = safe ? safe : "out of memory for a message";

    pthread_mutex_lock(&p->lock);
    if (p->format == VC_LOG_JSON) {
        add(&l, "{\"event\":\"message\",\"program\":");
        add_json(&l, p->program);
        add(&l, ",\"level\":\"%s\",\"text\":", level);
        add_json(&l, shown);
        add(&l, "}\n");
    } else {
        add(&l, "%s: %s", p->program, strcmp(level, "info") ? "warning: " : "");
        add_clean(&l, shown);
        add(&l, "\n");
    }
    free(edited);
    free(safe);
    erase(p);
    send_line(&l);
    if (p->terminal && p->active)
        draw(p);
    pthread_mutex_unlock(&p->lock);
}

void vc_say(vc_progress *p, const char *fmt, ...)
{
    if (!p || p->quiet)
        return;
    va_list ap;
    va_start(ap, fmt);
    message(p, "info", fmt, ap);
    va_end(ap);
}

void vc_warn(vc_progress *p, const char *fmt, ...)
{
    if (!p)
        return;
    va_list ap;
    va_start(ap, fmt);
    message(p, "warning", fmt, ap);
    va_end(ap);
}

void vc_progress_begin(vc_progress *p, const char *what, const char *unit, uint64_t total)
{
    if (!p || p->quiet)
        return;
    vc_progress_end(p);
    pthread_mutex_lock(&p->lock);
    snprintf(p->what, sizeof p->what, "%s", what);
    snprintf(p->unit, sizeof p->unit, "%s", unit);
    p->extra[0] = 0;
    p->active = true;
    p->total = total;
    p->done = 0;
    p->place = 0;
    p->start = p->shown = p->at = vc_seconds();
    p->sum = p->time = p->paused = p->ahead = 0;
    if (p->terminal)
        draw(p);
    pthread_mutex_unlock(&p->lock);
}

/* Units reported within this many seconds of the begin were done by an earlier run and do not count
 * towards the speed. */
#define RESUME_S 0.5

static void update_rate(vc_progress *p, double place, double now)
{
    if (p->place <= 0 && now - p->start < RESUME_S) {
        p->at = now;
        return;
    }
    double dt = now - p->at;
    if (dt <= 0)
        return;
    double fade = exp(-dt / RATE_S);
    p->sum = p->sum * fade + place - p->place;
    p->time = p->time * fade + dt;
    p->at = now;
}

void vc_progress_at(vc_progress *p, uint64_t done, const char *extra)
{
    vc_progress_within(p, done, 0, extra);
}

void vc_progress_within(vc_progress *p, uint64_t done, double within, const char *extra)
{
    if (!p || p->quiet)
        return;
    double now = vc_seconds(), place = (double)done + within;

    pthread_mutex_lock(&p->lock);
    if (p->active) {
        if (place > p->place) {                  /* calls of two threads may arrive out of order */
            update_rate(p, place, now);
            p->place = place;
        }
        if (done > p->done)
            p->done = done;
        snprintf(p->extra, sizeof p->extra, "%s", extra ? extra : "");
        if (now - p->shown >= (p->terminal ? REDRAW_S : PLAIN_S)) {
            p->shown = now;
            if (p->terminal)
                draw(p);
            else
                plain(p);
        }
    }
    pthread_mutex_unlock(&p->lock);
}

void vc_progress_pause(vc_progress *p)
{
    if (!p || p->quiet)
        return;
    pthread_mutex_lock(&p->lock);
    if (p->paused <= 0) {
        p->paused = vc_seconds();
        memcpy(p->before, p->extra, sizeof p->before);
    }
    pthread_mutex_unlock(&p->lock);
}

void vc_progress_go_on(vc_progress *p)
{
    if (!p || p->quiet)
        return;
    pthread_mutex_lock(&p->lock);
    if (p->paused > 0) {
        p->at += vc_seconds() - p->paused;
        memcpy(p->extra, p->before, sizeof p->extra);
    }
    p->paused = 0;
    pthread_mutex_unlock(&p->lock);
}

void vc_progress_ahead(vc_progress *p, double seconds)
{
    if (!p || p->quiet)
        return;
    pthread_mutex_lock(&p->lock);
    p->ahead = seconds;
    pthread_mutex_unlock(&p->lock);
}

void vc_progress_end(vc_progress *p)
{
    if (!p || p->quiet)
        return;
    pthread_mutex_lock(&p->lock);
    if (p->active) {
        log_line l = { .n = 0 };
        char a[32], b[32];
        erase(p);
        if (p->format == VC_LOG_JSON) {
            add_event(&l, p, "end");
        } else if (p->done) {
            add(&l, "%s: ", p->program);
            add_clean(&l, p->what);
            add(&l, ": %s%s%s in %s", amount(a, p, p->done), in_bytes(p) ? "" : " ",
                in_bytes(p) ? "" : p->unit, vc_human_time(b, vc_seconds() - p->start));
            if (*p->extra) {
                add(&l, "  ");
                add_clean(&l, p->extra);
            }
            add(&l, "\n");
        }
        if (l.n)
            send_line(&l);
        p->active = false;
    }
    pthread_mutex_unlock(&p->lock);
}

double vc_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

char *vc_human_bytes(char buf[32], double bytes)
{
    static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    size_t u = 0;
    while (u + 1 < sizeof unit / sizeof *unit && fabs(bytes) >= (u ? 1023.95 : 1023.5)) {
        bytes /= 1024;
        u++;
    }
    snprintf(buf, 32, "%.*f %s", u ? 1 : 0, bytes, unit[u]);
    return buf;
}

char *vc_human_time(char buf[32], double seconds)
{
    if (!(seconds >= 0) || seconds > 1e9)
        snprintf(buf, 32, "?");
    else if (seconds < 9.95)
        snprintf(buf, 32, "%.1f s", seconds);
    else if (seconds < 59.5)
        snprintf(buf, 32, "%.0f s", seconds);
    else {
        long s = lround(seconds), m = lround(seconds / 60);
        if (s < 3600)
            snprintf(buf, 32, "%ld min %02ld s", s / 60, s % 60);
        else if (m < 48 * 60)
            snprintf(buf, 32, "%ld h %02ld min", m / 60, m % 60);
        else
            snprintf(buf, 32, "%ld d %02ld h", m / 1440, m / 60 % 24);
    }
    return buf;
}

char *vc_human_count(char buf[32], uint64_t n)
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n), k = 0;
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            buf[k++] = ',';
        buf[k++] = digits[i];
    }
    buf[k] = 0;
    return buf;
}

/* Signals belong to the process, so this variable cannot belong to a handle. */
static atomic_int stop_signal;

static void on_stop(int sig)
{
    if (!stop_signal)
        stop_signal = sig;
}

/* again: later signals of the kind do not kill; heeds: it stays ignored if it was at the start. A
 * shell that has no job control ignores SIGINT and SIGQUIT for what it starts in the background,
 * which says nothing about the user's wish. */
static const struct { int number; const char *name; bool again, heeds; } stops[] = {
    { SIGINT, "SIGINT", false, false },   { SIGTERM, "SIGTERM", false, false },
    { SIGQUIT, "SIGQUIT", false, false }, { SIGHUP, "SIGHUP", true, true },
    { SIGUSR1, "SIGUSR1", true, true },   { SIGUSR2, "SIGUSR2", true, true },
    { SIGXCPU, "SIGXCPU", true, false },
};
enum { STOPS = sizeof stops / sizeof *stops };

/* Sets the handler of one row. SA_RESTART: libraries need not handle EINTR; SA_RESETHAND: the
 * second signal kills; SA_ONSTACK: see vc_signal_stack. */
static int catch(int i)
{
    struct sigaction stop = { .sa_handler = on_stop }, now;
    sigemptyset(&stop.sa_mask);
    stop.sa_flags = SA_RESTART | SA_ONSTACK | (stops[i].again ? 0 : (int)SA_RESETHAND);
    if (stops[i].heeds && !sigaction(stops[i].number, NULL, &now) && now.sa_handler == SIG_IGN)
        return 0;
    return sigaction(stops[i].number, &stop, NULL);
}

int vc_catch_stop(vc_err *err)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    sigemptyset(&ignore.sa_mask);
    int rc = 0;
    for (int i = 0; !rc && i < STOPS; i++)
        rc = catch(i);
    if (rc || sigaction(SIGXFSZ, &ignore, NULL) || sigaction(SIGPIPE, &ignore, NULL))
        return vc_fail_errno(err, "cannot catch signals");
    return vc_maps_guard(err);
}

const atomic_int *vc_stop_flag(void)
{
    return &stop_signal;
}

void vc_stop_adopt(int number)
{
    if (number)
        stop_signal = number;
}

const char *vc_stop_name(void)
{
    for (int i = 0; i < STOPS; i++)
        if (stops[i].number == stop_signal)
            return stops[i].name;
    return NULL;
}
