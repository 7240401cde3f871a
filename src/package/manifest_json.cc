// weft.json to and from a Manifest. A manifest may come from a server that is not ours, so that
// every number has a range and every name an alphabet.
#include <algorithm>
#include <boost/json.hpp>
#include <functional>
#include <set>

#include "package/manifest.h"

namespace weft::package {
namespace {

namespace json = boost::json;

constexpr size_t kMaxDepth = 8;
constexpr uint64_t kMaxManifestBytes = 256ull << 20;
constexpr uint64_t kMaxBytes = 1ull << 50;
constexpr uint64_t kMaxLayers = 4096;
constexpr uint64_t kMaxBlobs = 1ull << 20;
constexpr uint64_t kMaxFiles = 64;

Error Invalid(std::string message) {
  return Error(ErrorCode::kInvalidData, "The package manifest is not valid: " + std::move(message));
}

// ---- writing

json::value Value(const LayerInfo& layer, bool lowered) {
  json::array blobs;
  for (const Digest& blob : layer.blobs) blobs.push_back(json::string(blob.ToHex()));
  json::object out{{"index", layer.index}, {"kind", layer.kind}};
  if (lowered) out["program"] = layer.program.ToHex();
  out["blobs"] = std::move(blobs);
  out["weight_bytes"] = layer.weight_bytes;
  out["read_bytes_per_token"] = layer.read_bytes_per_token;
  out["kv_bytes_per_position"] = layer.kv_bytes_per_position;
  if (layer.state_bytes > 0) out["state_bytes"] = layer.state_bytes;
  if (layer.predictor != Digest()) out["predictor"] = layer.predictor.ToHex();
  return out;
}

json::value Value(const BlobInfo& info) {
  json::array chunks;
  for (const Sha256Digest& chunk : info.chunks) chunks.push_back(json::string(ToHex(chunk)));
  return json::object{{"byte_count", info.byte_count}, {"chunks", std::move(chunks)}};
}

std::string Key(std::string_view name, const json::value& value) {
  return json::serialize(json::value(name)) + ": " + json::serialize(value);
}

// One line for each entry, so that people and diff can read it.
std::string Lines(std::string_view name, char open, const std::vector<std::string>& entries,
                  char close) {
  std::string text = json::serialize(json::value(name)) + ": " + open;
  for (size_t i = 0; i < entries.size(); ++i) text += (i == 0 ? "\n    " : ",\n    ") + entries[i];
  return text + "\n  " + close;
}

// ---- reading

Result<const json::value*> Member(const json::object& object, std::string_view name,
                                  const std::string& where) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr) return Invalid(where + " has no '" + std::string(name) + "'.");
  return value;
}

Result<uint64_t> Number(const json::object& object, std::string_view name, const std::string& where,
                        uint64_t least, uint64_t most) {
  ASSIGN_OR_RETURN(const json::value* value, Member(object, name, where));
  json::error_code failure;
  const auto number = value->to_number<uint64_t>(failure);
  if (!value->is_number() || failure || number < least || number > most) {
    return Invalid("'" + std::string(name) + "' of " + where + " is " +
                   json::serialize(*value).substr(0, 40) + "; expected a whole number from " +
                   std::to_string(least) + " to " + std::to_string(most) + ".");
  }
  return number;
}

Result<std::string> Text(const json::object& object, std::string_view name,
                         const std::string& where) {
  ASSIGN_OR_RETURN(const json::value* value, Member(object, name, where));
  if (!value->is_string()) {
    return Invalid("'" + std::string(name) + "' of " + where + " is not a string.");
  }
  return std::string(value->get_string());
}

// A short identifier: letters, digits, '_', '-' and '.'.
Result<std::string> Word(const json::object& object, std::string_view name,
                         const std::string& where) {
  ASSIGN_OR_RETURN(std::string text, Text(object, name, where));
  const bool fits = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
  if (text.empty() || text.size() > 64 || !fits) {
    return Invalid("'" + std::string(name) + "' of " + where +
                   " must be 1 to 64 letters, digits, '_', '-' or '.'.");
  }
  return text;
}

Result<const json::object*> Object(const json::object& object, std::string_view name,
                                   uint64_t most) {
  ASSIGN_OR_RETURN(const json::value* value, Member(object, name, "it"));
  if (!value->is_object() || value->get_object().size() > most) {
    return Invalid("'" + std::string(name) + "' is not an object of at most " +
                   std::to_string(most) + " entries.");
  }
  return &value->get_object();
}

Result<Digest> ParseDigest(const json::value& value, const std::string& where) {
  if (!value.is_string()) return Invalid(where + " is not a string; expected a digest.");
  return Digest::Parse(std::string_view(value.get_string())).Context("While reading " + where);
}

Status ParseBlobs(const json::object& object, Manifest* manifest) {
  for (const auto& entry : object) {
    const std::string where = "blob " + std::string(entry.key()).substr(0, 64);
    ASSIGN_OR_RETURN(const Digest digest,
                     Digest::Parse(std::string_view(entry.key())).Context("While reading 'blobs'"));
    if (!entry.value().is_object()) return Invalid(where + " is not an object.");
    const json::object& fields = entry.value().get_object();
    BlobInfo info;
    ASSIGN_OR_RETURN(info.byte_count, Number(fields, "byte_count", where, 1, kMaxBytes));
    ASSIGN_OR_RETURN(const json::value* chunks, Member(fields, "chunks", where));
    if (!chunks->is_array()) return Invalid("'chunks' of " + where + " is not an array.");
    if (chunks->get_array().size() != ChunkCount(info.byte_count)) {
      return Invalid(where + " has " + std::to_string(info.byte_count) + " bytes and " +
                     std::to_string(chunks->get_array().size()) + " chunk hashes; expected " +
                     std::to_string(ChunkCount(info.byte_count)) + ".");
    }
    for (const json::value& chunk : chunks->get_array()) {
      ASSIGN_OR_RETURN(const Digest hash, ParseDigest(chunk, "a chunk hash of " + where));
      info.chunks.push_back(hash.bytes());
    }
    manifest->blobs.emplace(digest, std::move(info));
  }
  return OkStatus();
}

Result<Digest> ParseBlobReference(const json::value& value, const Manifest& manifest,
                                  const std::string& where) {
  ASSIGN_OR_RETURN(const Digest digest, ParseDigest(value, where));
  if (!manifest.blobs.contains(digest)) {
    return Invalid(where + " names blob " + digest.ToHex() + ", which 'blobs' does not list.");
  }
  return digest;
}

Result<LayerInfo> ParseLayer(const json::value& value, const Manifest& manifest, uint32_t index,
                             uint32_t count) {
  const std::string where = "layer " + std::to_string(index);
  if (!value.is_object()) return Invalid(where + " is not an object.");
  const json::object& fields = value.get_object();
  LayerInfo layer;
  ASSIGN_OR_RETURN(const uint64_t stated, Number(fields, "index", where, 0, kMaxLayers));
  if (stated != index) {
    return Invalid("layers must be in order: entry " + std::to_string(index) + " says index " +
                   std::to_string(stated) + ".");
  }
  layer.index = index;
  ASSIGN_OR_RETURN(layer.kind, Text(fields, "kind", where));
  const std::string_view expected = index == 0           ? "embedding"
                                    : index + 1 == count ? "head"
                                                         : "transformer";
  if (layer.kind != expected) {
    return Invalid("'kind' of " + where + " must be '" + std::string(expected) + "'.");
  }
  if (manifest.lowered) {
    ASSIGN_OR_RETURN(const json::value* program, Member(fields, "program", where));
    ASSIGN_OR_RETURN(layer.program,
                     ParseBlobReference(*program, manifest, "'program' of " + where));
  }
  ASSIGN_OR_RETURN(const json::value* blobs, Member(fields, "blobs", where));
  if (!blobs->is_array()) return Invalid("'blobs' of " + where + " is not an array.");
  std::set<Digest> seen;
  for (const json::value& blob : blobs->get_array()) {
    ASSIGN_OR_RETURN(const Digest digest,
                     ParseBlobReference(blob, manifest, "'blobs' of " + where));
    if (!seen.insert(digest).second) {
      return Invalid("'blobs' of " + where + " lists " + digest.ToHex() + " twice.");
    }
    layer.blobs.push_back(digest);
  }
  ASSIGN_OR_RETURN(layer.weight_bytes, Number(fields, "weight_bytes", where, 0, kMaxBytes));
  ASSIGN_OR_RETURN(layer.read_bytes_per_token,
                   Number(fields, "read_bytes_per_token", where, 0, kMaxBytes));
  ASSIGN_OR_RETURN(layer.kv_bytes_per_position,
                   Number(fields, "kv_bytes_per_position", where, 0, 1ull << 32));
  if (fields.contains("state_bytes")) {
    ASSIGN_OR_RETURN(layer.state_bytes, Number(fields, "state_bytes", where, 0, 1ull << 32));
  }
  if (const json::value* predictor = fields.if_contains("predictor")) {
    ASSIGN_OR_RETURN(layer.predictor,
                     ParseBlobReference(*predictor, manifest, "'predictor' of " + where));
  }
  return layer;
}

Status ParseKeepTogether(const json::object& root, Manifest* manifest) {
  const json::value* ranges = root.if_contains("keep_together");
  if (ranges == nullptr) return OkStatus();
  const uint64_t count = manifest->layers.size();
  const Error wrong =
      Invalid("'keep_together' is " + json::serialize(*ranges).substr(0, 80) +
              "; expected ranges [first, end) of two of its " + std::to_string(count) +
              " layers or more, ascending and apart from each other.");
  if (!ranges->is_array()) return wrong;
  uint64_t before = 0;
  for (const json::value& range : ranges->get_array()) {
    if (!range.is_array() || range.get_array().size() != 2) return wrong;
    uint64_t ends[2] = {};
    for (size_t i = 0; i < 2; ++i) {
      const json::value& number = range.get_array()[i];
      json::error_code failure;
      if (number.is_number()) ends[i] = number.to_number<uint64_t>(failure);
      if (!number.is_number() || failure || ends[i] > count) return wrong;
    }
    if (ends[0] < before || ends[1] < ends[0] + 2) return wrong;
    manifest->keep_together.push_back(
        {static_cast<uint32_t>(ends[0]), static_cast<uint32_t>(ends[1])});
    before = ends[1];
  }
  return OkStatus();
}

Status ParseFiles(const json::object& object, Manifest* manifest) {
  for (const auto& entry : object) {
    const std::string name(entry.key());
    const std::string where = "file '" + name.substr(0, 80) + "'";
    if (!IsPackageFileName(name)) {
      return Invalid("'files' names '" + name.substr(0, 80) +
                     "': a file name is 1 to 64 letters, digits, '_', '-' or '.', does not begin "
                     "with '.', and is not weft.json.");
    }
    ASSIGN_OR_RETURN(const Digest digest, ParseDigest(entry.value(), where));
    manifest->files.emplace(name, digest);
  }
  return OkStatus();
}

Status ParseHeader(const json::object& root, Manifest* manifest) {
  ASSIGN_OR_RETURN(manifest->name, Text(root, "name", "it"));
  const bool printable = std::none_of(manifest->name.begin(), manifest->name.end(),
                                      [](char c) { return (c >= 0 && c < ' ') || c == 127; });
  if (manifest->name.empty() || manifest->name.size() > 200 || !printable) {
    return Invalid("'name' must be 1 to 200 bytes without control characters.");
  }
  ASSIGN_OR_RETURN(manifest->architecture, Word(root, "architecture", "it"));
  ASSIGN_OR_RETURN(manifest->quantisation, Word(root, "quantisation", "it"));
  ASSIGN_OR_RETURN(const std::string boundary, Text(root, "boundary_dtype", "it"));
  const std::optional<DType> dtype = DTypeFromName(boundary);
  if (dtype != DType::kF16 && dtype != DType::kBF16 && dtype != DType::kF32) {
    return Invalid("'boundary_dtype' is '" + boundary.substr(0, 40) +
                   "'; expected f16, bf16 or f32.");
  }
  manifest->boundary_dtype = *dtype;
  ASSIGN_OR_RETURN(const uint64_t hidden, Number(root, "hidden_columns", "it", 1, 1 << 20));
  ASSIGN_OR_RETURN(const uint64_t vocabulary, Number(root, "vocabulary", "it", 1, 1 << 24));
  ASSIGN_OR_RETURN(const uint64_t context, Number(root, "context_length", "it", 1, 1 << 28));
  manifest->hidden_columns = static_cast<uint32_t>(hidden);
  manifest->vocabulary = static_cast<uint32_t>(vocabulary);
  manifest->context_length = static_cast<uint32_t>(context);
  ASSIGN_OR_RETURN(const json::value* lowered, Member(root, "lowered", "it"));
  if (!lowered->is_bool()) return Invalid("'lowered' is neither true nor false.");
  manifest->lowered = lowered->get_bool();
  if (const json::value* has_onnx = root.if_contains("has_onnx")) {
    if (!has_onnx->is_bool()) return Invalid("'has_onnx' is neither true nor false.");
    manifest->has_onnx = has_onnx->get_bool();
  }
  if (!manifest->lowered && !manifest->has_onnx) {
    return Invalid("it has neither programs nor a graph that onnxruntime runs.");
  }
  return OkStatus();
}

Status CheckFormat(const json::object& root) {
  ASSIGN_OR_RETURN(const uint64_t format, Number(root, "format", "it", 0, UINT32_MAX));
  if (format >= kOldestPackageFormat && format <= kPackageFormat) {
    const bool embeds = root.contains("embedding");
    const json::value* form = root.if_contains("quantisation");
    const bool is_new = embeds || (form != nullptr && form->is_string() &&
                                   IsNewQuantisation(std::string_view(form->get_string())));
    if (is_new == (format == kPackageFormat)) return OkStatus();
    return Invalid("it has format " + std::to_string(format) +
                   (embeds ? " and 'embedding', which has format "
                    : is_new
                        ? " and weights in superblocks, which have format "
                        : " without 'embedding'; only embeddings and weights in superblocks have "
                          "format ") +
                   std::to_string(kPackageFormat) + ".");
  }
  const std::string both = "This package has format " + std::to_string(format) +
                           "; this weft reads formats up to " + std::to_string(kPackageFormat) +
                           ". ";
  return Error(ErrorCode::kUnsupported,
               both + (format > kPackageFormat ? "Update weft."
                                               : "Make the package again with `weft convert`."));
}

Result<Manifest> ParseRoot(const json::value& value) {
  if (!value.is_object()) return Invalid("it is not a JSON object.");
  const json::object& root = value.get_object();
  TRY(CheckFormat(root));
  Manifest manifest;
  TRY(ParseHeader(root, &manifest));
  if (const json::value* embedding = root.if_contains("embedding")) {
    ASSIGN_OR_RETURN(manifest.embedding, ParseEmbedding(*embedding, manifest.hidden_columns));
  }
  ASSIGN_OR_RETURN(const json::object* blobs, Object(root, "blobs", kMaxBlobs));
  TRY(ParseBlobs(*blobs, &manifest));
  ASSIGN_OR_RETURN(const json::value* layers, Member(root, "layers", "it"));
  if (!layers->is_array() || layers->get_array().size() < 3 ||
      layers->get_array().size() > kMaxLayers) {
    return Invalid("'layers' must be an array of 3 to " + std::to_string(kMaxLayers) +
                   " layers: the embedding, the transformer layers, the output head.");
  }
  const auto count = static_cast<uint32_t>(layers->get_array().size());
  for (uint32_t index = 0; index < count; ++index) {
    ASSIGN_OR_RETURN(LayerInfo layer,
                     ParseLayer(layers->get_array()[index], manifest, index, count));
    manifest.layers.push_back(std::move(layer));
  }
  TRY(ParseKeepTogether(root, &manifest));
  ASSIGN_OR_RETURN(const json::object* files, Object(root, "files", kMaxFiles));
  TRY(ParseFiles(*files, &manifest));
  return manifest;
}

}  // namespace

bool IsPackageFileName(std::string_view name) {
  const bool fits = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
  return fits && !name.empty() && name.size() <= 64 && name.front() != '.' && name != "weft.json";
}

std::string ToJson(const Manifest& manifest) {
  std::vector<std::string> layers, blobs, files;
  for (const LayerInfo& layer : manifest.layers) {
    layers.push_back(json::serialize(Value(layer, manifest.lowered)));
  }
  for (const auto& [digest, info] : manifest.blobs) {
    blobs.push_back(Key(digest.ToHex(), Value(info)));
  }
  for (const auto& [name, digest] : manifest.files) {
    files.push_back(Key(name, json::value(digest.ToHex())));
  }
  std::vector<std::string> members = {
      Key("format", manifest.format()),
      Key("name", json::value(manifest.name)),
      Key("architecture", json::value(manifest.architecture)),
      Key("quantisation", json::value(manifest.quantisation)),
      Key("boundary_dtype", json::value(DTypeName(manifest.boundary_dtype))),
      Key("hidden_columns", manifest.hidden_columns),
      Key("vocabulary", manifest.vocabulary),
      Key("context_length", manifest.context_length),
      Key("lowered", manifest.lowered),
  };
  if (!manifest.has_onnx) members.push_back(Key("has_onnx", false));
  if (manifest.embedding) members.push_back(Key("embedding", ToJson(*manifest.embedding)));
  if (!manifest.keep_together.empty()) {
    json::array ranges;
    for (const LayerRange& range : manifest.keep_together) {
      ranges.push_back(json::array{range.first, range.end});
    }
    members.push_back(Key("keep_together", std::move(ranges)));
  }
  members.push_back(Lines("layers", '[', layers, ']'));
  members.push_back(Lines("files", '{', files, '}'));
  members.push_back(Lines("blobs", '{', blobs, '}'));
  std::string text = "{";
  for (size_t i = 0; i < members.size(); ++i) text += (i == 0 ? "\n  " : ",\n  ") + members[i];
  return text + "\n}\n";
}

Result<Manifest> ParseManifest(ByteSpan bytes) {
  if (bytes.size() > kMaxManifestBytes) {
    return Invalid("it has " + std::to_string(bytes.size()) + " bytes; at most " +
                   std::to_string(kMaxManifestBytes) + " are read.");
  }
  json::parse_options options;
  options.max_depth = kMaxDepth;
  json::error_code failure;
  const std::string_view text = AsText(bytes);
  const json::value value = json::parse(json::string_view(text.data(), text.size()), failure,
                                        json::storage_ptr(), options);
  if (failure) {
    return Invalid("it is not JSON that nests at most " + std::to_string(kMaxDepth) + " deep (" +
                   failure.message() + ").");
  }
  return ParseRoot(value);
}

}  // namespace weft::package
