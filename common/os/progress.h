/* progress.h - messages and progress on stderr, interruption, and time.
 *
 * A terminal shows one line, redrawn, with rate, ETA and counts. Other outputs get a plain line
 * every 10 s at most. The json format prints one object per line ({"event":"progress",...}). A
 * message ends the progress line first. Thread-safe. Only programs open a vc_progress; library code
 * gets it as an argument (NULL: silent). */
#ifndef COMMON_OS_PROGRESS_H
#define COMMON_OS_PROGRESS_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

typedef struct vc_progress vc_progress;

typedef enum { VC_LOG_TEXT, VC_LOG_JSON } vc_log_format;

/* quiet: only warnings are printed. */
int vc_progress_open(vc_progress **out, const char *program, vc_log_format format, bool quiet,
                     vc_err *err);
void vc_progress_close(vc_progress *p);          /* ends the line; NULL is fine */

/* These print a message of one line, its characters escaped by vc_show (streams.h), so that a
 * file's name cannot control the terminal, without the passwords of addresses (base/secrets.h).
 * Warnings begin with "warning: ". */
void vc_say(vc_progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void vc_warn(vc_progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* From here on `edit` rewrites the text of each message before it is shown: it returns malloc'ed
 * text, or NULL for the text as it is. Any thread that says something calls it. ctx is the caller's
 * and lives as long as p. */
typedef char *vc_edit(const void *ctx, const char *text);
void vc_progress_edit(vc_progress *p, vc_edit *edit, const void *ctx);

/* Starts a phase of `total` units ("clips", "steps"; "B" is shown as KiB or MiB), 0 if unknown, and
 * ends the phase before. A resumed phase sets its position by calling vc_progress_at() right after,
 * which does not count towards its speed. The rate is a mean over about the last 30 s. */
void vc_progress_begin(vc_progress *p, const char *what, const char *unit, uint64_t total);
/* Sets the number of units done, which never decreases; `extra` is a short text after the numbers
 * (counts, loss) or NULL. */
void vc_progress_at(vc_progress *p, uint64_t done, const char *extra);
/* The same with units in work: `within` is the sum of their shares that are done, 0.5 for half of
 * one unit. It counts in the percentage, the rate and the ETA, but not in the number of units. */
void vc_progress_within(vc_progress *p, uint64_t done, double within, const char *extra);
/* The time from one call to the other is no time of the phase's units: it does not count in the
 * rate, and afterwards `extra` is what it was before. */
void vc_progress_pause(vc_progress *p);
void vc_progress_go_on(vc_progress *p);
/* Sets the seconds of such time that lie ahead, which count in the ETA. */
void vc_progress_ahead(vc_progress *p, double seconds);
/* Ends the phase with a line of what was done; nothing is said of a phase in which nothing was. */
void vc_progress_end(vc_progress *p);

/* Returns the seconds of a monotonic clock. */
double vc_seconds(void);

/* These format a number into buf and return buf: "4.2 GiB", "812 B"; "1 h 02 min", "37 s";
 * "8,412". */
char *vc_human_bytes(char buf[32], double bytes);
char *vc_human_time(char buf[32], double seconds);
char *vc_human_count(char buf[32], uint64_t n);
/* The ending of a plural: "" for 1, else "s". */
static inline const char *vc_s(double n)
{
    return n == 1 ? "" : "s";      /* counts are whole numbers */
}

/* After vc_catch_stop, the signals of a terminal (SIGINT, SIGQUIT, SIGHUP) and of schedulers
 * (SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU) set *vc_stop_flag() to the signal's number instead of
 * killing the process. A second SIGINT, SIGQUIT or SIGTERM kills. The others do not: a closed
 * terminal sends SIGHUP twice, and a scheduler repeats its own. SIGHUP (nohup), SIGUSR1 and SIGUSR2
 * stay ignored if they were. The flag belongs to the process, as signals do. vc_catch_stop also
 * ignores SIGXFSZ and SIGPIPE and guards the maps (map.h), so that a full or failing disk is an
 * error and does not kill the process. */
int vc_catch_stop(vc_err *err);
const atomic_int *vc_stop_flag(void);
/* Sets the flag to the signal that another rank of the run got, so that all ranks end with the same
 * message and status; 0 changes nothing. */
void vc_stop_adopt(int number);
/* Returns the name of the flag's signal, as "SIGUSR1", or NULL if there is none. Never freed. */
const char *vc_stop_name(void);

#endif
