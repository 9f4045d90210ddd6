/* value.h - values of Arrow's arrays as JSON, and Arrow's errors as ours; for the files in C++. */
#ifndef FORMATS_COLUMNAR_VALUE_H
#define FORMATS_COLUMNAR_VALUE_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include <arrow/api.h>

extern "C" {
#include "formats/columnar/columnar.h"
}

namespace vlt {

struct json_deleter {
    void operator()(cJSON *v) const { cJSON_Delete(v); }
};
using json = std::unique_ptr<cJSON, json_deleter>;

/* The reason why a row cannot be read; the other rows of the file can. */
struct bad_row : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline void check(const arrow::Status &s)
{
    if (s.IsOutOfMemory())
        throw std::bad_alloc();
    if (!s.ok())
        throw std::runtime_error(s.message());
}

template <typename T> T take(arrow::Result<T> r)
{
    check(r.status());
    return std::move(r).ValueUnsafe();
}

/* A file in memory, of which bytes are a part; data NULL: bytes are not part of a file. */
struct window {
    const uint8_t *data;
    size_t size;
};

json made(cJSON *v);                             /* throws bad_alloc for NULL */
void add(cJSON *object, const std::string &name, json v);
/* Whether values are bytes of any length; those of a fixed size are hashes and the like. */
bool is_bytes(const arrow::DataType &type);
/* Whether a column's values are bytes, or structs with a member `bytes`. */
bool has_bytes(const arrow::DataType &type);
/* Value i of an array. Throws bad_row. */
json value(const arrow::Array &a, int64_t i, const window &w, int depth = 0);

/* Counts rows and passes them to the sink; a failure of the sink is thrown as `stop`. */
struct stop {
    int rc;
};
class rows {
public:
    rows(const vf_columnar_sink *to, vc_err *error) : sink(to), err(error) {}
    void header(const arrow::Schema &schema);
    template <typename F> void add(F &&make);
    int64_t n = 0;

private:
    const vf_columnar_sink *sink;
    vc_err *err;
    void put(const cJSON *o, const char *bad);
};

template <typename F> void rows::add(F &&make)
{
    json o;
    std::string bad;

    try {
        o = make();
    } catch (const bad_row &e) {
        bad = e.what();
    }
    put(o.get(), o ? nullptr : bad.c_str());
}

/* Reads a file's rows; the files of C++ have one each. They throw. */
void read_parquet(const char *path, rows &to);
void read_ipc(const char *path, rows &to);

} // namespace vlt

#endif
