// TensorProto: dimensions, element type, and one of five ways to hold the values (raw_data, typed
// fields, external data).
#include <charconv>

#include "onnx/parse.h"
#include "onnx/validate.h"

namespace weft::onnx {
namespace {

constexpr size_t kMaxRank = 32;

Error Invalid(std::string sentence) {
  return Error(ErrorCode::kInvalidData, std::move(sentence));
}

struct ExternalEntry {
  std::string key;
  std::string value;
};

// The fields of one TensorProto, still in the wire's form.
struct RawTensor {
  std::string name;
  std::vector<int64_t> dims;
  int64_t data_type = 0;
  int64_t data_location = 0;
  std::optional<ByteSpan> raw_data;
  // The typed field that is present: its number and its pieces (packed runs or single values).
  uint32_t typed_number = 0;
  std::vector<WireField> typed;
  std::vector<std::string> strings;
  std::vector<ExternalEntry> external;
  bool segmented = false;
};

std::string Text(ByteSpan bytes) {
  return std::string(AsText(bytes));
}

Result<ExternalEntry> ParseEntry(ByteSpan message) {
  ExternalEntry entry;
  WireReader reader(message);
  while (const auto field = reader.Next()) {
    if (field->type != WireType::kBytes) continue;
    if (field->number == 1) entry.key = Text(field->bytes);
    if (field->number == 2) entry.value = Text(field->bytes);
  }
  if (!reader.ok()) return Invalid("An external_data entry is malformed.");
  return entry;
}

bool IsTypedField(uint32_t number) {
  return number == 4 || number == 5 || number == 7 || number == 10 || number == 11;
}

Result<RawTensor> ReadFields(ByteSpan message) {
  RawTensor raw;
  WireReader reader(message);
  bool well_formed = true;
  while (const auto field = reader.Next()) {
    const bool is_bytes = field->type == WireType::kBytes;
    switch (field->number) {
      case 1:
        well_formed &= AppendVarints(*field, raw.dims);
        break;
      case 2:
        raw.data_type = static_cast<int64_t>(field->varint);
        break;
      case 3:
        raw.segmented = true;
        break;
      case 6:
        if (is_bytes) raw.strings.push_back(Text(field->bytes));
        break;
      case 8:
        if (is_bytes) raw.name = Text(field->bytes);
        break;
      case 9:
        if (is_bytes) raw.raw_data = field->bytes;
        break;
      case 13: {
        ASSIGN_OR_RETURN(ExternalEntry entry, ParseEntry(field->bytes));
        raw.external.push_back(std::move(entry));
        break;
      }
      case 14:
        raw.data_location = static_cast<int64_t>(field->varint);
        break;
      default:
        break;
    }
    if (IsTypedField(field->number)) {
      if (raw.typed_number != 0 && raw.typed_number != field->number) {
        return Invalid("The tensor " + Quoted(raw.name) + " has values in two typed fields.");
      }
      raw.typed_number = field->number;
      raw.typed.push_back(*field);
    }
  }
  if (!reader.ok() || !well_formed) {
    return Invalid("The tensor " + Quoted(raw.name) + " is cut off or malformed.");
  }
  return raw;
}

// The typed field that holds values of `type`, and the bytes of one of its entries in raw form.
struct TypedForm {
  uint32_t field_number;
  size_t entry_bytes;
};

std::optional<TypedForm> TypedFormOf(ElementType type) {
  switch (type) {
    case ElementType::kFloat:
    case ElementType::kComplex64:
      return TypedForm{4, 4};
    case ElementType::kDouble:
    case ElementType::kComplex128:
      return TypedForm{10, 8};
    case ElementType::kInt64:
      return TypedForm{7, 8};
    case ElementType::kUint32:
      return TypedForm{11, 4};
    case ElementType::kUint64:
      return TypedForm{11, 8};
    case ElementType::kInt32:
      return TypedForm{5, 4};
    case ElementType::kString:
    case ElementType::kUndefined:
      return std::nullopt;
    default:
      break;
  }
  // int32_data holds one element of 8 or 16 bits an entry, or one byte of packed 4- and 2-bit
  // elements.
  const int bits = ElementBits(type);
  if (bits == 0 || bits > 16) return std::nullopt;
  return TypedForm{5, bits == 16 ? size_t{2} : size_t{1}};
}

// Entries in a typed field, counted before anything is allocated.
uint64_t CountEntries(const std::vector<WireField>& pieces, bool fixed_width, size_t entry_bytes) {
  uint64_t count = 0;
  for (const WireField& piece : pieces) {
    if (piece.type != WireType::kBytes) {
      ++count;
    } else if (fixed_width) {
      count += piece.bytes.size() / entry_bytes;
    } else {
      for (const uint8_t byte : piece.bytes) count += (byte & 0x80) == 0 ? 1 : 0;
    }
  }
  return count;
}

Result<Slice> TypedBytes(const ParseSource& source, const RawTensor& raw, ElementType type,
                         uint64_t byte_count) {
  const std::optional<TypedForm> form = TypedFormOf(type);
  if (!form || form->field_number != raw.typed_number) {
    return Invalid("The tensor " + Quoted(raw.name) + " of type " +
                   std::string(ElementTypeName(type)) + " has its values in field " +
                   std::to_string(raw.typed_number) + " of TensorProto, which holds other types.");
  }
  const bool fixed_width = form->field_number == 4 || form->field_number == 10;
  const uint64_t entries = CountEntries(raw.typed, fixed_width, form->entry_bytes);
  const uint64_t expected = byte_count / form->entry_bytes;
  if (entries != expected) {
    return Invalid("The tensor " + Quoted(raw.name) + " has " + std::to_string(entries) +
                   " values; its shape needs " + std::to_string(expected) + ".");
  }
  if (fixed_width && raw.typed.size() == 1 && raw.typed[0].bytes.size() == byte_count) {
    return source.SliceOf(raw.typed[0].bytes);  // packed floats are raw bytes already
  }
  std::vector<uint8_t> bytes;
  bytes.reserve(byte_count);
  const auto append = [&](uint64_t value) {
    uint8_t encoded[8];
    StoreLe(encoded, value);
    bytes.insert(bytes.end(), encoded, encoded + form->entry_bytes);
  };
  for (const WireField& piece : raw.typed) {
    if (piece.type != WireType::kBytes) {
      append(piece.varint);
    } else if (fixed_width) {
      bytes.insert(bytes.end(), piece.bytes.begin(), piece.bytes.end());
    } else {
      std::vector<int64_t> values;
      if (!AppendVarints(piece, values)) {
        return Invalid("The tensor " + Quoted(raw.name) + " has a malformed value.");
      }
      for (const int64_t value : values) append(static_cast<uint64_t>(value));
    }
  }
  if (bytes.size() != byte_count) {
    return Invalid("The tensor " + Quoted(raw.name) + " has " + std::to_string(bytes.size()) +
                   " bytes of values; its shape needs " + std::to_string(byte_count) + ".");
  }
  return Slice(std::move(bytes));
}

Result<uint64_t> ParseNumber(const RawTensor& raw, const ExternalEntry& entry) {
  uint64_t value = 0;
  const char* end = entry.value.data() + entry.value.size();
  const auto [stop, error] = std::from_chars(entry.value.data(), end, value);
  if (error != std::errc() || stop != end) {
    return Invalid("The external data " + entry.key + " " + Quoted(entry.value) + " of tensor " +
                   Quoted(raw.name) + " is not a number of bytes.");
  }
  return value;
}

Status FillExternal(const RawTensor& raw, Tensor& tensor) {
  if (raw.raw_data || !raw.typed.empty() || !raw.strings.empty()) {
    return Invalid("The tensor " + Quoted(raw.name) + " has both external and inline values.");
  }
  for (const ExternalEntry& entry : raw.external) {
    if (entry.key == "location") {
      tensor.location = entry.value;
    } else if (entry.key == "offset") {
      ASSIGN_OR_RETURN(tensor.offset, ParseNumber(raw, entry));
    } else if (entry.key == "length") {
      ASSIGN_OR_RETURN(const uint64_t length, ParseNumber(raw, entry));
      if (length != tensor.byte_count) {
        return Invalid("The external data of tensor " + Quoted(raw.name) + " has length " +
                       std::to_string(length) + "; its shape needs " +
                       std::to_string(tensor.byte_count) + " bytes.");
      }
    }
  }
  if (tensor.location.empty()) {
    return Invalid("The tensor " + Quoted(raw.name) + " is external but names no location.");
  }
  if (!CheckedAdd(tensor.offset, tensor.byte_count)) {
    return Invalid("The external data of tensor " + Quoted(raw.name) + " ends past 2^64 bytes.");
  }
  return OkStatus();
}

Status CheckDims(const RawTensor& raw) {
  if (raw.dims.size() > kMaxRank) {
    return Invalid("The tensor " + Quoted(raw.name) + " has " + std::to_string(raw.dims.size()) +
                   " dimensions; at most " + std::to_string(kMaxRank) + " are read.");
  }
  for (const int64_t dim : raw.dims) {
    if (dim < 0) {
      return Invalid("The tensor " + Quoted(raw.name) + " has a negative dimension " +
                     std::to_string(dim) + ".");
    }
  }
  return OkStatus();
}

Result<Tensor> StringTensor(const RawTensor& raw, Tensor tensor) {
  uint64_t count = 1;
  for (const int64_t dim : raw.dims) {
    const auto product = CheckedMul(count, static_cast<uint64_t>(dim));
    if (!product) return Invalid("The shape of tensor " + Quoted(raw.name) + " overflows.");
    count = *product;
  }
  if (count != raw.strings.size()) {
    return Invalid("The string tensor " + Quoted(raw.name) + " has " +
                   std::to_string(raw.strings.size()) + " values; its shape needs " +
                   std::to_string(count) + ".");
  }
  tensor.strings = raw.strings;
  return tensor;
}

Result<Tensor> Build(const ParseSource& source, const RawTensor& raw) {
  Tensor tensor;
  tensor.type = static_cast<ElementType>(raw.data_type);
  tensor.dims = raw.dims;
  if (raw.segmented) {
    return Error(ErrorCode::kUnsupported,
                 "The tensor " + Quoted(raw.name) + " is stored in segments.");
  }
  TRY(CheckDims(raw));
  if (raw.data_type == static_cast<int64_t>(ElementType::kString)) {
    return StringTensor(raw, std::move(tensor));
  }
  if (raw.data_type < 1 || raw.data_type > static_cast<int64_t>(ElementType::kInt2)) {
    return Invalid("The tensor " + Quoted(raw.name) + " has element type " +
                   std::to_string(raw.data_type) + "; ONNX defines 1 to 26.");
  }
  const std::optional<uint64_t> byte_count = TensorByteCount(tensor.type, tensor.dims);
  if (!byte_count) {
    return Invalid("The size of tensor " + Quoted(raw.name) + " overflows 64 bits.");
  }
  tensor.byte_count = *byte_count;
  if (raw.data_location == 1) {
    TRY(FillExternal(raw, tensor));
    return tensor;
  }
  if (!raw.typed.empty() && !(raw.raw_data && !raw.raw_data->empty())) {
    ASSIGN_OR_RETURN(tensor.data, TypedBytes(source, raw, tensor.type, *byte_count));
    return tensor;
  }
  const uint64_t present = raw.raw_data ? raw.raw_data->size() : 0;
  if (present != *byte_count) {
    return Invalid("The tensor " + Quoted(raw.name) + " has " + std::to_string(present) +
                   " bytes of data; its shape needs " + std::to_string(*byte_count) + ".");
  }
  if (present > 0) tensor.data = source.SliceOf(*raw.raw_data);
  tensor.mapped = source.mapped && present > 0;
  return tensor;
}

}  // namespace

Result<NamedTensor> ParseTensor(const ParseSource& source, ByteSpan message) {
  ASSIGN_OR_RETURN(RawTensor raw, ReadFields(message));
  ASSIGN_OR_RETURN(Tensor tensor, Build(source, raw));
  return NamedTensor{std::move(raw.name), std::move(tensor)};
}

}  // namespace weft::onnx
