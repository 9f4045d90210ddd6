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
 * "draft", and a field "none" without a value. */
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
        if (vf_expr_holds(e, get, NULL) != rows[i].holds)
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
        { "caption ~ 'a++++++++++++++++++++++++++++++++++++++++'", "repeats" },
        { "caption ~ '((a{255}){255}){255}'", "repeats" },
        { "caption ~ '(a{0,130}){0,130}b'", "more than 2000 copies" },
        { "caption ~ '(.*) \\1'", "refers back" },
        { "caption ~ '((a|[]x]+){9,99}b){9999,}'", "repeats" },
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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(meanings), cmocka_unit_test(refusals) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
