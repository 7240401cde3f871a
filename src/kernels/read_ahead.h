// How weights that are read once come from memory fastest.
//
// AMD's processors follow one stream by themselves. Hints of what comes next, or several streams
// side by side, only disturb that: one row of q4s reads 26.5 GB/s on a Zen 4 with one panel after
// the other and no hints, 22 with hints and 16.5 with two panels side by side. Intel's read fastest
// in several streams with hints; others were not measured, and are given the same.
#pragma once

namespace weft::kernels {

// Whether this processor reads one stream without hints fastest. Thread-safe.
bool FollowsOneStream();

}  // namespace weft::kernels
