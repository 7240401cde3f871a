#include "program/reuse_buffers.h"

#include <algorithm>
#include <vector>

#include "program/op_views.h"

namespace weft::program {
namespace {

constexpr size_t kNever = SIZE_MAX;

}  // namespace

// A linear scan, as for registers. Tracing gives every intermediate value a buffer of its own; here
// buffers of the same width share a slot when the one is written only after the last read of the
// other. For `a = norm(x); b = W a; c = norm(b); y = x + V c` over equal widths, a and c share a
// slot. A slot is free for operation i when its last read lies before i, or is i itself where the
// operation may write over what it reads (op_views.h). The input's slot stays the input's, and what
// the output holds is never written over: their last read is the caller's, after the last
// operation.
void ReuseBuffers(Program* program) {
  const size_t count = program->buffers.size();
  std::vector<size_t> last_read(count, 0);
  for (size_t i = 0; i < program->ops.size(); ++i) {
    VisitViews(program->ops[i], [&](const View& view, bool is_output) {
      if (!is_output) last_read[view.buffer] = i;
    });
  }
  last_read[program->output] = kNever;
  if (program->input) last_read[*program->input] = kNever;

  constexpr BufferId kUnset = UINT32_MAX;
  std::vector<BufferId> slot_of(count, kUnset);  // old buffer -> new buffer
  std::vector<Buffer> slots;
  std::vector<size_t> busy_until;  // [slot] the last operation that reads what is in it
  const auto open_slot = [&](BufferId old) {
    slots.push_back(program->buffers[old]);
    busy_until.push_back(last_read[old]);
    slot_of[old] = static_cast<BufferId>(slots.size() - 1);
  };
  if (program->input) open_slot(*program->input);
  for (size_t i = 0; i < program->ops.size(); ++i) {
    Op& op = program->ops[i];
    // In place needs the inputs to be dead after this very operation; elsewhere they must be dead
    // before it.
    const size_t free_before = MayWriteInPlace(op) ? i + 1 : i;
    VisitViews(op, [&](View& view, bool is_output) {
      if (!is_output || slot_of[view.buffer] != kUnset) return;
      for (BufferId slot = 0; slot < slots.size(); ++slot) {
        if (slots[slot].columns != program->buffers[view.buffer].columns ||
            busy_until[slot] >= free_before) {
          continue;
        }
        slot_of[view.buffer] = slot;
        busy_until[slot] = std::max(last_read[view.buffer], i);
        return;
      }
      open_slot(view.buffer);
    });
    VisitViews(op, [&](View& view, bool) { view.buffer = slot_of[view.buffer]; });
  }
  program->output = slot_of[program->output];
  if (program->input) program->input = slot_of[*program->input];
  program->buffers = std::move(slots);
}

}  // namespace weft::program
