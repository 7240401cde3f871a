// How weights that are read once come from memory fastest.
//
// Each processor is fastest in its own way, and one row of weights waits for nothing else. GB/s of
// one thread with q4s and q6k, on a Zen 4 over 300 MB in large pages, a Zen 5 over 2,560 x 4,096:
//
//                                  Zen 4          Zen 5
//   one panel after the other      26.5, 27       27, 15
//   the same with hints            22             34, 32
//   panels side by side, hints     16.5, 8.6      25, 23
//
// Intel's read fastest in several streams with hints, but for panels of few superblocks: these lie
// so close together that several streams are one whose lines come in no order. us of one thread for
// q4s from memory, in large pages, on a Xeon with AMX:
//
//   columns x outputs         256 x 4,096  768 x 2,048  1,024 x 4,096  4,096 x 512
//   four panels side by side      47           58            150            64
//   the same, hints 4 KiB ahead   53           74            167            67
//   one after the other           35           52            144            69
//
// Others were not measured, and are given the same.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::kernels {

// How one row reads its weights.
enum class ReadAhead : uint8_t {
  kSideBySide,    // several panels, hints of what comes next
  kOneStream,     // one after the other: the processor follows by itself, and hints disturb it
  kHintedStream,  // one after the other, hints of what comes much later
};
// This processor's. Thread-safe.
ReadAhead ReadAheadOfOneRow();

// Hints look so many superblocks of 2 to 3 KB ahead, and far ahead in a single stream on a Zen 5:
// 4 KiB gave a model of 0.6B 84 tokens/s there, 8 KiB 91 and 16 KiB 87, and none 58.
inline constexpr size_t kHint = 1, kFarHint = 4;
// A panel of so few superblocks is read alone.
inline constexpr size_t kNarrowSuperblocks = 4;

// A hint of what lies so many bytes from `at`. It may be no object's.
inline void HintAt(const uint8_t* at, ptrdiff_t ahead) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<intptr_t>(at) + ahead));
}

// Where the hints of a tile of panels point: to what is read so many superblocks later, in the next
// tile where its own panels end.
//
//   panels a to d of three superblocks, two side by side, hints two ahead
//   read        a0 b0  a1 b1  a2 b2  c0 d0
//   hinted at   a2 b2  c0 d0  c1 d1  c2 d2
class HintsAhead {
 public:
  // `panel_bytes`: of a panel of so many superblocks, of which each but the last has
  // `superblock_bytes`.
  HintsAhead(size_t superblocks, size_t superblock_bytes, size_t panel_bytes, size_t panels,
             size_t ahead)
      : end_(superblocks),
        superblock_(ahead % superblocks),
        superblock_bytes_(superblock_bytes),
        tile_bytes_(panels * panel_bytes),
        tiles_(ahead / superblocks) {}

  // Bytes from superblock `b` of any of the tile's panels. REQUIRES: called for 0, 1, 2, ... in
  // turn.
  ptrdiff_t Next(size_t b) {
    const size_t to = tiles_ * tile_bytes_ + superblock_ * superblock_bytes_;
    if (++superblock_ == end_) superblock_ = 0, ++tiles_;
    return static_cast<ptrdiff_t>(to) - static_cast<ptrdiff_t>(b * superblock_bytes_);
  }

 private:
  size_t end_, superblock_, superblock_bytes_, tile_bytes_, tiles_;
};

}  // namespace weft::kernels
