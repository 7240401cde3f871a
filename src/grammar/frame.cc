#include "grammar/frame.h"

namespace weft::grammar {

FrameRef FrameRef::Make() {
  FrameRef made;
  made.frame_ = std::make_unique<Frame>().release();
  made.frame_->ref_count = 1;
  return made;
}

// One after another: a text may be nested so deep that a call for each frame ended the stack.
void FrameRef::Release() {
  if (--frame_->ref_count > 0) return;
  std::vector<std::unique_ptr<Frame>> over;
  over.emplace_back(std::exchange(frame_, nullptr));
  const auto let_go = [&over](FrameRef& ref) {
    Frame* const frame = std::exchange(ref.frame_, nullptr);
    if (frame != nullptr && --frame->ref_count == 0) over.emplace_back(frame);
  };
  while (!over.empty()) {
    const std::unique_ptr<Frame> frame = std::move(over.back());
    over.pop_back();
    for (Frame::Return& back : frame->returns) let_go(back.frame);
    for (FrameRef& tail : frame->tails) let_go(tail);
  }
}

}  // namespace weft::grammar
