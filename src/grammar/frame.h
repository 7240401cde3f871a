// Calls of rules that a text is in the middle of: immutable, shared, counted.
//
// A frame is one rule called at one place of a text. Its returns say where to go on when the rule
// has come to its end: in which state of the caller, and in which frame. A rule that several
// callers call at the same place has one frame with several returns, so that what is ambiguous does
// not multiply. In `{"a": [1` the frames are
//
//   root <- object, back behind the value of "a" <- array, back behind an element <- number
//
// Counts are plain numbers: all states that came of one Matcher belong to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace weft::grammar {

struct Frame;

// Shares a frame.
class FrameRef {
 public:
  FrameRef() = default;
  static FrameRef Make();
  FrameRef(const FrameRef& other);
  FrameRef(FrameRef&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  FrameRef& operator=(FrameRef other) noexcept {
    std::swap(frame_, other.frame_);
    return *this;
  }
  ~FrameRef() {
    if (frame_ != nullptr) Release();
  }

  Frame* operator->() const { return frame_; }
  Frame* get() const { return frame_; }
  bool operator==(const FrameRef& other) const { return frame_ == other.frame_; }

 private:
  void Release();

  Frame* frame_ = nullptr;
};

struct Frame {
  struct Return {
    uint32_t state = 0;
    FrameRef frame;
  };
  enum class Kind : uint8_t {
    kCall,
    kRoot,     // of the grammar's root: behind it the text ends
    kUnknown,  // of a search that is for any caller (token_masks.h)
  };

  uint32_t ref_count = 0;
  Kind kind = Kind::kCall;
  bool is_open = false;       // a step is still adding returns
  uint32_t bytes_to_end = 0;  // of the text, from the end of this rule
  std::vector<Return> returns;
  // Frames whose returns are this one's as well: it was called as the last thing of their rule.
  std::vector<FrameRef> tails;
};

inline FrameRef::FrameRef(const FrameRef& other) : frame_(other.frame_) {
  if (frame_ != nullptr) ++frame_->ref_count;
}

}  // namespace weft::grammar
