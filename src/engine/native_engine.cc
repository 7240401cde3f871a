// The native engine: loaded layers, their KV and the memory limit. Steps themselves: step.h.
#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

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

}  // namespace

// What an engine holds against its limit, or against one that it shares with other engines. Locked,
// because layers are read beside the steps.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::shared_ptr<MemoryLimit> limit) : limit_(std::move(limit)) {}
  ~MemoryBudget() {
    const std::lock_guard lock(limit_->mutex_);
    limit_->used_bytes_ -= use_.total();
  }

  void SetWeights(uint64_t byte_count) {
    const std::lock_guard lock(limit_->mutex_);
    Use use = use_;
    use.weights = byte_count;
    Set(use);
  }
  // What keys and values, scratch memory and results of steps that wait take now.
  void SetUse(uint64_t kv_bytes, uint64_t scratch_bytes, uint64_t result_bytes) {
    const std::lock_guard lock(limit_->mutex_);
    Set({use_.weights, use_.reading, kv_bytes, scratch_bytes, result_bytes});
  }
  // The same for what they are about to take; kOutOfMemory and nothing changed where it does not
  // fit.
  // `result_bytes`: what a step gives back, which is the caller's once it returns.
  Status Claim(uint64_t kv_bytes, uint64_t scratch_bytes, uint64_t result_bytes,
               const std::string& what) {
    const std::lock_guard lock(limit_->mutex_);
    const Use use = {use_.weights, use_.reading, kv_bytes, scratch_bytes, result_bytes};
    TRY(Check(use, what));
    Set(use);
    return OkStatus();
  }
  // Weights that are being read. Given back when they are installed or dropped.
  Status ClaimReading(uint64_t byte_count, const std::string& what) {
    const std::lock_guard lock(limit_->mutex_);
    Use use = use_;
    use.reading += byte_count;
    TRY(Check(use, what));
    Set(use);
    return OkStatus();
  }
  void EndReading(uint64_t byte_count) {
    const std::lock_guard lock(limit_->mutex_);
    Use use = use_;
    use.reading -= byte_count;
    Set(use);
  }

 private:
  struct Use {
    uint64_t weights = 0, reading = 0, kv = 0, scratch = 0, result = 0;
    uint64_t total() const { return weights + reading + kv + scratch + result; }
  };

  void Set(const Use& use) {
    limit_->used_bytes_ += use.total() - use_.total();
    use_ = use;
  }
  Status Check(const Use& use, const std::string& what) const {
    const uint64_t others = limit_->used_bytes_ - use_.total();
    const uint64_t need = use.total() + others;
    if (limit_->limit_bytes_ == 0 || need <= limit_->limit_bytes_) return OkStatus();
    return Error(ErrorCode::kOutOfMemory,
                 what + " needs " + std::to_string(need) + " bytes in all (weights " +
                     std::to_string(use.weights + use.reading) + ", KV " + std::to_string(use.kv) +
                     ", scratch " + std::to_string(use.scratch) + ", results " +
                     std::to_string(use.result) +
                     (others > 0 ? ", other engines " + std::to_string(others) : "") +
                     "); the limit is " + std::to_string(limit_->limit_bytes_) + ".");
  }

  const std::shared_ptr<MemoryLimit> limit_;
  Use use_;  // under its lock
};

namespace {

class NativeLayers final : public LoadedLayers {
 public:
  NativeLayers(MemoryBudget& budget, uint64_t byte_count)
      : budget_(budget), byte_count_(byte_count) {}
  ~NativeLayers() override { budget_.EndReading(byte_count_); }

  LayerMap layers;

 private:
  MemoryBudget& budget_;
  const uint64_t byte_count_;
};

// Reads a byte of every page: a mapped file is on its way from the disk only now, and the first
// step should not be what waits for it.
void TouchPages(const LoadedLayer& layer) {
  constexpr size_t kPageBytes = 4096;
  for (const LoadedWeight& weight : layer.weights()) {
    for (const HeldBytes& held : weight.held()) {
      for (uint64_t at = 0; at < held.byte_count; at += kPageBytes) {
        static_cast<void>(*static_cast<const volatile uint8_t*>(held.address + at));
      }
    }
  }
}

class NativeEngine final : public StageEngine {
 public:
  // REQUIRES: dtypes that engine.h allows.
  explicit NativeEngine(const NativeEngineOptions& options)
      : options_(options),
        kernels_(options.reference_kernels ? kernels::ReferenceKernels() : kernels::FastKernels()),
        budget_(options.memory ? options.memory
                               : std::make_shared<MemoryLimit>(options.memory_limit_bytes)),
        runner_(kernels_, options.threads ? options.threads : ShareThreads(options.thread_count)),
        step_(kernels_, runner_, options.residual_dtype) {
    for (StepState& state : states_) idle_.insert(idle_.begin(), &state);
    CHECK(options.kv_dtype == DType::kF16 || options.kv_dtype == DType::kF32);
    CHECK(options.residual_dtype == DType::kF32 || options.residual_dtype == DType::kF16 ||
          options.residual_dtype == DType::kBF16);
  }

  Result<std::unique_ptr<LoadedLayers>> Read(std::span<const program::Program> programs,
                                             WeightSource& source) override {
    std::set<PartKey> parts;
    uint64_t new_bytes = 0;
    std::set<uint32_t> new_layers;
    {
      const std::lock_guard lock(layers_mutex_);
      for (const auto& [index, layer] : layers_) CollectParts(layer.program(), parts);
      for (const program::Program& program : programs) {
        if (layers_.contains(program.layer_index)) continue;
        if (!new_layers.insert(program.layer_index).second) {
          return Error(ErrorCode::kInvalidArgument, "Two programs were given for layer " +
                                                        std::to_string(program.layer_index) + ".");
        }
        TRY(program::Validate(program));  // before its part sizes are summed
        new_bytes += CollectParts(program, parts);
      }
    }
    TRY(budget_.ClaimReading(new_bytes,
                             "Loading " + std::to_string(new_layers.size()) + " layers"));
    auto loaded = std::make_unique<NativeLayers>(budget_, new_bytes);
    try {
      for (const program::Program& program : programs) {
        if (!new_layers.contains(program.layer_index)) continue;
        ASSIGN_OR_RETURN(LoadedLayer layer,
                         LoadedLayer::Load(program, options_.kv_dtype, source, panels_));
        TouchPages(layer);
        loaded->layers.emplace(program.layer_index, std::move(layer));
      }
    } catch (const std::bad_alloc&) {
      return Error(ErrorCode::kOutOfMemory, "The machine has no memory left to load " +
                                                std::to_string(new_layers.size()) + " layers of " +
                                                HumanBytes(new_bytes) + ".");
    }
    return std::unique_ptr<LoadedLayers>(std::move(loaded));
  }

  void Install(std::unique_ptr<LoadedLayers> read) override {
    LayerMap& loaded = static_cast<NativeLayers&>(*read).layers;
    std::erase_if(loaded, [&](const auto& entry) { return layers_.contains(entry.first); });
    for (const auto& [index, layer] : loaded) {
      kv_.AddLayer(index, {layer.kv_shape(), layer.state_floats()});
      ledger_.Add(layer);
    }
    budget_.SetWeights(ledger_.bytes());
    const std::lock_guard lock(layers_mutex_);
    layers_.merge(loaded);
  }

  void Unload(LayerRange range) override {
    CHECK(!StepsWait());
    const auto first = layers_.lower_bound(range.first);
    const auto end = layers_.lower_bound(std::max(range.first, range.end));
    for (auto layer = first; layer != end; ++layer) {
      kv_.RemoveLayer(layer->first);
      ledger_.Remove(layer->second);
    }
    budget_.SetWeights(ledger_.bytes());
    NoteUse();
    const std::lock_guard lock(layers_mutex_);
    layers_.erase(first, end);
  }

  bool IsLoaded(LayerRange range) const override {
    for (uint32_t index = range.first; index < range.end; ++index) {
      if (!layers_.contains(index)) return false;
    }
    return true;
  }

  Result<StepOutput> Step(const StepInput& input) override {
    ASSIGN_OR_RETURN(StepProgress progress, Begin(input));
    if (auto* output = std::get_if<StepOutput>(&progress)) return std::move(*output);
    const auto& pending = std::get<std::unique_ptr<PendingStep>>(progress);
    return Error(ErrorCode::kInvalidArgument,
                 "Layer " + std::to_string(pending->request().layer) +
                     " stops for what others compute, so its steps have to be begun and resumed.");
  }

  Result<StepProgress> Begin(const StepInput& input) override {
    Result<StepProgress> progress = ClaimAndRun(input);
    NoteUse();
    return progress;
  }

  Result<StepProgress> Resume(std::unique_ptr<PendingStep> step,
                              std::span<const float> slots) override {
    Result<StepProgress> progress = GoOn(static_cast<NativePendingStep&>(*step), slots);
    step.reset();  // what it held is free, or has been handed on
    NoteUse();
    return progress;
  }

  Status Truncate(uint32_t session, uint32_t generation, uint32_t position) override {
    Status status = kv_.Truncate(session, generation, position);
    NoteUse();
    return status;
  }
  Status Fork(LayerRange layers, const SessionFork& fork) override {
    if (!IsLoaded(layers))
      return Error(ErrorCode::kInvalidArgument,
                   "Layers " + std::to_string(layers.first) + " to " + std::to_string(layers.end) +
                       " are not loaded, so that no session can be forked in them.");
    return kv_.Fork(layers, fork);
  }
  void Release(uint32_t session) override {
    kv_.Release(session);
    NoteUse();
  }
  void ReleaseAll() override {
    CHECK(!StepsWait());
    kv_.ReleaseAll();
    NoteUse();
  }
  HeldSession Held(uint32_t session, LayerRange range) const override {
    return IsLoaded(range) ? kv_.Held(session, range) : HeldSession();
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
    TRY(budget_.Claim(kv_.bytes() + kv_.BytesFor(range, {&run, 1}), ScratchBytes(),
                      pending_result_bytes_,
                      "Importing KV of " + std::to_string(count) + " positions"));
    return kv_.Import(run, layer, kv);
  }

  MemoryUse memory() const override { return {ledger_.bytes(), kv_.bytes(), ScratchBytes()}; }

 private:
  // A state for one step, back in the engine when that is over.
  class Lease {
   public:
    Lease(NativeEngine& engine, StepState& state) : engine_(&engine), state_(&state) {}
    Lease(Lease&& other) noexcept
        : engine_(std::exchange(other.engine_, nullptr)), state_(other.state_) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() {
      if (engine_ != nullptr) engine_->idle_.push_back(state_);
    }

   private:
    NativeEngine* engine_;
    StepState* state_;
  };

  class NativePendingStep final : public PendingStep {
   public:
    NativePendingStep(NativeEngine& engine, Lease lease, StepFlight step, uint64_t result_bytes)
        : engine_(engine),
          lease_(std::move(lease)),
          flight_(std::move(step)),
          result_bytes_(result_bytes) {
      engine_.pending_result_bytes_ += result_bytes_;
    }
    ~NativePendingStep() override { engine_.pending_result_bytes_ -= result_bytes_; }
    const SlotRequest& request() const override { return flight_.request; }
    StepFlight& flight() { return flight_; }

    // Of the same step, at its next stop.
    std::unique_ptr<PendingStep> Next() {
      return std::make_unique<NativePendingStep>(engine_, std::move(lease_), std::move(flight_),
                                                 result_bytes_);
    }

   private:
    NativeEngine& engine_;
    Lease lease_;  // outlives the flight, which computes in it
    StepFlight flight_;
    const uint64_t result_bytes_;
  };

  Result<StepProgress> ClaimAndRun(const StepInput& input) {
    if (idle_.empty())
      return Error(ErrorCode::kUnavailable, std::to_string(kStepsInFlight) +
                                                " steps wait for what others compute, as many as "
                                                "an engine runs beside each other.");
    ASSIGN_OR_RETURN(const size_t row_count, CheckStep(layers_, input));
    TRY(kv_.CheckRuns(input.layers, input.runs));
    const ResultSize result = StepRunner::ResultOfStep(layers_, input);
    if (row_count <= StepRunner::kLeastRowsPerPass) GiveBackManyRows();
    StepState& state = *idle_.back();
    size_t rows_per_pass = StepRunner::MostRowsPerPass(layers_, input.layers);
    while (true) {
      const ScratchNeeds needs = StepRunner::NeedsOfStep(layers_, input, row_count, rows_per_pass);
      const uint64_t scratch = ScratchBytes() - runner_.BytesAfter({}) -
                               state.scratch.BytesAfter({}) + runner_.BytesAfter(needs) +
                               state.scratch.BytesAfter(needs);
      Status claimed = budget_.Claim(kv_.bytes() + kv_.BytesFor(input.layers, input.runs), scratch,
                                     result.bytes() + pending_result_bytes_,
                                     "A step of " + std::to_string(row_count) + " rows");
      if (!claimed.ok()) {
        if (rows_per_pass == StepRunner::kLeastRowsPerPass) return claimed.error();
        GiveBackManyRows();
        rows_per_pass /= 2;
        continue;
      }
      if (std::min(rows_per_pass, row_count) > StepRunner::kLeastRowsPerPass) has_many_rows_ = true;
      try {
        return RunStep(input, state, needs, rows_per_pass, result);
      } catch (const std::bad_alloc&) {
        return NoMemory(scratch + result.bytes(), row_count);
      }
    }
  }

  // Scratch memory of a prompt's long passes goes when a step comes that needs less: keys,
  // values and weights may want it. Steps that wait for others keep theirs.
  void GiveBackManyRows() {
    if (!has_many_rows_) return;
    for (StepState* state : idle_) state->scratch = StepScratch();
    if (StepsWait()) return;
    runner_.GiveBack();
    has_many_rows_ = false;
  }

  static Error NoMemory(uint64_t byte_count, size_t row_count) {
    return Error(ErrorCode::kOutOfMemory, "The machine has no memory left for the " +
                                              HumanBytes(byte_count) + " that a step of " +
                                              std::to_string(row_count) +
                                              " rows computes in and gives back.");
  }

  // Throws std::bad_alloc. However this ends without a result, the step's `kv` puts every session
  // back to what it was.
  Result<StepProgress> RunStep(const StepInput& input, StepState& state, const ScratchNeeds& needs,
                               size_t rows_per_pass, const ResultSize& result) {
    idle_.pop_back();
    Lease lease(*this, state);
    runner_.Reserve(needs);
    state.scratch.Reserve(needs);
    StepOutput output;
    output.hidden.reserve(result.hidden);
    output.logits.reserve(result.logits);
    ASSIGN_OR_RETURN(KvCache::Append append, kv_.BeginAppend(input.layers, input.runs));
    StepFlight flight{.input = input,
                      .kv = std::move(append),
                      .output = std::move(output),
                      .state = &state,
                      .rows_per_pass = rows_per_pass};
    ASSIGN_OR_RETURN(const bool ended, step_.Continue(layers_, flight, {}));
    if (!ended)
      return StepProgress(std::make_unique<NativePendingStep>(*this, std::move(lease),
                                                              std::move(flight), result.bytes()));
    flight.kv.Commit();
    return StepProgress(std::move(flight.output));
  }

  Result<StepProgress> GoOn(NativePendingStep& step, std::span<const float> slots) {
    try {
      ASSIGN_OR_RETURN(const bool ended, step_.Continue(layers_, step.flight(), slots));
      if (!ended) return StepProgress(step.Next());
    } catch (const std::bad_alloc&) {
      return NoMemory(ScratchBytes(), step.flight().state->rows.size());
    }
    step.flight().kv.Commit();
    return StepProgress(std::move(step.flight().output));
  }

  bool StepsWait() const { return idle_.size() < states_.size(); }
  uint64_t ScratchBytes() const {
    uint64_t bytes = runner_.BytesAfter({});
    for (const StepState& state : states_) bytes += state.scratch.BytesAfter({});
    return bytes;
  }
  void NoteUse() { budget_.SetUse(kv_.bytes(), ScratchBytes(), pending_result_bytes_); }

  const NativeEngineOptions options_;
  const kernels::KernelSet& kernels_;
  MemoryBudget budget_;
  std::mutex layers_mutex_;  // held to change layers_, and by Read to look at it
  PanelStore panels_;
  LayerMap layers_;
  WeightLedger ledger_;
  KvCache kv_;
  LayerRunner runner_;
  StepRunner step_;
  std::array<StepState, kStepsInFlight> states_;
  std::vector<StepState*> idle_;       // of `states_`; the one that was used last at the end
  uint64_t pending_result_bytes_ = 0;  // of steps that wait
  bool has_many_rows_ = false;         // scratch memory of passes beyond the least
};

}  // namespace

std::shared_ptr<kernels::SharedThreads> ShareThreads(uint32_t thread_count) {
  return std::make_shared<kernels::SharedThreads>(thread_count);
}

std::unique_ptr<StageEngine> MakeNativeEngine(const NativeEngineOptions& options) {
  return std::make_unique<NativeEngine>(options);
}

}  // namespace weft::engine
