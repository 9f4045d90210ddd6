/* ipc.cpp - reads the rows of Arrow's files: record batches, either with an index at the end of the
 * file or without, as a stream (datasets' save_to_disk). See columnar.h
 *
 * The file is mapped, and Arrow's arrays are parts of the map unless the batches are compressed; so
 * the place of a value's bytes in the file is known. */
#include <cstring>

#include <arrow/io/memory.h>
#include <arrow/ipc/api.h>

#include "formats/columnar/value.h"

extern "C" {
#include "common/os/map.h"
}

namespace vlt {

namespace {

class map {
public:
    explicit map(const char *path)
    {
        vc_err err = {};
        if (!vc_map_open(&m, path, &err))
            return;
        const std::string name = std::string(path) + ": ", text = err.text;
        throw std::runtime_error(text.rfind(name, 0) ? text : text.substr(name.size()));
    }
    ~map() { vc_map_close(&m); }
    map(const map &) = delete;
    map &operator=(const map &) = delete;
    window all() const { return { m.data, m.size }; }

private:
    vc_map m = {};
};

/* Arrow trusts the offsets in a batch: they are checked before any value is read. */
void take_batch(const arrow::RecordBatch &b, const window &w, rows &to)
{
    check(b.ValidateFull());
    for (int64_t i = 0; i < b.num_rows(); i++)
        to.add([&] {
            json o = made(cJSON_CreateObject());
            for (int k = 0; k < b.num_columns(); k++)
                try {
                    add(o.get(), b.column_name(k), value(*b.column(k), i, w));
                } catch (const bad_row &e) {
                    throw bad_row(b.column_name(k) + ": " + e.what());
                }
            return o;
        });
}

using source = std::shared_ptr<arrow::io::BufferReader>;

void read_file(const source &from, const arrow::ipc::IpcReadOptions &o, const window &w, rows &to)
{
    auto file = take(arrow::ipc::RecordBatchFileReader::Open(from, o));

    to.header(*file->schema());
    for (int i = 0; i < file->num_record_batches(); i++)
        take_batch(*take(file->ReadRecordBatch(i)), w, to);
}

void read_stream(const source &from, const arrow::ipc::IpcReadOptions &o, const window &w, rows &to)
{
    auto stream = take(arrow::ipc::RecordBatchStreamReader::Open(from, o));
    std::shared_ptr<arrow::RecordBatch> b;

    to.header(*stream->schema());
    while (check(stream->ReadNext(&b)), b)
        take_batch(*b, w, to);
}

bool begins(const window &w, const char *magic)
{
    return w.size >= std::strlen(magic) && !std::memcmp(w.data, magic, std::strlen(magic));
}

} // namespace

void read_ipc(const char *path, rows &to)
{
    const map m(path);
    const window w = m.all();
    auto options = arrow::ipc::IpcReadOptions::Defaults();

    options.use_threads = false;
    if (!w.size)
        throw std::runtime_error("the file is empty");
    if (begins(w, "FEA1"))
        throw std::runtime_error("a Feather file of version 1: save it with version=2");
    const auto from = std::make_shared<arrow::io::BufferReader>(
        std::make_shared<arrow::Buffer>(w.data, (int64_t)w.size));
    if (begins(w, "ARROW1"))
        read_file(from, options, w, to);
    else
        read_stream(from, options, w, to);
}

} // namespace vlt
