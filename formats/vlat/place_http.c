/* place_http.c - a dataset on an HTTP(S) server of static files, through libcurl. See place.h
 *
 * A request for the rest of a file is a range. A server that knows no ranges sends the whole file,
 * and the part that is there already is skipped. */
#include "formats/vlat/place.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"

enum { CONNECT_SECONDS = 30, REDIRECTS = 5, HTTP_OK = 200, HTTP_BAD_RANGE = 416 };

/* Answers of a server that is busy: a later request may succeed. */
static const long busy[] = { 408, 429, 500, 502, 503, 504 };

typedef struct http {
    vlat_place place;
    CURL *curl;
    const vlat_sink *to;                     /* of the request in progress, as all below */
    uint64_t from, skip, left;               /* first byte asked for; bytes to skip, to give */
    bool started, failed;                    /* failed: err says why the sink ended the transfer */
    vc_err *err;
} http;

static size_t on_data(char *data, size_t size, size_t n, void *arg)
{
    http *h = arg;
    long status = 0;
    size_t all = size * n;
    if (!h->started)
        curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
    vlat_place_hears(&h->place);
    if (status == HTTP_OK)
        h->skip = h->from;
    h->started = true;
    size_t skip = all < h->skip ? all : (size_t)h->skip;
    h->skip -= skip;
    size_t take = all - skip < h->left ? all - skip : (size_t)h->left;
    h->failed = take && h->to->take(h->to->arg, data + skip, take, h->err);
    h->left -= h->failed ? 0 : take;
    return h->failed || take < all - skip ? 0 : all;
}

static int on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    http *h = arg;
    (void)a, (void)b, (void)c, (void)d;
    return vlat_place_stopped(&h->place, NULL) != 0;
}

/* The address of a file: its name comes before the query of a signed address. */
static char *address(const char *where, const char *name)
{
    int n = (int)strcspn(where, "?"), path = n;
    while (path > 0 && where[path - 1] == '/')
        path--;
    return vc_format("%.*s/%s%s", path, where, name, where + n);
}

static bool is_busy(long status)
{
    for (size_t i = 0; i < sizeof busy / sizeof *busy; i++)
        if (status == busy[i])
            return true;
    return false;
}

/* Says why curl ended a request that had no status of an error. */
static int name_fault(const http *h, CURLcode code, vc_err *err)
{
    const vlat_limits *l = h->place.limits;
    curl_off_t connected = 0;
    curl_easy_getinfo(h->curl, CURLINFO_CONNECT_TIME_T, &connected);
    if (code == CURLE_OPERATION_TIMEDOUT && connected)
        return vc_fail(err, VC_EIO, "less than %" PRId64 " bytes a second came for %" PRId64 " s "
                       "(--lowest_speed, --timeout)", l->lowest_speed, l->timeout);
    return vc_fail(err, VC_EIO, "%s", curl_easy_strerror(code));
}

/* The result of a request. A sink that has all of its bytes ends the transfer: no error. */
static int outcome(http *h, CURLcode code, bool *again, vc_err *err)
{
    long status = 0;
    curl_off_t wait = 0;
    curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status)
        vlat_place_hears(&h->place);         /* an error has no byte for on_data */
    vlat_place_rests(&h->place);
    if (h->failed)
        return err ? err->code : VC_EIO;
    int rc = vlat_place_stopped(&h->place, err);
    if (rc)
        return rc;
    if (!code || !h->left)
        return 0;
    *again = status < 400 || is_busy(status);
    if (is_busy(status) && !curl_easy_getinfo(h->curl, CURLINFO_RETRY_AFTER, &wait))
        h->place.wait = wait;
    if (status == HTTP_BAD_RANGE)
        return 0;                            /* the file ends before the range */
    if (status >= 400)
        return vc_fail(err, status == 404 ? VC_ENOENT : VC_EIO, "the server answers %ld", status);
    return name_fault(h, code, err);
}

static int get(vlat_place *p, const char *name, uint64_t from, uint64_t n, const vlat_sink *to,
               bool *again, vc_err *err)
{
    http *h = (http *)p;
    char range[64], *url = address(p->where, name);
    *again = false;
    p->wait = 0;
    if (!url)
        return vc_no_memory(err);
    bool open = n == UINT64_MAX;
    snprintf(range, sizeof range, open ? "%" PRIu64 "-" : "%" PRIu64 "-%" PRIu64, from,
             from + n - 1);
    h->to = to;
    h->from = from;
    h->left = n;
    h->skip = 0;
    h->started = h->failed = false;
    h->err = err;
    curl_easy_setopt(h->curl, CURLOPT_URL, url);
    curl_easy_setopt(h->curl, CURLOPT_LOW_SPEED_LIMIT, (long)p->limits->lowest_speed);
    curl_easy_setopt(h->curl, CURLOPT_LOW_SPEED_TIME, (long)p->limits->timeout);
    curl_easy_setopt(h->curl, CURLOPT_RANGE, from || !open ? range : NULL);
    vlat_place_asks(p);
    int rc = outcome(h, curl_easy_perform(h->curl), again, err);
    rc = vc_context(err, rc, "%s/%s", p->shown, name);
    free(url);
    return rc;
}

static void close_http(vlat_place *p)
{
    curl_easy_cleanup(((http *)p)->curl);
    free(p);
}

static const vlat_place_kind kind = { .get = get, .close = close_http };

int vlat_http_open(vlat_place **out, const char *shown, vc_err *err)
{
    http *h = calloc(1, sizeof *h);
    CURL *c = h ? curl_easy_init() : NULL;
    (void)shown;
    if (!c) {
        free(h);
        return vc_no_memory(err);
    }
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)REDIRECTS);
    curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, h);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, h);
    h->curl = c;
    h->place.kind = &kind;
    *out = &h->place;
    return 0;
}
