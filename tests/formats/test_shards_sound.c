/* test_shards_sound.c - vf_verify() compares the sound of a sample with its record and the
 * manifest's audio_vae: as many latent frames as the clip lasts. */
#include "tests/formats/shards_test.h"

enum { SOUND = 100, BINS = 6 };              /* number and width of the latent of sound */

static cJSON *make_sound_head(void)
{
    cJSON *head = make_head(0);
    cJSON_AddItemToObject(head, "audio_vae", cJSON_Parse(
        "{\"class\":\"Builtin\",\"fingerprint\":\"00112233445566778899aabbccddeeff\","
        "\"channels\":4,\"bins\":6,\"rate\":16000,\"hop\":640,\"mean\":[0],\"std\":[1]}"));
    return head;
}

/* The frames of a source: 0, 1, and so on. */
static cJSON *frames_to(int n)
{
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < n; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber(i));
    return list;
}

/* Writes a clip of n frames at fps, with a sound of `length` latent frames. */
static void make_clip(const char *dir, int n, double fps, int length)
{
    size_t size;
    cJSON *record = make_record(0, 0, "a cat", 3, 8, 4);
    uint8_t *st = make_latent(SOUND, length, 1, BINS, &size);
    cJSON_ReplaceItemInObjectCaseSensitive(record, "frames", frames_to(n));
    cJSON_ReplaceItemInObjectCaseSensitive(record, "fps", cJSON_CreateNumber(fps));
    make_sound_clip(dir, make_sound_head(), record, make_latent_key(SOUND, length, 1, BINS), st,
                    size);
}

/* The lengths that are whole, from the shortest to the longest: round(25 s) latent frames, at least
 * one; a half may be rounded to either side. */
static const struct { int frames; double fps; int shortest, longest; } clips[] = {
    { 9, 10, 22, 23 },                       /* 22.5 */
    { 49, 24, 51, 51 },                      /* 51.04 */
    { 121, 29.97, 101, 101 },                /* 100.93 */
    { 1, 60, 1, 1 },                         /* 0.42 */
    { 121, 23.976023976023978, 126, 126 },   /* 126.17 */
    { 257, 0.1, 64250, 64250 },
    { 9, 0, 1, 999 },                        /* a record without a rate says nothing */
};

static void lengths(void **state)
{
    for (size_t i = 0; i < sizeof clips / sizeof *clips; i++)
        for (int n = clips[i].shortest - 1; n <= clips[i].longest + 1; n++) {
            if (n < 1 || (n > 3 && clips[i].fps == 0))
                continue;
            const bool whole = n >= clips[i].shortest && n <= clips[i].longest;
            char wanted[100];
            vc_remove_tree(*state, NULL);
            make_clip(*state, clips[i].frames, clips[i].fps, n);
            const findings f = verify(*state);
            snprintf(wanted, sizeof wanted, ": %d frames, the record's clip of %d frames", n,
                     clips[i].frames);
            if (whole ? f.n : !strstr(f.text, wanted) || !strstr(f.text, "audio "))
                fail_msg("%d frames at %g, a sound of %d: %s", clips[i].frames, clips[i].fps, n,
                         f.n ? f.text : "nothing was found");
        }
}

/* The length is found in a record that is read from its text, and in one that needs a tree. */
static void another_record(void **state)
{
    make_clip(*state, 49, 24, 51);
    assert_whole(*state);
    patch(*state, "shard-00000.lmdb", "\"fps\":24", "\"fps\": 4");
    findings f = verify(*state);
    if (!strstr(f.text, "51 frames, the record's clip of 49 frames at 4 a second has 306"))
        fail_msg("%s", f.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(lengths),
        FOLDER_TEST(another_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
