/* progress.h - messages and progress on stderr, interruption, and time.
 *
 * On a terminal: one line, redrawn, with rate, ETA and counts. Elsewhere a plain line now and
 * then (every 10 s at most). With json: one object a line ({"event":"progress",...}). Messages
 * end the progress line first. Thread-safe. Only programs make one; library code gets it as an
 * argument (NULL: silent). */
#ifndef COMMON_OS_PROGRESS_H
#define COMMON_OS_PROGRESS_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

typedef struct vc_progress vc_progress;

typedef enum { VC_LOG_TEXT, VC_LOG_JSON } vc_log_format;

/* quiet: only warnings. */
int vc_progress_open(vc_progress **out, const char *program, vc_log_format format, bool quiet,
                     vc_err *err);
void vc_progress_close(vc_progress *p);          /* ends the line; NULL is fine */

/* A message: one line, its characters as vc_show (streams.h) shows them, so that a file's name cannot
 * steer the terminal. Warnings begin with "warning: ". */
void vc_say(vc_progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void vc_warn(vc_progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Starts a phase of `total` units ("clips", "steps"); total 0: unknown. Ends the one before. A
 * resumed phase says where it stands by a first vc_progress_at() right after: that is no measure of
 * its speed. The rate is a mean over about the last 30 s. */
void vc_progress_begin(vc_progress *p, const char *what, const char *unit, uint64_t total);
/* Where the phase is, never back; `extra` is a short text after the numbers (counts, loss) or NULL. */
void vc_progress_at(vc_progress *p, uint64_t done, const char *extra);
void vc_progress_end(vc_progress *p);

/* Monotonic seconds. */
double vc_seconds(void);
/* Current and peak resident memory of this process in bytes; 0 where unknown. */
int64_t vc_rss_bytes(void);
int64_t vc_rss_peak_bytes(void);

/* "4.2 GiB", "812 B"; "1 h 02 min", "37 s"; "8,412". buf is the caller's and returned. */
char *vc_human_bytes(char buf[32], double bytes);
char *vc_human_time(char buf[32], double seconds);
char *vc_human_count(char buf[32], uint64_t n);

/* After vc_catch_stop, SIGINT, SIGTERM and SIGHUP set *vc_stop_flag() to the signal's number instead
 * of killing the process; a second one of the same kills, but for SIGHUP, which a closed terminal
 * sends twice. Where SIGHUP was ignored (nohup) it stays so. The flag is the process's, since signals
 * are. Also ignores SIGXFSZ and SIGPIPE and guards the maps (map.h), so that a full or a bad disk
 * is an error and not a death. */
int vc_catch_stop(vc_err *err);
const atomic_int *vc_stop_flag(void);

#endif
