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
// Intel's read fastest in several streams with hints. Others were not measured, and are given the
// same.
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

// Hints look so many bytes ahead. In a single stream on a Zen 5 4 KiB gave a model of 0.6B 84
// tokens/s, 8 KiB 91 and 16 KiB 87; without hints it made 58.
inline constexpr size_t kHintBytes = 4096, kFarHintBytes = 8192;

// A hint of what lies kAhead bytes behind `at`; none where that is 0. It may be no object's.
template <size_t kAhead>
inline void HintAhead(const uint8_t* at) {
  if constexpr (kAhead > 0)
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(at) + kAhead));
}

}  // namespace weft::kernels
