/* test_sound_picture.c - vlat_put_sound() draws the latent of a sound: the order of its rows, the
 * scale of the grays, and the columns of a long one. */
#include <math.h>

#include "formats/vlat/vlat.h"
#include "tests/formats/shards_test.h"

enum { SOUND = 100, C = 4, BINS = 2, ROWS = C * BINS };

/* Writes a clip with a latent of sound, x [C,frames,1,BINS], and the means 0, 1, and so on and the
 * deviation 2 of every bin. */
static void make_clip(const char *dir, float *x, int frames)
{
    size_t size;
    uint8_t *st;
    cJSON *head = make_head(0);
    cJSON_AddItemToObject(head, "audio_vae", cJSON_Parse(
        "{\"channels\":4,\"bins\":2,\"rate\":16000,\"hop\":640,\"mean\":[0,1,2,3,4,5,6,7],"
        "\"std\":[2,2,2,2,2,2,2,2]}"));
    const vf_view view = { "sample", VC_F32, 4, { C, frames, 1, BINS }, x,
                           (size_t)(frames * ROWS) * sizeof *x };
    OK(vf_safetensors_pack(&st, &size, &view, 1, NULL, 0, 1, &err));
    make_sound_clip(dir, head, make_record(0, 0, "a cat", 3, 8, 4),
                    make_latent_key(SOUND, frames, 1, BINS), st, size);
}

/* Compares the picture of the clip's sound with these fields and pixels. */
static void drawn(const char *dir, int frames, int columns, const uint8_t *pixels)
{
    vc_buf json = { 0 }, wanted = { 0 };
    vf_dataset *d;
    cJSON *record;
    OK(vf_dataset_open(&d, dir, false, &err));
    OK(vf_dataset_sample(d, 0, &record, &err));
    OK(vlat_put_sound(&json, d, 0, record, &err));
    vc_buf_printf(&wanted, "{\"channels\":4,\"frames\":%d,\"bins\":2,\"columns\":%d,\"pixels\":\"",
                  frames, columns);
    vc_buf_base64(&wanted, pixels, (size_t)(ROWS * columns));
    vc_buf_str(&wanted, "\"}");
    vc_buf_str(&json, "");
    assert_int_equal(json.n, wanted.n);
    assert_memory_equal(json.data, wanted.data, wanted.n);
    vc_buf_free(&json);
    vc_buf_free(&wanted);
    cJSON_Delete(record);
    vf_dataset_close(d);
}

/* A channel's bins lie from the highest to the lowest, and NaN is black. */
static void rows(void **state)
{
    static const double deviation[] = { -9, -3, -1.5, 0, 1.5, 3, 9, NAN };   /* of each bin */
    static const uint8_t gray[] = { 0, 0, 64, 128, 191, 255, 255, 0 };
    float x[ROWS];
    uint8_t pixels[ROWS];
    for (int i = 0; i < ROWS; i++) {
        x[i] = (float)(i + 2 * deviation[i]);
        pixels[i ^ 1] = gray[i];
    }
    make_clip(*state, x, 1);
    drawn(*state, 1, 1, pixels);
}

/* 500 frames are 250 columns of two each: a frame of 3 deviations and one of none are gray. */
static void columns(void **state)
{
    enum { FRAMES = 500, COLUMNS = 250 };
    static float x[ROWS * FRAMES];
    static uint8_t pixels[ROWS * COLUMNS];
    for (int c = 0; c < C; c++)
        for (int f = 0; f < FRAMES; f++)
            for (int b = 0; b < BINS; b++)
                x[(c * FRAMES + f) * BINS + b] = (float)(c * BINS + b) +
                                                 (f == 6 || f == 499 ? 6.0f : 0);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        pixels[i] = i % COLUMNS == 3 || i % COLUMNS == 249 ? 191 : 128;
    make_clip(*state, x, FRAMES);
    drawn(*state, FRAMES, COLUMNS, pixels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(rows),
        FOLDER_TEST(columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
