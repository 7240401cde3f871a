// Boundary rows of one session in front of one layer, kept from the moment at which the stage
// before gave them: what the stage behind has not been sent yet, and what a worker that takes over
// its layers later is sent in its place.
//
//   positions   0 ........ first() ................ end()
//               dropped    | kept, in blocks as they came |
//
// A copy shares the blocks: sessions with a common beginning keep its rows once.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace weft::swarm {

// Bytes that blocks take, shared ones once.
using HistoryTally = std::shared_ptr<uint64_t>;

class RowHistory {
 public:
  explicit RowHistory(HistoryTally tally = std::make_shared<uint64_t>(0))
      : tally_(std::move(tally)) {}

  uint32_t first() const { return first_; }
  uint32_t end() const { return end_; }
  // Of its own rows and those that it shares.
  uint64_t byte_count() const { return byte_count_; }
  bool Has(uint32_t position) const { return first_ <= position && position < end_; }

  // `count` rows from `position` on, copied: a slice of a frame would keep the whole frame. Rows
  // that are known already are left out; behind a gap the history begins again.
  void Append(uint32_t position, uint32_t count, ByteSpan rows);
  // Rows [first, first + count) in pieces that share the history's memory. REQUIRES: it has them.
  std::vector<Slice> Read(uint32_t first, uint32_t count) const;

  // Forgets rows from `position` on.
  void Truncate(uint32_t position);
  // Forgets rows in front of `position`, block by block: some may stay.
  void DropBefore(uint32_t position);
  // Whether it and what `other` has make one history without a gap up to `end`.
  bool CanGoOnWith(const RowHistory& other, uint32_t end) const;
  // Rows of `other` up to `end`, whose memory the two share from now on, behind its own. Where that
  // leaves a gap its own are forgotten. REQUIRES: other.end() >= end.
  void GoOnWith(const RowHistory& other, uint32_t end);

  // Forgets everything; the next row is that of `position`.
  void Restart(uint32_t position);

 private:
  // What a block costs for as long as anybody has it.
  class Charge {
   public:
    Charge(HistoryTally tally, uint64_t bytes) : tally_(std::move(tally)), bytes_(bytes) {
      *tally_ += bytes_;
    }
    ~Charge() { *tally_ -= bytes_; }
    Charge(const Charge&) = delete;
    Charge& operator=(const Charge&) = delete;

   private:
    HistoryTally tally_;
    uint64_t bytes_;
  };
  struct Block {
    uint32_t first = 0, count = 0;
    Slice rows;
    std::shared_ptr<const Charge> charge;
  };
  size_t RowBytes(const Block& block) const { return block.rows.byte_count() / block.count; }

  HistoryTally tally_;
  std::deque<Block> blocks_;  // contiguous, by rising position
  uint32_t first_ = 0, end_ = 0;
  uint64_t byte_count_ = 0;
};

}  // namespace weft::swarm
