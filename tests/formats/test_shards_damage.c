/* test_shards_damage.c - kills, a full disk, and every kind of damage that vf_verify() reports. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "formats/lmdb/lmdb_read.h"
#include "tests/formats/shards_test.h"

/* ---- crashes ---- */

/* Writes samples until the process is killed or done; reports each commit through the pipe. */
static void write_until_killed(const char *dir, int pipe_fd)
{
    cJSON *head = make_head(0);
    vf_writer_opts o = { .head = head, .shard_size = SMALL };
    vf_writer *w;
    int rc = vf_writer_open(&w, dir, &o, NULL);
    for (uint32_t i = 0; i < 100 && !rc; i++) {
        rc = make_sample(w, i, i % 2 ? "odd" : "even", 3, 4, 6, NULL);
        if (!rc && i % 5 == 4 && !(rc = vf_writer_commit(w, NULL)) &&
            write(pipe_fd, &i, sizeof i) < 0)
            rc = -1;
    }
    if (!rc)
        rc = vf_writer_finish(w, NULL);
    _exit(rc ? 1 : 0);
}

/* The values that a record on disk refers to are on disk too. */
static void assert_references(vf_writer *w, uint32_t i)
{
    cJSON *record;
    vf_key text, latent;
    const char *json = vf_writer_sample(w, i, 0);
    if (!json)
        return;
    OK(vf_json_parse(&record, json, strlen(json), &err));
    const cJSON *keys = cJSON_GetObjectItem(cJSON_GetObjectItem(record, "captions")->child, "keys");
    assert_true(vf_key_parse(&text, keys->child->valuestring));
    assert_true(vf_key_parse(&latent, cJSON_GetObjectItem(record, "latent_key")->valuestring));
    assert_true(vf_writer_has_text(w, text));
    assert_true(vf_writer_has_latent(w, latent));
    cJSON_Delete(record);
}

/* Samples that were committed before a kill are kept, and the others can be added. */
static void killed(void **state)
{
    uint32_t committed = 0;
    bool done = false;
    double delay = 300;                              /* microseconds */
    vf_writer *w;
    for (int round = 0; round < 80 && !done; round++, delay *= 1.13) {
        int fd[2], status;
        uint32_t i;
        assert_int_equal(pipe(fd), 0);
        pid_t child = fork();
        if (!child) {
            close(fd[0]);
            write_until_killed(*state, fd[1]);
        }
        close(fd[1]);
        usleep((useconds_t)delay);
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        while (read(fd[0], &i, sizeof i) == sizeof i)
            if (i + 1 > committed)
                committed = i + 1;
        close(fd[0]);
        done = WIFEXITED(status);
        if (done)
            assert_int_equal(WEXITSTATUS(status), 0);
        if (!vc_file_exists(*state))
            continue;
        OK(open_writer(&w, *state, 0, false, false, &err));
        for (i = 0; i < committed; i++)
            assert_non_null(vf_writer_sample(w, i, 0));
        for (i = 0; i < 100; i++)
            assert_references(w, i);
        vf_writer_close(w);
    }
    assert_true(committed > 0);
    OK(open_writer(&w, *state, 0, false, false, &err));
    for (uint32_t i = 0; i < 100; i++)
        OK(make_sample(w, i, i % 2 ? "odd" : "even", 3, 4, 6, &err));
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    assert_int_equal(count_samples(*state), 100);
    assert_whole(*state);
}

/* The writer was killed after it wrote a shard's index and before it listed the shard in the
 * manifest. */
static void half_closed(void **state)
{
    char *path = vc_path_join(*state, "manifest.json"), *text;
    size_t n;
    cJSON *json;
    OK(make_dataset(*state, 50, SMALL, &err));
    OK(vc_file_read(&text, &n, path, 1 << 20, &err));
    OK(vf_json_parse(&json, text, n, &err));
    free(text);
    cJSON *shards = cJSON_GetObjectItem(json, "shards");
    cJSON_DeleteItemFromArray(shards, cJSON_GetArraySize(shards) - 1);
    cJSON_ReplaceItemInObject(json, "complete", cJSON_CreateFalse());
    text = cJSON_Print(json);
    OK(vc_file_write(path, text, strlen(text), &err));
    free(text);
    cJSON_Delete(json);
    OK(make_dataset(*state, 50, SMALL, &err));
    assert_int_equal(count_samples(*state), 50);
    assert_whole(*state);
    free(path);
}

static void damaged_open_shard(void **state)
{
    char *path = vc_path_join(*state, "shard-00000.lmdb");
    vf_writer *w;
    OK(open_writer(&w, *state, 0, false, false, &err));
    for (uint32_t i = 0; i < 20; i++)
        OK(make_sample(w, i, "x", 3, 4, 6, &err));
    OK(vf_writer_commit(w, &err));
    vf_writer_close(w);
    vf_lmdb *m;                                      /* only the check of all pages reads `thumb` */
    vf_tree t;
    OK(vf_lmdb_open(&m, path, &err));
    OK(vf_lmdb_tree(m, "thumb", &t, &err));
    vf_lmdb_close(m);
    FILE *f = fopen(path, "r+");
    fseek(f, (long)t.root * 4096, SEEK_SET);
    fputc(0xee, f);
    fclose(f);
    FAILS(VC_EFORMAT, "remove that file and start again",
          open_writer(&w, *state, 0, false, false, &err));
    assert_int_equal(truncate(path, 100), 0);        /* a kill while the file was being made */
    OK(open_writer(&w, *state, 0, false, false, &err));
    assert_null(vf_writer_sample(w, 0, 0));
    vf_writer_close(w);
    free(path);
}

/* Writes to a disk that is full after `limit` bytes: a file cannot grow past this limit. */
static void write_on_full_disk(const char *dir, rlim_t limit)
{
    struct rlimit r = { limit, limit };
    cJSON *head = make_head(0);
    vf_writer_opts o = { .head = head, .shard_size = BIG };
    vf_writer *w;
    vc_err err = { 0 };
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &r);
    int rc = vf_writer_open(&w, dir, &o, &err);
    for (uint32_t i = 0; i < 2000 && !rc; i++) {
        rc = make_sample(w, i, "x", 3, 30, 40, &err);
        if (!rc && i % 8 == 7)
            rc = vf_writer_commit(w, &err);
    }
    int again = rc ? vf_writer_commit(w, &err) : 0;
    if (rc == VC_EFULL && again == VC_EFULL && strstr(err.text, "and start again"))
        _exit(0);
    fprintf(stderr, "%d %d %s\n", rc, again, err.text);
    _exit(1);
}

static void full_disk(void **state)
{
    static const rlim_t limits[] = { 1 << 20, 3 << 20, 20000000 };
    vf_writer *w;
    uint32_t there = 0;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        int status;
        pid_t child = fork();
        if (!child)
            write_on_full_disk(*state, limits[i]);
        waitpid(child, &status, 0);
        assert_int_equal(status, 0);
        OK(open_writer(&w, *state, 0, false, false, &err));
        uint32_t n = 0;
        while (vf_writer_sample(w, n, 0))
            n++;
        assert_true(i == 0 || n > there);            /* earlier samples are intact */
        there = n;
        vf_writer_close(w);
    }
    OK(open_writer(&w, *state, 0, false, false, &err));
    for (uint32_t i = 0; i < there + 10; i++)
        OK(make_sample(w, i, "x", 3, 30, 40, &err));
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    assert_int_equal(count_samples(*state), there + 10);
    assert_whole(*state);
}

/* ---- damage ---- */

/* Sets a field of the manifest to the JSON `value`, or removes the field if value is NULL. With
 * `below` the changed field is `below` of item number `item` of the list `field`. */
static void edit_manifest(const char *dir, const char *field, int item, const char *below,
                          const char *value)
{
    char *path = vc_path_join(dir, "manifest.json"), *text;
    size_t n;
    cJSON *json;
    OK(vc_file_read(&text, &n, path, 1 << 20, &err));
    OK(vf_json_parse(&json, text, n, &err));
    free(text);
    cJSON *o = json;
    if (below) {
        o = cJSON_GetArrayItem(cJSON_GetObjectItem(json, field), item);
        field = below;
    }
    if (value)
        cJSON_ReplaceItemInObject(o, field, cJSON_Parse(value));
    else
        cJSON_DeleteItemFromObject(o, field);
    text = cJSON_Print(json);
    OK(vc_file_write(path, text, strlen(text), &err));
    free(text);
    cJSON_Delete(json);
    free(path);
}

static void hostile_manifests(void **state)
{
    static const struct {
        const char *field;
        int item;
        const char *below, *value, *message;
    } cases[] = {
        { "format", 0, NULL, "2", "this program reads 1" },
        { "format", 0, NULL, NULL, "format: missing" },
        { "complete", 0, NULL, "\"yes\"", "complete" },
        { "samples", 0, NULL, "-1", "negative" },
        { "samples", 0, NULL, "7", "manifest says 7" },
        { "root", 0, NULL, "\"12\"", "32 hex digits" },
        { "shards", 0, NULL, "{}", "shards" },
        { "shards", 0, "file", "\"../text-00000.lmdb\"", "shard-NNNNN.lmdb" },
        { "shards", 0, "file", "\"/etc/passwd\"", "shard-NNNNN.lmdb" },
        { "shards", 0, "file", "\"text-0000.lmdb\"", "shard-NNNNN.lmdb" },
        { "shards", 0, "file", "\"text-00000.lmdb/\"", "shard-NNNNN.lmdb" },
        { "shards", 0, "file", "\"text-00007.lmdb\"", "No such file" },
        { "shards", 0, "bytes", "1", "the manifest says 1" },
        { "shards", 0, "xxh3", "7", "xxh3" },
        { "shards", 0, "samples", "1e300", "samples" },
        { "shards", 1, "file", "\"text-00000.lmdb\"", "comes after" },
    };
    OK(make_dataset(*state, 6, BIG, &err));
    char *path = vc_path_join(*state, "manifest.json"), *good;
    size_t n;
    OK(vc_file_read(&good, &n, path, 1 << 20, &err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vf_dataset *d;
        edit_manifest(*state, cases[i].field, cases[i].item, cases[i].below, cases[i].value);
        FAILS(VC_EFORMAT, cases[i].message, vf_dataset_open(&d, *state, false, &err));
        assert_null(d);
        findings f = verify(*state);
        assert_true(f.n > 0);
        OK(vc_file_write(path, good, n, &err));
    }
    assert_whole(*state);
    free(good);
    free(path);
}

static void linked_shard(void **state)
{
    char *path = vc_path_join(*state, "shard-00000.lmdb"),
         *moved = vc_path_join(*state, "elsewhere");
    vf_dataset *d;
    OK(make_dataset(*state, 6, BIG, &err));
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(symlink("elsewhere", path), 0);
    FAILS(VC_EFORMAT, "not a plain file", vf_dataset_open(&d, *state, false, &err));
    free(path);
    free(moved);
}

/* Each case is one change, and a part of the message of vf_verify() about this change. */
static void reported_damage(void **state)
{
    static const struct { const char *file, *from, *to, *message; } cases[] = {
        { "shard-00000.lmdb", "caption 4", "caption 7", "index 000000000004/000: differs" },
        { "shard-00000.lmdb", "\"sample\":4", "\"sample\":5", "it says that it is sample 5" },
        { "shard-00000.lmdb", "{\"sample\":4", "[\"sample\":4", "sample 000000000004/000" },
        { "shard-00000.lmdb", "\"xxh3\":\"", "\"xxh4\":\"", "xxh3" },
        { "shard-00000.lmdb", "\"shape\":[4,3", "\"shape\":[4,4", "shape" },
        { "text-00000.lmdb", "prompt_embeds", "prompt_emXeds",
          "tensor \"prompt_emXeds\": no such tensor belongs to a value of texts" },
        { "shard-00000.lmdb", "\"mean\"", "\"meen\"", "tensor \"meen\": no such tensor" },
        { "shard-00000.lmdb", "\"logvar\"", "\"lagvar\"",
          "tensor \"lagvar\": no such tensor belongs to a value of latents" },
        { "text-00000.lmdb", "a validation prompt", "A validation prompt", "checksum" },
        { "manifest.json", "\"samples\": 6", "\"samples\": 9", "the shards hold 6" },
        { "manifest.json", "\"root\": \"", "\"toor\": \"", "root: missing" },
        { "manifest.json", "\"latent\":[1,8,4]", "\"latent\":[1,8,5]", "buckets[0]" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vc_remove_tree(*state, NULL);
        OK(make_dataset(*state, 6, BIG, &err));
        patch(*state, cases[i].file, cases[i].from, cases[i].to);
        findings f = verify(*state);
        if (!strstr(f.text, cases[i].message))
            fail_msg("%s -> %s: %s", cases[i].from, cases[i].to, f.text);
    }
}

static void refused_damage(void **state)
{
    vf_dataset *d;
    vf_safetensors *st;
    cJSON *record;
    OK(make_dataset(*state, 6, BIG, &err));
    patch(*state, "shard-00000.lmdb", "caption 4", "caption 7");
    OK(vf_dataset_open(&d, *state, false, &err));
    FAILS(VC_EFORMAT, "000000000004/000: its checksum differs",
          vf_dataset_sample(d, 4, &record, &err));
    assert_null(record);
    vf_dataset_close(d);

    static const char *const edits[][2] = { { "\"logvar\"", "\"lagvar\"" },
                                            { "\"xxh3\":\"", "\"xxh4\":\"" } };
    for (int k = 0; k < 2; k++) {
        int refused = 0;
        patch(*state, "shard-00000.lmdb", edits[k][0], edits[k][1]);
        OK(vf_dataset_open(&d, *state, false, &err));
        for (uint32_t i = 0; i < 6; i++) {
            refused += vf_dataset_latent(d, vf_dataset_entry(d, i)->latent, true, &st, NULL) ==
                       VC_EFORMAT;
            vf_safetensors_close(st);
        }
        assert_int_equal(refused, 6);
        vf_dataset_close(d);
    }
}

static void missing_values(void **state)
{
    OK(make_dataset(*state, 6, BIG, &err));
    char *path = vc_path_join(*state, "text-00000.lmdb");
    assert_int_equal(unlink(path), 0);
    findings f = verify(*state);
    assert_non_null(strstr(f.text, "text-00000.lmdb"));
    assert_non_null(strstr(f.text, "no shard has it"));
    free(path);
}

static void cut_short(void **state)
{
    struct stat st;
    vf_dataset *d;
    char *path = vc_path_join(*state, "shard-00000.lmdb");
    OK(make_dataset(*state, 30, BIG, &err));
    assert_int_equal(stat(path, &st), 0);
    for (off_t n = st.st_size - 1; n > 0; n -= 4999) {
        assert_int_equal(truncate(path, n), 0);
        FAILS(VC_EFORMAT, "cut short", vf_dataset_open(&d, *state, false, &err));
        findings f = verify(*state);
        assert_true(f.n > 0);
    }
    free(path);
}

/* The remedy in the message works: the damaged shard is removed, and its values are put again. */
static void removed_shard(void **state)
{
    static const char *const files[] = { "shard-00001.lmdb", "text-00000.lmdb" };
    for (size_t i = 0; i < 2; i++) {
        char *path = vc_path_join(*state, files[i]);
        vf_writer *w;
        OK(make_dataset(*state, 50, SMALL, &err));
        assert_int_equal(unlink(path), 0);
        OK(open_writer(&w, *state, 0, true, false, &err));
        assert_int_equal(vf_writer_lost_shards(w), 1);
        vf_writer_close(w);
        OK(make_dataset(*state, 50, SMALL, &err));
        assert_int_equal(count_samples(*state), 50);
        assert_int_equal(read_everything(*state), 0);
        assert_whole(*state);
        free(path);
    }
}

static void stray_shards(void **state)
{
    char *path = vc_path_join(*state, "shard-00009.lmdb"),
         *manifest = vc_path_join(*state, "manifest.json");
    vf_writer *w;
    OK(make_dataset(*state, 6, BIG, &err));
    OK(vc_file_write(path, "x", 1, &err));
    findings f = verify(*state);
    assert_non_null(strstr(f.text, "shard-00009.lmdb: not in the manifest"));
    FAILS(VC_EFORMAT, "shard-00009.lmdb is not in the manifest",
          open_writer(&w, *state, 0, false, false, &err));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(manifest), 0);
    FAILS(VC_EFORMAT, "but no manifest.json", open_writer(&w, *state, 0, false, false, &err));
    OK(open_writer(&w, *state, 0, false, true, &err));
    vf_writer_close(w);
    free(path);
    free(manifest);
}

/* The first run was killed while it wrote its first manifest: the dataset is empty. */
static void first_manifest(void **state)
{
    char *tmp = vc_path_join(*state, "manifest.json.tmp-123");
    vf_writer *w;
    OK(vc_mkdirs(*state, &err));
    OK(vc_file_write(tmp, "{\"format\": 1,", 13, &err));
    OK(open_writer(&w, *state, 0, false, false, &err));
    assert_false(vc_file_exists(tmp));
    vf_writer_close(w);
    OK(make_dataset(*state, 3, BIG, &err));
    assert_whole(*state);
    free(tmp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(first_manifest),
        FOLDER_TEST(killed),
        FOLDER_TEST(half_closed),
        FOLDER_TEST(damaged_open_shard),
        FOLDER_TEST(full_disk),
        FOLDER_TEST(hostile_manifests),
        FOLDER_TEST(linked_shard),
        FOLDER_TEST(reported_damage),
        FOLDER_TEST(refused_damage),
        FOLDER_TEST(missing_values),
        FOLDER_TEST(cut_short),
        FOLDER_TEST(removed_shard),
        FOLDER_TEST(stray_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
