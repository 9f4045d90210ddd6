/* test_term.c - what each terminal is trusted with, and pictures of a few pixels as their bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/report/term.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static const char *const *environment;       /* names and values in turn, NULL-ended */

static char *env(const char *name)
{
    for (const char *const *e = environment; *e; e += 2)
        if (!strcmp(e[0], name))
            return (char *)e[1];
    return NULL;
}

static void test_which(void **state)
{
    static const struct { const char *env[7]; vf_term how; } cases[] = {
        { { "TERM", "dumb", NULL }, VF_TERM_NONE },
        { { "TERM", "xterm-256color", NULL }, VF_TERM_NONE },
        { { "TERM", "xterm-256color", "COLORTERM", "truecolor", NULL }, VF_TERM_BLOCKS },
        { { "COLORTERM", "24bit", NULL }, VF_TERM_BLOCKS },
        { { "TERM", "xterm-kitty", "COLORTERM", "truecolor", NULL }, VF_TERM_KITTY },
        { { "KITTY_WINDOW_ID", "7", NULL }, VF_TERM_KITTY },
        { { "TERM", "foot-extra", "COLORTERM", "truecolor", NULL }, VF_TERM_SIXEL },
        { { "TERM_PROGRAM", "WezTerm", NULL }, VF_TERM_SIXEL },
        { { "KITTY_WINDOW_ID", "7", "TMUX", "x", "COLORTERM", "truecolor", NULL }, VF_TERM_BLOCKS },
        { { "KITTY_WINDOW_ID", "7", "TERM", "screen-256color", NULL }, VF_TERM_NONE },
        { { NULL }, VF_TERM_NONE },
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        environment = cases[i].env;
        assert_int_equal(vf_term_of(env), cases[i].how);
    }
}

static void test_columns(void **state)
{
    static const struct { const char *text; int columns; } cases[] = {
        { "120", 120 }, { "9", 80 }, { "100000", 80 }, { "wide", 80 }, { NULL, 80 },
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *const e[] = { "COLUMNS", cases[i].text, NULL };
        environment = cases[i].text ? e : e + 2;
        assert_int_equal(vf_term_columns(env), cases[i].columns);
    }
}

static char *draw(vf_term how, const uint8_t *rgb, int w, int h, int columns)
{
    vc_buf b = { 0 };
    vf_term_draw(&b, how, rgb, w, h, columns);
    return vc_buf_take(&b);
}

static void check(vf_term how, const uint8_t *rgb, int w, int h, int columns, const char *want)
{
    char *got = draw(how, rgb, w, h, columns);
    assert_string_equal(got, want);
    free(got);
}

/* Red above blue, white above black. */
static const uint8_t four[] = { 255, 0, 0, 255, 255, 255, 0, 0, 255, 0, 0, 0 };

static void test_blocks(void **state)
{
    (void)state;
    check(VF_TERM_BLOCKS, four, 2, 2, 80, "\033[38;2;255;0;0;48;2;0;0;255m\xe2\x96\x80"
          "\033[38;2;255;255;255;48;2;0;0;0m\xe2\x96\x80\033[0m\n");
    check(VF_TERM_BLOCKS, four, 2, 2, 1, "\033[38;2;128;64;128m\xe2\x96\x80\033[0m\n");
    check(VF_TERM_BLOCKS, four, 1, 3, 80, "\033[38;2;255;0;0;48;2;255;255;255m\xe2\x96\x80\033[0m\n"
          "\033[38;2;0;0;255m\xe2\x96\x80\033[0m\n");
    check(VF_TERM_BLOCKS, four, 4, 1, 1, "\033[38;2;128;64;128m\xe2\x96\x80\033[0m\n");
    check(VF_TERM_NONE, four, 2, 2, 80, "");
    static const uint8_t tall[3 * 2 * 960];
    char *got = draw(VF_TERM_BLOCKS, tall, 2, 960, 80);
    int lines = 0;
    for (const char *p = got; (p = strchr(p, '\n')); p++)
        lines++;
    assert_int_equal(lines, 24);
    free(got);
}

static void test_kitty(void **state)
{
    enum { W = 40, H = 30 };                 /* 3600 bytes: two pieces */
    static uint8_t black[3 * W * H];
    (void)state;
    check(VF_TERM_KITTY, four, 2, 2, 80, "\033_Ga=T,f=24,s=2,v=2,m=0;/wAA////AAD/AAAA\033\\\n");
    char *got = draw(VF_TERM_KITTY, black, W, H, 80);
    const char *second = strstr(got, "\033\\\033_Gm=0;");
    assert_ptr_equal(strstr(got, "\033_Ga=T,f=24,s=40,v=30,m=1;"), got);
    assert_non_null(second);
    assert_int_equal(second - strchr(got, ';') - 1, 4096);
    free(got);
}

static void test_sixel(void **state)
{
    enum { W = 8, H = 7 };                   /* a band and a line */
    uint8_t white[3 * W * H];
    (void)state;
    char *got = draw(VF_TERM_SIXEL, four, 2, 2, 80);
    assert_ptr_equal(strstr(got, "\033Pq\"1;1;2;2#0;2;0;0;0#1;2;0;0;20"), got);
    const char *picture = strstr(got, "#215;2;100;100;100") + strlen("#215;2;100;100;100");
    assert_string_equal(picture, "#0?A$#5A$#180@$#215?@$-\033\\\n");
    free(got);
    memset(white, 255, sizeof white);
    got = draw(VF_TERM_SIXEL, white, W, H, 80);
    picture = strstr(got, "#215;2;100;100;100") + strlen("#215;2;100;100;100");
    assert_string_equal(picture, "#215!8~$-#215!8@$-\033\\\n");
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which), cmocka_unit_test(test_columns), cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_kitty), cmocka_unit_test(test_sixel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
