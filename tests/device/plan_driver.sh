#!/usr/bin/env bash
# Writes the source of a stand-in for the GPU driver's library: every function of the toolkit's stub
# fails with "stub library", but loading a compiled kernel succeeds with a dummy, so that cuDNN can
# finish its attention plans on a machine without a GPU. Only test_plans uses the stand-in, which
# must never be installed.
#   plan_driver.sh STUB_LIBCUDA > plan_driver.c
set -euo pipefail
own='cuGetErrorString cuGetErrorName cuDriverGetVersion cuGetProcAddress cuGetProcAddress_v2
     cuLibraryLoadData cuLibraryGetKernel cuDeviceGetCount'
cat <<'C'
static char dummy[4096];
int cuGetErrorString(int e, const char **s) { (void)e; *s = "stub library"; return 0; }
int cuGetErrorName(int e, const char **s) { (void)e; *s = "stub library"; return 0; }
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuGetProcAddress(void) { return 34; }
int cuGetProcAddress_v2(void) { return 34; }
int cuLibraryLoadData(void **p) { *p = dummy; return 0; }
int cuLibraryGetKernel(void **p) { *p = dummy; return 0; }
int cuDeviceGetCount(int *n) { *n = 0; return 0; }
C
nm -D "$1" | while read -r _ kind name; do
    if [ "$kind" = T ] && ! grep -qw "$name" <<<"$own"; then
        echo "int $name(void) { return 34; }"
    fi
done
