/* test_html.c - reports stay well-formed with any contents: hostile text, NaNs and infinities, long
 * series, pictures. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/utf8.h"
#include "common/os/file.h"
#include "formats/json/json.h"
#include "formats/report/html.h"

/* ---- reading a page ---- */

/* Writes the report to a file, closes h, and returns the file's text. */
static char *finish(vf_html *h)
{
    char path[] = "/tmp/test-html-XXXXXX", *text;
    size_t n;
    vc_err err;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(vf_html_write(h, path, &err), 0);
    vf_html_close(h);
    assert_int_equal(vc_file_read(&text, &n, path, 1 << 28, &err), 0);
    unlink(path);
    assert_int_equal(strlen(text), n);
    assert_int_equal(vc_utf8_prefix(text, n), n);
    return text;
}

/* Takes the numbers of charts out of a page: each is JSON without markup and without NaN, which no
 * browser runs. */
static void cut_numbers(char *page)
{
    static const char begin[] = "<script type=\"application/json\"", end[] = "</script>\n";
    for (char *p = page; (p = strstr(p, begin));) {
        char *text = strchr(p, '>') + 1, *to = strstr(text, end), *rest;
        vc_err err = { 0 };
        cJSON *o;
        assert_non_null(to);
        assert_int_equal(strcspn(text, "<>&") + text - to, 0);
        assert_int_equal(vf_json_parse(&o, text, (size_t)(to - text), &err), 0);
        cJSON_Delete(o);
        rest = to + strlen(end);
        memmove(p, rest, strlen(rest) + 1);
    }
}

/* Returns the part of a page that depends on its contents. */
static char *body_of(vf_html *h)
{
    char *page = finish(h);
    cut_numbers(page);
    char *from = strstr(page, "<body>"), *to = strstr(page, "</main>");
    assert_non_null(from);
    assert_non_null(to);
    char *body = strndup(from + 6, (size_t)(to - from) - 6);
    free(page);
    return body;
}

static bool is_void(const char *tag)
{
    return !strcmp(tag, "img") || !strcmp(tag, "input") || !strcmp(tag, "hr");
}

/* Every element is closed in order, every attribute is quoted, and '<' and '&' occur only in
 * markup. */
static void check_markup(const char *p)
{
    enum { DEPTH = 32 };
    char stack[DEPTH][16];
    int depth = 0;

    strcpy(stack[depth++], "main");                /* the body's <main> is closed after its end */
    p = strstr(p, "<main>") ? p : "";
    while (*p) {
        if (*p == '&') {
            size_t n = strcspn(p, ";");
            assert_true(n <= 5);
        }
        if (*p != '<') {
            p++;
            continue;
        }
        bool closing = p[1] == '/';
        char tag[16];
        assert_true(sscanf(p + 1 + closing, "%15[a-z0-9]", tag) == 1);
        for (p += 1 + closing + strlen(tag); *p != '>'; p++) {
            assert_true(*p && *p != '<');
            if (*p == '"')
                assert_non_null(p = strchr(p + 1, '"'));
        }
        bool self = p[-1] == '/';
        p++;
        if (!strcmp(tag, "main"))
            continue;
        if (closing)
            assert_string_equal(stack[--depth], tag);
        else if (!self && !is_void(tag))
            strcpy(stack[depth++], tag);
        assert_true(depth > 0 && depth < DEPTH);
    }
    assert_int_equal(depth, 1);
}

static int count(const char *s, const char *part)
{
    int n = 0;
    for (; (s = strstr(s, part)); s += strlen(part))
        n++;
    return n;
}

static vf_html *new_page(const char *title)
{
    vf_html *h;
    assert_int_equal(vf_html_open(&h, title, NULL), 0);
    return h;
}

/* ---- text ---- */

static const char hostile[] =
    "<script>alert('x')</script>\" onload=\"y & \xff\xc3( \x01 \xe2\x82\xac";
static const char harmless[] = "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot; onload=&quot;"
                               "y &amp; \xef\xbf\xbd\xef\xbf\xbd( \xef\xbf\xbd \xe2\x82\xac";

/* The hostile text stands at every place where a caller may put a string. */
static void test_hostile(void **state)
{
    const char *cells[] = { hostile, hostile };
    double v[] = { 1, 2 };
    vf_series s = { .name = hostile, .x = v, .y = v, .n = 2 }, two[] = { s, s };
    vf_chart c = { hostile, hostile, hostile, false, two, 2 };
    (void)state;

    vf_html *h = new_page(hostile);
    vf_html_section(h, hostile);
    vf_html_section(h, hostile);
    vf_html_text(h, "%s", hostile);
    vf_html_fold(h, hostile, hostile);
    vf_html_fact(h, hostile, "%s", hostile);
    vf_html_table(h, cells, 2);
    vf_html_row(h, cells);
    vf_html_line_chart(h, &c);
    vf_html_x_unit(h, hostile, 0, v, v, 2);
    vf_html_lead(h, "%s", hostile);
    vf_html_steps(h, hostile);
    vf_html_step(h, "x", 1, hostile, hostile, 3);
    vf_html_bars(h, hostile, cells, v, 2);
    vf_html_histogram(h, hostile, hostile, v, 2);
    vf_html_grid(h, true);
    vf_html_card(h, "x", 1, hostile, hostile, hostile);
    vf_html_card(h, NULL, 0, NULL, hostile, hostile);
    char *body = body_of(h);
    check_markup(body);
    assert_null(strstr(body, "<script"));
    assert_null(strstr(body, "\" onload"));
    assert_null(strchr(body, 1));
    assert_int_equal(count(body, harmless), count(body, "alert("));
    assert_true(count(body, harmless) >= 30);
    free(body);
}

static void test_page(void **state)
{
    (void)state;
    vf_html *h = new_page("Run 7");
    vf_html_text(h, "%d of %s\nsecond line", 7, "8 %s");
    vf_html_section(h, "One");
    vf_html_section(h, "Two");
    char *page = finish(h);
    assert_non_null(strstr(page, "<title>Run 7</title>"));
    assert_non_null(strstr(page, "<h1>Run 7</h1>"));
    assert_non_null(strstr(page, "<p>7 of 8 %s\nsecond line</p>"));
    assert_non_null(strstr(page, "<a href=\"#s2\">Two</a>"));
    assert_non_null(strstr(page, "<h2 id=\"s2\">Two</h2>"));
    assert_non_null(strstr(page, "default-src 'none'"));
    assert_null(strstr(page, "http:"));            /* the page loads no other files */
    assert_null(strstr(page, "https:"));
    assert_null(strstr(page, "//"));
    free(page);
}

static void test_tables(void **state)
{
    static const struct {
        const char *cell;
        const char *class;
    } cells[] = {
        { "12", "n" }, { "-3.5e-05", "n" }, { "1,024", "n" }, { "4.2 GiB", "n" },
        { "7 %", "n" }, { "50%", "n" }, { "13x48x84", "w" }, { "77cc", "w" }, { "", "w" },
        { "-", "w" },
        { "1 h 02 min", NULL }, { "abc", "w" }, { "3 blind mice", NULL },
        { "twelve-marks", "w" }, { "thirteenmarks", NULL },
    };
    const char *columns[] = { "value" };
    (void)state;
    vf_html *h = new_page("");
    vf_html_row(h, columns);                       /* without an open table nothing is written */
    vf_html_table(h, columns, 1);
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        vf_html_row(h, &cells[i].cell);
    char *body = body_of(h);
    check_markup(body);
    assert_int_equal(count(body, "<tr>"), 1 + (int)(sizeof cells / sizeof *cells));
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        char *want = cells[i].class
                         ? vc_format("<td class=\"%s\">%s</td>", cells[i].class, cells[i].cell)
                         : vc_format("<td>%s</td>", cells[i].cell);
        assert_non_null(strstr(body, want));
        free(want);
    }
    free(body);
}

/* ---- charts ---- */

/* Every coordinate of the drawing is a finite number near the drawing. */
static void check_numbers(const char *body)
{
    static const char *const attributes[] = { " x=\"", " y=\"", " x1=\"", " x2=\"", " y1=\"",
                                              " y2=\"", " width=\"", " height=\"" };
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        for (const char *p = body; (p = strstr(p, attributes[i]));) {
            char *end;
            p += strlen(attributes[i]);
            double v = strtod(p, &end);
            assert_int_equal(*end, '"');
            assert_true(v >= -1 && v <= 901);
        }
    for (const char *p = body; (p = strstr(p, " d=\""));) {
        for (p += 4; *p != '"';) {
            char *end;
            assert_non_null(strchr("MLh ", *p));
            double v = strtod(p + 1, &end);
            assert_true(end > p + 1 && v >= -1 && v <= 901);
            p = end;
        }
    }
    assert_int_equal(count(body, "nan\"") + count(body, "inf\""), 0);
}

static const double odd[][6] = {
    { 1, 2, 3, 4, 5, 6 }, { 0, 0, 0, 0, 0, 0 }, { -0.0, 0, -0.0, 0, 0, 0 }, { 5, 5, 5, 5, 5, 5 },
    { NAN, NAN, NAN, NAN, NAN, NAN }, { NAN, 1, INFINITY, 2, -INFINITY, 3 },
    { 1e308, -1e308, 1e300, -1e300, 1, 2 }, { 1e150, -1e150, 0, 1, 2, 3 },
    { 5e-324, 1e-320, 0, 0, 0, 0 }, { 1e-9, 2e-9, 3e-9, 0, 0, 0 }, { -1, -2, -3, -4, -5, -6 },
    { 1e15, 1e15 + 1, 1e15 + 2, 1e15, 1e15, 1e15 }, { 1, 1 + 1e-15, 1, 1, 1, 1 },
    { 1e-300, 1e-200, 1e-100, 1, 1e100, 1e149 }, { 0.3, 0.31, 0.32, 0.33, 0.34, 0.35 },
};
enum { N_ODD = sizeof odd / sizeof *odd };

static void test_odd_numbers(void **state)
{
    const char *labels[] = { "a", "b", "c", "d", "e", "f" };
    (void)state;
    for (int i = 0; i < N_ODD; i++)
        for (int j = 0; j < N_ODD; j++) {
            vf_html *h = new_page("");
            vf_series s[] = { { .name = "s", .x = odd[0], .y = odd[j], .n = 6 },
                              { .name = "t", .x = odd[i], .y = odd[j], .n = 6, .faint = true },
                              { .name = "u", .x = odd[j], .y = odd[i], .n = 6, .smooth = odd[j],
                                .weight = odd[i] } };
            vf_chart c = { "c", "x", "y", j % 2, s, 3 };
            vf_html_line_chart(h, &c);
            c.log_y = !c.log_y;
            vf_html_line_chart(h, &c);
            vf_html_bars(h, "b", labels, odd[i], 6);
            vf_html_histogram(h, "h", "x", odd[i], 6);
            char *body = body_of(h);
            check_markup(body);
            check_numbers(body);
            free(body);
        }
}

static void test_empty_charts(void **state)
{
    (void)state;
    vf_html *h = new_page("");
    vf_series s = { .name = "s" };
    vf_chart c = { "c", "x", "y", true, &s, 1 }, none = { "c", "x", "y", false, NULL, 0 };
    vf_html_line_chart(h, &c);
    vf_html_line_chart(h, &none);
    vf_html_bars(h, "b", NULL, NULL, 0);
    vf_html_histogram(h, "h", "x", NULL, 0);
    char *body = body_of(h);
    check_markup(body);
    check_numbers(body);
    free(body);
}

/* Points lie at the corners of the drawing, and the ticks between them. */
static void test_positions(void **state)
{
    double x[] = { 0, 10 }, y[] = { 0, 100 };
    vf_series s = { .name = "s", .x = x, .y = y, .n = 2 };
    vf_chart c = { "c", "step", "loss", false, &s, 1 };
    (void)state;
    vf_html *h = new_page("");
    vf_html_line_chart(h, &c);
    char *body = body_of(h);
    assert_non_null(strstr(body, "d=\"M76.0 247.0h0L872.0 21.0\""));
    assert_non_null(strstr(body, ">0</text>"));
    assert_non_null(strstr(body, ">100</text>"));
    assert_non_null(strstr(body, ">step</text>"));
    free(body);

    double decade[] = { 0.001, 1000 };
    s.y = decade;
    c.log_y = true;
    h = new_page("");
    vf_html_line_chart(h, &c);
    body = body_of(h);
    assert_non_null(strstr(body, ">0.001</text>"));
    assert_non_null(strstr(body, ">1000</text>"));
    free(body);
}

/* A spike among a million points is drawn, and the page stays small. */
static void test_long_series(void **state)
{
    enum { N = 1000000 };
    double *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    (void)state;
    for (int i = 0; i < N; i++) {
        x[i] = i;
        y[i] = i % 2 ? 0.25 : 0.75;
    }
    y[N / 2] = 1;
    y[N / 4] = 0;
    vf_series s = { .name = "s", .x = x, .y = y, .n = N };
    vf_chart c = { "c", "x", "y", false, &s, 1 };
    vf_html *h = new_page("");
    vf_html_line_chart(h, &c);
    char *body = body_of(h);
    assert_true(strlen(body) < 200000);
    assert_non_null(strstr(body, " 21.0"));        /* 4 % below the top */
    assert_non_null(strstr(body, " 247.0"));
    check_markup(body);
    free(body);
    free(x);
    free(y);
}

static void test_histogram_counts(void **state)
{
    double v[100];
    (void)state;
    for (int i = 0; i < 100; i++)
        v[i] = i < 60 ? 0.5 : i < 99 ? 19.5 : NAN;
    vf_html *h = new_page("");
    vf_html_histogram(h, "h", "x", v, 100);
    char *body = body_of(h);
    assert_non_null(strstr(body, "<title>0 to 1: 60</title>"));
    assert_non_null(strstr(body, "<title>19 to 20: 39</title>"));
    assert_int_equal(count(body, "<rect"), 2);
    assert_non_null(strstr(body, "1 of 100 values"));
    free(body);
}

static void test_many_bars(void **state)
{
    const char *labels[50];
    double v[50];
    (void)state;
    for (int i = 0; i < 50; i++) {
        labels[i] = "bucket";
        v[i] = i == 0 ? 1234567 : i == 1 ? 617283.5 : 1;
    }
    vf_html *h = new_page("");
    vf_html_bars(h, "b", labels, v, 50);
    char *body = body_of(h);
    check_markup(body);
    assert_int_equal(count(body, "<b style"), 50);
    assert_non_null(strstr(body, "<summary>20 more</summary>"));
    assert_non_null(strstr(body, "width:100.00%\"></b><em>1234567</em>"));
    assert_non_null(strstr(body, "width:50.00%"));
    free(body);
}

/* ---- pictures ---- */

static void test_media(void **state)
{
    static const struct {
        const char *bytes, *base64;      /* RFC 4648, section 10 */
    } rows[] = { { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" }, { "foobar", "Zm9vYmFy" },
                 { "\xff\xfe\xfd", "//79" } };
    (void)state;
    vf_html *h = new_page("");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        vf_html_card(h, rows[i].bytes, strlen(rows[i].bytes), "image/png", "t", "");
    vf_html_card(h, "foo", 3, "video/mp4", "t", "");
    char *body = body_of(h);
    check_markup(body);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *want = vc_format("src=\"data:image/png;base64,%s\">", rows[i].base64);
        assert_non_null(strstr(body, want));
        free(want);
    }
    assert_non_null(strstr(body, "src=\"data:video/mp4;base64,Zm9v\"></video>"));
    free(body);
}

/* A long caption is cut between characters, and its whole text is in the page too. */
static void test_captions(void **state)
{
    (void)state;
    for (int pad = 0; pad < 8; pad++) {
        char caption[400] = "";
        for (int i = 0; i < pad; i++)
            strcat(caption, "x");
        for (int i = 0; i < 90; i++)
            strcat(caption, "\xe2\x82\xac");
        vf_html *h = new_page("");
        vf_html_card(h, NULL, 0, NULL, "t", caption);
        char *body = body_of(h);
        check_markup(body);
        assert_null(strstr(body, "\xef\xbf\xbd"));
        assert_non_null(strstr(body, "<details><summary>"));
        assert_non_null(strstr(body, caption));
        free(body);
    }
}

static void test_write_errors(void **state)
{
    (void)state;
    vc_err err;
    vf_html *h = new_page("");
    assert_int_equal(vf_html_write(h, "/none/x.html", &err), VC_ENOENT);
    vf_html_close(h);
    vf_html_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile), cmocka_unit_test(test_page), cmocka_unit_test(test_tables),
        cmocka_unit_test(test_odd_numbers), cmocka_unit_test(test_empty_charts),
        cmocka_unit_test(test_positions), cmocka_unit_test(test_long_series),
        cmocka_unit_test(test_histogram_counts), cmocka_unit_test(test_many_bars),
        cmocka_unit_test(test_media), cmocka_unit_test(test_captions),
        cmocka_unit_test(test_write_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
