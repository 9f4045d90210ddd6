/* model_values.c - binds a component's values to parameters, compares names, and hashes the values.
 * See model.h */
#include "formats/tensors/model.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/os/file.h"
#include "formats/tensors/model_parts.h"
#include "formats/tensors/scales.h"

enum { BLOCK = 64 << 20 };               /* bytes hashed before *stop is read again */

static int get(void *arg, const char *name, vt_host *v, vc_err *err)
{
    vf_view view;
    int rc = vf_model_get(arg, name, &view, err);

    *v = (vt_host){ .dtype = view.dtype, .nd = view.nd, .data = view.data };
    memcpy(v->dim, view.dim, sizeof v->dim);
    if (!rc)
        vf_model_scale(v, arg, name);
    return rc;
}

vt_source vf_model_source(const vf_model *m)
{
    return (vt_source){ .get = get, .arg = (void *)m, .mapped = true };
}

static bool is_spare(const char *name, const char *const *spare)
{
    for (; spare && *spare; spare++)
        if (!fnmatch(*spare, name, 0))
            return true;
    return false;
}

int vf_model_all_bound(const vf_model *m, vt_params *p, const char *const *spare, vc_err *err)
{
    for (int i = 0; i < vf_model_count(m); i++) {
        const char *name = vf_model_at(m, i)->name;
        if (!vt_params_find(p, name) && !is_spare(name, spare))
            return vc_fail(err, VC_EMISMATCH, "tensor %s is not used: config.json describes a "
                           "model without this tensor", name);
    }
    return 0;
}

static int hash_view(vf_hasher *h, const char *field, const vf_view *v, const atomic_int *stop,
                     vc_err *err)
{
    vf_hasher_str(h, field, v->name);
    vf_hasher_str(h, "dtype", vc_dtype_name(v->dtype));
    for (int d = 0; d < v->nd; d++)
        vf_hasher_int(h, "dim", v->dim[d]);
    for (size_t at = 0; at < v->bytes; at += BLOCK) {
        size_t n = v->bytes - at < BLOCK ? v->bytes - at : BLOCK;
        if (stop && *stop)
            return vc_fail(err, VC_ESTOP, "stopped");
        vf_hasher_bytes(h, "bytes", (const char *)v->data + at, n);
    }
    return 0;
}

int vf_model_hash(vf_key *k, const vf_model *m, const atomic_int *stop, vc_err *err)
{
    vf_hasher h;
    int rc = 0;

    vf_hasher_begin(&h, "weights");
    for (int i = 0; !rc && i < m->n; i++)
        rc = hash_view(&h, "name", &m->tensor[i], stop, err);
    for (int i = 0; !rc && i < m->n_scales; i++)
        rc = hash_view(&h, "scale", &m->scale[i], stop, err);
    *k = vf_hasher_end(&h);
    return rc;
}

/* ---- files ---- */

static int is_weights(const struct dirent *e)
{
    return strstr(e->d_name, ".safetensors") != NULL;
}

static int hash_stat(vf_hasher *h, const char *path, double *bytes, vc_err *err)
{
    struct stat st;
    if (stat(path, &st))
        return vc_fail_errno(err, "%s", path);
    vf_hasher_str(h, "name", vc_path_base(path));
    vf_hasher_int(h, "size", st.st_size);
    vf_hasher_int(h, "mtime", st.st_mtim.tv_sec);
    vf_hasher_int(h, "mtime_ns", st.st_mtim.tv_nsec);
    vf_hasher_int(h, "inode", (int64_t)st.st_ino);
    *bytes += (double)st.st_size;
    return 0;
}

int vf_model_files(vf_key *k, double *bytes, const char *path, vc_err *err)
{
    struct dirent **names = NULL;
    struct stat st;
    vf_hasher h;
    int n = 0, rc = 0;

    if (stat(path, &st))
        return vc_fail_errno(err, "%s", path);
    vf_hasher_begin(&h, "files");
    if (!S_ISDIR(st.st_mode))
        rc = hash_stat(&h, path, bytes, err);
    else if ((n = scandir(path, &names, is_weights, alphasort)) < 0)
        return vc_fail_errno(err, "%s", path);
    for (int i = 0; i < n; i++) {
        char *file = vc_path_join(path, names[i]->d_name);
        if (!rc)
            rc = file ? hash_stat(&h, file, bytes, err) : vc_no_memory(err);
        free(file);
        free(names[i]);
    }
    free(names);
    *k = vf_hasher_end(&h);
    return rc;
}
