// The kernel of q4s for 5 to 8 rows, where there are 32 registers: the rows share bytes m * (q - 8)
// + kByteZero that never leave registers. A file includes it once, behind q4s_bytes-inl.h and
//   Dot(sum, w, x)   adds four products of weights' bytes with the signed bytes at x, a lane
//
// Bytes of the next 16 columns are made between the products of these. They are older in program
// order than what waits for them, so the processor begins them in time: made in one go before their
// products, 8 rows take 1.2 times as long.

constexpr size_t kLeastBatch = 5;
constexpr size_t kMostBatch = 8;

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
  const size_t count = part.blocks * 2;
  Ints w[4];
  WeightBytes(part, 0, 0, w);
  for (size_t i = 0; i < count; ++i) {
    const size_t next = i + 1 < count ? i + 1 : i;
    const SignedLevels levels = LevelsOf(part, next, 0);
    const uint8_t* at = part.nibbles + next * 128;
    __builtin_prefetch(at + 4096);
    __builtin_prefetch(at + 4096 + 64);
    WEFT_UNROLL
    for (size_t j = 0; j < 4; ++j) {
      WEFT_UNROLL
      for (size_t r = 0; r < kRows; ++r) {
        high[r] = Dot(high[r], w[j], in[r * stride].high + 16 * i + 4 * j);
        low[r] = Dot(low[r], w[j], in[r * stride].low + 16 * i + 4 * j);
      }
      const Ints nibbles = LoadInts(at + j / 2 * 64);
      w[j] = levels.Bytes(j % 2 == 0 ? Low(nibbles) : High(nibbles));
    }
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
