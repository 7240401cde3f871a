#include "grammar/stepper.h"

#include <algorithm>
#include <utility>

namespace weft::grammar {
namespace {

size_t HashOf(uint32_t state, const Frame* frame) {
  const uint64_t key = (reinterpret_cast<uintptr_t>(frame) >> 4) + state * 0x9E3779B97F4A7C15u;
  return (key * 0xBF58476D1CE4E5B9u) >> 32;
}

}  // namespace

Stepper::Stepper(const Automaton& automaton)
    : automaton_(automaton), last_calls_(automaton.rule_count()), slots_(64) {}

void Stepper::Begin(Items& out) {
  out.clear();
  ++step_;
  reached_count_ = 0;
  FrameRef root = FrameRef::Make();
  root->kind = Frame::Kind::kRoot;
  Reach(automaton_.rule(automaton_.root()).start, root, out);
  Close(out);
}

void Stepper::Step(const Items& from, uint8_t byte, Items& out) {
  out.clear();
  // What most steps are: one place, from which the byte leads to one that calls nothing.
  if (from.items.size() == 1) {
    const Item& item = from.items[0];
    uint32_t target = 0;
    size_t count = 0;
    for (const Automaton::Edge& edge : automaton_.edges(item.state)) {
      if (byte < edge.first || byte > edge.last) continue;
      target = edge.target;
      ++count;
    }
    if (count == 0) return;
    if (count == 1 && automaton_.is_plain(target)) {
      out.items.push_back({target, item.frame});
      return;
    }
  }
  ++step_;
  reached_count_ = 0;
  for (const Item& item : from.items)
    for (const Automaton::Edge& edge : automaton_.edges(item.state))
      if (edge.first <= byte && byte <= edge.last) Reach(edge.target, item.frame, out);
  Close(out);
}

void Stepper::Return(const Frame& frame, Items& out) {
  out.clear();
  ++step_;
  reached_count_ = 0;
  for (const Frame::Return& back : frame.returns) Reach(back.state, back.frame, out);
  Close(out);
}

void Stepper::Reach(uint32_t state, const FrameRef& frame, Items& out) {
  if (!IsNew(state, frame.get())) return;
  if (automaton_.is_plain(state))
    out.items.push_back({state, frame});
  else
    open_.push_back({state, frame});
}

void Stepper::Close(Items& out) {
  while (!open_.empty()) {
    const Item item = std::move(open_.back());
    open_.pop_back();
    if (!automaton_.edges(item.state).empty()) out.items.push_back(item);
    AddCalls(item.state, item.frame, out);
    if (automaton_.accepts(item.state)) Leave(item.frame, out);
  }
  for (const FrameRef& frame : called_) CloseFrame(*frame.get());
  called_.clear();
}

void Stepper::AddCalls(uint32_t state, const FrameRef& frame, Items& out) {
  for (const Automaton::Call& call : automaton_.calls(state)) {
    LastCall& last = last_calls_[call.rule];
    const bool is_first = std::exchange(last.step, step_) != step_;
    if (is_first) {
      last.place = called_.size();
      called_.push_back(FrameRef::Make());
      called_.back()->is_open = true;
    }
    const FrameRef callee = called_[last.place];
    // What comes last in its rule need not come back to it: rules that repeat themselves at their
    // end (`list ::= item list`) would make a longer way back with each item.
    if (automaton_.is_end(call.back) && frame->kind == Frame::Kind::kCall)
      callee->tails.push_back(frame);
    else
      callee->returns.push_back({call.back, frame});
    if (is_first) Reach(automaton_.rule(call.rule).start, callee, out);
    if (automaton_.rule(call.rule).nullable()) Reach(call.back, frame, out);
  }
}

// The rule has come to its end. One that was called in this step has no text: its callers have
// gone past it (AddCalls).
void Stepper::Leave(const FrameRef& frame, Items& out) {
  if (frame->is_open) return;
  out.at_end = out.at_end || frame->kind == Frame::Kind::kRoot;
  out.leaves_unknown = out.leaves_unknown || frame->kind == Frame::Kind::kUnknown;
  for (const Frame::Return& back : frame->returns) Reach(back.state, back.frame, out);
}

// Frames of a step are no circle, since no rule is left-recursive.
void Stepper::CloseFrame(Frame& frame) {
  if (!std::exchange(frame.is_open, false)) return;
  for (const FrameRef& tail : std::exchange(frame.tails, {})) {
    CloseFrame(*tail.get());
    frame.returns.insert(frame.returns.end(), tail->returns.begin(), tail->returns.end());
  }
  const auto order = [](const Frame::Return& a, const Frame::Return& b) {
    return std::pair(a.state, a.frame.get()) < std::pair(b.state, b.frame.get());
  };
  const auto same = [](const Frame::Return& a, const Frame::Return& b) {
    return a.state == b.state && a.frame == b.frame;
  };
  if (frame.returns.size() > 1) {
    std::sort(frame.returns.begin(), frame.returns.end(), order);
    frame.returns.erase(std::unique(frame.returns.begin(), frame.returns.end(), same),
                        frame.returns.end());
  }
  uint64_t least = kUnbounded;
  for (const Frame::Return& back : frame.returns) {
    CloseFrame(*back.frame.get());
    least =
        std::min(least, uint64_t{automaton_.bytes_to_end(back.state)} + back.frame->bytes_to_end);
  }
  frame.bytes_to_end = static_cast<uint32_t>(std::min<uint64_t>(least, kUnbounded));
}

bool Stepper::IsNew(uint32_t state, const Frame* frame) {
  if (2 * reached_count_ >= slots_.size()) Grow();
  for (size_t at = HashOf(state, frame);; ++at) {
    Slot& slot = slots_[at & (slots_.size() - 1)];
    if (slot.step != step_) {
      slot = {step_, state, frame};
      ++reached_count_;
      return true;
    }
    if (slot.state == state && slot.frame == frame) return false;
  }
}

void Stepper::Grow() {
  const std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
  for (const Slot& slot : before) {
    if (slot.step != step_) continue;
    size_t at = HashOf(slot.state, slot.frame);
    while (slots_[at & (slots_.size() - 1)].step == step_) ++at;
    slots_[at & (slots_.size() - 1)] = slot;
  }
}

}  // namespace weft::grammar
