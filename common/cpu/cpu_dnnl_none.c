/* cpu_dnnl_none.c - cpu_dnnl.h in a build without oneDNN. */
#include "common/cpu/cpu_dnnl.h"

int cpu_dnnl_open(cpu_dnnl **out, vt_dev *d, vc_err *err)
{
    (void)d, (void)err;
    *out = NULL;
    return 0;
}

void cpu_dnnl_close(cpu_dnnl *c) { (void)c; }

const char *cpu_dnnl_version(void) { return NULL; }

bool cpu_dnnl_conv3d(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                     const vt_tensor *b, const vt_conv *c)
{
    (void)d, (void)y, (void)x, (void)w, (void)b, (void)c;
    return false;
}
