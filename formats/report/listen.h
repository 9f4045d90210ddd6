/* listen.h - a small HTTP server for vlat report --serve, by libmicrohttpd.
 *
 * It answers GET and HEAD of the paths that its handler knows, and writes nothing. Answers have
 * headers that let a browser show them to pages of this server alone. Where the address is one of
 * this machine only (127.0.0.1, ::1), a request must name that machine, so that no other site's
 * name can be made to lead here. Limits: 64 connections, 30 s without a byte. */
#ifndef FORMATS_REPORT_LISTEN_H
#define FORMATS_REPORT_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/base/err.h"

typedef struct vf_request {
    const char *path;                        /* decoded, begins with '/'; any bytes */
    bool head;                               /* else GET */
} vf_request;

/* Bytes, or a file from fd. All zero but fd -1: not found. */
typedef struct vf_answer {
    int status;                              /* 0: 404 */
    const char *mime;                        /* static */
    char *body;                              /* malloc'ed; taken */
    size_t n;
    int fd;                                  /* taken; -1: none */
    char tag[80];                            /* ETag without its quotes; "": none */
    time_t changed;                          /* Last-Modified; 0: not known */
    char *location;                          /* malloc'ed; taken; of a redirection, escaped */
} vf_answer;
/* Called by one thread at a time. */
typedef void vf_handler(void *arg, const vf_request *q, vf_answer *a);

/* Serves "[HOST:]PORT" (HOST: 127.0.0.1; port 0: a free one) until the process is told to stop.
 * ready(ready_arg, address) is called when the server listens. VC_EUSAGE: not such an address, or a
 * build without libmicrohttpd. VC_EIO: the address is in use. */
typedef struct vf_listen {
    const char *address;
    vf_handler *handle;
    void (*ready)(void *arg, const char *url, bool local);
    void *arg, *ready_arg;
} vf_listen;
int vf_serve_http(const vf_listen *l, vc_err *err);

#endif
