#include "convert/weights/journal.h"

#include <algorithm>

#include "base/file.h"
#include "convert/source/json_reader.h"

namespace weft::convert {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr char kName[] = "convert.journal";

json::object ToJson(const StoredArray& array) {
  return {{"offset", array.offset}, {"byte_count", array.byte_count}};
}

Result<StoredArray> ParseArray(const JsonReader& line, std::string_view key,
                               const package::Digest& blob, uint64_t blob_bytes) {
  ASSIGN_OR_RETURN(const json::object* object, line.Object(key));
  if (object == nullptr) return StoredArray{};
  const JsonReader reader(*object, "a line of the journal");
  StoredArray array{.blob = blob, .offset = 0, .byte_count = 0};
  ASSIGN_OR_RETURN(array.offset, reader.Whole("offset", 0, blob_bytes));
  ASSIGN_OR_RETURN(array.byte_count, reader.Whole("byte_count", 1, blob_bytes - array.offset));
  return array;
}

Result<StoredWeight> ParseWeight(const json::value& value, const package::Digest& blob,
                                 uint64_t blob_bytes) {
  const std::string what = "a weight of the journal";
  if (!value.is_object()) return Error(ErrorCode::kInvalidData, what + " is not an object.");
  const JsonReader reader(value.get_object(), what);
  StoredWeight weight;
  ASSIGN_OR_RETURN(const uint64_t dtype, reader.Whole("dtype", 0, UINT8_MAX));
  weight.dtype = static_cast<DType>(dtype);
  ASSIGN_OR_RETURN(weight.data, ParseArray(reader, "data", blob, blob_bytes));
  ASSIGN_OR_RETURN(weight.scale, ParseArray(reader, "scale", blob, blob_bytes));
  ASSIGN_OR_RETURN(weight.zero, ParseArray(reader, "zero", blob, blob_bytes));
  return weight;
}

Result<std::pair<std::string, Journal::Entry>> ParseLine(std::string_view text) {
  const std::string what = "a line of the journal";
  ASSIGN_OR_RETURN(const json::value value, ParseJson(text, what));
  if (!value.is_object()) return Error(ErrorCode::kInvalidData, what + " is not an object.");
  const JsonReader line(value.get_object(), what);
  Journal::Entry entry;
  ASSIGN_OR_RETURN(std::string key, line.Text("key"));
  ASSIGN_OR_RETURN(const std::string hex, line.Text("blob"));
  ASSIGN_OR_RETURN(entry.blob, package::Digest::Parse(hex));
  ASSIGN_OR_RETURN(entry.info.byte_count, line.Whole("byte_count", 1, uint64_t{1} << 50));
  ASSIGN_OR_RETURN(const json::array* weights, line.Array("weights"));
  if (weights == nullptr) return Error(ErrorCode::kInvalidData, what + " has no weights.");
  for (const json::value& weight : *weights) {
    ASSIGN_OR_RETURN(StoredWeight parsed, ParseWeight(weight, entry.blob, entry.info.byte_count));
    entry.weights.push_back(std::move(parsed));
  }
  ASSIGN_OR_RETURN(const json::array* chunks, line.Array("chunks"));
  if (chunks == nullptr || chunks->size() != package::ChunkCount(entry.info.byte_count)) {
    return Error(ErrorCode::kInvalidData, what + " has the wrong number of chunks.");
  }
  for (const json::value& chunk : *chunks) {
    if (!chunk.is_string()) return Error(ErrorCode::kInvalidData, what + " has a bad chunk.");
    ASSIGN_OR_RETURN(const package::Digest hash,
                     package::Digest::Parse(std::string_view(chunk.get_string())));
    entry.info.chunks.push_back(hash.bytes());
  }
  return std::pair(std::move(key), std::move(entry));
}

}  // namespace

// A line is appended when its blob lies complete under its final name, so a line never speaks of a
// blob that is still being written. A process that dies may leave half a line, which has no
// newline: it is skipped, and a newline goes before what is appended next, else the first new line
// would be glued to it and lost as well.
//
// Keys say what a blob was made of (which source, which tensors, in what form), not where it goes,
// so a conversion that was asked for another format finds nothing it could take by mistake. Names
// of blobs are hashes, and the bytes are hashed again before one is taken over: a disk that was
// full or a file that someone edited costs time, never a wrong weight.
Journal::Journal(const fs::path& folder) : folder_(folder) {
  const auto text = ReadTextFile(folder / kName);
  std::string_view rest = text.ok() ? std::string_view(*text) : std::string_view();
  bool torn = false;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    torn = end == std::string_view::npos;
    if (torn) break;
    if (auto line = ParseLine(rest.substr(0, end)); line.ok()) {
      entries_[line->first] = std::move(line->second);
    }
    rest.remove_prefix(end + 1);
  }
  out_.open(folder / kName, std::ios::app | std::ios::binary);
  if (torn) out_ << '\n';
}

std::optional<Journal::Entry> Journal::Find(const std::string& key) const {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  const Entry& entry = found->second;
  const auto file = MappedFile::Open(folder_ / "blobs" / entry.blob.ToHex());
  if (!file.ok() || file.value()->bytes().size() != entry.info.byte_count) return std::nullopt;
  if (package::MakeBlobInfo(file.value()->bytes()).chunks != entry.info.chunks) return std::nullopt;
  return entry;
}

void Journal::Add(const std::string& key, const Entry& entry) {
  json::array chunks;
  for (const Sha256Digest& chunk : entry.info.chunks) chunks.emplace_back(ToHex(chunk));
  json::array weights;
  for (const StoredWeight& weight : entry.weights) {
    json::object item{{"dtype", static_cast<uint32_t>(weight.dtype)},
                      {"data", ToJson(weight.data)}};
    if (weight.scale.byte_count > 0) item["scale"] = ToJson(weight.scale);
    if (weight.zero.byte_count > 0) item["zero"] = ToJson(weight.zero);
    weights.push_back(std::move(item));
  }
  const json::object line{{"key", key},
                          {"blob", entry.blob.ToHex()},
                          {"byte_count", entry.info.byte_count},
                          {"weights", std::move(weights)},
                          {"chunks", std::move(chunks)}};
  out_ << json::serialize(line) << '\n' << std::flush;
}

void Journal::Remove() {
  out_.close();
  std::error_code ignored;
  fs::remove(folder_ / kName, ignored);
}

}  // namespace weft::convert
