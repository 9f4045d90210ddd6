/* fuzz_http.c - any bytes are the answer of an HTTP server as libcurl hands it on, without a
 * network: a status, curl's result, a pause that the server asks for, and pieces of a body. The
 * sink gets no byte beyond those asked for, and a failure has a message. */
#include <curl/curl.h>
#include <stdlib.h>

/* The double of libcurl gives what the input says. */
static CURLcode answer(CURL *curl);
static CURLcode info(CURL *curl, CURLINFO what, void *value);
#undef curl_easy_perform
#undef curl_easy_getinfo
#define curl_easy_perform answer
#define curl_easy_getinfo info
#include "formats/vlat/place_http.c"
#include "tests/lib/mutate.h"

static const uint8_t *input;
static size_t input_size;
static http *client;

static uint8_t next(void)
{
    return input_size ? (input_size--, *input++) : 0;
}

static long status_now, wait_now;

static CURLcode info(CURL *curl, CURLINFO what, void *value)
{
    (void)curl;
    if (what == CURLINFO_RESPONSE_CODE)
        *(long *)value = status_now;
    else
        *(curl_off_t *)value = what == CURLINFO_RETRY_AFTER ? wait_now : wait_now % 2;
    return CURLE_OK;
}

static CURLcode answer(CURL *curl)
{
    static const long statuses[] = { 200, 206, 404, 416, 429, 500, 503, 0 };
    CURLcode code = next() % CURL_LAST;
    (void)curl;
    status_now = statuses[next() % 8];
    wait_now = next();
    for (int pieces = next() % 8; pieces; pieces--) {
        size_t n = next();
        if (n > input_size)
            n = input_size;
        char *piece = malloc(n ? n : 1);     /* of its own size, for the address sanitizer */
        memcpy(piece, input, n);
        input += n;
        input_size -= n;
        size_t taken = on_data(piece, 1, n, client);
        free(piece);
        if (taken != n)
            return CURLE_WRITE_ERROR;
    }
    return code;
}

static int count(void *arg, const void *data, size_t n, vc_err *err)
{
    uint64_t *left = arg;
    (void)err;
    if (n > *left)
        abort();                             /* more than was asked for */
    const volatile uint8_t *p = data;
    for (size_t i = 0; i < n; i++)
        (void)p[i];
    *left -= n;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static vlat_place *place;
    static vlat_limits limits = { .lowest_speed = 1, .timeout = 1 };
    input = data;
    input_size = size;
    if (!place && vlat_place_open(&place, "http://host/set?key=1", &limits, NULL))
        abort();
    client = (http *)place;
    for (int i = 0; i < 4 && input_size; i++) {
        vc_err err = { 0 };
        uint64_t from = next(), left = i % 2 ? UINT64_MAX : 1 + next();
        bool again;
        uint64_t n = left;
        int rc = place->kind->get(place, "manifest.json", from, n, &(vlat_sink){ count, &left },
                                  &again, &err);
        if (rc && (!*err.text || err.code != rc))
            abort();
    }
    return 0;
}
