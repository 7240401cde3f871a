#include "apps/onnx_stages.h"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "onnx/extract.h"
#include "onnx/layers.h"
#include "onnx/load.h"
#include "onnx/write.h"

namespace weft::apps {
namespace {

// Stage graphs are small (no weights); this many are kept.
constexpr size_t kMaxKeptStages = 64;

class OnnxStages : public server::StageGraphs {
 public:
  explicit OnnxStages(std::filesystem::path file) : file_(std::move(file)) {}

  Result<Slice> Cut(int first_layer, int end_layer) override {
    const std::lock_guard lock(mutex_);
    const auto kept = stages_.find({first_layer, end_layer});
    if (kept != stages_.end()) return kept->second;
    if (!model_) {
      onnx::LoadOptions options;
      options.resolve_external = false;  // locations are blob digests
      ASSIGN_OR_RETURN(onnx::Model loaded, onnx::LoadModel(file_, options));
      ASSIGN_OR_RETURN(model_, onnx::FindLayers(std::move(loaded)));
    }
    ASSIGN_OR_RETURN(const onnx::Model part, onnx::ExtractLayers(*model_, first_layer, end_layer));
    ASSIGN_OR_RETURN(std::string bytes, onnx::SerializeModel(part));
    if (stages_.size() >= kMaxKeptStages) stages_.clear();
    const Slice slice = Slice::OfText(std::move(bytes));
    stages_.emplace(std::pair(first_layer, end_layer), slice);
    return slice;
  }

 private:
  const std::filesystem::path file_;
  std::mutex mutex_;
  std::optional<onnx::LayeredModel> model_;
  std::map<std::pair<int, int>, Slice> stages_;
};

}  // namespace

std::unique_ptr<server::StageGraphs> MakeOnnxStages(std::filesystem::path file) {
  return std::make_unique<OnnxStages>(std::move(file));
}

}  // namespace weft::apps
