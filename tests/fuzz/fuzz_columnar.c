/* fuzz_columnar.c - any bytes are read as a list in Parquet's format, if they begin as its files
 * do, or in Arrow's: an error, or rows whose cells lie in the file. */
#include <stdlib.h>
#include <string.h>

#include "formats/columnar/columnar.h"
#include "tests/fuzz/fuzz_file.h"
#include "tests/lib/mutate.h"

typedef struct file {
    vf_columnar *values;
    const char *path;
    size_t size;
} file;

static void touch_cells(const file *f, const cJSON *v)
{
    vf_cell cell;
    const cJSON *item;
    if (vf_columnar_cell(v, &cell)) {
        vf_part part = { .name = f->path, .file = f->path, .at = cell.at, .size = cell.size,
                         .column = cell.column, .values = f->values };
        uint8_t *bytes = NULL;
        size_t n = 0;
        vc_err err;
        if (cell.column == 0 && (cell.at < 0 || cell.size < 0 ||
                                 (uint64_t)cell.at + (uint64_t)cell.size > f->size))
            abort();
        if (cell.column > 0 && !vf_columnar_value(f->values, &part, &bytes, &n, &err))
            mutate_touch(bytes, n);
        free(bytes);
        return;
    }
    cJSON_ArrayForEach(item, v)
        touch_cells(f, item);
}

static int row(void *arg, int64_t number, const cJSON *o, const char *bad, vc_err *err)
{
    (void)err;
    if (number < 1 || (!o && !bad))
        abort();
    if (o)
        touch_cells(arg, o);
    return number < 1000 ? 0 : VC_ESTOP;
}

/* Arrow's memory is malloc's, which the sanitizer watches and which keeps nothing of an input. */
static void use_malloc(void)
{
    if (setenv("ARROW_DEFAULT_MEMORY_POOL", "system", 1))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vc_err err = { 0 };
    const bool is_parquet = size >= 4 && !memcmp(data, "PAR1", 4);
    file f = { .path = fuzz_file(is_parquet ? "a.parquet" : "a.arrow", data, size), .size = size };
    vf_columnar_sink sink = { .row = row, .arg = &f };
    use_malloc();
    if (vf_columnar_open(&f.values, &err))
        return 0;
    int rc = vf_columnar_read(f.path, &sink, &err);
    if (rc && rc != VC_ESTOP && !*err.text)
        abort();                             /* a failure without a message */
    vf_columnar_close(f.values);
    return 0;
}
