// Downloads the needed files of a model into the standard cache. A few files come at once, resumed
// where an earlier run stopped, and each is verified against the hash that the registry states.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "registry/model_reference.h"
#include "registry/registry_settings.h"

namespace weft::registry {

struct PullProgress {
  uint64_t done_bytes = 0;  // with what earlier runs downloaded
  uint64_t total_bytes = 0;
  uint64_t fresh_bytes = 0;  // by this run: for the rate
};

// What is about to be downloaded.
struct PullSummary {
  std::string commit;
  size_t file_count = 0;
  uint64_t total_bytes = 0;
  uint64_t missing_bytes = 0;  // not in the cache yet
};

// All are called on the thread of Pull.
struct PullCallbacks {
  // Before the weights are downloaded; an error ends the pull. May be null.
  std::function<Status(const PullSummary&)> on_summary;
  // Several times a second. May be null.
  std::function<void(const PullProgress&)> on_progress;
  // A sentence: what went wrong and is tried again. May be null.
  std::function<void(const std::string&)> on_note;
};

struct PulledModel {
  std::string commit;
  std::filesystem::path folder;  // the snapshot
  std::filesystem::path source;  // for the conversion: the folder, or a GGUF or ONNX file in it
  std::string quantisation;      // for the conversion: keep, f32, f16, q8 or q4
  std::vector<std::string> files;
  uint64_t total_bytes = 0;
  uint64_t fresh_bytes = 0;  // downloaded by this run
};

// When `cancelled` becomes true the pull ends soon with kCancelled; what was downloaded is kept.
// Errors are sentences that say what to do. kUnavailable when the registry cannot be reached,
// kNotFound, kPermissionDenied, and kInvalidData for a wrong hash or length.
Result<PulledModel> Pull(const RegistrySettings& settings, const ModelReference& reference,
                         const PullCallbacks& callbacks, const std::atomic<bool>& cancelled);

}  // namespace weft::registry
