/* parquet.cpp - reads the rows of Parquet files, and the bytes of single values. See columnar.h
 *
 * Rows are read without their columns of bytes: one batch of the others is in memory. A value's
 * bytes are read when they are needed, page by page from the start of its row group. */
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include <sys/stat.h>

#include <arrow/io/file.h>
#include <arrow/util/config.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/column_reader.h>
#include <parquet/file_reader.h>
#include <parquet/statistics.h>

#include "formats/columnar/value.h"

namespace vlt {

namespace {

constexpr int64_t READ_BUFFER = 1 << 18, BATCH_BYTES = 32 << 20, BATCH_ROWS = 4096, LEVELS = 256;
constexpr int64_t MOST_BYTES = (int64_t)1 << 40, PAGE_ROWS = 1 << 16;

/* A FIFO must not block the opening. */
std::unique_ptr<parquet::ParquetFileReader> open_file(const std::string &path)
{
    struct stat st;
    if (stat(path.c_str(), &st))
        throw std::runtime_error(std::strerror(errno));
    if (!S_ISREG(st.st_mode))
        throw std::runtime_error("not a regular file");

    auto properties = parquet::default_reader_properties();
    properties.enable_buffered_stream();
    properties.set_buffer_size(std::clamp<int64_t>(st.st_size, 1, READ_BUFFER));
    properties.set_page_checksum_verification(true);
    return parquet::ParquetFileReader::Open(take(arrow::io::ReadableFile::Open(path)), properties);
}

/* Arrow before 23 gives a reader, and before 19 its batches, through a pointer. */
std::unique_ptr<parquet::arrow::FileReader> make_reader(const char *path)
{
    parquet::ArrowReaderProperties properties(false);
    arrow::MemoryPool *const pool = arrow::default_memory_pool();

    properties.set_pre_buffer(false);
#if ARROW_VERSION_MAJOR >= 23
    return take(parquet::arrow::FileReader::Make(pool, open_file(path), properties));
#else
    std::unique_ptr<parquet::arrow::FileReader> made;
    check(parquet::arrow::FileReader::Make(pool, open_file(path), properties, &made));
    return made;
#endif
}

std::unique_ptr<arrow::RecordBatchReader> batches_of(parquet::arrow::FileReader &file, int group,
                                                     const std::vector<int> &leaves)
{
#if ARROW_VERSION_MAJOR >= 19
    return take(file.GetRecordBatchReader({ group }, leaves));
#else
    std::unique_ptr<arrow::RecordBatchReader> made;
    check(file.GetRecordBatchReader({ group }, leaves, &made));
    return made;
#endif
}

int64_t rows_of(const parquet::RowGroupMetaData &group)
{
    if (group.num_rows() < 0 || group.num_rows() > INT32_MAX)
        throw std::runtime_error("a group of " + std::to_string(group.num_rows()) + " rows");
    return group.num_rows();
}

/* ---- rows ---- */

/* A column of the file: the leaf that has its bytes, or -1, and whether it has other leaves. */
struct column {
    std::string name;
    int leaf = -1;
    bool direct = false;               /* the column itself is bytes; else a struct's member is */
    bool others = false;
};

/* Adds the leaves of a field that hold no bytes. */
void add_leaves(const parquet::arrow::SchemaField &f, std::vector<int> &leaves)
{
    if (f.is_leaf() && !is_bytes(*f.field->type()))
        leaves.push_back(f.column_index);
    for (const auto &child : f.children)
        add_leaves(child, leaves);
}

column column_of(const parquet::arrow::SchemaField &f, std::vector<int> &leaves)
{
    column c;
    const size_t before = leaves.size();

    c.name = f.field->name();
    c.direct = f.is_leaf() && is_bytes(*f.field->type());
    if (c.direct)
        c.leaf = f.column_index;
    if (f.field->type()->id() == arrow::Type::STRUCT)
        for (const auto &child : f.children)
            if (child.is_leaf() && child.field->name() == "bytes" &&
                is_bytes(*child.field->type()))
                c.leaf = child.column_index;
    add_leaves(f, leaves);
    c.others = leaves.size() > before;
    return c;
}

/* Reads which rows of a group have a value in the leaf. */
std::vector<bool> read_presence(parquet::ParquetFileReader &file, int group, int leaf)
{
    const auto most = file.metadata()->schema()->Column(leaf)->max_definition_level();
    const auto reader = file.RowGroup(group)->Column(leaf);
    auto *values = dynamic_cast<parquet::ByteArrayReader *>(reader.get());
    std::vector<bool> found;

    if (!values)
        throw std::runtime_error("a column of bytes has another type");
    while (values->HasNext()) {
        int16_t level[LEVELS];
        parquet::ByteArray value[LEVELS];
        int64_t read = 0;
        const int64_t n = values->ReadBatch(LEVELS, level, nullptr, value, &read);
        if (!n)
            break;
        for (int64_t i = 0; i < n; i++)
            found.push_back(!most || level[i] == most);
    }
    return found;
}

/* Which rows of a group have bytes in a column; `each` is for a group in which all rows have the
 * same answer by the file's statistics, so that its bytes need not be read. */
struct presence {
    bool known = false, each = false;
    std::vector<bool> row;
    bool of(int64_t i) const { return known ? each : row.at((size_t)i); }
};

presence presence_of(parquet::ParquetFileReader &file, int group, int leaf, bool read)
{
    const auto chunk = file.metadata()->RowGroup(group)->ColumnChunk(leaf);
    const auto statistics = chunk->is_stats_set() ? chunk->statistics() : nullptr;
    presence p;

    if (!read && statistics && statistics->HasNullCount()) {
        const int64_t nulls = statistics->null_count();
        p.known = nulls == 0 || nulls == chunk->num_values();
        p.each = nulls == 0;
    }
    if (!p.known)
        p.row = read_presence(file, group, leaf);
    return p;
}

json cell(int leaf, int64_t row)
{
    const vf_cell at = { row, 0, leaf + 1 };
    return made(vf_columnar_cell_item(&at));
}

class table {
public:
    table(const char *path, rows &sink) : to(sink)
    {
        arrow_file = make_reader(path);
        for (const auto &f : arrow_file->manifest().schema_fields)
            columns.push_back(column_of(f, leaves));
    }

    void read()
    {
        std::shared_ptr<arrow::Schema> schema;
        check(arrow_file->GetSchema(&schema));
        to.header(*schema);
        for (int g = 0; g < arrow_file->num_row_groups(); g++)
            read_group(g);
    }

private:
    rows &to;
    std::unique_ptr<parquet::arrow::FileReader> arrow_file;
    std::vector<column> columns;
    std::vector<int> leaves;           /* the leaves that batches are read from */
    std::vector<presence> has;         /* of the group, one for each column */
    int64_t begin = 0;                 /* rows of the groups before this one */

    int64_t batch_rows(const parquet::RowGroupMetaData &group) const
    {
        int64_t bytes = 0;
        for (int leaf : leaves)
            bytes += std::clamp<int64_t>(group.ColumnChunk(leaf)->total_uncompressed_size(), 0,
                                         MOST_BYTES);
        const int64_t each = bytes / std::max<int64_t>(rows_of(group), 1) + 1;
        return std::clamp<int64_t>(BATCH_BYTES / each, 1, BATCH_ROWS);
    }

    json row(const arrow::RecordBatch *b, int64_t at, int64_t in_group) const
    {
        json o = made(cJSON_CreateObject());
        int next = 0;

        for (size_t k = 0; k < columns.size(); k++)
            try {
                const column &c = columns[k];
                json v = c.others ? value(*b->column(next), at, { nullptr, 0 }) : nullptr;
                next += c.others;
                if (c.leaf >= 0)
                    v = with_cell(std::move(v), c, has[k].of(in_group), begin + in_group);
                if (v)
                    add(o.get(), c.name, std::move(v));
            } catch (const bad_row &e) {
                throw bad_row(columns[k].name + ": " + e.what());
            }
        return o;
    }

    static json with_cell(json v, const column &c, bool present, int64_t row)
    {
        json bytes = present ? cell(c.leaf, row) : made(cJSON_CreateNull());
        if (c.direct)
            return bytes;
        if (!cJSON_IsObject(v.get()))
            v = made(cJSON_CreateObject());
        add(v.get(), "bytes", std::move(bytes));
        return v;
    }

    void read_group(int g)
    {
        auto &file = *arrow_file->parquet_reader();
        const auto group = file.metadata()->RowGroup(g);
        int64_t n = 0;

        has.assign(columns.size(), {});
        for (size_t k = 0; k < columns.size(); k++)
            if (columns[k].leaf >= 0)
                has[k] = presence_of(file, g, columns[k].leaf, leaves.empty());
        if (leaves.empty())
            n = read_cells();
        else
            n = read_batches(g, batch_rows(*group));
        begin += n;
        if (n != rows_of(*group))
            throw std::runtime_error("row group " + std::to_string(g) + " has " +
                                     std::to_string(n) + " of its " +
                                     std::to_string(rows_of(*group)) + " rows");
    }

    /* The rows of a group in which every column is bytes. */
    int64_t read_cells()
    {
        size_t n = 0;

        for (size_t k = 0; k < columns.size(); k++)
            n = std::max(n, has[k].row.size());
        for (size_t i = 0; i < n; i++)
            to.add([&] { return row(nullptr, 0, (int64_t)i); });
        return (int64_t)n;
    }

    int64_t read_batches(int g, int64_t size)
    {
        arrow_file->set_batch_size(size);
        auto batches = batches_of(*arrow_file, g, leaves);
        std::shared_ptr<arrow::RecordBatch> b;
        int64_t n = 0;

        while (check(batches->ReadNext(&b)), b)
            for (int64_t i = 0; i < b->num_rows(); i++, n++)
                to.add([&] { return row(b.get(), i, n); });
        return n;
    }
};

/* ---- values ---- */

/* A column of a row group, with the values of one of its pages. */
class cursor {
public:
    cursor(const vf_part &part) : path(part.file), leaf(part.column - 1), file(open_file(path))
    {
        const auto metadata = file->metadata();
        int g = 0;

        if (leaf >= metadata->num_columns())
            throw std::runtime_error("the file has changed: it has fewer columns");
        while (g < metadata->num_row_groups() && part.at >= begin + rows_of(*metadata->RowGroup(g)))
            begin += rows_of(*metadata->RowGroup(g++));
        if (g == metadata->num_row_groups())
            throw std::runtime_error("the file has changed: it has fewer rows");
        end = begin + rows_of(*metadata->RowGroup(g));
        most = metadata->schema()->Column(leaf)->max_definition_level();
        reader = std::dynamic_pointer_cast<parquet::ByteArrayReader>(
            file->RowGroup(g)->Column(leaf));
        if (!reader || metadata->schema()->Column(leaf)->max_repetition_level())
            throw std::runtime_error("the file has changed: the column holds no bytes");
    }

    /* Whether the part lies in the page, or in a later page of the group. */
    bool leads_to(const vf_part &part) const
    {
        return part.column - 1 == leaf && part.at >= begin && part.at < end && path == part.file;
    }

    /* The value is valid until the next call. */
    parquet::ByteArray read(int64_t row)
    {
        while (row >= begin + (int64_t)page.size())
            next_page();
        const auto &found = page[(size_t)(row - begin)];
        if (!found.ptr)
            throw std::runtime_error("the file has changed: the row has no bytes");
        return found;
    }

    /* Bytes of the page. */
    int64_t bytes = 0;

private:
    std::string path;
    int leaf;
    std::unique_ptr<parquet::ParquetFileReader> file;
    std::shared_ptr<parquet::ByteArrayReader> reader;
    int64_t begin = 0, end = 0;        /* the page's first row, and the end of the group */
    int16_t most = 0;
    std::vector<parquet::ByteArray> page;        /* values that are null have no ptr */

    /* ReadBatch ends at the end of a page, and its values are valid until the next page. */
    void next_page()
    {
        int64_t read = 0, used = 0;

        begin += (int64_t)page.size();
        page.clear();
        const int64_t most_rows = std::clamp<int64_t>(end - begin, 1, PAGE_ROWS);
        std::vector<int16_t> level((size_t)most_rows);
        std::vector<parquet::ByteArray> value((size_t)most_rows);
        const int64_t n = reader->ReadBatch(most_rows, level.data(), nullptr, value.data(), &read);
        if (!n)
            throw std::runtime_error("the column ends too early");
        bytes = 0;
        for (int64_t i = 0; i < n; i++) {
            const bool some = (!most || level[(size_t)i] == most) && used < read;
            page.push_back(some ? value[(size_t)used++] : parquet::ByteArray());
            if (some && !page.back().ptr)
                page.back().ptr = reinterpret_cast<const uint8_t *>("");
            bytes += page.back().len;
        }
    }
};

} // namespace

void read_parquet(const char *path, rows &to)
{
    table(path, to).read();
}

} // namespace vlt

/* Open pages; the one that was used last is at the end. One thread at a time reads, so that no page
 * is in memory twice. */
struct vf_columnar {
    static constexpr int64_t KEPT_BYTES = 256 << 20;
    static constexpr size_t KEPT = 64;           /* each has an open file */
    std::mutex lock;
    std::vector<std::unique_ptr<vlt::cursor>> open;

    /* A reader of Parquet's that has failed may crash when it is asked again, so it goes. */
    parquet::ByteArray read(const vf_part &part)
    {
        vlt::cursor &page = find(part);
        try {
            return page.read(part.at);
        } catch (...) {
            open.pop_back();
            throw;
        }
    }

private:
    /* Returns the page that has the part, or one before it, else a new one. */
    vlt::cursor &find(const vf_part &part)
    {
        for (size_t i = 0; i < open.size(); i++)
            if (open[i]->leads_to(part)) {
                std::rotate(open.begin() + (long)i, open.begin() + (long)i + 1, open.end());
                return *open.back();
            }
        close_to_fit();
        open.push_back(std::make_unique<vlt::cursor>(part));
        return *open.back();
    }

    void close_to_fit()
    {
        int64_t bytes = 0;

        for (size_t i = open.size(); i-- > 0;) {
            bytes += open[i]->bytes;
            if (bytes > KEPT_BYTES || open.size() - i >= KEPT) {
                open.erase(open.begin(), open.begin() + (long)i + 1);
                return;
            }
        }
    }
};

int vf_columnar_open(vf_columnar **out, vc_err *err)
{
    *out = new (std::nothrow) vf_columnar;
    return *out ? 0 : vc_no_memory(err);
}

int vf_columnar_value(vf_columnar *c, const vf_part *part, uint8_t **bytes, size_t *n, vc_err *err)
{
    *bytes = nullptr;
    *n = 0;
    try {
        const std::lock_guard<std::mutex> guard(c->lock);
        const parquet::ByteArray value = c->read(*part);
        *bytes = static_cast<uint8_t *>(malloc(value.len ? value.len : 1));
        if (!*bytes)
            return vc_no_memory(err);
        if (value.len)
            std::memcpy(*bytes, value.ptr, value.len);
        *n = value.len;
        return 0;
    } catch (const std::bad_alloc &) {
        return vc_no_memory(err);
    } catch (const std::exception &e) {
        return vc_fail(err, VC_EFORMAT, "row %lld: %.300s", (long long)part->at + 1, e.what());
    }
}

void vf_columnar_close(vf_columnar *c)
{
    delete c;
}
