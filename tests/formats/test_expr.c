/* test_expr.c - the meanings of conditions of vlat select, and the messages of refused ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/dataset/expr.h"

static const char *const names[] = { "width", "caption", "tag", "none", "more.", NULL };

/* The sample has the width 512, the captions "A red Car" and "two", the tags 7 (a number) and
 * "draft", a field "none" without a value, and others without an end to match. */
static bool get(void *arg, const char *name, int k, vf_expr_value *v)
{
    static const char *const captions[] = { "A red Car", "two" };
    (void)arg;
    *v = (vf_expr_value){ 0 };
    if (!strcmp(name, "width"))
        v->number = 512;
    else if (!strcmp(name, "caption") && k < 2)
        v->text = captions[k];
    else if (!strcmp(name, "tag") && k < 2)
        *v = k ? (vf_expr_value){ "draft", 0 } : (vf_expr_value){ NULL, 7 };
    else if (!strcmp(name, "more.x_1.y") && !k)
        v->text = "there";
    else if (!strcmp(name, "more.cafe") && !k)
        v->text = "a CAF\xc3\x89\nby night";
    else if (!strcmp(name, "more.row") && !k)
        v->text = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!";
    else if (!strcmp(name, "more.bytes") && !k)
        v->text = "\xff red \xc3";
    else
        return false;
    return !strcmp(name, "width") ? k == 0 : true;
}

static void meanings(void **state)
{
    static const struct { const char *text; bool holds; } rows[] = {
        { "width = 512", true }, { "width=512.0", true }, { "width == 511", false },
        { "width != 512", false }, { "width < 512", false }, { "width <= 512", true },
        { "width > 511.5", true }, { "width >= 513", false }, { "width ~ ^51", true },
        { "width = big", false }, { "width < big", false }, { "caption = two", true },
        { "caption = \"A red Car\"", true }, { "caption = 'a red car'", false },
        { "caption ~ 'RED|blue'", true }, { "caption !~ red", false }, { "caption !~ green", true },
        { "caption ~ 'a[\\1]* red {0,500}c'", true },
        { "caption != two", false }, { "caption != three", true }, { "caption < 5", false },
        { "tag = draft", true }, { "tag = 7", true }, { "tag > 6", true }, { "tag > 7", false },
        { "caption ~ '\\<red\\>'", true }, { "caption ~ '\\<re\\>'", false },
        { "caption ~ '^a r{,1}ed'", true }, { "caption ~ '[]<{,3}[:alpha:]]{,1}o$'", true },
        { "caption ~ 'red(?! car)'", false }, { "caption ~ '(?<=red )car'", true },
        { "caption ~ '(t)wo'", true }, { "caption ~ ''", true },
        { "caption ~ '(a{1,2}){2}|[[:upper:]] red'", true }, { "width ~ '^\\d+$'", true },
        { "more.cafe ~ 'caf\xc3\xa9.by'", true }, { "more.cafe ~ '\\bcaf\xc3\xa9\\b'", true },
        { "more.cafe ~ 'caf.$'", false }, { "more.bytes ~ '\\bred\\b'", true },
        { "more.row ~ '(a+)+!'", true },
        { "more.x_1.y = there", true }, { "more.x = there", false }, { "more.z != 1", true },
        { "none = 1", false }, { "none != 1", true }, { "not none = 1", true },
        { "width = 1 or width = 512", true }, { "width = 1 OR width = 2", false },
        { "width = 512 and caption = two and tag = no", false },
        { "width = 512 or width = 1 and width = 2", true },
        { "(width = 512 or width = 1) and width = 2", false },
        { "not width = 512 or not (tag = no)", true }, { "not not width = 512", true },
        { "  ( ( width=512 ) )  ", true }, { "caption = \"A \\\" b\"", false },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vf_expr *e;
        vc_err err = { 0 };
        if (vf_expr_open(&e, rows[i].text, names, &err))
            fail_msg("%s: %s", rows[i].text, err.text);
        bool yes;
        assert_int_equal(vf_expr_holds(e, get, NULL, &yes, &err), 0);
        if (yes != rows[i].holds)
            fail_msg("%s: %s expected", rows[i].text, rows[i].holds ? "true" : "false");
        vf_expr_close(e);
    }
}

static void refusals(void **state)
{
    static const struct { const char *text, *why; } rows[] = {
        { "", "no name" }, { "height = 1", "no name \"height\"; there are width caption" },
        { "width", "is missing" }, { "width =", "a value is missing" },
        { "width = 1 width = 2", "\"and\" or \"or\"" },
        { "(width = 1", ") is missing" }, { "width = 'a", "missing quote" },
        { "caption ~ '('", "no regular" },
        { "caption ~ '((a{255}){255}){255}'", "too large" },
        { "caption ~ '[a'", "missing terminating ]" },
        { "caption ~ 'a++++'", "quantifier does not follow" },
        { "caption ~ '(?<=a*)b'", "lookbehind" }, { "caption ~ '\xff'", "UTF-8" },
        { "width = 1 and", "no name" }, { "not", "no name" }, { "width ! 1", "is missing" },
        { "width = 1)", "\"and\" or \"or\"" }, { "more. = 1", "no name" },
        { "more.x", "is missing" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vf_expr *e;
        vc_err err = { 0 };
        assert_int_equal(vf_expr_open(&e, rows[i].text, names, &err), VC_EUSAGE);
        assert_null(e);
        if (!strstr(err.text, rows[i].why))
            fail_msg("%s: \"%s\" expected in \"%s\"", rows[i].text, rows[i].why, err.text);
    }
    char deep[4096] = "", wide[8192] = "width = 1";
    for (int i = 0; i < 500; i++) {
        strcat(deep, "not ");
        strcat(wide, " or width=1");
    }
    strcat(deep, "width = 1");
    vf_expr *e;
    assert_int_equal(vf_expr_open(&e, deep, names, NULL), VC_EUSAGE);
    assert_int_equal(vf_expr_open(&e, wide, names, NULL), VC_EUSAGE);
}

/* An expression that would try 2^60 ways is given up after its steps, and says so for each later
 * text; so does one on which regcomp(3) of the C library took hours. */
static void endless(void **state)
{
    static const struct { const char *text; bool ends; } rows[] = {
        { "more.row ~ '(a+)+$'", false }, { "more.row !~ '(a|aa)+$'", false },
        { "more.row ~ '(.*)*(.*)*(.*)*b'", true },
        { "more.row ~ '^((a?){40}(a?){40}){40}b'", true },
        { "more.row ~ '(((a?b?c?d?e?)+f?)+g?)+$'", false },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vf_expr *e;
        vc_err err = { 0 };
        bool yes;
        if (vf_expr_open(&e, rows[i].text, names, &err))
            fail_msg("%s: %s", rows[i].text, err.text);
        for (int again = 0; again < 2; again++)
            if ((vf_expr_holds(e, get, NULL, &yes, &err) == 0) != rows[i].ends)
                fail_msg("%s: %s", rows[i].text, err.text);
        if (!rows[i].ends && !strstr(err.text, "more.row ~ \"(") &&
            !strstr(err.text, "takes more than 10000000 steps"))
            fail_msg("%s: %s", rows[i].text, err.text);
        vf_expr_close(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(meanings), cmocka_unit_test(refusals),
                                        cmocka_unit_test(endless) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
