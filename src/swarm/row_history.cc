#include "swarm/row_history.h"

#include <algorithm>

#include "base/check.h"

namespace weft::swarm {

void RowHistory::Append(uint32_t position, uint32_t count, ByteSpan rows) {
  CHECK(count > 0 && rows.size() % count == 0);
  if (position + count <= end_ && position >= first_) return;
  if (position > end_ || position < first_) Restart(position);
  const uint32_t known = end_ - position;
  const size_t row_bytes = rows.size() / count;
  const ByteSpan fresh = rows.subspan(known * row_bytes);
  blocks_.push_back({end_, count - known, Slice(std::vector<uint8_t>(fresh.begin(), fresh.end())),
                     std::make_shared<const Charge>(tally_, fresh.size())});
  byte_count_ += fresh.size();
  end_ = position + count;
}

std::vector<Slice> RowHistory::Read(uint32_t first, uint32_t count) const {
  CHECK(count > 0 && first >= first_ && first + count <= end_);
  std::vector<Slice> pieces;
  auto block =
      std::upper_bound(blocks_.begin(), blocks_.end(), first,
                       [](uint32_t position, const Block& each) { return position < each.first; });
  for (--block; count > 0; ++block) {
    const uint32_t skipped = first - block->first;
    const uint32_t taken = std::min(count, block->count - skipped);
    const size_t row_bytes = RowBytes(*block);
    pieces.push_back(block->rows.Sub(skipped * row_bytes, taken * row_bytes));
    first += taken;
    count -= taken;
  }
  return pieces;
}

void RowHistory::Truncate(uint32_t position) {
  if (position >= end_) return;
  if (position <= first_) return Restart(position);
  while (blocks_.back().first >= position) {
    byte_count_ -= blocks_.back().rows.byte_count();
    blocks_.pop_back();
  }
  Block& last = blocks_.back();
  const uint32_t kept = position - last.first;
  if (kept < last.count) {
    // The memory of the rows that go stays with the block: a step or two at most.
    byte_count_ -= last.rows.byte_count();
    last.rows = last.rows.Sub(0, kept * RowBytes(last));
    last.count = kept;
    last.charge = std::make_shared<const Charge>(tally_, last.rows.byte_count());
    byte_count_ += last.rows.byte_count();
  }
  end_ = position;
}

void RowHistory::DropBefore(uint32_t position) {
  while (!blocks_.empty() && blocks_.front().first + blocks_.front().count <= position) {
    first_ = blocks_.front().first + blocks_.front().count;
    byte_count_ -= blocks_.front().rows.byte_count();
    blocks_.pop_front();
  }
}

void RowHistory::Restart(uint32_t position) {
  blocks_.clear();
  byte_count_ = 0;
  first_ = end_ = position;
}

}  // namespace weft::swarm
