#include "convert/source/gguf.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "base/file.h"
#include "base/source_file.h"
#include "convert/source/json_reader.h"
#include "convert/source/source_folder.h"

namespace weft::convert {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxKeyBytes = 65535;  // the format's own limits
constexpr uint64_t kMaxTensorNameBytes = 64;
constexpr uint32_t kMaxDimensions = 4;
constexpr uint64_t kMaxAlignment = 1 << 20;
constexpr uint64_t kMaxParts = 10'000;

struct TypeInfo {
  uint32_t number;
  std::string_view name;
  std::optional<RowFormat> format;
};
constexpr TypeInfo kTypes[] = {
    {0, "F32", RowFormat::kF32},
    {1, "F16", RowFormat::kF16},
    {2, "Q4_0", RowFormat::kQ4_0},
    {3, "Q4_1", RowFormat::kQ4_1},
    {6, "Q5_0", RowFormat::kQ5_0},
    {7, "Q5_1", RowFormat::kQ5_1},
    {8, "Q8_0", RowFormat::kQ8_0},
    {9, "Q8_1", {}},
    {10, "Q2_K", {}},
    {11, "Q3_K", {}},
    {12, "Q4_K", RowFormat::kQ4_K},
    {13, "Q5_K", RowFormat::kQ5_K},
    {14, "Q6_K", RowFormat::kQ6_K},
    {15, "Q8_K", {}},
    {16, "IQ2_XXS", {}},
    {17, "IQ2_XS", {}},
    {18, "IQ3_XXS", {}},
    {19, "IQ1_S", {}},
    {20, "IQ4_NL", {}},
    {21, "IQ3_S", {}},
    {22, "IQ2_S", {}},
    {23, "IQ4_XS", {}},
    {24, "I8", {}},
    {25, "I16", {}},
    {26, "I32", {}},
    {27, "I64", {}},
    {28, "F64", {}},
    {29, "IQ1_M", {}},
    {30, "BF16", RowFormat::kBF16},
    {34, "TQ1_0", {}},
    {35, "TQ2_0", {}},
    {39, "MXFP4", RowFormat::kMxfp4},
};

Error Invalid(const std::string& file, const std::string& message) {
  return Error(ErrorCode::kInvalidData, "'" + file + "' is not a valid GGUF file: " + message);
}

// Reads the header from front to back; every length is compared with what is left.
class HeaderReader {
 public:
  HeaderReader(ByteSpan bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  uint64_t at() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }

  Result<ByteSpan> Take(uint64_t count, const std::string& what) {
    if (count > left()) {
      return Invalid(file_, what + " needs " + std::to_string(count) + " bytes at byte " +
                                std::to_string(at_) + "; the file ends " + std::to_string(left()) +
                                " bytes later. Is it cut short?");
    }
    at_ += count;
    return bytes_.subspan(at_ - count, count);
  }
  template <typename T>
  Result<T> Number(const std::string& what) {
    ASSIGN_OR_RETURN(const ByteSpan bytes, Take(sizeof(T), what));
    return LoadLe<T>(bytes.data());
  }
  Result<std::string> Name(const std::string& what, uint64_t most) {
    ASSIGN_OR_RETURN(const auto length, Number<uint64_t>("the length of " + what));
    if (length == 0 || length > most) {
      return Invalid(file_, what + " has " + std::to_string(length) + " bytes; expected 1 to " +
                                std::to_string(most) + ".");
    }
    ASSIGN_OR_RETURN(const ByteSpan bytes, Take(length, what));
    return std::string(AsText(bytes));
  }
  Result<GgufValue> Value(const std::string& what) {
    ASSIGN_OR_RETURN(auto type, Number<uint32_t>("the type of " + what));
    GgufValue value;
    if (type == static_cast<uint32_t>(GgufType::kArray)) {
      value.is_array = true;
      ASSIGN_OR_RETURN(type, Number<uint32_t>("the type of the items of " + what));
      ASSIGN_OR_RETURN(value.count, Number<uint64_t>("the count of the items of " + what));
    }
    value.type = static_cast<GgufType>(type);
    const uint64_t begin = at_;
    const uint64_t item_bytes = GgufTypeBytes(value.type);
    if (value.type == GgufType::kText) {
      TRY(SkipTexts(value.count, what));
    } else if (item_bytes == 0) {
      return Invalid(file_, what + " has the type " + std::to_string(type) +
                                (value.is_array ? " in an array" : "") +
                                ", which is none that can be read.");
    } else {
      const auto byte_count = CheckedMul(value.count, item_bytes);
      TRY(Take(byte_count.value_or(UINT64_MAX), what));
    }
    value.bytes = bytes_.subspan(begin, at_ - begin);
    return value;
  }

 private:
  Status SkipTexts(uint64_t count, const std::string& what) {
    for (uint64_t i = 0; i < count; ++i) {
      ASSIGN_OR_RETURN(const auto length, Number<uint64_t>("the length of " + what));
      TRY(Take(length, what));
    }
    return OkStatus();
  }

  ByteSpan bytes_;
  const std::string& file_;
  uint64_t at_ = 0;
};

struct Placed {
  uint64_t offset = 0;  // in the data
  uint64_t byte_count = 0;
  std::string name;
};

struct TensorEntry {
  SourceTensor tensor;
  Placed place;
};

std::string TypeName(uint32_t number) {
  for (const TypeInfo& type : kTypes) {
    if (type.number == number) return std::string(type.name);
  }
  return "type " + std::to_string(number);
}

std::optional<RowFormat> FormatOf(uint32_t number) {
  for (const TypeInfo& type : kTypes) {
    if (type.number == number) return type.format;
  }
  return std::nullopt;
}

Result<TensorEntry> ReadTensor(HeaderReader* reader, const std::string& file, uint64_t index) {
  TensorEntry entry;
  ASSIGN_OR_RETURN(entry.place.name, reader->Name("the name of tensor " + std::to_string(index),
                                                  kMaxTensorNameBytes));
  const std::string where = "tensor '" + Printable(entry.place.name) + "'";
  SourceTensor& tensor = entry.tensor;
  tensor.file = file;
  ASSIGN_OR_RETURN(const auto rank, reader->Number<uint32_t>("the rank of " + where));
  if (rank > kMaxDimensions) {
    return Invalid(file, where + " has " + std::to_string(rank) + " dimensions; expected 0 to " +
                             std::to_string(kMaxDimensions) + ".");
  }
  if (rank == 0) tensor.shape = {1};  // one value
  for (uint32_t i = 0; i < rank; ++i) {
    ASSIGN_OR_RETURN(const auto length, reader->Number<uint64_t>("the shape of " + where));
    tensor.shape.insert(tensor.shape.begin(), length);
  }
  ASSIGN_OR_RETURN(const auto type, reader->Number<uint32_t>("the type of " + where));
  tensor.type_name = TypeName(type);
  tensor.format = FormatOf(type);
  ASSIGN_OR_RETURN(entry.place.offset, reader->Number<uint64_t>("the offset of " + where));
  if (!tensor.format) return entry;
  const uint64_t columns = tensor.shape.back(), block = BlockValues(*tensor.format);
  // What nobody can read is said when somebody needs it: towers of pictures may be such.
  const auto leave_unread = [&](const std::string& why) {
    tensor.type_name += why;
    tensor.format.reset();
    return entry;
  };
  if (columns % block != 0) {
    return leave_unread(" in rows of " + std::to_string(columns) + " values, which its blocks of " +
                        std::to_string(block) + " do not divide");
  }
  auto byte_count = CheckedMul(columns / block, BlockBytes(*tensor.format));
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) {
    if (byte_count) byte_count = CheckedMul(*byte_count, tensor.shape[i]);
  }
  if (!byte_count) return leave_unread(" of 2^64 bytes or more");
  entry.place.byte_count = *byte_count;
  return entry;
}

Status CheckPlaces(const std::string& file, std::vector<Placed> places, uint64_t alignment,
                   uint64_t data_bytes) {
  for (const Placed& place : places) {
    const std::string where = "tensor '" + Printable(place.name) + "'";
    if (place.offset % alignment != 0) {
      return Invalid(file, where + " has the offset " + std::to_string(place.offset) +
                               ", which is no multiple of the alignment " +
                               std::to_string(alignment) + ".");
    }
    if (place.offset > data_bytes || place.byte_count > data_bytes - place.offset) {
      return Invalid(file, where + " has " + std::to_string(place.byte_count) +
                               " bytes at offset " + std::to_string(place.offset) +
                               "; the file has " + std::to_string(data_bytes) +
                               " bytes of data. Is it cut short?");
    }
  }
  std::sort(places.begin(), places.end(),
            [](const Placed& a, const Placed& b) { return a.offset < b.offset; });
  for (size_t i = 1; i < places.size(); ++i) {
    if (places[i - 1].offset + places[i - 1].byte_count <= places[i].offset) continue;
    return Invalid(file, "tensors '" + Printable(places[i - 1].name) + "' and '" +
                             Printable(places[i].name) + "' overlap at byte " +
                             std::to_string(places[i].offset) + " of the data.");
  }
  return OkStatus();
}

Status CheckVersion(const std::string& file, uint32_t version) {
  if (version == 2 || version == 3) return OkStatus();
  const uint32_t swapped = __builtin_bswap32(version);
  if (swapped == 2 || swapped == 3) {
    return Error(ErrorCode::kUnsupported,
                 "'" + file + "' is a big-endian GGUF file; weft reads little-endian ones.");
  }
  return Error(ErrorCode::kUnsupported, "'" + file + "' is GGUF version " +
                                            std::to_string(version) +
                                            "; weft reads versions 2 and 3.");
}

Status ReadMetadata(HeaderReader* reader, const std::string& file, uint64_t count,
                    GgufMetadata* metadata) {
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(std::string key,
                     reader->Name("key " + std::to_string(i) + " of the metadata", kMaxKeyBytes));
    const std::string where = "'" + Printable(key) + "' in the metadata";
    ASSIGN_OR_RETURN(const GgufValue value, reader->Value(where));
    if (!metadata->Add(std::move(key), value)) return Invalid(file, where + " is there twice.");
  }
  return OkStatus();
}

// One count of the header, against what the rest of the file can hold.
Result<uint64_t> ReadCount(HeaderReader* reader, const std::string& file, const std::string& what,
                           uint64_t least_bytes) {
  ASSIGN_OR_RETURN(const auto count, reader->Number<uint64_t>("the count of " + what));
  if (count > reader->left() / least_bytes) {
    return Invalid(file, "it claims " + std::to_string(count) + " " + what + "; its " +
                             std::to_string(reader->left()) + " bytes can hold at most " +
                             std::to_string(reader->left() / least_bytes) + ".");
  }
  return count;
}

}  // namespace

std::string SupportedGgufTypes() {
  std::string text;
  for (const TypeInfo& type : kTypes) {
    if (type.format) text += (text.empty() ? "" : ", ") + std::string(type.name);
  }
  return text;
}

Result<GgufModel> ParseGguf(const Slice& slice, const std::string& file) {
  HeaderReader reader(slice.bytes(), file);
  ASSIGN_OR_RETURN(const ByteSpan magic, reader.Take(4, "its magic number"));
  if (AsText(magic) != "GGUF") {
    return Invalid(file, "it begins with '" + Printable(AsText(magic)) + "', not with 'GGUF'.");
  }
  ASSIGN_OR_RETURN(const auto version, reader.Number<uint32_t>("its version"));
  TRY(CheckVersion(file, version));
  GgufModel model{.file = file, .metadata = GgufMetadata(file), .tensors = {}, .bytes = slice};
  ASSIGN_OR_RETURN(const uint64_t tensor_count, ReadCount(&reader, file, "tensors", 24));
  ASSIGN_OR_RETURN(const uint64_t key_count, ReadCount(&reader, file, "keys of metadata", 14));
  TRY(ReadMetadata(&reader, file, key_count, &model.metadata));
  std::vector<Placed> places;
  for (uint64_t i = 0; i < tensor_count; ++i) {
    ASSIGN_OR_RETURN(TensorEntry entry, ReadTensor(&reader, file, i));
    if (!model.tensors.emplace(entry.place.name, std::move(entry.tensor)).second) {
      return Invalid(file, "tensor '" + Printable(entry.place.name) + "' is there twice.");
    }
    places.push_back(std::move(entry.place));
  }
  ASSIGN_OR_RETURN(const uint64_t alignment,
                   model.metadata.Whole("general.alignment", 1, kMaxAlignment, 32));
  if (!std::has_single_bit(alignment)) {
    return Invalid(file, "its 'general.alignment' is " + std::to_string(alignment) +
                             ", which is no power of two.");
  }
  const uint64_t begin =
      std::min<uint64_t>((reader.at() + alignment - 1) / alignment * alignment, slice.byte_count());
  const Slice data = slice.Sub(begin, slice.byte_count() - begin);
  TRY(CheckPlaces(file, places, alignment, data.byte_count()));
  for (const Placed& place : places) {
    model.tensors.find(place.name)->second.bytes = data.Sub(place.offset, place.byte_count);
  }
  return model;
}

namespace {

// "x-00002-of-00003.gguf" is part 2 of 3 of "x".
struct PartName {
  std::string stem;
  uint64_t number = 0, count = 0;
};
std::optional<PartName> ParsePartName(const std::string& name) {
  constexpr size_t kTail = 20;  // "-00002-of-00003.gguf"
  PartName part;
  unsigned number = 0, count = 0;
  if (name.size() <= kTail ||
      std::sscanf(name.c_str() + name.size() - kTail, "-%5u-of-%5u.gguf", &number, &count) != 2) {
    return std::nullopt;
  }
  part.stem = name.substr(0, name.size() - kTail);
  part.number = number;
  part.count = count;
  return part;
}
std::string PartFile(const std::string& stem, uint64_t number, uint64_t count) {
  char tail[64];
  std::snprintf(tail, sizeof(tail), "-%05u-of-%05u.gguf", static_cast<unsigned>(number),
                static_cast<unsigned>(count));
  return stem + tail;
}

Result<GgufModel> OpenFile(const fs::path& path, const std::string& name) {
  ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  ASSIGN_OR_RETURN(GgufModel model, ParseGguf(AsSlice(file), name));
  const std::string version = FileVersion(path);
  for (auto& [tensor_name, tensor] : model.tensors) tensor.version = version;
  return model;
}

Status AddPart(GgufModel part, uint64_t number, uint64_t count, GgufModel* model) {
  ASSIGN_OR_RETURN(const uint64_t its_number, part.metadata.Whole("split.no", 0, kMaxParts));
  ASSIGN_OR_RETURN(const uint64_t its_count, part.metadata.Whole("split.count", 1, kMaxParts));
  if (its_number + 1 != number || its_count != count) {
    return Invalid(part.file, "by its metadata it is part " + std::to_string(its_number + 1) +
                                  " of " + std::to_string(its_count) + ", by its name part " +
                                  std::to_string(number) + " of " + std::to_string(count) + ".");
  }
  for (auto& [name, tensor] : part.tensors) {
    const auto [place, is_new] = model->tensors.emplace(name, std::move(tensor));
    if (!is_new) {
      return Invalid(part.file, "tensor '" + Printable(name) + "' is in '" + place->second.file +
                                    "' already.");
    }
  }
  return OkStatus();
}

}  // namespace

std::string GgufStem(const fs::path& path) {
  if (const auto part = ParsePartName(path.filename().string())) return part->stem;
  return path.stem().string();
}

Result<GgufModel> OpenGguf(const fs::path& path) {
  const std::string name = path.filename().string();
  const auto named = ParsePartName(name);
  // The only part of one is a whole, and need not say that it is a part.
  if (!named || (named->number == 1 && named->count == 1)) {
    ASSIGN_OR_RETURN(GgufModel model, OpenFile(path, name));
    ASSIGN_OR_RETURN(const uint64_t count, model.metadata.Whole("split.count", 0, kMaxParts, 0));
    if (count <= 1) return model;
    return Invalid(name, "it is one of " + std::to_string(count) +
                             " parts, but is not called like one (NAME" + PartFile("", 1, count) +
                             ").");
  }
  if (named->number == 0 || named->number > named->count || named->count > kMaxParts) {
    return Invalid(name, "its name says part " + std::to_string(named->number) + " of " +
                             std::to_string(named->count) + ".");
  }
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::optional<GgufModel> whole;
  for (uint64_t number = 1; number <= named->count; ++number) {
    const std::string file = PartFile(named->stem, number, named->count);
    ASSIGN_OR_RETURN(const fs::path place, SourceFile(folder, file));
    ASSIGN_OR_RETURN(GgufModel part, OpenFile(place, file));
    if (!whole) {
      whole =
          GgufModel{.file = file, .metadata = part.metadata, .tensors = {}, .bytes = part.bytes};
    }
    TRY(AddPart(std::move(part), number, named->count, &*whole));
  }
  ASSIGN_OR_RETURN(const uint64_t expected,
                   whole->metadata.Whole("split.tensors.count", 0, 1 << 24, whole->tensors.size()));
  if (expected != whole->tensors.size()) {
    return Invalid(whole->file, "its parts have " + std::to_string(whole->tensors.size()) +
                                    " tensors; its metadata says " + std::to_string(expected) +
                                    ".");
  }
  return std::move(*whole);
}

}  // namespace weft::convert
