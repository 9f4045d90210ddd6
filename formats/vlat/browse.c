/* browse.c - vlat report --browse: a page with all samples of one or two datasets, and beside it a
 * folder of scripts that the page loads when it shows them (formats/report/browse.h).
 *
 * The samples are ordered by the shape of their latents, so that a bucket is a range of positions.
 * The folder is made under another name and exchanged at the end, and the page is written last. */
#include "formats/report/browse.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/os/file.h"
#include "formats/report/settings.h"
#include "formats/vlat/vlat.h"

enum {
    CHUNK = 50,                              /* samples of a file, and of a page */
    FOLDER = 1000,                           /* files of samples in a folder */
    SEARCH_BYTES = 2 << 20,                  /* text of a file for the search */
    KEYS = 9,
    ERROR_ROWS = 500                         /* rows of a file of skipped inputs */
};

#define MARK "vlat-browse"                   /* empty file: the folder is one of ours */

typedef struct place {                       /* of a sample in the page's order */
    uint64_t shape;                          /* f, h, w of the latent, 16 bits each */
    uint32_t i;
} place;

typedef struct browse {
    const vlat *v;
    const vf_dataset *d;
    const char *dir;                         /* the new folder */
    int set, sets;                           /* which dataset of how many */
    place *order;
    uint32_t n;
    vc_buf search;                           /* lines for the next search file */
    uint32_t search_from;
    vlat_skipped skipped;
    vc_buf keys[KEYS];                       /* numbers of the samples, for orders and conditions */
    vc_buf rows;                             /* of skipped inputs, for the next file */
    int search_files, error_files;
    bool inputs;                             /* a sample has reference pictures or a control clip */
    vlat_sounds sounds;
} browse;

/* Writes a script whose value is `json`. The folder gets its name when all files are written, so a
 * file needs no temporary name. */
static int write_script(const browse *b, const char *name, const vc_buf *json, vc_err *err)
{
    vc_buf text = { 0 };
    char *path = vc_format("%s/%d/%s.js", b->dir, b->set, name);
    vc_buf_printf(&text, "vlt(\"%d/%s\",", b->set, name);
    vc_buf_add(&text, json->data, json->n);
    vc_buf_str(&text, ");\n");
    FILE *f = path && !text.failed && !json->failed ? fopen(path, "wxe") : NULL;
    int rc = 0;
    if (!path || text.failed || json->failed)
        rc = vc_no_memory(err);
    else if (!f || fwrite(text.data, 1, text.n, f) != text.n)
        rc = vc_fail_errno(err, "%s", path);
    if (f && fclose(f) && !rc)
        rc = vc_fail_errno(err, "%s", path);
    vc_buf_free(&text);
    free(path);
    return rc;
}

/* ---- samples ---- */

static int by_shape(const void *x, const void *y)
{
    const place *a = x, *b = y;
    if (a->shape != b->shape)
        return a->shape < b->shape ? -1 : 1;
    return a->i < b->i ? -1 : a->i > b->i;
}

static int sort_samples(browse *b, vc_err *err)
{
    b->n = vf_dataset_count(b->d);
    b->order = malloc(((size_t)b->n + 1) * sizeof *b->order);
    if (!b->order)
        return vc_no_memory(err);
    for (uint32_t i = 0; i < b->n; i++) {
        const vf_entry *e = vf_dataset_entry(b->d, i);
        b->order[i] = (place){ (uint64_t)e->f << 32 | (uint64_t)e->h << 16 | e->w, i };
    }
    qsort(b->order, b->n, sizeof *b->order, by_shape);
    return 0;
}

/* Adds text to the line of a search, where a line end would begin another sample. */
static void add_words(vc_buf *b, const char *s)
{
    size_t from = b->n;
    vc_buf_str(b, s);
    for (size_t i = from; i < b->n; i++)
        if (b->data[i] == '\n')
            b->data[i] = ' ';
    vc_buf_str(b, " ");
}

static int flush_search(browse *b, uint32_t next, vc_err *err)
{
    char name[32];
    vc_buf json = { 0 };
    snprintf(name, sizeof name, "s%d", b->search_files++);
    vc_buf_printf(&json, "{\"from\":%" PRIu32 ",\"text\":", b->search_from);
    vc_buf_json(&json, b->search.data, b->search.n ? b->search.n - 1 : 0);
    vc_buf_str(&json, "}");
    json.failed |= b->search.failed;
    int rc = write_script(b, name, &json, err);
    b->search.n = 0;
    b->search_from = next;
    vc_buf_free(&json);
    return rc;
}

static int add_search(browse *b, uint32_t at, const cJSON *record, vc_err *err)
{
    char key[24];
    const vf_entry *e = vf_dataset_entry(b->d, b->order[at].i);
    const cJSON *caption;
    add_words(&b->search, vf_sample_key(key, e->number, e->variant));
    add_words(&b->search, vlat_str(record, "path"));
    cJSON_ArrayForEach(caption, cJSON_GetObjectItemCaseSensitive(record, "captions"))
        add_words(&b->search, vlat_str(caption, "text"));
    cJSON_ArrayForEach(caption, cJSON_GetObjectItemCaseSensitive(record, "tags"))
        if (cJSON_IsString(caption))
            add_words(&b->search, caption->valuestring);
    vc_buf_str(&b->search, "\n");
    return b->search.n > SEARCH_BYTES ? flush_search(b, at + 1, err) : 0;
}

static const char *const key_names[KEYS] = { "number", "frames", "width", "height", "tokens",
                                             "source", "from", "to", "sound" };

/* A number of the sample's source, by which a page finds the same source in another dataset: of 48
 * bits, which scripts keep whole. */
static double source_number(const cJSON *record)
{
    const char *hash = vlat_str(record, "source_hash"), *path = vlat_str(record, "path");
    vf_key key;
    if (!vf_key_parse(&key, hash))
        key = vf_hash(path, strlen(path));
    double number = 0;
    for (int i = 0; i < 6; i++)
        number = 256 * number + key.b[i];
    return number;
}

/* The first or the last of the source's frames that the sample has; of a still 0. */
static double end_frame(const cJSON *record, bool last)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(record, "frames");
    const int n = cJSON_GetArraySize(list);
    const cJSON *v = cJSON_GetArrayItem(list, last && n ? n - 1 : 0);
    return cJSON_IsNumber(v) ? v->valuedouble : 0;
}

/* The seconds of the sample's sound; 0 if it has none. */
static double sound_of(const browse *b, uint32_t at, const cJSON *record)
{
    return *vlat_sound(record) ? vlat_sound_seconds(vf_dataset_entry(b->d, b->order[at].i)) : 0;
}

static void add_keys(browse *b, uint32_t at, const cJSON *record)
{
    const vf_entry *e = vf_dataset_entry(b->d, b->order[at].i);
    const cJSON *size = cJSON_GetObjectItemCaseSensitive(record, "target");
    const cJSON *h = cJSON_GetArrayItem(size, 0), *w = cJSON_GetArrayItem(size, 1);
    const double v[KEYS] = { (double)e->number, e->frames, cJSON_IsNumber(w) ? w->valuedouble : 0,
                             cJSON_IsNumber(h) ? h->valuedouble : 0, e->tokens,
                             source_number(record), end_frame(record, false),
                             end_frame(record, true), sound_of(b, at, record) };
    for (int i = 0; i < KEYS; i++) {
        vc_buf_str(&b->keys[i], at ? "," : "");
        vc_buf_number(&b->keys[i], v[i]);
    }
}

static int write_keys(browse *b, vc_err *err)
{
    vc_buf json = { 0 };
    for (int i = 0; i < KEYS; i++) {
        vc_buf_printf(&json, "%s\"%s\":[", i ? "]," : "{", key_names[i]);
        vc_buf_add(&json, b->keys[i].data, b->keys[i].n);
        json.failed |= b->keys[i].failed;
        vc_buf_free(&b->keys[i]);
    }
    vc_buf_str(&json, "]}");
    int rc = write_script(b, "keys", &json, err);
    vc_buf_free(&json);
    return rc;
}

/* Removes the fields of a record that say nothing to people. */
static void trim(cJSON *record)
{
    static const char *const keys[] = { "source_hash", "latent_key", "conditions" };
    cJSON *caption;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(record, keys[i]);
    cJSON_ArrayForEach(caption, cJSON_GetObjectItemCaseSensitive(record, "captions"))
        cJSON_DeleteItemFromObjectCaseSensitive(caption, "keys");
}

static int add_thumb(vc_buf *thumbs, const vf_dataset *d, uint32_t i, vc_err *err)
{
    const void *jpeg;
    size_t n;
    int rc = vf_dataset_thumb(d, i, &jpeg, &n, err);
    vc_buf_str(thumbs, thumbs->n ? "," : "");
    if (rc) {
        vc_buf_str(thumbs, "null");
        return rc == VC_ENOENT ? 0 : rc;
    }
    vc_buf_str(thumbs, "\"");
    vc_buf_base64(thumbs, jpeg, n);
    vc_buf_str(thumbs, "\"");
    return 0;
}

static bool has_inputs(const cJSON *record)
{
    return *vlat_input(record, "reference_1") || *vlat_input(record, "control") ||
           *vlat_input(record, "image");
}

enum { RECORDS, THUMBS, SECONDS, PICTURES, LISTS };   /* the last two of sound */

static int add_sound(browse *b, uint32_t at, const cJSON *record, vc_buf list[LISTS], vc_err *err)
{
    const double seconds = sound_of(b, at, record);
    if (!vlat_has_sound(b->d))
        return 0;
    b->sounds.n += *vlat_sound(record) != 0;
    b->sounds.seconds += seconds;
    vc_buf_str(&list[SECONDS], list[SECONDS].n ? "," : "");
    vc_buf_number(&list[SECONDS], seconds);
    vc_buf_str(&list[PICTURES], list[PICTURES].n ? "," : "");
    return vlat_put_sound(&list[PICTURES], b->d, b->order[at].i, record, err);
}

static int add_sample(browse *b, uint32_t at, vc_buf list[LISTS], vc_err *err)
{
    cJSON *record;
    int rc = vf_dataset_sample(b->d, b->order[at].i, &record, err);
    if (rc)
        return rc;
    rc = add_search(b, at, record, err);
    add_keys(b, at, record);
    b->inputs = b->inputs || has_inputs(record);
    if (!rc)
        rc = add_sound(b, at, record, list, err);
    trim(record);
    char *line = rc ? NULL : vf_json_line(record);
    if (!rc && !line)
        rc = vc_no_memory(err);
    vc_buf_str(&list[RECORDS], list[RECORDS].n ? "," : "");
    if (line)
        vc_buf_str(&list[RECORDS], line);
    free(line);
    cJSON_Delete(record);
    return rc ? rc : add_thumb(&list[THUMBS], b->d, b->order[at].i, err);
}

static void add_list(vc_buf *json, const char *before, const vc_buf *list)
{
    vc_buf_str(json, before);
    vc_buf_add(json, list->data, list->n);
    vc_buf_str(json, "]");
    json->failed |= list->failed;
}

/* Writes file number `file` of a kind, one of FOLDER in a folder. */
static int write_numbered(const browse *b, char kind, uint32_t file, const vc_buf *json,
                          vc_err *err)
{
    char name[64];
    int rc = 0;
    if (file % FOLDER == 0) {
        char *folder = vc_format("%s/%d/%c%" PRIu32, b->dir, b->set, kind, file / FOLDER);
        rc = folder ? vc_mkdirs(folder, err) : vc_no_memory(err);
        free(folder);
    }
    snprintf(name, sizeof name, "%c%" PRIu32 "/%" PRIu32, kind, file / FOLDER, file);
    return rc ? rc : write_script(b, name, json, err);
}

static int write_chunk(browse *b, uint32_t file, vc_err *err)
{
    vc_buf list[LISTS] = { 0 }, json = { 0 }, pictures = { 0 };
    uint32_t end = (file + 1) * CHUNK < b->n ? (file + 1) * CHUNK : b->n;
    int rc = 0;
    for (uint32_t at = file * CHUNK; !rc && at < end; at++)
        rc = add_sample(b, at, list, err);
    add_list(&json, "{\"r\":[", &list[RECORDS]);
    add_list(&json, ",\"t\":[", &list[THUMBS]);
    if (vlat_has_sound(b->d))
        add_list(&json, ",\"a\":[", &list[SECONDS]);
    vc_buf_str(&json, "}");
    if (!rc)
        rc = write_numbered(b, 'c', file, &json, err);
    add_list(&pictures, "[", &list[PICTURES]);
    if (!rc && vlat_has_sound(b->d))
        rc = write_numbered(b, 'a', file, &pictures, err);
    for (int i = 0; i < LISTS; i++)
        vc_buf_free(&list[i]);
    vc_buf_free(&json);
    vc_buf_free(&pictures);
    return rc;
}

static int write_samples(browse *b, vc_err *err)
{
    int rc = sort_samples(b, err);
    for (uint32_t file = 0; !rc && file * CHUNK < b->n; file++) {
        rc = write_chunk(b, file, err);
        vc_progress_at(b->v->progress, (uint64_t)(file + 1) * CHUNK < b->n
                                           ? (uint64_t)(file + 1) * CHUNK : b->n, NULL);
        if (!rc && *vc_stop_flag())
            rc = vc_fail(err, VC_ESTOP, "stopped");
    }
    if (!rc && b->search.n)
        rc = flush_search(b, b->n, err);
    return rc ? rc : write_keys(b, err);
}

/* ---- skipped inputs ---- */

static int flush_errors(browse *b, vc_err *err)
{
    char name[32];
    vc_buf json = { 0 }, *rows = &b->rows;
    snprintf(name, sizeof name, "e%d", b->error_files++);
    vc_buf_str(&json, "[");
    vc_buf_add(&json, rows->data, rows->n);
    vc_buf_str(&json, "]");
    json.failed |= rows->failed;
    int rc = write_script(b, name, &json, err);
    vc_buf_free(&json);
    rows->n = 0;
    return rc;
}

static int add_error(void *arg, const cJSON *o, vc_err *err)
{
    static const char *const fields[] = { "path", "stage", "reason" };
    browse *b = arg;
    vc_buf *rows = &b->rows;
    vc_buf_printf(rows, "%s[%.0f", rows->n ? "," : "", vlat_num(o, "row"));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const char *s = vlat_str(o, fields[i]);
        vc_buf_str(rows, ",");
        vc_buf_json(rows, s, strlen(s));
    }
    vc_buf_str(rows, "]");
    return b->skipped.n % ERROR_ROWS ? 0 : flush_errors(b, err);
}

static int write_errors(browse *b, const char *path, vc_err *err)
{
    int rc = vlat_read_skipped(path, &b->skipped, add_error, b, err);
    return rc || !b->rows.n ? rc : flush_errors(b, err);
}

/* ---- the index ---- */

static void add_text(vc_buf *b, const char *before, const char *s)
{
    vc_buf_str(b, before);
    vc_buf_json(b, s, strlen(s));
}

/* Adds the buckets, each a range of positions, named by the latents' shape. */
static void add_buckets(vc_buf *json, const browse *b)
{
    for (uint32_t from = 0, to; from < b->n; from = to) {
        uint64_t shape = b->order[from].shape;
        for (to = from; to < b->n && b->order[to].shape == shape;)
            to++;
        vc_buf_printf(json, "%s{\"name\":\"%u×%u×%u latent\",\"from\":%" PRIu32 ",\"n\":%" PRIu32
                      "}", from ? "," : "", (unsigned)(shape >> 32),
                      (unsigned)(shape >> 16 & 65535), (unsigned)(shape & 65535), from, to - from);
    }
}

static void add_facts(vc_buf *json, const browse *b)
{
    char a[64], families[VLAT_FAMILIES];
    const cJSON *m = vf_dataset_manifest(b->d);
    const char *mode = vlat_str(m, "train_mode");
    bool whole = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(m, "complete"));
    add_text(json, "", vlat_families(families, m));
    add_text(json, ",", *mode ? mode : "normal");
    add_text(json, ",", whole ? "complete" : "not finished");
    vc_human_count(a, b->n);
    add_text(json, ",", strcat(a, " samples"));
    add_text(json, ",", strcat(vc_human_time(a, vlat_seconds(b->d)), " of clips"));
    if (!vlat_has_sound(b->d))
        return;
    char time[32], *text = vc_format("%s with sound (%s)", vc_human_count(a, b->sounds.n),
                                     vc_human_time(time, b->sounds.seconds));
    add_text(json, ",", text ? text : "");
    json->failed |= !text;
    free(text);
}

static int write_index(const browse *b, vc_err *err)
{
    vc_buf json = { 0 };
    add_text(&json, "{\"name\":", vc_path_base(vf_dataset_path(b->d)));
    char *media = vf_media_folder(vf_dataset_path(b->d));
    add_text(&json, ",\"media\":", media ? media : "");
    free(media);
    vc_buf_printf(&json, ",\"inputs\":%s", b->inputs ? "true" : "false");
    vc_buf_printf(&json, ",\"datasets\":%d,\"samples\":%" PRIu32 ",\"chunk\":%d,"
                  "\"search_files\":%d,\"skipped\":%" PRIu64 ",\"skipped_files\":%d,\"facts\":[",
                  b->sets, b->n, CHUNK, b->search_files, b->skipped.n, b->error_files);
    add_facts(&json, b);
    vc_buf_str(&json, "],\"buckets\":[");
    add_buckets(&json, b);
    vc_buf_str(&json, "],\"stages\":[");
    for (int i = 0; i < b->skipped.stages; i++) {
        add_text(&json, i ? ",{\"name\":" : "{\"name\":", b->skipped.stage[i].name);
        vc_buf_printf(&json, ",\"n\":%.0f}", b->skipped.stage[i].n);
    }
    vc_buf_str(&json, "]}");
    int rc = write_script(b, "index", &json, err);
    vc_buf_free(&json);
    return rc;
}

/* ---- the page ---- */

static int write_set(const vlat *v, const char *dir, int i, vc_err *err)
{
    vf_dataset *d = NULL;
    vlat one = *v;
    one.path = v->words->item[i];
    browse b = { .v = v, .dir = dir, .set = i, .sets = v->words->n };
    char *folder = vc_format("%s/%d", dir, i);
    int rc = folder ? vc_mkdirs(folder, err) : vc_no_memory(err);
    if (!rc)
        rc = vlat_open(&one, &d, err);
    b.d = d;
    if (!rc)
        vc_progress_begin(v->progress, one.path, "samples", vf_dataset_count(d));
    if (!rc)
        rc = write_samples(&b, err);
    vc_progress_end(v->progress);
    if (!rc)
        rc = write_errors(&b, one.path, err);
    if (!rc)
        rc = write_index(&b, err);
    free(folder);
    free(b.order);
    vc_buf_free(&b.search);
    for (int k = 0; k < KEYS; k++)
        vc_buf_free(&b.keys[k]);
    vc_buf_free(&b.rows);
    vf_dataset_close(d);
    return rc;
}

/* Removes a folder that an earlier call made; another folder is not touched. */
static int remove_ours(const char *dir, vc_err *err)
{
    if (vc_file_exists(dir) && !vc_file_exists_in(dir, MARK))
        return vc_fail(err, VC_EINVAL, "%s is there and was not made by vlat report --browse: give "
                       "another name, or move it away", dir);
    return vc_remove_tree(dir, err);
}

static int write_page(const vlat *v, const char *path, vc_err *err)
{
    const char *name[2] = { "", "" };
    vc_buf page = { 0 };
    for (int i = 0; i < v->words->n; i++)
        name[i] = vc_path_base(v->words->item[i]);
    vf_browse_put(&page, name, v->words->n);
    int rc = page.failed ? vc_no_memory(err) : vc_file_write(path, page.data, page.n, err);
    vc_buf_free(&page);
    return rc;
}

static int write_all(const vlat *v, const char *page, const char *dir, const char *made,
                     vc_err *err)
{
    char *mark = vc_path_join(made, MARK);
    int rc = mark ? remove_ours(made, err) : vc_no_memory(err);
    if (!rc && vc_file_exists(dir) && !vc_file_exists_in(dir, MARK))
        rc = remove_ours(dir, err);          /* refuses before the work is done */
    if (!rc)
        rc = vc_mkdirs(made, err);
    if (!rc)
        rc = vc_file_write(mark, "", 0, err);
    for (int i = 0; !rc && i < v->words->n; i++)
        rc = write_set(v, made, i, err);
    if (!rc)
        rc = remove_ours(dir, err);
    if (!rc && rename(made, dir))
        rc = vc_fail_errno(err, "%s", dir);
    if (!rc)
        rc = write_page(v, page, err);
    free(mark);
    return rc;
}

int vlat_browse(const vlat *v, vc_err *err)
{
    const char *page = v->o->browse, *ext = vc_path_ext(page);
    int n = (int)(strlen(page) - strlen(ext));
    if (strcasecmp(ext, ".html"))
        return vc_fail(err, VC_EUSAGE, "--browse %s: a name that ends in .html is needed", page);
    if (v->words->n > 2 || vlat_is_run(v->path))
        return vc_fail(err, VC_EUSAGE, "--browse takes one dataset, or two to compare");
    char *dir = vc_format("%.*s.data", n, page), *made = vc_format("%.*s.data.new", n, page);
    int rc = dir && made ? write_all(v, page, dir, made, err) : vc_no_memory(err);
    if (!rc)
        fprintf(v->out, "%s\n", page);
    if (!rc && v->o->serve)
        rc = vlat_serve_browse(v, page, dir, err);
    free(dir);
    free(made);
    return rc;
}
