// A tile of q4s for many rows where four bytes times four bytes a 32-bit lane are one instruction.
// A file includes it once, between q4s_bytes-inl.h and q4s_many-inl.h, behind
//   DotInPlace(sum, w, x)   adds four products of weights' bytes with the signed bytes at x, a lane
//   kTilePanels      how many panels a tile has

constexpr size_t kTileGroups = kTilePanels * kParts;

// A function of its own: within its caller GCC 12 spills the sums.
template <size_t kRows>
__attribute__((noinline)) void AddTile(const PanelBytesOf* bytes, size_t words,
                                       const Floats (&scales)[kTileGroups], const IntegerInput* in,
                                       size_t stride, PanelSums* sums, size_t row) {
  Ints high[kTileGroups][kRows], low[kTileGroups][kRows];
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    WEFT_UNROLL
    for (size_t g = 0; g < kTileGroups; ++g) {
      high[g][r] = ZeroInts();
      low[g][r] = kByteZero == 0 ? ZeroInts() : AllWords(in[r * stride].byte_zero);
    }
  }
  for (size_t j = 0; j < words; ++j) {
    Ints w[kTileGroups];
    WEFT_UNROLL
    for (size_t g = 0; g < kTileGroups; ++g)
      w[g] = LoadInts(bytes[g / kParts].bytes[j] + g % kParts * kLanes * 4);
    WEFT_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
      WEFT_UNROLL
      for (size_t g = 0; g < kTileGroups; ++g) {
        high[g][r] = DotInPlace(high[g][r], w[g], in[r * stride].high + 4 * j);
        low[g][r] = DotInPlace(low[g][r], w[g], in[r * stride].low + 4 * j);
      }
    }
  }
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    WEFT_UNROLL
    for (size_t g = 0; g < kTileGroups; ++g) {
      const Ints sum = AddInts(ShiftLeft(high[g][r], 8), low[g][r]);
      float* y = sums[g / kParts].y[row + r] + g % kParts * kLanes;
      StoreFloats(y, AddScaled(sum, scales[g], in[r * stride].scale, LoadFloats(y)));
    }
  }
}
