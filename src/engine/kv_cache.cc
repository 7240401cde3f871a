#include "engine/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <ranges>
#include <string>

namespace weft::engine {

using kernels::kPagePositions;
using kernels::KvShape;

class KvCache::Page {
 public:
  // Zeroed. Throws std::bad_alloc.
  Page(const KvShape& shape, std::shared_ptr<uint64_t> total)
      : byte_count_(shape.page_bytes()),
        address_(::operator new (byte_count_, std::align_val_t{64})),
        total_(std::move(total)) {
    std::memset(address_, 0, byte_count_);
    *total_ += byte_count_;
  }
  ~Page() {
    ::operator delete (address_, std::align_val_t{64});
    *total_ -= byte_count_;
  }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  void* address() const { return address_; }

 private:
  uint64_t byte_count_;
  void* address_;
  std::shared_ptr<uint64_t> total_;
};

class KvCache::StatePage {
 public:
  // Undefined contents. Throws std::bad_alloc.
  StatePage(uint64_t float_count, std::shared_ptr<StatePool> pool, std::shared_ptr<uint64_t> total)
      : byte_count_(float_count * sizeof(float)),
        memory_(pool->Take(byte_count_)),
        pool_(std::move(pool)),
        total_(std::move(total)) {
    *total_ += byte_count_;
  }
  ~StatePage() {
    pool_->GiveBack(std::move(memory_), byte_count_);
    *total_ -= byte_count_;
  }
  StatePage(const StatePage&) = delete;
  StatePage& operator=(const StatePage&) = delete;

  float* values() const { return reinterpret_cast<float*>(memory_.data()); }

 private:
  uint64_t byte_count_;
  LargeMemory memory_;
  std::shared_ptr<StatePool> pool_;
  std::shared_ptr<uint64_t> total_;
};

const float* KvCache::LayerState::StateBefore() const {
  return state_before == nullptr ? nullptr : state_before->values();
}

float* KvCache::LayerState::StateAfter() const {
  return state == nullptr ? nullptr : state->values();
}

void KvCache::LayerState::CutStateTo(uint32_t position) {
  if (shape.state_floats == 0) return;
  CHECK(HasStateAt(position) && position <= length);
  if (position == 0) {
    state = nullptr;
  } else if (position < length) {
    state = marks.at(position);
  }
  marks.erase(marks.upper_bound(position), marks.end());
}

namespace {

uint32_t PagesFor(uint32_t positions) {
  return static_cast<uint32_t>((positions + kPagePositions - 1) / kPagePositions);
}

Error Refused(uint32_t session, const std::string& reason) {
  return Error(ErrorCode::kInvalidArgument, "Session " + std::to_string(session) + " " + reason);
}

std::string Describe(const Run& run) {
  return "a run of " + std::to_string(run.count) + " rows at position " +
         std::to_string(run.first_position) + ", generation " + std::to_string(run.generation);
}

// "holds the recurrent state of layer 3 at position 70 and at no mark": why a session cannot be cut
// back to `position`.
std::string NoStateAt(uint32_t layer, const KvCache::LayerState& state, uint32_t position) {
  std::string text = "holds the recurrent state of layer " + std::to_string(layer) +
                     " at position " + std::to_string(state.length) + " and at ";
  text += state.marks.empty() ? "no mark" : "the marks";
  for (const auto& [mark, page] : state.marks) text += " " + std::to_string(mark);
  return text + ", not at " + std::to_string(position);
}

// Whether `run` replaces pages that someone else, or this session after a failure, still needs: it
// truncates, or it goes on in a page that a fork shares.
bool WritesKept(const KvCache::LayerState& state, const Run& run) {
  if (run.first_position < state.length) return true;
  return run.first_position % kPagePositions != 0 && !state.pages.empty() &&
         state.pages.back().use_count() > 1;
}

}  // namespace

void KvCache::AddLayer(uint32_t layer, const LayerShape& shape) {
  CHECK(layers_.emplace(layer, shape).second);
}

void KvCache::RemoveLayer(uint32_t layer) {
  layers_.erase(layer);
  for (auto& [id, session] : sessions_) session.erase(layer);
  std::erase_if(sessions_, [](const auto& entry) { return entry.second.empty(); });
  states_->Keep({});
}

const KvCache::LayerState* KvCache::Find(uint32_t session, uint32_t layer) const {
  const auto known = sessions_.find(session);
  if (known == sessions_.end()) return nullptr;
  const auto state = known->second.find(layer);
  return state == known->second.end() ? nullptr : &state->second;
}

KvCache::LayerShape KvCache::ShapeOf(uint32_t layer) const {
  const auto known = layers_.find(layer);
  return known == layers_.end() ? LayerShape() : known->second;
}

Status KvCache::CheckRun(LayerRange layers, const Run& run) const {
  if (run.count == 0 || run.count > kMaxPositions ||
      run.first_position > kMaxPositions - run.count) {
    return Refused(run.session, "was given " + Describe(run) +
                                    "; expected 1 or more rows below position " +
                                    std::to_string(kMaxPositions) + ".");
  }
  if (run.marks > kMaxMarks)
    return Refused(run.session, "was asked to hold " + std::to_string(run.marks) +
                                    " marks; expected at most " + std::to_string(kMaxMarks) + ".");
  bool any_holds = false;
  for (uint32_t layer = layers.first; layer < layers.end; ++layer) {
    any_holds |= ShapeOf(layer).holds_any();
  }
  for (uint32_t layer = layers.first; layer < layers.end; ++layer) {
    const bool holds = ShapeOf(layer).holds_any();
    if (any_holds && !holds) continue;  // the layers that hold something decide
    const LayerState* state = Find(run.session, layer);
    if (state == nullptr) {
      if (run.first_position == 0 || !holds) continue;
      return Refused(run.session, "is unknown in layer " + std::to_string(layer) + ", so " +
                                      Describe(run) +
                                      " cannot follow; it must begin at position 0.");
    }
    TRY(CheckKnown(layer, *state, run));
  }
  return OkStatus();
}

Status KvCache::CheckKnown(uint32_t layer, const LayerState& state, const Run& run) const {
  if (run.generation < state.generation)
    return Refused(run.session, "was given " + Describe(run) + ", but layer " +
                                    std::to_string(layer) + " is in generation " +
                                    std::to_string(state.generation) + ".");
  const bool may_truncate = run.generation > state.generation;
  const bool fits = may_truncate ? run.first_position <= state.length || !state.shape.holds_any()
                                 : run.first_position == state.length;
  if (!fits) {
    return Refused(run.session, "holds " + std::to_string(state.length) + " positions of layer " +
                                    std::to_string(layer) + " in generation " +
                                    std::to_string(state.generation) + ", so " + Describe(run) +
                                    " cannot follow.");
  }
  if (state.HasStateAt(run.first_position)) return OkStatus();
  return Refused(run.session, NoStateAt(layer, state, run.first_position) + ", so " +
                                  Describe(run) + " cannot follow.");
}

Status KvCache::CheckRuns(LayerRange layers, std::span<const Run> runs) const {
  for (const Run& run : runs) TRY(CheckRun(layers, run));
  return OkStatus();
}

uint64_t KvCache::BytesFor(LayerRange layers, std::span<const Run> runs) const {
  uint64_t bytes = 0;
  for (const Run& run : runs) {
    for (uint32_t layer = layers.first; layer < layers.end; ++layer) {
      const LayerShape held = ShapeOf(layer);
      bytes += held.state_bytes();
      const std::optional<KvShape>& shape = held.kv;
      if (!shape) continue;
      const LayerState* state = Find(run.session, layer);
      const uint32_t kept = state == nullptr ? 0 : PagesFor(run.first_position);
      uint64_t pages = PagesFor(run.first_position + run.count) - kept;
      // A partly filled page that is shared, or that is kept for a failed step, is copied.
      if (state != nullptr && run.first_position % kPagePositions != 0) {
        const bool truncates = run.first_position < state->length;
        if (truncates || state->pages[kept - 1].use_count() > 1) ++pages;
      }
      bytes += pages * shape->page_bytes();
    }
  }
  return bytes;
}

KvCache::PageRef KvCache::NewPage(const KvShape& shape) {
  try {
    return std::make_shared<Page>(shape, bytes_);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

KvCache::StateRef KvCache::NewState(uint64_t float_count) {
  try {
    return std::make_shared<StatePage>(float_count, states_, bytes_);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

bool KvCache::Extend(LayerState& state, const Run& run) {
  state.CutStateTo(run.first_position);
  state.generation = run.generation;
  state.length = run.first_position;
  if (state.shape.state_floats > 0) {
    state.state_before = std::move(state.state);
    state.state = NewState(state.shape.state_floats);
    if (state.state == nullptr) return false;
  }
  if (!state.shape.kv) return true;
  const uint32_t kept = PagesFor(run.first_position);
  state.pages.resize(kept);
  state.addresses.resize(kept);
  if (run.first_position % kPagePositions != 0 && state.pages.back().use_count() > 1) {
    PageRef copy = NewPage(*state.shape.kv);
    if (copy == nullptr) return false;
    std::memcpy(copy->address(), state.pages.back()->address(), state.shape.kv->page_bytes());
    state.pages.back() = std::move(copy);
    state.addresses.back() = state.pages.back()->address();
  }
  while (state.pages.size() < PagesFor(run.first_position + run.count)) {
    PageRef page = NewPage(*state.shape.kv);
    if (page == nullptr) return false;
    state.addresses.push_back(page->address());
    state.pages.push_back(std::move(page));
  }
  return true;
}

// The undo log. A step writes keys and values in place while it runs, into positions beyond what
// every session had, so most of undoing is forgetting: the old length and generation come back, and
// pages beyond them are dropped. Two cases would lose something and keep the old list of pages:
//
//   truncation   A run at position 40 of a session of 70 drops page 2 (positions 64 to 95) and
//                writes into page 1 (32 to 63), which still holds positions 40 to 63 of the old
//                text. With the old list kept, page 1 has two owners, so Extend copies it before
//                anything is written, and the old pages stay as they were.
//   fork         The last page has another session's reference already and is copied for the same
//                reason; undone, the session shares it again.
//
// State is never written in place, so undoing is taking the old page and the old marks back.
//
// Undoing takes out the layers that the step added to a session, and with its last layer the
// session. It allocates nothing and cannot fail.
Result<KvCache::Append> KvCache::BeginAppend(LayerRange layers, std::span<const Run> runs) {
  states_->Keep(StatesFor(layers, runs.size()));
  Append append(this);
  append.first_layer_ = layers.first;
  append.layers_in_range_ = layers.end - layers.first;
  append.undo_.reserve(runs.size() * append.layers_in_range_);
  for (const Run& run : runs) {
    Session& session = sessions_[run.session];
    for (uint32_t layer = layers.first; layer < layers.end; ++layer) {
      const auto [entry, created] = session.try_emplace(layer);
      LayerState& state = entry->second;
      if (created) state.shape = ShapeOf(layer);
      Append::Undo& undo = append.undo_.emplace_back();
      undo.session = run.session;
      undo.layer = layer;
      undo.created = created;
      undo.state = &state;
      undo.before.generation = state.generation;
      undo.before.length = state.length;
      undo.before.state = state.state;
      if (run.first_position < state.length) undo.before.marks = state.marks;
      undo.truncates = run.first_position < state.length;
      undo.marks = run.marks;
      if (WritesKept(state, run)) {
        undo.before.pages = state.pages;
        undo.before.addresses = state.addresses;
      }
      if (!Extend(state, run)) {
        return Error(ErrorCode::kOutOfMemory, "The machine has no memory left for the KV of " +
                                                  Describe(run) + " of session " +
                                                  std::to_string(run.session) + ".");
      }
      state.length = run.first_position + run.count;
    }
  }
  return append;
}

StatePool::Counts KvCache::StatesFor(LayerRange layers, size_t run_count) const {
  StatePool::Counts counts;
  for (uint32_t layer = layers.first; layer < layers.end; ++layer) {
    const uint64_t byte_count = ShapeOf(layer).state_bytes();
    if (byte_count > 0) counts[byte_count] += run_count;
  }
  return counts;
}

void KvCache::Release(uint32_t session) {
  sessions_.erase(session);
  if (sessions_.empty()) states_->Keep({});
}

void KvCache::ReleaseAll() {
  sessions_.clear();
  states_->Keep({});
}

void KvCache::Append::Commit() {
  for (Undo& undo : undo_) {
    LayerState& state = *undo.state;
    state.state_before = nullptr;
    if (state.shape.state_floats == 0 || undo.marks == 0) continue;
    state.marks.insert_or_assign(state.length, state.state);
    DropMarks(state.marks, undo.marks);
  }
  cache_ = nullptr;
}

KvCache::Append::~Append() {
  if (cache_ != nullptr) cache_->Undo(*this);
}

void KvCache::Undo(Append& append) {
  for (auto undo = append.undo_.rbegin(); undo != append.undo_.rend(); ++undo) {
    if (undo->created) {
      Session& session = sessions_[undo->session];
      session.erase(undo->layer);
      if (session.empty()) sessions_.erase(undo->session);
      continue;
    }
    LayerState& state = *undo->state;
    state.generation = undo->before.generation;
    state.length = undo->before.length;
    state.state = std::move(undo->before.state);
    state.state_before = nullptr;
    if (undo->truncates) state.marks = std::move(undo->before.marks);
    if (!undo->before.pages.empty()) {
      state.pages = std::move(undo->before.pages);
      state.addresses = std::move(undo->before.addresses);
    } else if (state.shape.kv) {
      state.pages.resize(PagesFor(state.length));
      state.addresses.resize(state.pages.size());
    }
  }
}

Status KvCache::Truncate(uint32_t session, uint32_t generation, uint32_t position) {
  const auto known = sessions_.find(session);
  if (known == sessions_.end()) {
    return Error(ErrorCode::kNotFound,
                 "Session " + std::to_string(session) + " is unknown, so it cannot be truncated.");
  }
  uint32_t longest = 0;
  for (const auto& [layer, state] : known->second) {
    longest = std::max(longest, state.length);
    if (generation <= state.generation) {
      return Refused(session, "cannot be truncated in generation " + std::to_string(generation) +
                                  "; a truncation must raise the generation, which is " +
                                  std::to_string(state.generation) + ".");
    }
    if (position < state.length && !state.HasStateAt(position)) {
      return Refused(session, NoStateAt(layer, state, position) + ", so it cannot be truncated.");
    }
  }
  if (position > longest) {
    return Refused(session, "cannot be truncated to " + std::to_string(position) +
                                " positions; it holds " + std::to_string(longest) + ".");
  }
  for (auto& [layer, state] : known->second) {
    state.generation = generation;
    state.CutStateTo(std::min(state.length, position));
    state.length = std::min(state.length, position);
    if (!state.shape.kv) continue;
    state.pages.resize(PagesFor(state.length));
    state.addresses.resize(state.pages.size());
  }
  return OkStatus();
}

std::vector<uint32_t> KvCache::Deciding(LayerRange layers) const {
  std::vector<uint32_t> all, holding;
  for (uint32_t layer = layers.first; layer < layers.end; ++layer) {
    all.push_back(layer);
    if (ShapeOf(layer).holds_any()) holding.push_back(layer);
  }
  return holding.empty() ? all : holding;
}

Status KvCache::CheckFork(uint32_t layer, const SessionFork& fork) const {
  const LayerState* state = Find(fork.from, layer);
  const uint32_t held = state == nullptr ? 0 : state->length;
  const std::string what = ", so it cannot be forked at position " +
                           std::to_string(fork.position_count) + " into session " +
                           std::to_string(fork.to) + ".";
  if (fork.position_count > held)
    return Refused(fork.from, "holds " + std::to_string(held) + " positions of layer " +
                                  std::to_string(layer) + what);
  if (!state->HasStateAt(fork.position_count))
    return Refused(fork.from, NoStateAt(layer, *state, fork.position_count) + what);
  const LayerState* old = Find(fork.to, layer);
  if (old == nullptr || fork.generation > old->generation) return OkStatus();
  return Refused(fork.to, "is in generation " + std::to_string(old->generation) + " of layer " +
                              std::to_string(layer) + ", so a fork in generation " +
                              std::to_string(fork.generation) + " cannot take its place.");
}

Status KvCache::Fork(LayerRange layers, const SessionFork& fork) {
  if (fork.from == fork.to || fork.position_count == 0)
    return Refused(fork.from, "cannot be forked at position " +
                                  std::to_string(fork.position_count) + " into session " +
                                  std::to_string(fork.to) +
                                  "; expected another session and at least 1 position.");
  const std::vector<uint32_t> deciding = Deciding(layers);
  for (const uint32_t layer : deciding) TRY(CheckFork(layer, fork));
  Session& session = sessions_[fork.to];
  for (const uint32_t layer : deciding) {
    LayerState copy = *Find(fork.from, layer);
    copy.generation = fork.generation;
    copy.CutStateTo(fork.position_count);
    copy.length = fork.position_count;
    if (copy.shape.kv) {
      copy.pages.resize(PagesFor(copy.length));
      copy.addresses.resize(copy.pages.size());
    }
    session.insert_or_assign(layer, std::move(copy));
  }
  // Layers that hold nothing take whatever comes from a session that they do not know.
  for (uint32_t layer = layers.first; layer < layers.end; ++layer)
    if (!std::binary_search(deciding.begin(), deciding.end(), layer)) session.erase(layer);
  return OkStatus();
}

// Layers that hold nothing do not count, unless all of them are such.
HeldSession KvCache::Held(uint32_t session, LayerRange layers) const {
  const auto holds_any = [this](uint32_t layer) { return ShapeOf(layer).holds_any(); };
  const auto indices = std::views::iota(layers.first, layers.end);
  const bool any_holds = std::ranges::any_of(indices, holds_any);
  std::optional<HeldSession> held;
  bool has_marks = false;
  for (const uint32_t layer : indices) {
    if (any_holds && !holds_any(layer)) continue;
    const LayerState* state = Find(session, layer);
    if (state == nullptr || state->length == 0) return {};
    if (!held) held = {state->generation, state->length, {}};
    if (held->generation != state->generation) held->generation = 0;
    held->positions = std::min(held->positions, state->length);
    if (state->shape.state_floats == 0) continue;
    if (!std::exchange(has_marks, true)) {
      const auto positions = std::views::keys(state->marks);
      held->marks.assign(positions.begin(), positions.end());
    }
    std::erase_if(held->marks, [&](uint32_t mark) { return !state->marks.contains(mark); });
  }
  return held.value_or(HeldSession());
}

namespace {

template <typename Element>
std::vector<uint8_t> ExportRows(const KvCache::LayerState& state, uint32_t first, uint32_t count) {
  const size_t columns = state.shape.kv->row_columns();
  std::vector<Element> kv(state.shape.kv->position_elements() * count);
  Element* const values = kv.data() + (state.shape.kv->values_in_keys() ? 0 : columns * count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t position = first + i;
    const auto* page = static_cast<const Element*>(state.addresses[position / kPagePositions]);
    kernels::CopyOut(*state.shape.kv, page, position % kPagePositions, kv.data() + i * columns,
                     values + i * columns);
  }
  const ByteSpan bytes = AsBytes(std::span<const Element>(kv));
  return std::vector<uint8_t>(bytes.begin(), bytes.end());
}

// `kv` has the size that `run` takes.
template <typename Element>
void ImportRows(const KvCache::LayerState& state, const Run& run, ByteSpan kv) {
  const size_t columns = state.shape.kv->row_columns();
  std::vector<Element> values(kv.size() / sizeof(Element));
  if (!kv.empty()) std::memcpy(values.data(), kv.data(), kv.size());
  const size_t first_value = state.shape.kv->values_in_keys() ? 0 : run.count * columns;
  for (uint32_t i = 0; i < run.count; ++i) {
    const uint32_t position = run.first_position + i;
    auto* page = static_cast<Element*>(state.addresses[position / kPagePositions]);
    kernels::CopyIn(*state.shape.kv, page, position % kPagePositions, values.data() + i * columns,
                    values.data() + first_value + i * columns);
  }
}

}  // namespace

Result<std::vector<uint8_t>> KvCache::Export(uint32_t session, uint32_t layer, uint32_t first,
                                             uint32_t count) const {
  const LayerState* state = Find(session, layer);
  if (state == nullptr || !state->shape.kv) {
    return Error(ErrorCode::kNotFound, "Session " + std::to_string(session) +
                                           " has no KV in layer " + std::to_string(layer) + ".");
  }
  if (first > state->length || count > state->length - first) {
    return Refused(session, "holds " + std::to_string(state->length) + " positions of layer " +
                                std::to_string(layer) + "; " + std::to_string(count) +
                                " from position " + std::to_string(first) + " were asked for.");
  }
  return kernels::WithKvElement(state->shape.kv->dtype, [&](auto element) {
    return ExportRows<decltype(element)>(*state, first, count);
  });
}

Status KvCache::Import(const Run& run, uint32_t layer, ByteSpan kv) {
  const std::optional<KvShape> shape = ShapeOf(layer).kv;
  if (!shape) {
    return Error(ErrorCode::kInvalidArgument,
                 "Layer " + std::to_string(layer) + " has no attention, so it holds no KV.");
  }
  const uint64_t expected_bytes =
      uint64_t{shape->position_elements()} * run.count * shape->element_bytes();
  if (kv.size() != expected_bytes) {
    return Error(ErrorCode::kInvalidData, "KV of " + std::to_string(run.count) +
                                              " positions of layer " + std::to_string(layer) +
                                              " in " + std::string(DTypeName(shape->dtype)) +
                                              " takes " + std::to_string(expected_bytes) +
                                              " bytes; " + std::to_string(kv.size()) + " came.");
  }
  const LayerRange only = {layer, layer + 1};
  ASSIGN_OR_RETURN(Append append, BeginAppend(only, {&run, 1}));
  kernels::WithKvElement(shape->dtype, [&](auto element) {
    ImportRows<decltype(element)>(append.state(0, layer), run, kv);
  });
  append.Commit();
  return OkStatus();
}

}  // namespace weft::engine
