/* backend.c - the backends of this build; no other file tests VLT_CUDA. See backend.h */
#include "common/tensor/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const vt_backend *const built[] = {
#ifdef VLT_CUDA
    &vt_cuda,
#endif
    &vt_cpu, NULL
};

const vt_backend *const *vt_backends(void) { return built; }

const char *vt_built_for(void)
{
#ifdef VLT_CUDA
    return "cpu, " VLT_CUDA;
#else
    return "cpu";
#endif
}

enum { UNSAID = -1, NO_NUMBER = -2 };

/* Splits a device's name: "cuda:1" has *len 4 and index 1. */
static int index_of(const char *device, size_t *len)
{
    const char *colon = strchr(device, ':');

    *len = colon ? (size_t)(colon - device) : strlen(device);
    if (!colon)
        return UNSAID;
    char *end;
    long i = strtol(colon + 1, &end, 10);
    return end > colon + 1 && !*end && i >= 0 && i < 4096 ? (int)i : NO_NUMBER;
}

static int unknown(const char *device, size_t len, vc_err *err)
{
    if (len == 4 && !strncmp(device, "cuda", 4))
        return vc_fail(err, VC_EINVAL, "device \"%s\": this build has no CUDA backend; configure "
                       "with -DVLT_CUDA=ON", device);
    return vc_fail(err, VC_EINVAL, "device \"%s\": auto, cpu, cuda or cuda:N are possible", device);
}

int vt_backend_open(const vt_backend **be, vt_dev **dev, const vt_options *o, vc_err *passed,
                    vc_err *err)
{
    const char *device = o->device ? o->device : "auto";
    size_t len;
    int index = index_of(device, &len), rc;
    bool any = len == 4 && !strncmp(device, "auto", 4);

    if (index == NO_NUMBER)
        return vc_fail(err, VC_EINVAL, "device \"%s\": no number after the colon", device);
    for (int i = 0; built[i]; i++) {
        if (!any && (strlen(built[i]->name) != len || strncmp(built[i]->name, device, len)))
            continue;
        *be = built[i];
        bool last = !any || !built[i + 1];
        int which = index != UNSAID ? index : built[i]->host_memory ? 0 : o->index;
        rc = built[i]->open(dev, o, which, last ? err : passed);
        if (!rc || last)
            return rc;
    }
    return unknown(device, len, err);
}
