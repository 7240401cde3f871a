// The native engine: loaded layers, their KV and the memory limit. Steps themselves: step.h.
#include <algorithm>
#include <map>
#include <new>
#include <set>
#include <string>
#include <tuple>

#include "engine/engine.h"
#include "engine/kv_cache.h"
#include "engine/layer_runner.h"
#include "engine/loaded_layer.h"
#include "engine/step.h"
#include "program/codec.h"

namespace weft::engine {
namespace {

// Counts the memory of weights, shared pieces once.
class WeightLedger {
 public:
  void Add(const LoadedLayer& layer) {
    for (const LoadedWeight& weight : layer.weights()) {
      for (const HeldBytes& held : weight.held()) {
        Entry& entry = entries_[held.address];
        if (entry.users++ == 0) bytes_ += entry.byte_count = held.byte_count;
      }
    }
  }
  void Remove(const LoadedLayer& layer) {
    for (const LoadedWeight& weight : layer.weights()) {
      for (const HeldBytes& held : weight.held()) {
        const auto entry = entries_.find(held.address);
        if (--entry->second.users > 0) continue;
        bytes_ -= entry->second.byte_count;
        entries_.erase(entry);
      }
    }
  }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    uint64_t byte_count = 0;
    uint32_t users = 0;
  };
  std::map<const uint8_t*, Entry> entries_;
  uint64_t bytes_ = 0;
};

using PartKey = std::tuple<Sha256Digest, uint64_t, uint64_t>;

// Adds the parts of `program`; returns the bytes of those that were new.
uint64_t CollectParts(const program::Program& program, std::set<PartKey>& parts) {
  uint64_t bytes = 0;
  for (const program::Weight& weight : program.weights) {
    for (const auto* list : {&weight.data, &weight.scale, &weight.zero}) {
      for (const program::Part& part : *list) {
        if (parts.emplace(part.digest, part.offset, part.byte_count).second)
          bytes += part.byte_count;
      }
    }
  }
  return bytes;
}

class NativeEngine final : public StageEngine {
 public:
  // REQUIRES: dtypes that engine.h allows.
  explicit NativeEngine(const NativeEngineOptions& options)
      : options_(options),
        kernels_(options.reference_kernels ? kernels::ReferenceKernels() : kernels::FastKernels()),
        runner_(kernels_, options.thread_count),
        step_(kernels_, runner_, options.residual_dtype) {
    CHECK(options.kv_dtype == DType::kF16 || options.kv_dtype == DType::kF32);
    CHECK(options.residual_dtype == DType::kF32 || options.residual_dtype == DType::kF16 ||
          options.residual_dtype == DType::kBF16);
  }

  Status Load(std::span<const program::Program> programs, WeightSource& source) override {
    std::set<PartKey> parts;
    for (const auto& [index, layer] : layers_) CollectParts(layer.program(), parts);
    uint64_t new_bytes = 0;
    std::set<uint32_t> new_layers;
    for (const program::Program& program : programs) {
      if (layers_.contains(program.layer_index)) continue;
      if (!new_layers.insert(program.layer_index).second) {
        return Error(ErrorCode::kInvalidArgument, "Two programs were given for layer " +
                                                      std::to_string(program.layer_index) + ".");
      }
      TRY(program::Validate(program));  // before its part sizes are summed
      new_bytes += CollectParts(program, parts);
    }
    TRY(CheckLimit(new_bytes, 0, runner_.bytes(),
                   "Loading " + std::to_string(new_layers.size()) + " layers"));

    LayerMap loaded;
    try {
      for (const program::Program& program : programs) {
        if (!new_layers.contains(program.layer_index)) continue;
        ASSIGN_OR_RETURN(LoadedLayer layer, LoadedLayer::Load(program, options_.kv_dtype, source));
        loaded.emplace(program.layer_index, std::move(layer));
      }
    } catch (const std::bad_alloc&) {
      return Error(ErrorCode::kOutOfMemory, "The machine has no memory left to load " +
                                                std::to_string(new_layers.size()) + " layers of " +
                                                HumanBytes(new_bytes) + ".");
    }
    for (const auto& [index, layer] : loaded) {
      kv_.AddLayer(index, layer.kv_shape());
      ledger_.Add(layer);
    }
    layers_.merge(loaded);
    return OkStatus();
  }

  void Unload(LayerRange range) override {
    const auto first = layers_.lower_bound(range.first);
    const auto end = layers_.lower_bound(std::max(range.first, range.end));
    for (auto layer = first; layer != end; ++layer) {
      kv_.RemoveLayer(layer->first);
      ledger_.Remove(layer->second);
    }
    layers_.erase(first, end);
  }

  bool IsLoaded(LayerRange range) const override {
    for (uint32_t index = range.first; index < range.end; ++index) {
      if (!layers_.contains(index)) return false;
    }
    return true;
  }

  Result<StepOutput> Step(const StepInput& input) override {
    ASSIGN_OR_RETURN(const size_t row_count, CheckStep(layers_, input));
    TRY(kv_.CheckRuns(input.layers, input.runs));
    const ScratchNeeds needs = StepRunner::NeedsOfStep(layers_, input, row_count);
    const ResultSize result = StepRunner::ResultOfStep(layers_, input);
    const uint64_t scratch = runner_.BytesAfter(needs);
    TRY(CheckLimit(0, kv_.BytesFor(input.layers, input.runs), scratch,
                   "A step of " + std::to_string(row_count) + " rows", result.bytes()));
    try {
      return RunStep(input, needs, result);
    } catch (const std::bad_alloc&) {
      return Error(ErrorCode::kOutOfMemory, "The machine has no memory left for the " +
                                                HumanBytes(scratch + result.bytes()) +
                                                " that a step of " + std::to_string(row_count) +
                                                " rows computes in and gives back.");
    }
  }

  Status Truncate(uint32_t session, uint32_t generation, uint32_t position) override {
    return kv_.Truncate(session, generation, position);
  }
  Status Fork(uint32_t from, uint32_t to, uint32_t position_count) override {
    return kv_.Fork(from, to, position_count);
  }
  void Release(uint32_t session) override { kv_.Release(session); }
  void ReleaseAll() override { kv_.ReleaseAll(); }
  uint32_t SessionLength(uint32_t session, LayerRange range) const override {
    return IsLoaded(range) ? kv_.Length(session, range) : 0;
  }

  Result<std::vector<uint8_t>> ExportKv(uint32_t session, uint32_t layer, uint32_t first,
                                        uint32_t count) override {
    return kv_.Export(session, layer, first, count);
  }
  Status ImportKv(uint32_t session, uint32_t generation, uint32_t layer, uint32_t first,
                  uint32_t count, ByteSpan kv) override {
    const Run run = {session, generation, first, count, {}};
    const LayerRange range = {layer, layer + 1};
    if (layer == UINT32_MAX || !IsLoaded(range)) {
      return Error(ErrorCode::kInvalidArgument,
                   "Layer " + std::to_string(layer) + " is not loaded, so it takes no KV.");
    }
    TRY(kv_.CheckRuns(range, {&run, 1}));
    TRY(CheckLimit(0, kv_.BytesFor(range, {&run, 1}), runner_.bytes(),
                   "Importing KV of " + std::to_string(count) + " positions"));
    return kv_.Import(run, layer, kv);
  }

  MemoryUse memory() const override { return {ledger_.bytes(), kv_.bytes(), runner_.bytes()}; }

 private:
  // Throws std::bad_alloc. However this ends without a result, `append` puts every session back to
  // what it was.
  Result<StepOutput> RunStep(const StepInput& input, const ScratchNeeds& needs,
                             const ResultSize& result) {
    runner_.Reserve(needs);
    StepOutput output;
    output.hidden.reserve(result.hidden);
    output.logits.reserve(result.logits);
    ASSIGN_OR_RETURN(KvCache::Append append, kv_.BeginAppend(input.layers, input.runs));
    TRY(step_.Execute(layers_, input, append, output));
    append.Commit();
    return output;
  }

  // `result`: bytes of what a step gives back, which are the caller's once it returns.
  Status CheckLimit(uint64_t more_weights, uint64_t more_kv, uint64_t scratch,
                    const std::string& what, uint64_t result = 0) const {
    const uint64_t weights = ledger_.bytes() + more_weights;
    const uint64_t kv = kv_.bytes() + more_kv;
    const uint64_t need = weights + kv + scratch + result;
    if (options_.memory_limit_bytes == 0 || need <= options_.memory_limit_bytes) return OkStatus();
    return Error(ErrorCode::kOutOfMemory,
                 what + " needs " + std::to_string(need) + " bytes in all (weights " +
                     std::to_string(weights) + ", KV " + std::to_string(kv) + ", scratch " +
                     std::to_string(scratch) + ", results " + std::to_string(result) +
                     "); the limit is " + std::to_string(options_.memory_limit_bytes) + ".");
  }

  const NativeEngineOptions options_;
  const kernels::KernelSet& kernels_;
  LayerMap layers_;
  WeightLedger ledger_;
  KvCache kv_;
  LayerRunner runner_;
  StepRunner step_;
};

}  // namespace

std::unique_ptr<StageEngine> MakeNativeEngine(const NativeEngineOptions& options) {
  return std::make_unique<NativeEngine>(options);
}

}  // namespace weft::engine
