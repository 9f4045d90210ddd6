/* place.h - a place that holds the files of a dataset: a folder, a folder of another machine that
 * ssh reaches, or a folder on an HTTP(S) server, which is only read.
 *
 * One thread at a time uses a place; several threads open one each. Names are those of files in the
 * dataset's folder, or of files that are still coming, in its folder VLAT_COMING. */
#ifndef FORMATS_VLAT_PLACE_H
#define FORMATS_VLAT_PLACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/os/progress.h"

#define VLAT_COMING "pull"                   /* folder of files that are not complete yet */
#define VLAT_LOCK VLAT_COMING "/lock"        /* folder that a push over ssh makes; it holds a file
                                              * with the name of the process (owner.h) */

/* Takes bytes as they come; an error ends the transfer. */
typedef struct vlat_sink {
    int (*take)(void *arg, const void *data, size_t n, vc_err *err);
    void *arg;
} vlat_sink;

/* What ends the calls of a transfer's places. All of its threads share one. */
typedef struct vlat_limits {
    atomic_int stop;                         /* nonzero: calls end soon with VC_ESTOP */
    int64_t lowest_speed;                    /* bytes a second; an attempt that brings or sends
                                              * fewer during `timeout` seconds fails */
    int64_t timeout;                         /* seconds */
    int64_t max_time;                        /* seconds of the whole transfer; 0: any */
    double end;                              /* of max_time, in vc_seconds(); 0: never */
    vc_progress *ui;                         /* gets a warning about a place that does not answer;
                                              * NULL: silent */
} vlat_limits;

typedef struct vlat_place vlat_place;

typedef struct vlat_place_kind {
    bool near;                               /* reading costs no network that vlat knows of */
    /* Gives n bytes of a file (UINT64_MAX: all that it has) from byte `from` on to a sink, or fewer
     * where the file ends earlier. *again: the connection failed, and another call may give the
     * rest. VC_ENOENT: no such file. */
    int (*get)(vlat_place *p, const char *name, uint64_t from, uint64_t n, const vlat_sink *to,
               bool *again, vc_err *err);
    void (*close)(vlat_place *p);

    /* The calls below are NULL for a place that is only read. Makes the folder and VLAT_COMING in
     * it, and locks them against other transfers. VC_EBUSY: another transfer writes there; the text
     * has the remedy for a lock that a killed one left. */
    int (*prepare)(vlat_place *p, vc_err *err);
    /* Ends what prepare began, also after a stop: removes the lock, and with `done` VLAT_COMING. */
    int (*release)(vlat_place *p, bool done, vc_err *err);
    /* size[i] is the size of file i of n, -1 if it does not exist. */
    int (*sizes)(vlat_place *p, char *const *name, int n, int64_t *size, vc_err *err);
    /* Opens a file for put(), which appends to its `from` bytes. put_end makes them durable and
     * compares the whole file with the POSIX checksum `sum`, unless sum is NULL. */
    int (*put_begin)(vlat_place *p, const char *name, uint64_t from, vc_err *err);
    int (*put)(vlat_place *p, const void *data, size_t n, vc_err *err);
    int (*put_end)(vlat_place *p, const uint32_t *sum, vc_err *err);
    /* Renames n files, in order, and makes that durable. */
    int (*rename)(vlat_place *p, char *const *from, char *const *to, int n, vc_err *err);
    /* Removes those of n files, and folders with their contents, that exist. */
    int (*remove)(vlat_place *p, char *const *name, int n, vc_err *err);
} vlat_place_kind;

struct vlat_place {
    const vlat_place_kind *kind;
    const char *where;                       /* as the user wrote it; borrowed */
    char *shown;                             /* the same without its secrets, for messages */
    const vlat_limits *limits;               /* borrowed */
    int64_t wait;                            /* seconds of peace that the server asks for after
                                              * the last get, or 0 */
    bool asked;                              /* a request waits for its first byte */
    double since, told;                      /* when that wait began, in vc_seconds(), and of how
                                              * many of its seconds a warning has told */
};

/* Whether the user or another thread of the transfer asked for an end (VC_ESTOP), or the time of
 * the transfer is over (VC_EIO): both say so in err. */
int vlat_place_stopped(vlat_place *p, vc_err *err);

/* These say that a request begins, that its first byte has come, and that it has ended. While a
 * request has no byte, vlat_place_stopped, which every wait calls, warns: after half of the limits'
 * `timeout` or 10 s, whichever is less, and each time that the wait has doubled. Requests that
 * follow one another without an answer are one wait. */
void vlat_place_asks(vlat_place *p);
void vlat_place_hears(vlat_place *p);
void vlat_place_rests(vlat_place *p);

/* Attempts to bring one file. An attempt fails if it ends before the last byte. */
typedef struct vlat_tries {
    vlat_place *place;
    uint64_t at;                             /* bytes that were there before this attempt */
    double began;                            /* this attempt, in vc_seconds() */
    int failed;                              /* attempts in a row that brought too little */
} vlat_tries;

enum { VLAT_TRIES = 5 };                     /* as many fail in a row before the file does */
vlat_tries vlat_tries_of(vlat_place *p, uint64_t at);
/* Whether another attempt may follow one that ended with `at` bytes there; waits before it: as long
 * as the server asks for, else longer with each that fails. One that brought the lowest speed of
 * the limits since it began has not failed. */
bool vlat_try_again(vlat_tries *t, uint64_t at);

/* Opens https://HOST/PATH, USER@HOST:PATH (a colon before the first slash) or a folder; touches
 * nothing yet. `where` and `limits` outlive the place. VC_EUSAGE: the text is none of these. */
int vlat_place_open(vlat_place **out, const char *where, const vlat_limits *limits, vc_err *err);
void vlat_place_close(vlat_place *p);        /* p may be NULL */

/* The kinds, in place_http.c (or place_none.c), place_ssh.c and place_folder.c. */
int vlat_http_open(vlat_place **out, const char *shown, vc_err *err);
int vlat_ssh_open(vlat_place **out, const char *where, vc_err *err);
int vlat_folder_open(vlat_place **out, const char *where, vc_err *err);

#endif
