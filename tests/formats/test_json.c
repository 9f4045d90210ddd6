/* test_json.c - strict parsing, typed getters, deterministic lines, and the cursor below them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/buf.h"
#include "common/base/utf8.h"
#include "formats/json/json.h"
#include "formats/json/scan.h"
#include "tests/lib/ok.h"

/* The line that a text becomes, or NULL if it is refused with `why` in the message. */
static const struct {
    const char *text, *line, *why;
} parses[] = {
    { "{}", "{}", NULL },
    { " [1, 2.50, -0, 1e3, 1e21, true,false ,null]\n", "[1,2.5,-0,1000,1e+21,true,false,null]",
      NULL },
    { "0.1", "0.1", NULL },
    { "0.30000000000000004", "0.30000000000000004", NULL },
    { "5e-324", "5e-324", NULL },
    { "9007199254740991", "9007199254740991", NULL },
    { "{\"b\":1,\"a\":{\"x\":[]}}", "{\"b\":1,\"a\":{\"x\":[]}}", NULL },
    { "\"\\u00e9\\ud83d\\ude00\\/\\n\\u001f\x7f\"",
      "\"\xc3\xa9\xf0\x9f\x98\x80/\\n\\u001f\x7f\"", NULL },
    { "\"\\\"\\\\\\b\\f\\r\\t\"", "\"\\\"\\\\\\b\\f\\r\\t\"", NULL },
    { "", NULL, "line 1, column 1: ends where a value was expected" },
    { "{\n \"a\": tru\n}", NULL, "line 2, column 7: expected a value" },
    { "{\"a\":1,}", NULL, "missing" },
    { "[1,]", NULL, "missing" },
    { "[1 2]", NULL, "expected ',' or ']'" },
    { "[1", NULL, "expected ',' or ']'" },
    { "{\"a\" 1}", NULL, "expected ':'" },
    { "{a:1}", NULL, "expected a string" },
    { "1 2", NULL, "after the end" },
    { "01", NULL, "not a number" },
    { "-", NULL, "not a number" },
    { "1.", NULL, "not a number" },
    { "1e", NULL, "not a number" },
    { "+1", NULL, "expected a value" },
    { ".5", NULL, "expected a value" },
    { "NaN", NULL, "expected a value" },
    { "\"a", NULL, "ends within a string" },
    { "\"a\tb\"", NULL, "control character" },
    { "\"\\x\"", NULL, "escape" },
    { "\"\\u12\"", NULL, "escape" },
    { "\"\\u0000\"", NULL, "escape" },
    { "\"\\ud800\"", NULL, "escape" },
    { "\"\\udc00\"", NULL, "escape" },
    { "\"\\ud800\\u0041\"", NULL, "escape" },
    { "\"\xff\"", NULL, "column 2: byte 0xff is not UTF-8: save it as UTF-8, as with iconv" },
    { "\"\xc0\xaf\"", NULL, "not UTF-8" },
    { "\"\xed\xa0\x80\"", NULL, "not UTF-8" },
    { "\"\xf4\x90\x80\x80\"", NULL, "not UTF-8" },
    { "{\"a\":1,\"b\":{\"c\":1,\"\\u0063\":2}}", NULL, "key \"c\" occurs twice" },
    { "0.1234567890123456789012345678901234567890123456789012345678901", NULL, "characters" },
    { "\v1", NULL, "expected a value" },
};

static void test_parse(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof parses / sizeof *parses; i++) {
        vc_err err = { 0 };
        cJSON *v;
        size_t n = strlen(parses[i].text);
        char *exact = malloc(n ? n : 1);           /* without a NUL, to show reads past the end */
        memcpy(exact, parses[i].text, n);
        int rc = vf_json_parse(&v, exact, n, &err);
        free(exact);
        print_message("%s -> %s\n", parses[i].text, rc ? err.text : "parsed");
        if (!parses[i].line) {
            assert_int_equal(rc, VC_EFORMAT);
            assert_null(v);
            assert_says(&err, parses[i].why);
            continue;
        }
        assert_int_equal(rc, 0);
        char *line = vf_json_line(v);
        assert_string_equal(line, parses[i].line);
        free(line);
        cJSON_Delete(v);
    }
}

static void test_depth(void **state)
{
    (void)state;
    for (int depth = 63; depth <= 100000; depth = depth < 66 ? depth + 1 : depth * 10) {
        char *text = malloc((size_t)depth * 2);
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        cJSON *v;
        vc_err err;
        int rc = vf_json_parse(&v, text, (size_t)depth * 2, &err);
        assert_int_equal(rc, depth <= VF_JSON_DEPTH ? 0 : VC_EFORMAT);
        cJSON_Delete(v);
        free(text);
    }
}

/* Of a line whose number the caller knows the column is named. */
static void test_parse_line(void **state)
{
    (void)state;
    vc_err err;
    cJSON *v;
    assert_int_equal(vf_json_parse_line(&v, "{\"a\": tru}", 10, &err), VC_EFORMAT);
    assert_string_equal(err.text, "column 7: expected a value");
    assert_int_equal(vf_json_parse_line(&v, "{\"a\": 1}", 8, &err), 0);
    cJSON_Delete(v);
}

/* A byte 0 is refused, even if more text follows. */
static void test_nul_byte(void **state)
{
    (void)state;
    vc_err err;
    cJSON *v;
    assert_int_equal(vf_json_parse(&v, "1\0002", 3, &err), VC_EFORMAT);
    assert_int_equal(vf_json_parse(&v, "\"a\0b\"", 5, &err), VC_EFORMAT);
    assert_int_equal(vf_json_parse(&v, "[1\0]", 4, &err), VC_EFORMAT);
}

static void test_getters(void **state)
{
    (void)state;
    vc_err err;
    cJSON *o;
    const char *text = "{\"s\":\"x\",\"i\":-7,\"big\":9007199254740992,\"f\":1.5,\"inf\":1e999,"
                       "\"b\":true,\"n\":null,\"o\":{},\"a\":[]}";
    assert_int_equal(vf_json_parse(&o, text, strlen(text), &err), 0);

    const char *s = "old";
    int64_t i = 5;
    double f = 2;
    bool b = false;
    const cJSON *c;
    assert_int_equal(vf_json_str(o, "s", &s, &err), 0);
    assert_string_equal(s, "x");
    assert_int_equal(vf_json_int(o, "i", &i, &err), 0);
    assert_int_equal(i, -7);
    assert_int_equal(vf_json_num_opt(o, "f", &f, &err), 0);
    assert_true(f == 1.5);
    assert_int_equal(vf_json_bool(o, "b", &b, &err), 0);
    assert_true(b);
    assert_int_equal(vf_json_obj(o, "o", &c, &err), 0);
    assert_int_equal(vf_json_arr(o, "a", &c, &err), 0);

    assert_int_equal(vf_json_int(o, "big", &i, &err), VC_EFORMAT);
    assert_string_equal(err.text, "big: integer out of range");
    assert_int_equal(vf_json_int(o, "f", &i, &err), VC_EFORMAT);
    assert_string_equal(err.text, "f: expected an integer, found 1.5");
    assert_int_equal(vf_json_num_opt(o, "inf", &f, &err), VC_EFORMAT);
    assert_int_equal(vf_json_str(o, "i", &s, &err), VC_EFORMAT);
    assert_string_equal(err.text, "i: expected a string, found a number");
    assert_int_equal(vf_json_arr(o, "o", &c, &err), VC_EFORMAT);
    assert_null(c);
    assert_int_equal(vf_json_bool(o, "s", &b, &err), VC_EFORMAT);
    assert_int_equal(vf_json_str(o, "none", &s, &err), VC_ENOENT);
    assert_string_equal(err.text, "none: missing");
    assert_int_equal(vf_json_int(o, "n", &i, &err), VC_ENOENT);

    i = 5;
    assert_int_equal(vf_json_int_opt(o, "none", &i, &err), 0);
    assert_int_equal(vf_json_int_opt(o, "n", &i, &err), 0);
    assert_int_equal(i, 5);
    assert_int_equal(vf_json_int_opt(o, "s", &i, &err), VC_EFORMAT);
    cJSON_Delete(o);
}

static void test_line(void **state)
{
    (void)state;
    cJSON *o = cJSON_CreateObject();
    assert_int_equal(vf_json_add_int(o, "big", INT64_MAX), 0);
    assert_int_equal(vf_json_add_int(o, "low", INT64_MIN), 0);
    cJSON_AddNumberToObject(o, "nan", (double)NAN);
    cJSON_AddNumberToObject(o, "loss", (double)0.1f);
    cJSON_AddStringToObject(o, "odd", "a\xff\"b\n\xe2\x82\xac");
    char *line = vf_json_line(o);
    assert_string_equal(line, "{\"big\":9223372036854775807,\"low\":-9223372036854775808,"
                        "\"nan\":null,\"loss\":0.10000000149011612,"
                        "\"odd\":\"a\xef\xbf\xbd\\\"b\\n\xe2\x82\xac\"}");
    int64_t low = 0;
    vc_err err;
    cJSON_AddItemToObject(o, "raw", cJSON_CreateRaw("12"));
    assert_int_equal(vf_json_int(o, "raw", &low, &err), 0);
    assert_int_equal(low, 12);
    free(line);
    cJSON_Delete(o);
}

static void test_scan_int(void **state)
{
    static const struct {
        const char *text;
        int rc;
        int64_t v;
    } rows[] = {
        { "0", 0, 0 }, { " -12", 0, -12 }, { "9223372036854775807", 0, INT64_MAX },
        { "-9223372036854775808", 0, INT64_MIN }, { "9223372036854775808", VC_EFORMAT, 0 },
        { "-9223372036854775809", VC_EFORMAT, 0 }, { "1.0", VC_EFORMAT, 0 },
        { "1e2", VC_EFORMAT, 0 }, { "x", VC_EFORMAT, 0 }, { "", VC_EFORMAT, 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vf_scan s = vf_scan_of(rows[i].text, strlen(rows[i].text));
        int64_t v = 0;
        assert_int_equal(vf_scan_int(&s, &v, NULL), rows[i].rc);
        assert_int_equal(v, rows[i].v);
    }
}

static void test_utf8(void **state)
{
    static const struct {
        const char *text;
        size_t good;
    } rows[] = {
        { "plain ascii text of some length", 31 }, { "\xc3\xa9t\xc3\xa9", 5 },
        { "\xf0\x9f\x98\x80", 4 }, { "\xef\xbf\xbf", 3 }, { "\xf4\x8f\xbf\xbf", 4 },
        { "12345678\xff", 8 }, { "a\x80", 1 }, { "a\xc1\xbf", 1 }, { "a\xe0\x9f\xbf", 1 },
        { "a\xed\xa0\x80", 1 }, { "a\xf0\x8f\xbf\xbf", 1 }, { "a\xf5\x80\x80\x80", 1 },
        { "a\xe2\x82", 1 }, { "a\xe2\x82x", 1 }, { "a\xf9\xa9\x98\x9e", 1 },
        { "a\xf8\x90\x80\x80\x80", 1 }, { "a\xfc\x90\x80\x80", 1 }, { "a\xff\x80\x80\x80", 1 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(vc_utf8_prefix(rows[i].text, strlen(rows[i].text)), rows[i].good);
}

static void test_buf(void **state)
{
    (void)state;
    vc_buf b = { 0 };
    for (int i = 0; i < 1000; i++)
        vc_buf_printf(&b, "%d,", i);
    vc_buf_add(&b, NULL, 0);
    char *s = vc_buf_take(&b);
    assert_int_equal(strlen(s), 3890);
    assert_string_equal(s + 3882, "998,999,");
    free(s);

    const int64_t ints[] = { 0, -1, 1234567890, INT64_MAX, INT64_MIN };
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        vc_buf_int(&b, ints[i]);
        vc_buf_str(&b, " ");
    }
    s = vc_buf_take(&b);
    assert_string_equal(s, "0 -1 1234567890 9223372036854775807 -9223372036854775808 ");
    free(s);

    assert_null(vc_buf_room(&b, SIZE_MAX - 1));    /* the buffer keeps this failure */
    vc_buf_str(&b, "x");
    assert_null(vc_buf_take(&b));
    vc_buf_str(&b, "y");                           /* the buffer was empty again */
    s = vc_buf_take(&b);
    assert_string_equal(s, "y");
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse), cmocka_unit_test(test_depth),
        cmocka_unit_test(test_parse_line), cmocka_unit_test(test_nul_byte),
        cmocka_unit_test(test_getters),
        cmocka_unit_test(test_line), cmocka_unit_test(test_scan_int),
        cmocka_unit_test(test_utf8), cmocka_unit_test(test_buf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
