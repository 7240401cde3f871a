#include "convert/source/safetensors.h"

#include <algorithm>

#include "base/file.h"
#include "base/source_file.h"
#include "convert/source/json_reader.h"
#include "convert/source/source_folder.h"

namespace weft::convert {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format's own library
constexpr size_t kMaxRank = 8;
constexpr size_t kMaxFiles = 10'000;

struct TypeInfo {
  std::string_view name;
  uint64_t element_bytes;
  std::optional<RowFormat> format;
};
constexpr TypeInfo kTypes[] = {
    {"F32", 4, RowFormat::kF32},  {"F16", 2, RowFormat::kF16},  {"BF16", 2, RowFormat::kBF16},
    {"I32", 4, std::nullopt},     {"I64", 8, std::nullopt},     {"U8", 1, std::nullopt},
    {"I8", 1, std::nullopt},      {"BOOL", 1, std::nullopt},    {"F64", 8, std::nullopt},
    {"I16", 2, std::nullopt},     {"U16", 2, std::nullopt},     {"U32", 4, std::nullopt},
    {"U64", 8, std::nullopt},     {"C64", 8, std::nullopt},     {"F8_E4M3", 1, std::nullopt},
    {"F8_E5M2", 1, std::nullopt}, {"F8_E8M0", 1, std::nullopt},
};

Error Invalid(const std::string& file, const std::string& message) {
  return Error(ErrorCode::kInvalidData,
               "'" + file + "' is not a valid safetensors file: " + message);
}

struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string name;
};

// One entry of the header; `data` is what follows the header.
Result<SourceTensor> ParseEntry(const std::string& file, const std::string& name,
                                const json::value& value, const Slice& data, Extent* extent) {
  const std::string where = "tensor '" + Printable(name) + "'";
  if (!value.is_object()) return Invalid(file, where + " is not an object.");
  const JsonReader reader(value.get_object(), where + " of '" + file + "'");
  SourceTensor tensor;
  tensor.file = file;
  ASSIGN_OR_RETURN(tensor.type_name, reader.Text("dtype"));
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const TypeInfo& t) { return t.name == tensor.type_name; });
  if (type == std::end(kTypes)) {
    return Invalid(file, where + " has the unknown dtype '" + Printable(tensor.type_name) + "'.");
  }
  tensor.format = type->format;

  ASSIGN_OR_RETURN(const json::array* shape, reader.Array("shape"));
  if (shape == nullptr || shape->size() > kMaxRank) {
    return Invalid(file,
                   where + " has no shape of at most " + std::to_string(kMaxRank) + " dimensions.");
  }
  std::optional<uint64_t> byte_count = type->element_bytes;
  for (const json::value& dimension : *shape) {
    json::error_code failure;
    const auto length = dimension.is_number() ? dimension.to_number<uint64_t>(failure) : 0;
    if (!dimension.is_number() || failure) {
      return Invalid(file, where + " has the dimension " + Excerpt(dimension) +
                               "; expected whole numbers of 0 or more.");
    }
    tensor.shape.push_back(length);
    if (byte_count) byte_count = CheckedMul(*byte_count, length);
  }
  ASSIGN_OR_RETURN(const json::array* offsets, reader.Array("data_offsets"));
  json::error_code first, second;
  if (offsets == nullptr || offsets->size() != 2 || !(*offsets)[0].is_number() ||
      !(*offsets)[1].is_number()) {
    return Invalid(file, where + " has no data_offsets of two numbers.");
  }
  extent->begin = (*offsets)[0].to_number<uint64_t>(first);
  extent->end = (*offsets)[1].to_number<uint64_t>(second);
  extent->name = name;
  if (first || second || extent->begin > extent->end || extent->end > data.byte_count()) {
    return Invalid(file, where + " has data_offsets " + Excerpt(json::value(*offsets)) +
                             "; the file has " + std::to_string(data.byte_count()) +
                             " bytes of data. Is it cut short?");
  }
  const uint64_t held = extent->end - extent->begin;
  if (!byte_count || *byte_count != held) {
    return Invalid(file, where + " of dtype " + tensor.type_name + " and shape " +
                             ShapeText(tensor.shape) + " needs " +
                             (byte_count ? std::to_string(*byte_count) : "more than 2^64") +
                             " bytes; its data_offsets hold " + std::to_string(held) + ".");
  }
  tensor.bytes = data.Sub(extent->begin, held);
  return tensor;
}

Status CheckExtents(const std::string& file, std::vector<Extent> extents, uint64_t data_bytes) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t end = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    const Extent& extent = extents[i];
    if (extent.begin < end) {
      return Invalid(file, "tensors '" + Printable(extents[i - 1].name) + "' and '" +
                               Printable(extent.name) + "' overlap at byte " +
                               std::to_string(extent.begin) + " of the data.");
    }
    if (extent.begin > end) {
      return Invalid(file, "no tensor covers bytes " + std::to_string(end) + " to " +
                               std::to_string(extent.begin) + " of the data, before '" +
                               Printable(extent.name) + "'.");
    }
    end = extent.end;
  }
  if (end != data_bytes) {
    return Invalid(file, "its tensors end at byte " + std::to_string(end) + " of " +
                             std::to_string(data_bytes) + " bytes of data.");
  }
  return OkStatus();
}

Result<TensorMap> OpenFile(const fs::path& folder, const std::string& name) {
  ASSIGN_OR_RETURN(const fs::path path, SourceFile(folder, name));
  ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  ASSIGN_OR_RETURN(TensorMap tensors, ParseSafetensors(AsSlice(file), name));
  const std::string version = FileVersion(path);
  for (auto& [tensor_name, tensor] : tensors) tensor.version = version;
  return tensors;
}

// Which file holds which tensor.
Result<std::map<std::string, std::string>> ReadIndex(const fs::path& path) {
  const std::string what = "model.safetensors.index.json";
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxHeaderBytes));
  ASSIGN_OR_RETURN(const json::value value, ParseJson(text, what));
  if (!value.is_object()) return Error(ErrorCode::kInvalidData, what + " is not an object.");
  ASSIGN_OR_RETURN(const json::object* map,
                   JsonReader(value.get_object(), what).Object("weight_map"));
  if (map == nullptr || map->empty()) {
    return Error(ErrorCode::kInvalidData, what + " has no 'weight_map' that names any tensor.");
  }
  std::map<std::string, std::string> file_of;
  for (const auto& entry : *map) {
    if (!entry.value().is_string()) {
      return Error(ErrorCode::kInvalidData, "The file of tensor '" + Printable(entry.key()) +
                                                "' in " + what + " is not a string.");
    }
    file_of.emplace(entry.key(), entry.value().get_string());
  }
  return file_of;
}

Result<TensorMap> OpenFiles(const fs::path& folder, const fs::path& index_path) {
  ASSIGN_OR_RETURN(const auto file_of, ReadIndex(index_path));
  std::map<std::string, TensorMap> files;
  TensorMap tensors;
  for (const auto& [name, file_name] : file_of) {
    auto file = files.find(file_name);
    if (file == files.end()) {
      if (files.size() >= kMaxFiles) {
        return Error(ErrorCode::kInvalidData, "model.safetensors.index.json names more than " +
                                                  std::to_string(kMaxFiles) + " files.");
      }
      ASSIGN_OR_RETURN(TensorMap opened, OpenFile(folder, file_name));
      file = files.emplace(file_name, std::move(opened)).first;
    }
    const auto tensor = file->second.find(name);
    if (tensor == file->second.end()) {
      return Error(ErrorCode::kInvalidData,
                   "model.safetensors.index.json says that tensor '" + Printable(name) +
                       "' is in '" + Printable(file_name) + "', which does not have it.");
    }
    tensors.emplace(name, tensor->second);
  }
  return tensors;
}

}  // namespace

Result<TensorMap> ParseSafetensors(const Slice& bytes, const std::string& file) {
  if (bytes.byte_count() < 8) {
    return Invalid(file, "it has " + std::to_string(bytes.byte_count()) +
                             " bytes; the header length alone takes 8.");
  }
  const auto header_bytes = LoadLe<uint64_t>(bytes.bytes().data());
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.byte_count() - 8) {
    return Invalid(file, "its header claims " + std::to_string(header_bytes) +
                             " bytes; the file has " + std::to_string(bytes.byte_count()) +
                             " and a header at most " + std::to_string(kMaxHeaderBytes) + ".");
  }
  const std::string_view header = AsText(bytes.bytes().subspan(8, header_bytes));
  const Slice data = bytes.Sub(8 + header_bytes, bytes.byte_count() - 8 - header_bytes);
  ASSIGN_OR_RETURN(const json::value value, ParseJson(header, "The header of '" + file + "'"));
  if (!value.is_object()) return Invalid(file, "its header is not a JSON object.");
  TensorMap tensors;
  std::vector<Extent> extents;
  for (const auto& entry : value.get_object()) {
    const std::string name(entry.key());
    if (name == "__metadata__") continue;
    Extent extent;
    ASSIGN_OR_RETURN(SourceTensor tensor, ParseEntry(file, name, entry.value(), data, &extent));
    tensors.emplace(name, std::move(tensor));
    extents.push_back(std::move(extent));
  }
  TRY(CheckExtents(file, std::move(extents), data.byte_count()));
  return tensors;
}

Result<TensorMap> OpenSafetensors(const fs::path& folder) {
  std::error_code failure;
  if (fs::exists(folder / "model.safetensors", failure)) {
    return OpenFile(folder, "model.safetensors");
  }
  const std::string index = "model.safetensors.index.json";
  if (fs::exists(folder / index, failure)) {
    ASSIGN_OR_RETURN(const fs::path path, SourceFile(folder, index));
    return OpenFiles(folder, path);
  }
  const bool pickle = fs::exists(folder / "pytorch_model.bin", failure) ||
                      fs::exists(folder / "pytorch_model.bin.index.json", failure);
  return Error(ErrorCode::kNotFound,
               "'" + folder.string() +
                   "' has neither model.safetensors nor model.safetensors.index.json." +
                   (pickle ? " Its pytorch_model.bin is a pickle, which can run code and is not "
                             "read: save the model as safetensors first."
                           : ""));
}

}  // namespace weft::convert
