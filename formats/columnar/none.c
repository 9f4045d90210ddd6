/* none.c - columnar files in a build without Arrow's library: none is read. */
#include "formats/columnar/columnar.h"

int vf_columnar_check(const char *path, const char *list, vc_err *err)
{
    if (!vf_columnar_named(path))
        return 0;
    return vc_fail(err, VC_EUSAGE, "%s: this build reads no Parquet and Arrow files, as it was "
                   "made without Arrow's library (libparquet-dev, from Debian 14 and Ubuntu 26.04 "
                   "on): python3 scripts/unpack_parquet.py %s FOLDER makes FOLDER/metadata.jsonl, "
                   "the list to give", path, list);
}

int vf_columnar_read(const char *path, const vf_columnar_sink *sink, vc_err *err)
{
    (void)sink;
    int rc = vf_columnar_check(path, path, err);
    return rc ? rc : vc_fail(err, VC_EINVAL, "%s: expected a .parquet, .arrow or .feather file",
                             path);
}

int vf_columnar_open(vf_columnar **out, vc_err *err)
{
    (void)err;
    *out = NULL;
    return 0;
}

int vf_columnar_value(vf_columnar *c, const vf_part *part, uint8_t **bytes, size_t *n, vc_err *err)
{
    (void)c;
    *bytes = NULL;
    *n = 0;
    return vf_columnar_check(part->file, part->file, err);
}

void vf_columnar_close(vf_columnar *c)
{
    (void)c;
}
