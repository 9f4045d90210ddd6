/* columnar_make.cpp - see columnar_make.h. As a program: columnar_make PATH FORM [TEXT FILE]..., in
 * which TEXT "-" is null, and FILE is the medium, "-" for null, or "@FILE" for its path alone. */
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/util/config.h>
#include <arrow/ipc/writer.h>
#include <parquet/arrow/writer.h>

extern "C" {
#include "tests/formats/columnar_make.h"
}

namespace {

void check(const arrow::Status &s)
{
    if (!s.ok())
        throw std::runtime_error(s.ToString());
}

template <typename T> T take(arrow::Result<T> r)
{
    check(r.status());
    return std::move(r).ValueUnsafe();
}

bool has(const std::string &form, const char *word)
{
    std::istringstream words(form);
    for (std::string w; words >> w;)
        if (w == word)
            return true;
    return false;
}

/* Arrow before 21 writes no views into Parquet. */
bool has_views(const std::string &form)
{
    return has(form, "view") && (ARROW_VERSION_MAJOR >= 21 || !has(form, "parquet"));
}

using array = std::shared_ptr<arrow::Array>;

template <typename B> array built(const columnar_row *rows, int n, bool bytes, bool path = false)
{
    B b;
    for (int i = 0; i < n; i++) {
        const char *s = bytes ? (const char *)rows[i].bytes : path ? rows[i].path : rows[i].text;
        const size_t size = bytes ? rows[i].n : s ? std::strlen(s) : 0;
        check(s ? b.Append(std::string_view(s, size)) : b.AppendNull());
    }
    return take(b.Finish());
}

array strings(const std::string &form, const columnar_row *rows, int n, bool path)
{
    if (has(form, "large"))
        return built<arrow::LargeStringBuilder>(rows, n, false, path);
    if (has_views(form))
        return built<arrow::StringViewBuilder>(rows, n, false, path);
    if (has(form, "dictionary"))
        return built<arrow::StringDictionaryBuilder>(rows, n, false, path);
    return built<arrow::StringBuilder>(rows, n, false, path);
}

array bytes(const std::string &form, const columnar_row *rows, int n)
{
    if (has(form, "large"))
        return built<arrow::LargeBinaryBuilder>(rows, n, true);
    if (has_views(form))
        return built<arrow::BinaryViewBuilder>(rows, n, true);
    return built<arrow::BinaryBuilder>(rows, n, true);
}

/* {bytes, path}, null where both are. */
array structs(const std::string &form, const columnar_row *rows, int n)
{
    arrow::TypedBufferBuilder<bool> valid;
    int nulls = 0;

    for (int i = 0; i < n; i++) {
        const bool some = rows[i].bytes || rows[i].path;
        nulls += !some;
        check(valid.Append(some));
    }
    auto b = bytes(form, rows, n);
    auto p = built<arrow::StringBuilder>(rows, n, false, true);
    return take(arrow::StructArray::Make({ b, p }, std::vector<std::string>{ "bytes", "path" },
                                         take(valid.Finish()), nulls));
}

void add_others(int n, arrow::FieldVector &fields, arrow::ArrayVector &columns)
{
    arrow::DoubleBuilder fps;
    arrow::TimestampBuilder when(arrow::timestamp(arrow::TimeUnit::SECOND),
                                 arrow::default_memory_pool());
    arrow::Int64Builder count;
    auto tag = std::make_shared<arrow::StringBuilder>();
    arrow::ListBuilder tags(arrow::default_memory_pool(), tag);

    for (int i = 0; i < n; i++) {
        check(fps.Append(i ? 10 : NAN));
        check(when.Append(i));
        check(count.Append(((int64_t)1 << 60) + i));
        check(tags.Append());
        check(tag->Append("a"));
        check(tag->Append("b"));
    }
    const auto add = [&](const char *name, const array &a) {
        fields.push_back(arrow::field(name, a->type()));
        columns.push_back(a);
    };
    const array list = take(tags.Finish());
    arrow::FixedSizeBinaryBuilder hash(arrow::fixed_size_binary(2));
    for (int i = 0; i < n; i++)
        check(i ? hash.Append("ab") : hash.AppendNull());
    add("hash", take(hash.Finish()));
    add("fps", take(fps.Finish()));
    add("when", take(when.Finish()));
    add("count", take(count.Finish()));
    add("tags", list);
    add("more", take(arrow::StructArray::Make({ list }, std::vector<std::string>{ "inner" })));
}

void write_parquet(const std::string &path, const std::string &form, const arrow::Table &t)
{
    parquet::WriterProperties::Builder b;

    b.compression(has(form, "snappy")  ? arrow::Compression::SNAPPY
                  : has(form, "zstd") ? arrow::Compression::ZSTD
                                      : arrow::Compression::UNCOMPRESSED);
    if (has(form, "old"))
        b.disable_statistics()->data_page_version(parquet::ParquetDataPageVersion::V1);
    const auto schema = parquet::ArrowWriterProperties::Builder().store_schema()->build();
    check(parquet::arrow::WriteTable(t, arrow::default_memory_pool(),
                                     take(arrow::io::FileOutputStream::Open(path)),
                                     has(form, "groups") ? 2 : 1 << 20, b.build(), schema));
}

void write_ipc(const std::string &path, const std::string &form, const arrow::Table &t)
{
    auto out = take(arrow::io::FileOutputStream::Open(path));
    auto o = arrow::ipc::IpcWriteOptions::Defaults();

    if (has(form, "lz4"))
        o.codec = take(arrow::util::Codec::Create(arrow::Compression::LZ4_FRAME));
    auto to = take(has(form, "file") ? arrow::ipc::MakeFileWriter(out, t.schema(), o)
                                     : arrow::ipc::MakeStreamWriter(out, t.schema(), o));
    check(to->WriteTable(t, has(form, "groups") ? 2 : 1 << 20));
    check(to->Close());
    check(out->Close());
}

void make(const std::string &path, const std::string &form, const columnar_row *rows, int n)
{
    arrow::FieldVector fields;
    arrow::ArrayVector columns;
    const array media = has(form, "direct") ? bytes(form, rows, n) : structs(form, rows, n);

    if (!has(form, "alone")) {
        const array text = strings(form, rows, n, false);
        fields.push_back(arrow::field("text", text->type()));
        columns.push_back(text);
    }
    fields.push_back(arrow::field(has(form, "direct") ? "clip" : "video", media->type()));
    columns.push_back(media);
    if (!has(form, "alone"))
        add_others(n, fields, columns);
    const auto t = arrow::Table::Make(arrow::schema(fields), columns, n);
    if (has(form, "parquet"))
        write_parquet(path, form, *t);
    else
        write_ipc(path, form, *t);
}

} // namespace

int columnar_make(const char *path, const char *form, const columnar_row *rows, int n)
{
    try {
        make(path, form, rows, n);
        return 0;
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s: %s\n", path, e.what());
        return -1;
    }
}

#ifdef COLUMNAR_MAKE
int main(int argc, char **argv)
{
    std::vector<std::string> data(argc);
    std::vector<columnar_row> rows;

    for (int i = 3; i + 1 < argc; i += 2) {
        columnar_row r = { std::strcmp(argv[i], "-") ? argv[i] : nullptr, nullptr, nullptr, 0 };
        const char *file = argv[i + 1];
        if (*file == '@') {
            r.path = file + 1;
        } else if (std::strcmp(file, "-")) {
            std::ifstream in(file, std::ios::binary);
            data[i].assign(std::istreambuf_iterator<char>(in), {});
            r.path = file;
            r.bytes = data[i].data();
            r.n = data[i].size();
        }
        rows.push_back(r);
    }
    return argc < 3 || columnar_make(argv[1], argv[2], rows.data(), (int)rows.size()) ? 1 : 0;
}
#endif
