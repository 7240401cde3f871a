// One byte further in a grammar, from all places where a text may be in it at once: Earley's
// algorithm, with the frames of calls (frame.h) for its origins. A matcher (matcher.h) keeps what
// comes of it; a mask (token_masks.h) tries the bytes of a whole vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "grammar/automaton.h"
#include "grammar/frame.h"

namespace weft::grammar {

// A place in a grammar: a state that bytes lead on from, and whose rule's call it is in.
struct Item {
  uint32_t state = 0;
  FrameRef frame;
};

// All places where a text may be. Empty and no end: the text is none of the grammar's.
struct Items {
  std::vector<Item> items;
  bool at_end = false;          // the text may end here
  bool leaves_unknown = false;  // it may be behind the call whose caller is not known

  bool is_dead() const { return items.empty() && !at_end && !leaves_unknown; }
  void clear() {
    items.clear();
    at_end = leaves_unknown = false;
  }
};

// Scratch memory of one thread.
class Stepper {
 public:
  explicit Stepper(const Automaton& automaton);

  // Where a text begins.
  void Begin(Items& out);
  // Where it is after `byte`; `out` is another one than `from`.
  void Step(const Items& from, uint8_t byte, Items& out);
  // Where it goes on behind the call of `frame`. REQUIRES: a frame of kind kCall.
  void Return(const Frame& frame, Items& out);

 private:
  // A text is at this place; whatever else that makes it possible to be at is found by Close.
  void Reach(uint32_t state, const FrameRef& frame, Items& out);
  void Close(Items& out);
  void AddCalls(uint32_t state, const FrameRef& frame, Items& out);
  void Leave(const FrameRef& frame, Items& out);
  void CloseFrame(Frame& frame);
  bool IsNew(uint32_t state, const Frame* frame);
  void Grow();

  const Automaton& automaton_;
  std::vector<Item> open_;        // reached, not looked at yet
  std::vector<FrameRef> called_;  // frames that this step made
  struct LastCall {
    uint64_t step = 0;
    size_t place = 0;  // in called_
  };
  std::vector<LastCall> last_calls_;  // by rule
  // What this step has reached: open addressing, entries of former steps count as free.
  struct Slot {
    uint64_t step = 0;
    uint32_t state = 0;
    const Frame* frame = nullptr;
  };
  std::vector<Slot> slots_;
  size_t reached_count_ = 0;
  uint64_t step_ = 0;
};

}  // namespace weft::grammar
