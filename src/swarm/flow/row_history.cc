#include "swarm/flow/row_history.h"

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

bool RowHistory::CanGoOnWith(const RowHistory& other, uint32_t end) const {
  return end_ >= end || (other.end_ >= end && other.first_ <= end_);
}

void RowHistory::GoOnWith(const RowHistory& other, uint32_t end) {
  CHECK(other.end_ >= end);
  if (other.first_ > end_) Restart(other.first_);
  for (const Block& block : other.blocks_) {
    const uint32_t from = std::max(end_, block.first);
    const uint32_t to = std::min(end, block.first + block.count);
    if (from >= to) continue;
    Block piece = block;
    const size_t row_bytes = RowBytes(block);
    piece.first = from;
    piece.count = to - from;
    piece.rows = block.rows.Sub((from - block.first) * row_bytes, piece.count * row_bytes);
    byte_count_ += piece.rows.byte_count();
    blocks_.push_back(std::move(piece));
    end_ = to;
  }
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
    // Who else has the block keeps all of it.
    if (last.charge.use_count() == 1)
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
