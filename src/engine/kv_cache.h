// The paged KV and the recurrent state of all sessions in all loaded layers, and the rules of who
// may append where (engine.h, "Sessions").
//
// Every layer of a session has its own length and generation. So a new plan can replay a session
// through a worker's new layers while the others stay as they are. Layers with neither attention
// nor recurrent state hold nothing. Their entries only remember how far they ran. A session that
// they do not know may begin anywhere, since nothing can be wrong with what is not there.
//
// Recurrent state is one immutable page for a position. A run reads the page at its first position
// and writes a new one. The old one goes with its last owner: the session, a mark, a fork, or a
// step that may still fail.
//
// Pages are reference-counted and copied when a shared one is written. So a fork costs nothing
// until the two part, and a step that fails after truncating gives the old pages back.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/state_pool.h"
#include "kernels/kv_page.h"

namespace weft::engine {

// Positions fit an f32 exactly, which is how rotary embedding uses them.
inline constexpr uint32_t kMaxPositions = 1 << 24;

class KvCache {
 public:
  class Page;
  using PageRef = std::shared_ptr<Page>;
  class StatePage;
  using StateRef = std::shared_ptr<StatePage>;

  // What a layer holds for a session.
  struct LayerShape {
    std::optional<kernels::KvShape> kv;  // none: the layer has no attention
    uint64_t state_floats = 0;           // 0: it has no recurrent operation

    bool holds_any() const { return kv.has_value() || state_floats > 0; }
    uint64_t state_bytes() const { return state_floats * sizeof(float); }
  };

  // One session in one layer.
  struct LayerState {
    LayerShape shape;
    uint32_t generation = 0;
    uint32_t length = 0;
    std::vector<PageRef> pages;
    std::vector<void*> addresses;        // of the pages, as kernels take them
    StateRef state;                      // at `length`; null there: zeros, at 0
    StateRef state_before;               // while a run computes `state`: what it begins with
    std::map<uint32_t, StateRef> marks;  // by position

    // Whether the state at `position` is known. Always where there is none.
    bool HasStateAt(uint32_t position) const {
      return shape.state_floats == 0 || position == 0 || position == length ||
             marks.contains(position);
    }
    // The layer's positions below `position` alone. REQUIRES: HasStateAt(position), and it is not
    // beyond the length.
    void CutStateTo(uint32_t position);

    // Where a run reads its state, null for zeros, and where it writes the next one.
    const float* StateBefore() const;
    float* StateAfter() const;
  };

  // Room for rows that are being computed. Destroyed without Commit it restores what was there
  // before.
  class Append {
   public:
    Append(Append&& other) noexcept
        : cache_(std::exchange(other.cache_, nullptr)),
          first_layer_(other.first_layer_),
          layers_in_range_(other.layers_in_range_),
          undo_(std::move(other.undo_)) {}
    Append(const Append&) = delete;
    Append& operator=(const Append&) = delete;
    ~Append();

    // The state of the step's run `run` in layer `layer`. Pages for all its rows are there.
    const LayerState& state(size_t run, uint32_t layer) const {
      return *undo_[run * layers_in_range_ + layer - first_layer_].state;
    }
    // Makes the step's end what the sessions hold, with the marks that the runs ask for.
    void Commit();

   private:
    friend class KvCache;
    struct Undo {
      uint32_t session = 0;
      uint32_t layer = 0;
      bool created = false;
      bool truncates = false;
      uint8_t marks = 0;  // as Run's
      LayerState* state = nullptr;
      LayerState before;  // pages only where the run replaces some that were there
    };
    explicit Append(KvCache* cache) : cache_(cache) {}

    KvCache* cache_;
    uint32_t first_layer_ = 0;
    uint32_t layers_in_range_ = 0;
    std::vector<Undo> undo_;  // [run][layer of the range]
  };

  void AddLayer(uint32_t layer, const LayerShape& shape);
  // Drops the layer's KV in all sessions.
  void RemoveLayer(uint32_t layer);

  // What the pages cost. Memory that waits for the next step's states (state_pool.h) is not in it,
  // but in BytesFor of that step.
  uint64_t bytes() const { return *bytes_; }
  uint64_t waiting_bytes() const { return states_->waiting_bytes(); }
  // Bytes that BeginAppend would allocate.
  uint64_t BytesFor(LayerRange layers, std::span<const Run> runs) const;

  // Whether every run may append in all layers of the range, which are all added.
  Status CheckRuns(LayerRange layers, std::span<const Run> runs) const;
  // REQUIRES: CheckRuns succeeded. kOutOfMemory when the machine has no memory left.
  Result<Append> BeginAppend(LayerRange layers, std::span<const Run> runs);

  Status Truncate(uint32_t session, uint32_t generation, uint32_t position);
  // REQUIRES: the layers are all added.
  Status Fork(LayerRange layers, const SessionFork& fork);
  void Release(uint32_t session);
  void ReleaseAll();
  HeldSession Held(uint32_t session, LayerRange layers) const;

  Result<std::vector<uint8_t>> Export(uint32_t session, uint32_t layer, uint32_t first,
                                      uint32_t count) const;
  // REQUIRES: CheckRuns succeeded for this layer and run.
  Status Import(const Run& run, uint32_t layer, ByteSpan kv);
  // The shape of an added layer; that of one which holds nothing otherwise.
  LayerShape ShapeOf(uint32_t layer) const;

 private:
  using Session = std::map<uint32_t, LayerState>;  // by layer

  const LayerState* Find(uint32_t session, uint32_t layer) const;
  Status CheckRun(LayerRange layers, const Run& run) const;
  Status CheckFork(uint32_t layer, const SessionFork& fork) const;
  // The layers that decide what may follow: those that hold something, all where none does.
  std::vector<uint32_t> Deciding(LayerRange layers) const;
  Status CheckKnown(uint32_t layer, const LayerState& state, const Run& run) const;
  // Truncates to first_position and adds pages for `count` more. nullptr page: no memory.
  bool Extend(LayerState& state, const Run& run);
  PageRef NewPage(const kernels::KvShape& shape);
  StateRef NewState(uint64_t float_count);
  // The states that so many runs write.
  StatePool::Counts StatesFor(LayerRange layers, size_t run_count) const;
  void Undo(Append& append);

  std::map<uint32_t, LayerShape> layers_;
  std::unordered_map<uint32_t, Session> sessions_;
  std::shared_ptr<uint64_t> bytes_ = std::make_shared<uint64_t>(0);  // pages count themselves
  std::shared_ptr<StatePool> states_ = std::make_shared<StatePool>();
};

}  // namespace weft::engine
