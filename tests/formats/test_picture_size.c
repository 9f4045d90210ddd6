/* test_picture_size.c - sizes of pictures and clips are read from their headers, of every prefix
 * and of every file with one wrong byte without harm, in memory and from a file alike. */
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

#include "formats/report/picture_size.h"

#define BYTES(s) s, sizeof s - 1

#define FTYP "\0\0\0\x10" "ftypisom\0\0\0\0"
#define BOX(n, name) "\0\0\0" n name
#define ZEROS8 "\0\0\0\0\0\0\0\0"
#define UPRIGHT "\0\1\0\0" ZEROS8 "\0\0\0\0" "\0\1\0\0" ZEROS8 "\0\0\0\0" "\x40\0\0\0"
#define TURNED "\0\0\0\0" "\0\1\0\0" "\0\0\0\0" "\xff\xff\0\0" ZEROS8 ZEROS8 "\x40\0\0\0"
/* A track header of 8 + 48 bytes with a size in 16.16 fixed point. */
#define TKHD(matrix, w, h) BOX("\x3c", "tkhd") ZEROS8 matrix "\0" w "\0\0" "\0" h "\0\0"
#define TRAK(matrix, w, h) BOX("\x44", "trak") TKHD(matrix, w, h)
#define JPEG "\xff\xd8\xff\xe0\0\4ab\xff\xff\xc4\0\3x\xff\xc2\0\x11\x08\0\x30\0\x40\3"

static const struct {
    const char *name, *data;
    size_t n;
    int w, h;
} files[] = {
    { "PNG", BYTES("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\2\0\0\0\1\1"), 512, 257 },
    { "PNG without a width", BYTES("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\0\0\0\1\1"), 0, 0 },
    { "PNG of 65536", BYTES("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\1\0\0\0\0\1\1"), 0, 0 },
    { "JPEG with a progressive frame", BYTES(JPEG), 64, 48 },
    { "MP4", BYTES(FTYP BOX("\x4c", "moov") TRAK(UPRIGHT, "\x60", "\x40")), 96, 64 },
    { "MP4 turned by a quarter", BYTES(FTYP BOX("\x4c", "moov") TRAK(TURNED, "\x60", "\x40")),
      64, 96 },
    { "MP4 with sound first", BYTES(FTYP BOX("\x90", "moov") TRAK(UPRIGHT, "\0", "\0")
                                    TRAK(UPRIGHT, "\x20", "\x10")), 32, 16 },
    { "MP4 with moov behind a box of 64 bits and up to the end",
      BYTES(FTYP "\0\0\0\1" "mdat" "\0\0\0\0\0\0\0\x12" "ab" BOX("\0", "moov")
            TRAK(UPRIGHT, "\x60", "\x40")), 96, 64 },
    { "MP4 with a box that ends behind its parent",
      BYTES(FTYP BOX("\x40", "moov") TRAK(UPRIGHT, "\x60", "\x40")), 0, 0 },
    { "MP4 with a box of no size", BYTES(FTYP BOX("\4", "moov") BOX("\4", "trak")), 0, 0 },
    { "text", BYTES("A file of words, and no picture."), 0, 0 },
    { "nothing", "", 0, 0, 0 },
};

/* Returns the size from memory, of a copy without a byte behind it, after the file has said the
 * same. */
static vf_picture_size size_of(const char *data, size_t n)
{
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, data, n);
    FILE *f = tmpfile();
    assert_non_null(f);
    assert_int_equal(fwrite(copy, 1, n, f), n);
    assert_int_equal(fflush(f), 0);
    const vf_picture_size s = vf_picture_size_of(copy, n), t = vf_picture_size_of_file(fileno(f));
    assert_int_equal(s.w, t.w);
    assert_int_equal(s.h, t.h);
    fclose(f);
    free(copy);
    return s;
}

static void test_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const vf_picture_size s = size_of(files[i].data, files[i].n);
        if (s.w != files[i].w || s.h != files[i].h)
            fail_msg("%s: %d x %d, expected %d x %d", files[i].name, s.w, s.h, files[i].w,
                     files[i].h);
    }
    const vf_picture_size none = vf_picture_size_of_file(-1);
    assert_true(!none.w && !none.h);
}

static void test_damage(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        for (size_t n = 0; n < files[i].n; n++) {
            char bytes[512];
            size_of(files[i].data, n);
            for (int bit = 0; bit < 8; bit++) {
                memcpy(bytes, files[i].data, files[i].n);
                bytes[n] = (char)(bytes[n] ^ 1 << bit);
                const vf_picture_size s = size_of(bytes, files[i].n);
                assert_true(s.w >= 0 && s.w < 65536 && s.h >= 0 && s.h < 65536 && !s.w == !s.h);
            }
        }
    }
}

/* Boxes in boxes, and more boxes than are read. */
static void test_bounds(void **state)
{
    enum { N = 1 << 16 };
    uint8_t *bytes = calloc(N, 8);
    (void)state;
    assert_non_null(bytes);
    memcpy(bytes, FTYP, 16);
    for (int i = 2; i < N; i++)
        memcpy(bytes + 8 * i, i % 2 ? "\0\0\0\0moov" : "\0\0\0\0trak", 8);
    vf_picture_size s = vf_picture_size_of(bytes, 8 * (size_t)N);
    assert_true(!s.w && !s.h);
    for (int i = 2; i < N; i++)
        memcpy(bytes + 8 * i, "\0\0\0\10free", 8);
    s = vf_picture_size_of(bytes, 8 * (size_t)N);
    assert_true(!s.w && !s.h);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes), cmocka_unit_test(test_damage), cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
