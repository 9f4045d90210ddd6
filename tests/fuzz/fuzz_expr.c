/* fuzz_expr.c - any bytes are a condition of vlat select: an error with a message, or a condition
 * that can be asked of a sample. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/dataset/expr.h"
#include "tests/lib/mutate.h"

static bool get(void *arg, const char *name, int k, vf_expr_value *v)
{
    static const vf_expr_value values[] = {
        { .text = "a red car" }, { .text = "" }, { .number = 512 }, { .number = -1.5 },
    };
    (void)arg;
    mutate_touch(name, strlen(name) + 1);
    if (k >= 4)
        return false;
    *v = values[k];
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "caption", "width", "tag", "extra.", NULL };
    vc_err err = { 0 };
    vf_expr *e;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    bool yes;
    int rc = vf_expr_open(&e, text, names, &err);
    if (rc && (rc != VC_EUSAGE || !*err.text || e))
        abort();
    rc = rc ? 0 : vf_expr_holds(e, get, NULL, &yes, &err);
    if (rc && (rc != VC_EINVAL || !*err.text))
        abort();
    vf_expr_close(e);
    free(text);
    return 0;
}
