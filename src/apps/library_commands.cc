// `weft pull`, `list`, `show` and `rm`: models of a registry, and the library of packages.
#include <boost/json.hpp>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>

#include "apps/commands.h"
#include "apps/pull_model.h"
#include "apps/text_columns.h"
#include "base/bytes.h"
#include "convert/weights/weight_errors.h"
#include "package/package.h"
#include "program/codec.h"
#include "program/summary.h"
#include "registry/library.h"
#include "registry/registry_cache.h"
#include "registry/registry_settings.h"
#include "swarm/options.h"

namespace weft::apps {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr uint64_t kUsualContext = swarm::kDefaultContextLength;

std::string DateText(int64_t seconds) {
  const std::time_t when = seconds;
  std::tm parts = {};
  char text[32] = "";
  if (gmtime_r(&when, &parts) != nullptr) std::strftime(text, sizeof(text), "%Y-%m-%d", &parts);
  return text;
}

uint64_t KvBytesPerToken(const package::Manifest& manifest) {
  uint64_t bytes = 0;
  for (const package::LayerInfo& layer : manifest.layers) bytes += layer.kv_bytes_per_position;
  return bytes;
}

uint64_t WeightBytes(const package::Manifest& manifest) {
  return package::DownloadBytes(manifest, 0, static_cast<uint32_t>(manifest.layers.size()));
}

// "the last row, of length 1; shorter ones: 256, 512; prompts: document, query"
std::string ShownEmbedding(const package::Embedding& embedding) {
  std::string text =
      embedding.pooling == package::Pooling::kMean ? "the mean of all rows" : "the last row";
  if (embedding.normalize) text += ", of length 1";
  if (embedding.matryoshka) text += "; shorter ones: ";
  if (embedding.matryoshka && embedding.dimensions.empty()) text += "any";
  for (const uint32_t& columns : embedding.dimensions)
    text += (&columns == embedding.dimensions.data() ? "" : ", ") + std::to_string(columns);
  for (const auto& [name, prompt] : embedding.prompts)
    text += (name == embedding.prompts.begin()->first ? "; prompts: " : ", ") + name +
            (name == embedding.default_prompt ? " (unasked)" : "");
  return text;
}

json::object EntryJson(const registry::LibraryEntry& entry) {
  const package::Manifest& manifest = entry.manifest;
  json::object object{
      {"name", entry.name},
      {"model", manifest.name},
      {"architecture", manifest.architecture},
      {"quantisation", manifest.quantisation},
      {"layers", manifest.layers.size()},
      {"bytes", entry.byte_count},
      {"weight_bytes", WeightBytes(manifest)},
      {"kv_bytes_per_token", KvBytesPerToken(manifest)},
      {"context_length", manifest.context_length},
      {"vocabulary", manifest.vocabulary},
      {"embedding", manifest.embedding ? package::ToJson(*manifest.embedding) : json::value()},
      {"lowered", manifest.lowered},
      {"predictor_bytes", package::PredictorBytes(manifest)},
      {"made_at", entry.made_at_seconds},
      {"folder", entry.folder.string()}};
  if (entry.source) {
    object["source"] = json::object{{"endpoint", entry.source->endpoint},
                                    {"repository", entry.source->repository},
                                    {"revision", entry.source->revision},
                                    {"commit", entry.source->commit},
                                    {"files", json::value_from(entry.source->files)}};
  }
  return object;
}

// A layer of a package, and what its program says where there is one.
struct ShownLayer {
  package::LayerInfo info;
  program::LayerSummary summary;
};

Result<std::vector<ShownLayer>> ReadLayers(const fs::path& folder) {
  ASSIGN_OR_RETURN(const package::Package package, package::Package::Open(folder));
  std::vector<ShownLayer> layers;
  for (const package::LayerInfo& info : package.manifest.layers) {
    layers.push_back({info, {}});
    if (!package.manifest.lowered) continue;
    ASSIGN_OR_RETURN(const Slice bytes,
                     package.blobs->Get(info.program, package.manifest.blobs.at(info.program)));
    ASSIGN_OR_RETURN(const program::Program program, program::Decode(bytes.bytes()));
    layers.back().summary = program::Summarise(program);
  }
  return layers;
}

json::object LayerJson(const ShownLayer& layer) {
  const program::LayerSummary& summary = layer.summary;
  json::object object{{"layer", layer.info.index},
                      {"kind", layer.info.kind},
                      {"weight_bytes", layer.info.weight_bytes},
                      {"kv_bytes_per_token", layer.info.kv_bytes_per_position},
                      {"state_bytes", layer.info.state_bytes}};
  if (!summary.mixer.empty()) object["mixer"] = summary.mixer;
  const std::pair<const char*, uint32_t> counts[] = {
      {"heads", summary.heads},
      {"kv_heads", summary.kv_heads},
      {"head_columns", summary.head_columns},
      {"window", summary.window},
      {"mlp_columns", summary.mlp_columns},
      {"experts", summary.experts},
      {"experts_per_token", summary.experts_per_token},
      {"expert_columns", summary.expert_columns}};
  for (const auto& [key, count] : counts)
    if (count > 0) object[key] = count;
  if (summary.expert_parts > 1) object["expert_parts"] = summary.expert_parts;
  if (summary.kv_layer) object["kv_layer"] = *summary.kv_layer;
  return object;
}

// What a layer does: "attention, 16 heads, 128 columns; MLP of 3072".
std::string LayerText(const ShownLayer& layer) {
  const std::string mixer = program::MixerText(layer.summary);
  const std::string mlp = program::MlpText(layer.summary);
  if (mixer.empty() && mlp.empty()) return layer.info.kind;
  return mixer + (mixer.empty() || mlp.empty() ? "" : "; ") + mlp;
}

Status ShowLayers(const fs::path& folder, bool as_json) {
  ASSIGN_OR_RETURN(const std::vector<ShownLayer> layers, ReadLayers(folder));
  if (as_json) {
    json::array array;
    for (const ShownLayer& layer : layers) array.push_back(LayerJson(layer));
    std::cout << json::serialize(array) << "\n";
    return OkStatus();
  }
  std::vector<std::vector<std::string>> rows = {
      {"LAYER", "WEIGHTS", "A TOKEN'S KEYS", "STATE", "WHAT IT DOES"}};
  const auto bytes = [](uint64_t count) { return count == 0 ? "-" : HumanBytes(count); };
  for (const ShownLayer& layer : layers) {
    const package::LayerInfo& info = layer.info;
    rows.push_back({std::to_string(info.index), bytes(info.weight_bytes),
                    bytes(info.kv_bytes_per_position), bytes(info.state_bytes), LayerText(layer)});
  }
  PrintColumns(rows);
  return OkStatus();
}

int List(bool as_json) {
  const fs::path library = registry::LibraryFolder(std::getenv);
  std::vector<std::string> problems;
  const auto entries = registry::ListLibrary(library, &problems);
  for (const std::string& problem : problems) std::cerr << "weft list: note: " << problem << "\n";
  if (as_json) {
    json::array array;
    for (const registry::LibraryEntry& entry : entries) array.push_back(EntryJson(entry));
    std::cout << json::serialize(array) << "\n";
    return 0;
  }
  if (entries.empty()) {
    std::cout << "There are no packages in " << library.string()
              << " yet. `weft pull ORGANISATION/NAME` brings one.\n";
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "ARCHITECTURE", "WEIGHTS", "SIZE", "MADE"}};
  for (const registry::LibraryEntry& entry : entries) {
    rows.push_back({entry.name, entry.manifest.architecture, entry.manifest.quantisation,
                    HumanBytes(entry.byte_count), DateText(entry.made_at_seconds)});
  }
  PrintColumns(rows);
  return 0;
}

// How far each matrix is from the checkpoint's.
Status ShowErrors(const fs::path& folder, const fs::path& checkpoint, bool as_json) {
  ASSIGN_OR_RETURN(const package::Package package, package::Package::Open(folder));
  ASSIGN_OR_RETURN(const std::vector<convert::WeightError> errors,
                   convert::CompareWeights(package, checkpoint));
  if (as_json) {
    json::array array;
    for (const convert::WeightError& matrix : errors)
      array.push_back({{"name", matrix.name},
                       {"dtype", json::value(DTypeName(matrix.dtype))},
                       {"relative_rms", matrix.relative_rms}});
    std::cout << json::serialize(array) << "\n";
    return OkStatus();
  }
  std::vector<std::vector<std::string>> rows = {{"MATRIX", "FORM", "ERROR"}};
  for (const convert::WeightError& matrix : errors) {
    char percent[32];
    std::snprintf(percent, sizeof(percent), "%.3f%%", 100 * matrix.relative_rms);
    rows.push_back({matrix.name, std::string(DTypeName(matrix.dtype)), percent});
  }
  PrintColumns(rows);
  return OkStatus();
}

struct ShowOptions {
  std::string name;
  std::string errors;  // a checkpoint
  bool as_json = false;
  bool layers = false;
};

Status Show(const ShowOptions& options) {
  ASSIGN_OR_RETURN(const fs::path folder,
                   registry::FindPackage(registry::LibraryFolder(std::getenv), options.name));
  if (options.layers) return ShowLayers(folder, options.as_json);
  if (!options.errors.empty()) return ShowErrors(folder, options.errors, options.as_json);
  ASSIGN_OR_RETURN(const registry::LibraryEntry entry, registry::ReadEntry(folder));
  if (options.as_json) {
    std::cout << json::serialize(EntryJson(entry)) << "\n";
    return OkStatus();
  }
  const package::Manifest& manifest = entry.manifest;
  const uint64_t context = manifest.context_length > 0
                               ? std::min<uint64_t>(kUsualContext, manifest.context_length)
                               : kUsualContext;
  const uint64_t kv_bytes = KvBytesPerToken(manifest);
  const uint64_t memory_bytes = WeightBytes(manifest) + kv_bytes * context;
  std::vector<std::vector<std::string>> rows = {
      {"name", entry.name},
      {"model", manifest.name},
      {"architecture", manifest.architecture},
      {"weights", manifest.quantisation + ", " + HumanBytes(WeightBytes(manifest))},
      {"layers", std::to_string(manifest.layers.size() - 2) + " between embedding and head, " +
                     std::to_string(manifest.hidden_columns) + " columns wide"},
      {"vocabulary", std::to_string(manifest.vocabulary) + " tokens"},
      {"context", manifest.context_length > 0
                      ? "made for " + std::to_string(manifest.context_length) + " tokens"
                      : "not stated"},
      {"keys, values", HumanBytes(kv_bytes) + " per token of a conversation"},
      {"memory", HumanBytes(memory_bytes) + " on all devices together, for a conversation of " +
                     std::to_string(context) + " tokens"},
      {"runs on", !manifest.lowered   ? "browsers with onnxruntime-web only"
                  : manifest.has_onnx ? "native workers and browsers"
                                      : "native workers and browsers with WebGPU"},
      {"on disk", HumanBytes(entry.byte_count) + " in " + entry.folder.string()},
      {"made", DateText(entry.made_at_seconds)}};
  if (manifest.embedding)
    rows.insert(rows.begin() + 3, {"embeddings", ShownEmbedding(*manifest.embedding)});
  if (const uint64_t bytes = package::PredictorBytes(manifest); bytes > 0)
    rows.push_back({"predictors", HumanBytes(bytes) + ", which neuron groups matter for a token"});
  if (entry.source) {
    rows.push_back({"source", entry.source->endpoint + "/" + entry.source->repository + ", " +
                                  entry.source->revision + " = " + entry.source->commit});
  }
  PrintColumns(rows);
  return OkStatus();
}

struct RemoveOptions {
  std::string name;
  bool yes = false;
  bool cache = false;
};

// Where the downloads of a model are.
struct Downloads {
  std::string repository;
  std::string commit;
};

// Those of the package, or, when it is gone, of the registry's name.
std::optional<Downloads> FindDownloads(const RemoveOptions& options,
                                       const std::optional<registry::LibraryEntry>& entry,
                                       const registry::RegistrySettings& settings) {
  if (entry) {
    if (!entry->source) return {};
    return Downloads{entry->source->repository, entry->source->commit};
  }
  const auto reference = registry::ParseModelReference(options.name);
  if (!reference.ok()) return {};
  const registry::RegistryCache cache(settings.cache, reference->repository);
  const auto commit = cache.ReadRef(reference->revision);
  if (!commit) return {};
  return Downloads{reference->repository, *commit};
}

// Another package that was made from the same downloads.
std::string SharedWith(const fs::path& library, const Downloads& downloads,
                       const std::optional<registry::LibraryEntry>& entry) {
  std::vector<std::string> ignored;
  for (const registry::LibraryEntry& other : registry::ListLibrary(library, &ignored)) {
    if (entry && other.folder == entry->folder) continue;
    if (other.source && other.source->repository == downloads.repository &&
        other.source->commit == downloads.commit) {
      return other.name;
    }
  }
  return {};
}

bool Confirm(const std::string& question) {
  std::cerr << question << " [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

Status Remove(const RemoveOptions& options) {
  const fs::path library = registry::LibraryFolder(std::getenv);
  ASSIGN_OR_RETURN(const registry::RegistrySettings settings,
                   registry::ReadRegistrySettings(std::getenv));
  std::optional<registry::LibraryEntry> entry;
  const auto folder = registry::FindInLibrary(library, options.name);
  if (folder.ok()) {
    ASSIGN_OR_RETURN(entry, registry::ReadEntry(*folder));
  }
  const auto downloads =
      options.cache ? FindDownloads(options, entry, settings) : std::optional<Downloads>();
  if (!entry && !downloads) return folder.error();
  const std::string shared = downloads ? SharedWith(library, *downloads, entry) : "";
  std::string what = entry ? entry->name + " (" + HumanBytes(entry->byte_count) + ")" : "";
  if (downloads && shared.empty()) {
    what += std::string(entry ? " and " : "") + "the downloads of " + downloads->repository;
  }
  if (!what.empty() && !options.yes && !Confirm("Remove " + what + "?")) {
    return Error(ErrorCode::kCancelled, "Nothing was removed (--yes does not ask).");
  }
  uint64_t freed = 0;
  if (entry) {
    ASSIGN_OR_RETURN(freed, registry::RemovePackage(entry->folder));
  }
  if (!shared.empty()) {
    std::cout << "The downloads stay: " << shared << " was made from them, too.\n";
  } else if (downloads) {
    const registry::RegistryCache cache(settings.cache, downloads->repository);
    ASSIGN_OR_RETURN(const uint64_t cache_bytes, cache.RemoveSnapshot(downloads->commit));
    freed += cache_bytes;
  } else if (options.cache) {
    std::cout << "It has no downloads that are known.\n";
  }
  std::cout << "Freed " << HumanBytes(freed) << ".\n";
  return OkStatus();
}

}  // namespace

void AddPullCommand(CLI::App& app, int* exit_code) {
  auto request = std::make_shared<PullRequest>();
  CLI::App* command = app.add_subcommand(
      "pull", "Download a model from a registry and convert it into the library of packages.");
  command->footer(
      "HF_ENDPOINT names the registry, HF_TOKEN who asks, HF_HUB_CACHE (or HF_HOME) where "
      "downloads are "
      "kept, WEFT_HOME where packages are. docs/models-from-a-registry.md says more.");
  command
      ->add_option(
          "model", request->model,
          "ORGANISATION/NAME; with :q4, :q4s, :q8, :f16 or :f32 for weft's own conversion, or "
          "with a GGUF file's kind, like :Q4_K_M")
      ->required();
  command->add_option("--revision", request->revision, "Branch, tag or commit (default: main)");
  command->add_flag("--offline", request->offline, "Use what was downloaded before, no network");
  command
      ->add_option("--connections", request->connections,
                   "Connections at once; large files are downloaded in parts over several")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_flag("--download-only", request->download_only, "Do not convert");
  command->callback([request, exit_code] {
    OutliveReaders();
    const auto folder = PullModel(*request);
    if (folder.ok()) std::cout << folder->string() << "\n";
    *exit_code = ReportStatus(folder.ok() ? OkStatus() : Status(folder.error()));
  });
}

void AddLibraryCommands(CLI::App& app, int* exit_code) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* list = app.add_subcommand("list", "List the packages of the library.");
  list->add_flag("--json", *as_json, "Print JSON");
  list->callback([as_json, exit_code] { *exit_code = List(*as_json); });

  auto shown = std::make_shared<ShowOptions>();
  CLI::App* show = app.add_subcommand("show", "Show what a package is and needs.");
  show->add_option("package", shown->name, "A name in the library, or a package's folder")
      ->required();
  show->add_flag("--layers", shown->layers, "Show what every layer does and needs");
  show->add_option("--errors", shown->errors,
                   "Show how far each matrix is from that of the checkpoint at this path, as the "
                   "root mean square of the differences by that of the values");
  show->add_flag("--json", shown->as_json, "Print JSON");
  show->callback([shown, exit_code] { *exit_code = ReportStatus(Show(*shown)); });

  auto options = std::make_shared<RemoveOptions>();
  CLI::App* remove = app.add_subcommand("rm", "Remove a package from the library.");
  remove->add_option("package", options->name, "Its name in the library")->required();
  remove->add_flag("--yes", options->yes, "Do not ask");
  remove->add_flag("--cache", options->cache,
                   "Also remove its downloads, unless another package was made from them");
  remove->callback([options, exit_code] { *exit_code = ReportStatus(Remove(*options)); });
}

}  // namespace weft::apps
