/* value.cpp - see value.h */
#include "formats/columnar/value.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

extern "C" {
#include "common/base/utf8.h"
}

namespace vlt {

namespace {

constexpr int MAX_DEPTH = 16;
constexpr double MAX_EXACT = 9007199254740992.0; /* 2^53 */

json text(std::string_view s)
{
    const size_t good = vc_utf8_prefix(s.data(), s.size());

    if (good < s.size())
        throw bad_row("byte " + std::to_string(good + 1) + " is not UTF-8: save it as UTF-8");
    if (s.find('\0') != s.npos)
        throw bad_row("holds a NUL");
    return made(cJSON_CreateString(std::string(s).c_str()));
}

json number(const std::string &s)
{
    const double x = std::strtod(s.c_str(), nullptr);
    return made(std::isfinite(x) ? cJSON_CreateNumber(x) : cJSON_CreateNull());
}

json integer(const std::string &s)
{
    return std::fabs(std::strtod(s.c_str(), nullptr)) < MAX_EXACT ? number(s) : text(s);
}

json bytes(std::string_view s, const window &w)
{
    const auto base = (uintptr_t)w.data, at = (uintptr_t)s.data();
    const bool inside = at >= base && at - base <= w.size && s.size() <= w.size - (at - base);
    const vf_cell cell = { inside ? (int64_t)(at - base) : 0, (int64_t)s.size(), inside ? 0 : -1 };

    return made(vf_columnar_cell_item(&cell));
}

json list(const arrow::Array &items, const window &w, int depth)
{
    json all = made(cJSON_CreateArray());

    for (int64_t i = 0; i < items.length(); i++)
        cJSON_AddItemToArray(all.get(), value(items, i, w, depth).release());
    return all;
}

json object(const arrow::StructArray &a, int64_t i, const window &w, int depth)
{
    json all = made(cJSON_CreateObject());

    for (int k = 0; k < a.num_fields(); k++)
        add(all.get(), a.struct_type()->field(k)->name(), value(*a.field(k), i, w, depth));
    return all;
}

template <typename A> std::string_view view(const arrow::Array &a, int64_t i)
{
    return static_cast<const A &>(a).GetView(i);
}

} // namespace

json made(cJSON *v)
{
    if (!v)
        throw std::bad_alloc();
    return json(v);
}

void add(cJSON *o, const std::string &name, json v)
{
    if (vc_utf8_prefix(name.data(), name.size()) < name.size() || name.find('\0') != name.npos)
        throw bad_row("a column's name is not UTF-8 text");
    if (!cJSON_AddItemToObject(o, name.c_str(), v.get()))
        throw std::bad_alloc();
    (void)v.release();
}

bool is_bytes(const arrow::DataType &type)
{
    switch (type.id()) {
    case arrow::Type::BINARY:
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::BINARY_VIEW: return true;
    default: return false;
    }
}

bool has_bytes(const arrow::DataType &type)
{
    if (type.id() == arrow::Type::EXTENSION)
        return has_bytes(*static_cast<const arrow::ExtensionType &>(type).storage_type());
    if (type.id() != arrow::Type::STRUCT)
        return is_bytes(type);
    const auto field = static_cast<const arrow::StructType &>(type).GetFieldByName("bytes");
    return field && is_bytes(*field->type());
}

json value(const arrow::Array &a, int64_t i, const window &w, int depth)
{
    if (depth > MAX_DEPTH)
        throw bad_row("nested more than " + std::to_string(MAX_DEPTH) + " deep");
    if (a.IsNull(i))
        return made(cJSON_CreateNull());
    switch (a.type_id()) {
    case arrow::Type::BOOL:
        return made(cJSON_CreateBool(static_cast<const arrow::BooleanArray &>(a).Value(i)));
    case arrow::Type::INT8:
    case arrow::Type::INT16:
    case arrow::Type::INT32:
    case arrow::Type::INT64:
    case arrow::Type::UINT8:
    case arrow::Type::UINT16:
    case arrow::Type::UINT32:
    case arrow::Type::UINT64: return integer(take(a.GetScalar(i))->ToString());
    case arrow::Type::HALF_FLOAT:
    case arrow::Type::FLOAT:
    case arrow::Type::DOUBLE: return number(take(a.GetScalar(i))->ToString());
    case arrow::Type::STRING: return text(view<arrow::StringArray>(a, i));
    case arrow::Type::LARGE_STRING: return text(view<arrow::LargeStringArray>(a, i));
    case arrow::Type::STRING_VIEW: return text(view<arrow::StringViewArray>(a, i));
    case arrow::Type::BINARY: return bytes(view<arrow::BinaryArray>(a, i), w);
    case arrow::Type::LARGE_BINARY: return bytes(view<arrow::LargeBinaryArray>(a, i), w);
    case arrow::Type::BINARY_VIEW: return bytes(view<arrow::BinaryViewArray>(a, i), w);
    case arrow::Type::FIXED_SIZE_BINARY: return bytes(view<arrow::FixedSizeBinaryArray>(a, i), w);
    case arrow::Type::STRUCT:
        return object(static_cast<const arrow::StructArray &>(a), i, w, depth + 1);
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST:
    case arrow::Type::LIST_VIEW:
    case arrow::Type::LARGE_LIST_VIEW:
    case arrow::Type::MAP:
    case arrow::Type::FIXED_SIZE_LIST:
        return list(*static_cast<const arrow::BaseListScalar &>(*take(a.GetScalar(i))).value, w,
                    depth + 1);
    case arrow::Type::DICTIONARY: {
        const auto &d = static_cast<const arrow::DictionaryArray &>(a);
        return value(*d.dictionary(), d.GetValueIndex(i), w, depth + 1);
    }
    case arrow::Type::EXTENSION:
        return value(*static_cast<const arrow::ExtensionArray &>(a).storage(), i, w, depth + 1);
    default: return text(take(a.GetScalar(i))->ToString());
    }
}

void rows::header(const arrow::Schema &schema)
{
    std::vector<vf_column> column;

    for (const auto &f : schema.fields())
        column.push_back({ f->name().c_str(), has_bytes(*f->type()) });
    const int rc = sink->header ? sink->header(sink->arg, column.data(), (int)column.size(), err)
                                : 0;
    if (rc)
        throw stop{ rc };
}

void rows::put(const cJSON *o, const char *bad)
{
    if (n == INT32_MAX)
        throw std::runtime_error("more than 2^31 - 1 rows");
    const int rc = sink->row(sink->arg, ++n, o, bad, err);
    if (rc)
        throw stop{ rc };
}

} // namespace vlt
