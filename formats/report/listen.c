/* listen.c - see listen.h */
#include "formats/report/listen.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.h"
#include "common/os/progress.h"

enum {
    CONNECTIONS = 64, IDLE_SECONDS = 30,
    WAIT_MS = 50                             /* between looks at the stop flag */
};

typedef struct server {
    const vf_listen *l;
    char host[256];                          /* as it was given, without brackets */
    bool local;
} server;

/* ---- requests ---- */

static const char *header(struct MHD_Connection *c, const char *name)
{
    const char *value = MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
    return value ? value : "";
}

/* Whether the Host of a request names this machine as it was told to be named. */
static bool is_our_host(const server *s, const char *host)
{
    static const char *const local[] = { "localhost", "127.0.0.1", "[::1]" };
    size_t n = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if (n == strlen(local[i]) && !strncasecmp(host, local[i], n))
            return true;
    return !s->local || (n == strlen(s->host) && !strncasecmp(host, s->host, n));
}

/* Reads the digits at *s, up to 18 of them, and moves *s behind them; false if there are none. */
static bool read_number(const char **s, uint64_t *v)
{
    size_t n = strspn(*s, "0123456789");
    if (!n || n > 18)
        return false;
    *v = strtoull(*s, NULL, 10);
    *s += n;
    return true;
}

/* Parses "bytes=A-B", "bytes=A-" and "bytes=-N" of a file of `size` bytes. Other ranges are none:
 * the whole file is then sent. Returns false for a range past the end. */
static bool parse_range(const char *text, uint64_t size, uint64_t *from, uint64_t *n, bool *part)
{
    uint64_t a, b = UINT64_MAX;
    *from = 0;
    *n = size;
    *part = false;
    if (strncmp(text, "bytes=", 6) != 0)
        return true;
    text += 6;
    const bool begins = read_number(&text, &a), dash = *text == '-';
    text += dash;
    const bool ends = read_number(&text, &b);
    if (!dash || *text || (!begins && (!ends || !b)) || (begins && ends && b < a))
        return true;
    *part = true;
    if (begins && a >= size)
        return false;
    *from = begins ? a : b < size ? size - b : 0;
    *n = begins && b < size ? b - a + 1 : size - *from;
    return true;
}

/* ---- answers ---- */

static void add_date(struct MHD_Response *r, time_t at)
{
    char text[64];
    struct tm tm;
    if (at && gmtime_r(&at, &tm) && strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &tm))
        MHD_add_response_header(r, "Last-Modified", text);
}

static void add_headers(struct MHD_Response *r, const vf_answer *a)
{
    static const char *const fixed[][2] = {
        { "X-Content-Type-Options", "nosniff" }, { "X-Frame-Options", "DENY" },
        { "Content-Security-Policy",
          "frame-ancestors 'none'; form-action 'none'; base-uri 'none'" },
        { "Cross-Origin-Resource-Policy", "same-origin" }, { "Referrer-Policy", "no-referrer" },
        { "Cache-Control", "no-cache" },
    };
    char tag[96];
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        MHD_add_response_header(r, fixed[i][0], fixed[i][1]);
    MHD_add_response_header(r, "Content-Type", a->mime ? a->mime : "text/plain; charset=utf-8");
    snprintf(tag, sizeof tag, "\"%s\"", a->tag);
    if (*a->tag)
        MHD_add_response_header(r, "ETag", tag);
    if (a->location)
        MHD_add_response_header(r, "Location", a->location);
    add_date(r, a->changed);
}

static struct MHD_Response *from_text(const char *text)
{
    return MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
}

/* Makes the response of an open file, or of the part that the request asks for. Takes a->fd. */
static struct MHD_Response *from_file(struct MHD_Connection *c, vf_answer *a)
{
    struct stat st;
    uint64_t from = 0, n;
    bool part;
    char range[96];
    int fd = a->fd;
    a->fd = -1;
    if (fstat(fd, &st)) {
        close(fd);
        return NULL;
    }
    const uint64_t size = (uint64_t)st.st_size;
    if (!parse_range(header(c, "Range"), size, &from, &n, &part)) {
        close(fd);
        a->status = 416;
        return from_text("no such range\n");
    }
    struct MHD_Response *r = MHD_create_response_from_fd_at_offset64(n, fd, from);
    if (!r) {
        close(fd);
        return NULL;
    }
    snprintf(range, sizeof range, "bytes %llu-%llu/%llu", (unsigned long long)from,
             (unsigned long long)(from + n - 1), (unsigned long long)size);
    if (part) {
        a->status = 206;
        MHD_add_response_header(r, "Content-Range", range);
    }
    MHD_add_response_header(r, "Accept-Ranges", "bytes");
    return r;
}

static struct MHD_Response *from_body(vf_answer *a)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(a->n, a->body, MHD_RESPMEM_MUST_FREE);
    if (r)
        a->body = NULL;
    return r;
}

static void close_answer(vf_answer *a)
{
    if (a->fd >= 0)
        close(a->fd);
    free(a->body);
    free(a->location);
}

/* Sends the answer, or that the browser has it already. */
static enum MHD_Result send_answer(struct MHD_Connection *c, vf_answer *a)
{
    char tag[96];
    struct MHD_Response *r;
    snprintf(tag, sizeof tag, "\"%s\"", a->tag);
    if (*a->tag && a->status == 200 && !strcmp(header(c, "If-None-Match"), tag)) {
        a->status = 304;
        r = from_text("");
    } else if (a->fd >= 0 && a->status == 200)
        r = from_file(c, a);
    else if (a->body)
        r = from_body(a);
    else
        r = from_text(a->status == 404 ? "not found\n" : "");
    if (r)
        add_headers(r, a);
    enum MHD_Result done = r ? MHD_queue_response(c, (unsigned)a->status, r) : MHD_NO;
    if (r)
        MHD_destroy_response(r);
    close_answer(a);
    return done;
}

static enum MHD_Result refuse(struct MHD_Connection *c, int status, const char *why)
{
    vf_answer a = { .status = status, .fd = -1, .body = vc_format("%s\n", why) };
    a.n = a.body ? strlen(a.body) : 0;
    return send_answer(c, &a);
}

/* ---- libmicrohttpd's calls ---- */

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *n, void **state)
{
    static char begun;                       /* its address: the headers have come */
    const server *s = cls;
    (void)version, (void)data;
    const bool first = !*state, head = !strcmp(method, "HEAD");
    *state = &begun;
    if (first || *n) {                       /* a body is read and dropped */
        *n = 0;
        return MHD_YES;
    }
    if (!is_our_host(s, header(c, "Host")))
        return refuse(c, 403, "this server answers to localhost alone");
    if (!head && strcmp(method, "GET") != 0)
        return refuse(c, 405, "this server knows GET and HEAD");
    vf_answer a = { .fd = -1 };
    s->l->handle(s->l->arg, &(vf_request){ path, head }, &a);
    a.status = a.status ? a.status : 404;
    return send_answer(c, &a);
}

/* ---- listening ---- */

/* Divides "[HOST:]PORT"; HOST may stand in brackets. */
static int find_address(server *s, struct addrinfo **found, vc_err *err)
{
    const char *text = s->l->address, *port = strrchr(text, ':');
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    const char *host = port ? text : "127.0.0.1";
    size_t n = port ? (size_t)(port - text) : strlen(host);
    port = port ? port + 1 : text;
    if (n > 1 && *host == '[' && host[n - 1] == ']') {
        host++;
        n -= 2;
    }
    snprintf(s->host, sizeof s->host, "%.*s", (int)n, host);
    if (!n || !*port || strspn(port, "0123456789") != strlen(port) || strlen(port) > 5 ||
        atoi(port) > 65535)
        return vc_fail(err, VC_EUSAGE, "--serve %s: [HOST:]PORT is needed, such as 8080", text);
    int rc = getaddrinfo(s->host, port, &hints, found);
    return rc ? vc_fail(err, VC_EUSAGE, "--serve %s: %s", text, gai_strerror(rc)) : 0;
}

static bool is_loopback(const struct sockaddr *a)
{
    const struct sockaddr_in *v4 = (const void *)a;
    const struct sockaddr_in6 *v6 = (const void *)a;
    return a->sa_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr)
                                    : ntohl(v4->sin_addr.s_addr) >> 24 == 127;
}

static void say_ready(const server *s, struct MHD_Daemon *d, bool v6)
{
    char url[320];
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(d, MHD_DAEMON_INFO_BIND_PORT);
    snprintf(url, sizeof url, v6 ? "http://[%s]:%u/" : "http://%s:%u/", s->host,
             info ? (unsigned)info->port : 0);
    s->l->ready(s->l->ready_arg, url, s->local);
}

int vf_serve_http(const vf_listen *l, vc_err *err)
{
    server s = { .l = l };
    struct addrinfo *a = NULL;
    int rc = find_address(&s, &a, err);
    if (rc)
        return rc;
    s.local = is_loopback(a->ai_addr);
    const bool v6 = a->ai_family == AF_INET6;
    unsigned flags = MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | (v6 ? MHD_USE_IPv6 : 0);
    struct MHD_Daemon *d = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, &s, MHD_OPTION_SOCK_ADDR, a->ai_addr,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_SECONDS, MHD_OPTION_END);
    freeaddrinfo(a);
    if (!d)
        return vc_fail(err, VC_EIO, "--serve %s: the address cannot be used: another program may "
                       "use the port", l->address);
    say_ready(&s, d, v6);
    while (!*vc_stop_flag())
        usleep(WAIT_MS * 1000);
    MHD_stop_daemon(d);
    return 0;
}
