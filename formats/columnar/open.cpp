/* open.cpp - see columnar.h: the calls from C, which choose the reader by the file's name. */
#include <string_view>

#include <strings.h>

#include "formats/columnar/value.h"

int vf_columnar_check(const char *path, const char *list, vc_err *err)
{
    (void)path, (void)list, (void)err;
    return 0;
}

int vf_columnar_read(const char *path, const vf_columnar_sink *sink, vc_err *err)
{
    vlt::rows to(sink, err);
    const std::string_view name(path);
    int rc = 0;

    try {
        if (name.size() > 8 && !strcasecmp(path + name.size() - 8, ".parquet"))
            vlt::read_parquet(path, to);
        else
            vlt::read_ipc(path, to);
    } catch (const vlt::stop &s) {
        rc = s.rc;
    } catch (const std::bad_alloc &) {
        rc = vc_no_memory(err);
    } catch (const std::exception &e) {
        rc = vc_fail(err, VC_EFORMAT, "%.300s", e.what());
        if (to.n)
            rc = vc_context(err, rc, "after row %lld", (long long)to.n);
    }
    return vc_context(err, rc, "%s", path);
}
