// The kernel of q4s for 3 to 8 rows, where there are 32 registers: the rows share bytes m * (q - 8)
// + kByteZero that never leave registers. A file includes it once, behind q4s_bytes-inl.h and
//   DotInPlace(sum, w, x)   adds four products of weights' bytes with the signed bytes at x, a lane
//   BatchLevels(magnitudes, signs)   what makes bytes of nibbles; its multipliers' |m| are the
//                           lowest nibbles of lanes, and Low(nibbles) and High(nibbles) make bytes
//
// Bytes of the next 16 columns are made between the products of these. They are older in program
// order than what waits for them, so the processor begins them in time: made in one go before their
// products, 8 rows take 1.2 times as long. Every instruction counts: two begin in a cycle, and 64
// of 83 are products.

constexpr size_t kLeastBatch = 3;
constexpr size_t kMostBatch = 8;

// Columns 16 i to 16 i + 15, whose bytes are `w`. Then `w` has the bytes of `nibbles`.
template <size_t kRows>
inline void AddSixteen(const IntegerInput* in, size_t stride, size_t i, const uint8_t* nibbles,
                       const BatchLevels& levels, Ints (&w)[4], Ints (&high)[kRows],
                       Ints (&low)[kRows]) {
  __builtin_prefetch(nibbles + 4096);
  __builtin_prefetch(nibbles + 4096 + 64);
  WEFT_UNROLL
  for (size_t j = 0; j < 4; ++j) {
    WEFT_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
      high[r] = DotInPlace(high[r], w[j], in[r * stride].high + 16 * i + 4 * j);
      low[r] = DotInPlace(low[r], w[j], in[r * stride].low + 16 * i + 4 * j);
    }
    const Ints both = LoadInts(nibbles + j / 2 * 64);
    w[j] = j % 2 == 0 ? levels.Low(both) : levels.High(both);
  }
}

// A superblock of a panel and kRows rows, whose sums are `y`.
template <size_t kRows>
inline void AddBatch(const PanelPart& part, const IntegerInput* in, size_t stride,
                     float (&y)[kRows][kPanelOutputs]) {
  static_assert(kLanes == kPanelOutputs);
  Ints high[kRows], low[kRows];
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    high[r] = ZeroInts();
    low[r] = kByteZero == 0 ? ZeroInts() : AllWords(in[r * stride].byte_zero);
  }
  const size_t count = part.blocks * 2;  // an even number
  Ints w[4];
  WeightBytes(part, 0, 0, w);
  Ints magnitudes = MagnitudesOf(part, 0, 0);
  for (size_t i = 0; i < count; i += 2) {
    magnitudes = NibblesOfWordsDown(magnitudes);
    AddSixteen(in, stride, i, part.nibbles + (i + 1) * 128,
               BatchLevels(magnitudes, part.signs()[i + 1]), w, high, low);
    // Behind the last columns the first ones are made again, for nobody.
    const size_t next = i + 2 < count ? i + 2 : 0;
    magnitudes = next % 8 == 0 ? MagnitudesOf(part, next, 0) : NibblesOfWordsDown(magnitudes);
    AddSixteen(in, stride, i + 1, part.nibbles + next * 128,
               BatchLevels(magnitudes, part.signs()[next]), w, high, low);
  }
  const Floats scales = ScalesOf(part, 0);
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    const Ints sum = AddInts(ShiftLeft(high[r], 8), low[r]);
    StoreFloats(y[r], AddScaled(sum, scales, in[r * stride].scale, LoadFloats(y[r])));
  }
}

// All rows. REQUIRES: kLeastBatch to kRows of them.
template <size_t kRows>
void RunBatch(const PanelProduct& product, size_t first, size_t end) {
  if constexpr (kRows > kLeastBatch) {
    if (product.rows < kRows) return RunBatch<kRows - 1>(product, first, end);
  }
  const size_t superblocks = product.superblocks();
  for (size_t panel = first; panel < end; ++panel) {
    alignas(64) float y[kRows][kPanelOutputs] = {};
    for (size_t b = 0; b < superblocks; ++b) {
      const PanelPart part = PartOf(product.Panel(panel), product.weight.columns, b);
      AddBatch<kRows>(part, product.in + b, superblocks, y);
    }
    for (size_t r = 0; r < kRows; ++r) StorePanel(product, panel, r, y[r]);
  }
}
