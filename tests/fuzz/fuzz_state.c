/* fuzz_state.c - any bytes are read as a checkpoint's trainer.json or checksums.json; the first
 * byte chooses. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_file.h"
#include "tests/lib/mutate.h"
#include "train/output/ckpt.h"

static void found(void *arg, const char *file, const char *what)
{
    (void)arg;
    mutate_touch(file, strlen(file));
    mutate_touch(what, strlen(what));
}

static void check_sums(void)
{
    static atomic_int stop;
    vf_sums_report r;
    vc_err err = { 0 };
    if (vf_sums_check(fuzz_folder(), NULL, found, NULL, &stop, &r, &err))
        abort();
    if (r.none)
        abort();
}

static void read_state(void)
{
    vtrain_state s = { 0 };
    vc_err err = { 0 };
    int rc = vtrain_state_read(&s, fuzz_folder(), &err);
    if (rc && (!*err.text || err.code != rc))
        abort();                             /* a failure without a message */
    if (!rc && (s.step < 0 || s.n_spans < 0))
        abort();
    vtrain_state_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "trainer.json", VF_SUMS_FILE };
    if (size == 0)
        return 0;
    const bool sums = data[0] % 2;
    fuzz_file(names[sums], data + 1, size - 1);
    if (sums)
        check_sums();
    else
        read_state();
    return 0;
}
