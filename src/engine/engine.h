// StageEngine: runs the programs of a contiguous range of layers over ragged batches of rows. The
// same verbs exist in TypeScript (web/packages/engine); there they are asynchronous, here a worker
// calls them on its compute thread and they block. Not thread-safe: one caller at a time. Only Read
// may be called beside any other verb, so that reading weights never holds up a step.
//
// Sessions. Every layer has a generation and a length for each session that it knows. So a worker's
// new layers can be filled while the others go on. A run of rows names (session, generation,
// first_position); the layers that it passes decide. An unknown session must begin at position 0.
// In the known generation the run must begin exactly at the layer's length. A higher generation
// truncates the layer to first_position, which must not lie beyond its length, and then appends.
// Anything else is refused with kInvalidArgument and changes nothing: wrong KV must be impossible,
// not unlikely.
//
// A layer with recurrent operations also holds a state of fixed size, which knows one position
// only: that behind the last row. Such a layer is truncated to 0, to its length or to a mark: a
// position behind a run that asked for one. Anything else is refused, too. Which marks a session
// holds when there are too many: base/marks.h.
//
// Batch invariance: the bits of a row's result depend on its session's rows alone. They depend
// neither on its neighbours in the batch nor on how a prompt was cut into steps. Cut invariance:
// with a residual_dtype that is also the wire's, they do not depend on how the layers were cut into
// stages either.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/layer_range.h"
#include "base/marks.h"
#include "base/result.h"
#include "base/slot_kind.h"
#include "engine/weight_source.h"
#include "program/ir.h"
#include "sampling/penalize.h"
#include "sampling/token_logit.h"
#include "tensor/dtype.h"

namespace weft::kernels {
class SharedThreads;
}

namespace weft::engine {

// Of one engine, most of which may have stopped.
inline constexpr size_t kStepsInFlight = 2;

// What the rows of a run give back. The values are the wire's (wire/data_frame.h).
enum class OutputKind : uint8_t {
  kNone = 0,
  kHidden = 1,      // every row: the residual stream after the last layer of the stage
  kArgmax = 2,      // last row of the run: best token, its logit, margin to the second
  kCandidates = 3,  // last row: the k best tokens after penalties and biases, sums over all
  kLogits = 4,      // every row: all logits (only for evaluation)
  kDraw = 5,        // last row: one token drawn from all logits
};

// How a session samples: what changes the logits of a row before tokens are chosen, and what may
// be drawn. Neutral values change nothing.
struct Sampling {
  sampling::Parameters parameters;
  std::vector<sampling::TokenCount> counts;  // of the session's tokens, each once
};

struct Output {
  OutputKind kind = OutputKind::kNone;
  // kCandidates: 1..256. kDraw: raw best tokens to report beside the one drawn, 0..20.
  uint16_t candidate_count = 0;
  const Sampling* sampling = nullptr;  // kCandidates: may be absent (neutral); kDraw: needed
  double uniform = 0;                  // kDraw: where in [0, 1) the draw falls
};

// What layers hold of a session.
struct HeldSession {
  uint32_t generation = 0;      // of all layers; 0: they are in different ones
  uint32_t positions = 0;       // that each of the layers has; 0: the session is unknown
  std::vector<uint32_t> marks;  // that each layer with recurrent state has, ascending
};

// `count` consecutive tokens of one session.
struct Run {
  uint32_t session = 0;
  uint32_t generation = 0;
  uint32_t first_position = 0;
  uint32_t count = 0;
  Output output;
  // Above 0: the position behind the run becomes a mark in layers with recurrent state, of which
  // the session then holds at most so many, up to kMaxMarks.
  uint8_t marks = 0;
};

// A step that stopped at a SlotExchange or a RangeExchange wants one row of `slot_columns` values
// for every slot, [row_count * top_k, slot_columns], row by row in the order of their routes. As
// sums it wants [row_count, slot_columns]. A long step stops several times at a layer, for some of
// its rows each time.
struct SlotRequest {
  uint32_t layer = 0;
  size_t row_count = 0;
  uint32_t experts = 0;  // of the layer: experts, groups or ranges
  uint32_t first = 0;    // number of the first of them among the layer's parts (program/shards.h)
  uint32_t top_k = 0;
  uint32_t columns = 0, slot_columns = 0;
  std::span<const float> in;     // [row_count, columns]: what goes into the experts
  std::span<const float> route;  // [row_count, 2 * top_k]: as MoeRoute writes it; empty: all
  SlotKind kind = SlotKind::kExperts;
  // Of sums: no value of a slot is further from 0. 0: nothing is known of them.
  float largest_slot = 0;
  float slot_step = 0;  // of sums: every value of a slot is a whole multiple of it
};

// A step that stopped. It holds the room that its rows take, and what it has computed. Destroyed
// without having been resumed it was abandoned: every session is where it was before the step. Must
// not outlive its engine.
class PendingStep {
 public:
  virtual ~PendingStep() = default;
  // The spans live as long as this does.
  virtual const SlotRequest& request() const = 0;
};

// A session that begins as what another one holds up to a position.
struct SessionFork {
  uint32_t from = 0, to = 0;
  uint32_t generation = 0;  // of `to`, above those in which layers know it
  uint32_t position_count = 0;
};

struct StepInput {
  LayerRange layers;                   // a range that is loaded
  std::span<const Run> runs;           // each session at most once
  std::span<const int32_t> token_ids;  // [rows] when layers.first == 0, else empty
  std::span<const float> hidden;       // [rows, hidden_columns] when layers.first > 0, else empty
  // Of a program of parts of a layer (program/shards.h): which of them are wanted of every row, by
  // their place in it. Of a RangesProgram the columns of all others are 0. Of an ExpertProgram the
  // rows' own experts do not count, and each row's result is the sum of these. Empty: all ranges,
  // or each row's expert.
  std::span<const uint32_t> parts = {};
};

// One entry for each run whose output is kArgmax (two candidates: best and runner-up), kCandidates
// (candidate_count) or kDraw (the raw best). Candidates by falling logit, equal logits by rising
// id.
struct Selection {
  std::vector<sampling::TokenLogit> candidates;
  // kCandidates, kDraw: of the raw logits over the whole vocabulary. kArgmax: 0, not computed.
  float logsumexp = 0;
  // kCandidates: sum over the vocabulary of exp((logit - best) / temperature), after penalties and
  // biases; 1 at temperature 0.
  float scaled_sum = 0;
  sampling::TokenLogit drawn;  // kDraw: the token and its raw logit
};

struct StepOutput {
  std::vector<float> hidden;          // rows of all kHidden runs in order, [rows, hidden_columns]
  std::vector<Selection> selections;  // in order of the runs that ask for one
  std::vector<float> logits;          // rows of all kLogits runs in order, [rows, vocabulary]
};

// A step goes to its end, or to an exchange.
using StepProgress = std::variant<StepOutput, std::unique_ptr<PendingStep>>;

struct MemoryUse {
  uint64_t weight_bytes = 0;   // as held, after repacking
  uint64_t kv_bytes = 0;       // with recurrent state and marks
  uint64_t scratch_bytes = 0;  // results of steps are their caller's
};

// Layers that StageEngine::Read made ready and that are not part of the engine yet. Their weights
// count against its memory limit until they are installed or destroyed. Must not outlive it.
class LoadedLayers {
 public:
  virtual ~LoadedLayers() = default;
};

class StageEngine {
 public:
  virtual ~StageEngine() = default;

  // Reads, checks and repacks the layers of `programs` that are not loaded, their parts through
  // `source`, and touches every page of them. Changes nothing that steps see. On any thread, one
  // call at a time.
  virtual Result<std::unique_ptr<LoadedLayers>> Read(std::span<const program::Program> programs,
                                                     WeightSource& source) = 0;
  // Makes what this engine's Read gave part of it; layers that were loaded meanwhile are kept, with
  // their KV. Takes no time.
  virtual void Install(std::unique_ptr<LoadedLayers> layers) = 0;
  // Both at once. On error nothing new stays loaded.
  Status Load(std::span<const program::Program> programs, WeightSource& source) {
    ASSIGN_OR_RETURN(std::unique_ptr<LoadedLayers> layers, Read(programs, source));
    Install(std::move(layers));
    return OkStatus();
  }
  // Frees the layers in `range` that are loaded, and their KV.
  virtual void Unload(LayerRange range) = 0;
  virtual bool IsLoaded(LayerRange range) const = 0;

  // All rows or none: an error, whichever row or layer it comes from, leaves every session of the
  // step with its positions, generation and KV. So the step can be given again from there.
  virtual Result<StepOutput> Step(const StepInput& input) = 0;

  // The same for layers with an exchange: nothing waits here for what others compute. What the
  // spans of `input` show stays as it is until the step has ended or was abandoned. While one step
  // waits another may begin, on sessions of its own: at most kStepsInFlight at once.
  // REQUIRES, while steps wait: nothing releases, truncates or imports their sessions, or unloads
  // layers.
  virtual Result<StepProgress> Begin(const StepInput& input) {
    ASSIGN_OR_RETURN(StepOutput output, Step(input));
    return StepProgress(std::move(output));
  }
  // `slots` as step.request() wants them; looked at during the call only. An error ends the step,
  // which then has changed nothing.
  virtual Result<StepProgress> Resume(std::unique_ptr<PendingStep> step,
                                      std::span<const float> slots) {
    static_cast<void>(step);
    static_cast<void>(slots);
    return Error(ErrorCode::kUnsupported, "This engine's steps never stop.");
  }

  // Forgets positions >= `position`. A session that does not exist is an error, as is a position
  // that a layer with recurrent state cannot go back to.
  virtual Status Truncate(uint32_t session, uint32_t generation, uint32_t position) = 0;
  // In these layers, which are loaded, `to` becomes what `from` holds of its first positions, whose
  // pages the two share until one of them writes. Each layer that holds anything must have so many
  // positions of `from`, and recurrent state there; an error changes nothing.
  virtual Status Fork(LayerRange layers, const SessionFork& fork) = 0;
  virtual void Release(uint32_t session) = 0;
  virtual void ReleaseAll() = 0;
  // What is held for the session in the layers of `range`.
  virtual HeldSession Held(uint32_t session, LayerRange range) const = 0;

  // Canonical KV of one layer: [k|v][position][kv_head][head_columns], positions [first, first +
  // count). Its element type is the engine's own, f16 unless NativeEngineOptions::kv_dtype says
  // otherwise; KV of another type is refused by its size.
  virtual Result<std::vector<uint8_t>> ExportKv(uint32_t session, uint32_t layer, uint32_t first,
                                                uint32_t count) = 0;
  virtual Status ImportKv(uint32_t session, uint32_t generation, uint32_t layer, uint32_t first,
                          uint32_t count, ByteSpan kv) = 0;

  virtual MemoryUse memory() const = 0;
};

// What several engines may hold together. On any thread.
class MemoryLimit {
 public:
  explicit MemoryLimit(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

 private:
  friend class MemoryBudget;
  const uint64_t limit_bytes_;
  std::mutex mutex_;
  uint64_t used_bytes_ = 0;  // by all of them
};

// The threads of several engines of one process. Those that compute at the same time have an equal
// part of them each; results do not depend on it.
std::shared_ptr<kernels::SharedThreads> ShareThreads(uint32_t thread_count);

struct NativeEngineOptions {
  // Threads of this engine alone, when `threads` is null.
  uint32_t thread_count = 1;
  std::shared_ptr<kernels::SharedThreads> threads;
  // Whether to use only the scalar reference kernels (the oracle), whatever the processor can do.
  bool reference_kernels = false;
  // Refuse steps and loads that would take weights + KV + scratch + a step's results beyond this;
  // 0: no limit.
  uint64_t memory_limit_bytes = 0;
  // The same for what this engine and others hold together; then memory_limit_bytes is 0.
  std::shared_ptr<MemoryLimit> memory;
  // What keys and values are kept in: kF16, or kF32 for models that are to be exact to f32.
  DType kv_dtype = DType::kF16;
  // Rows are rounded to this after the embedding and after each transformer layer: the type in
  // which they cross the wire. So results do not depend on where a plan cuts the model. kF32 rounds
  // nothing; kF16 fails a step whose rows exceed 65504; kBF16.
  DType residual_dtype = DType::kF32;
};

std::unique_ptr<StageEngine> MakeNativeEngine(const NativeEngineOptions& options);

}  // namespace weft::engine
