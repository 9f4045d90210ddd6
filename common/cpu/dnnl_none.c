/* dnnl_none.c - dnnl.h for a build without oneDNN. */
#include "common/cpu/dnnl.h"

int cpu_dnnl_open(cpu_dnnl **out, vt_dev *d, vc_err *err)
{
    (void)d, (void)err;
    *out = NULL;
    return 0;
}

void cpu_dnnl_close(cpu_dnnl *c) { (void)c; }

const char *cpu_dnnl_version(const cpu_dnnl *c)
{
    (void)c;
    return NULL;
}

bool cpu_dnnl_conv3d(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                     const vt_tensor *b, const vt_conv *c)
{
    (void)d, (void)y, (void)x, (void)w, (void)b, (void)c;
    return false;
}

bool cpu_matmul_dnnl(vt_dev *d, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b,
                     bool tb, const vt_tensor *bias, float alpha, float beta)
{
    (void)d, (void)c, (void)a, (void)ta, (void)b, (void)tb, (void)bias, (void)alpha, (void)beta;
    return false;
}

bool cpu_dnnl_matmul(vt_dev *d, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b,
                     bool tb, const vt_tensor *bias, float alpha, float beta, bool any)
{
    (void)any;
    return cpu_matmul_dnnl(d, c, a, ta, b, tb, bias, alpha, beta);
}
