// The kernel of q4s where four bytes times four bytes a 32-bit lane are one instruction (VNNI),
// whatever the width of registers. A file includes it once, behind registers_*-inl.h and
//   Dot(sum, q, x)           adds four products of unsigned q with the signed bytes at x, a lane
//   PairDot(sum, a, b)       adds two products of signed 16-bit halves, a lane
//   Pairs(magnitudes, i, signs)   m in the low halves and 256 m in the high ones, of nibbles i and
//                            negative where a bit of `signs` is set, the first lane's lowest
//   kPanelsOfOneRow, kPanelsOfFewRows, kTilePanels, kTileRows, kManyRows: what was measured
//
// Few rows read a weight once and are bound by memory. Levels q = 0..15 are multiplied as they are
// stored. After 16 columns H and L fit 16 bits and lie side by side in a lane, and one instruction
// adds 256 m * H + m * L.
//
// More rows share bytes m * (q - 8) + 128, made once for all of them. Four products a lane then
// take one instruction, and nothing beside it. 128 times the sum of a row's x is taken off at the
// end.
//
// A group is what a register has of a panel: 16 outputs or 8.

constexpr size_t kParts = kPanelOutputs / kLanes;

inline Ints Low(Ints nibbles) {
  return And(nibbles, AllBytes(15));
}
inline Ints High(Ints nibbles) {
  return Low(NibblesDown(nibbles));
}
inline Floats ScalesOf(const PanelPart& part, size_t first) {
  return LoadHalves(reinterpret_cast<const uint8_t*>(part.scales() + first));
}
// Multiplier i is nibble i % 8 of each.
inline Ints MagnitudesOf(const PanelPart& part, size_t i, size_t first) {
  const uint32_t* words = part.magnitudes() + i / 8 * kPanelOutputs + first;
  return LoadInts(reinterpret_cast<const uint8_t*>(words));
}
inline Floats AddScaled(Ints sum, Floats scales, float scale, Floats y) {
  return Fma(ToFloats(sum), Times(scales, AllFloats(scale)), y);
}

// ---- few rows

// 16 columns of a row: -8 times the sums of its bytes is where the sums of q * x begin.
inline Ints AddColumns(const Ints (&q)[4], const IntegerInput& in, size_t i, Ints m, Ints sum) {
  Ints h = AllWords(in.high_zero[i]);
  Ints l = AllWords(in.low_zero[i]);
  WEFT_UNROLL
  for (size_t j = 0; j < 4; ++j) {
    h = Dot(h, q[j], in.high + 16 * i + 4 * j);
    l = Dot(l, q[j], in.low + 16 * i + 4 * j);
  }
  return PairDot(sum, Halves(l, ShiftLeft(h, 16)), m);
}

// A superblock of kGroups groups for kRows rows.
template <size_t kRows, size_t kGroups>
inline void AddSuperblock(const PanelPart (&parts)[kGroups], const IntegerInput* in, size_t stride,
                          Floats (&y)[kRows][kGroups]) {
  Ints sum[kRows][kGroups];
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) WEFT_UNROLL
  for (size_t g = 0; g < kGroups; ++g) sum[r][g] = ZeroInts();
  for (size_t i = 0; i < parts[0].blocks * 2; ++i) {
    WEFT_UNROLL
    for (size_t g = 0; g < kGroups; ++g) {
      const size_t first = g % kParts * kLanes;
      const uint8_t* at = parts[g].nibbles + i * 128 + first * 4;
      __builtin_prefetch(at + 4096);
      __builtin_prefetch(at + 4096 + 64);
      const Ints a = LoadInts(at), c = LoadInts(at + 64);
      const Ints q[4] = {Low(a), High(a), Low(c), High(c)};
      const Ints m = Pairs(MagnitudesOf(parts[g], i, first), i % 8,
                           static_cast<uint32_t>(parts[g].signs()[i]) >> first);
      WEFT_UNROLL
      for (size_t r = 0; r < kRows; ++r) sum[r][g] = AddColumns(q, in[r * stride], i, m, sum[r][g]);
    }
  }
  WEFT_UNROLL
  for (size_t g = 0; g < kGroups; ++g) {
    const Floats scales = ScalesOf(parts[g], g % kParts * kLanes);
    WEFT_UNROLL
    for (size_t r = 0; r < kRows; ++r)
      y[r][g] = AddScaled(sum[r][g], scales, in[r * stride].scale, y[r][g]);
  }
}

template <size_t kRows, size_t kPanels>
void RunFew(const PanelProduct& product, size_t panel, size_t row) {
  constexpr size_t kGroups = kPanels * kParts;
  const size_t superblocks = product.superblocks();
  Floats y[kRows][kGroups];
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) WEFT_UNROLL
  for (size_t g = 0; g < kGroups; ++g) y[r][g] = ZeroFloats();
  for (size_t b = 0; b < superblocks; ++b) {
    PanelPart parts[kGroups];
    WEFT_UNROLL
    for (size_t g = 0; g < kGroups; ++g)
      parts[g] = PartOf(product.Panel(panel + g / kParts), product.weight.columns, b);
    AddSuperblock<kRows, kGroups>(parts, product.in + row * superblocks + b, superblocks, y);
  }
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    alignas(64) float values[kPanels][kPanelOutputs];
    WEFT_UNROLL
    for (size_t g = 0; g < kGroups; ++g)
      StoreFloats(values[g / kParts] + g % kParts * kLanes, y[r][g]);
    WEFT_UNROLL
    for (size_t p = 0; p < kPanels; ++p) StorePanel(product, panel + p, row + r, values[p]);
  }
}

template <size_t kRows>
void RunFewRows(const PanelProduct& product, size_t first, size_t end, size_t row) {
  constexpr size_t kPanels = kRows == 1 ? kPanelsOfOneRow : kPanelsOfFewRows;
  size_t panel = first;
  for (; panel + kPanels <= end; panel += kPanels) RunFew<kRows, kPanels>(product, panel, row);
  for (; panel < end; ++panel) RunFew<kRows, 1>(product, panel, row);
}

// ---- many rows

constexpr size_t kPassRows = 96;   // whose superblocks stay in the second cache
constexpr size_t kPassPanels = 4;  // whose bytes stay in the first
constexpr size_t kTileGroups = kTilePanels * kParts;

// m * (q - 8) + 128 of one superblock: [64][16] words of four columns.
struct alignas(64) PanelBytesOf {
  uint8_t bytes[64][64];
};

// Products of bytes, each below 256, by two multiplications of every other byte.
inline Ints TimesBytes(Ints q, Ints m, Ints zero) {
  const Ints even = TimesHalves(And(q, AllWords(0x00ff00ff)), m);
  const Ints odd = TimesHalves(HalvesDown(q, 8), m);
  return AddBytes(EveryOther(even, HalvesUp(odd, 8)), zero);
}

void Expand(const PanelPart& part, PanelBytesOf* out) {
  for (size_t i = 0; i < part.blocks * 2; ++i) {
    for (size_t first = 0; first < kPanelOutputs; first += kLanes) {
      const Ints magnitude = And(ShiftRight(MagnitudesOf(part, i, first), i % 8 * 4), AllWords(15));
      const Ints m = Negated(magnitude, static_cast<uint32_t>(part.signs()[i]) >> first);
      const Ints twice = Halves(m, ShiftLeft(m, 16));
      // 128 - 8 m in every byte.
      const Ints zero16 = SubtractHalves(AllWords(0x00800080), HalvesUp(twice, 3));
      const Ints zero = EveryOther(zero16, HalvesUp(zero16, 8));
      const Ints a = LoadInts(part.nibbles + i * 128 + first * 4);
      const Ints c = LoadInts(part.nibbles + i * 128 + 64 + first * 4);
      const Ints w[4] = {TimesBytes(Low(a), twice, zero), TimesBytes(High(a), twice, zero),
                         TimesBytes(Low(c), twice, zero), TimesBytes(High(c), twice, zero)};
      WEFT_UNROLL
      for (size_t j = 0; j < 4; ++j) StoreInts(out->bytes[4 * i + j] + first * 4, w[j]);
    }
  }
}

// y [kPassRows] of a panel.
struct alignas(64) PanelSums {
  float y[kPassRows][kPanelOutputs];
};

template <size_t kRows>
inline void AddTile(const PanelBytesOf* bytes, size_t words, const Floats (&scales)[kTileGroups],
                    const IntegerInput* in, size_t stride, PanelSums* sums, size_t row) {
  Ints high[kRows][kTileGroups], low[kRows][kTileGroups];
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    WEFT_UNROLL
    for (size_t g = 0; g < kTileGroups; ++g) {
      high[r][g] = ZeroInts();
      low[r][g] = AllWords(in[r * stride].byte_zero);
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
        high[r][g] = Dot(high[r][g], w[g], in[r * stride].high + 4 * j);
        low[r][g] = Dot(low[r][g], w[g], in[r * stride].low + 4 * j);
      }
    }
  }
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    WEFT_UNROLL
    for (size_t g = 0; g < kTileGroups; ++g) {
      const Ints sum = AddInts(ShiftLeft(high[r][g], 8), low[r][g]);
      float* y = sums[g / kParts].y[row + r] + g % kParts * kLanes;
      StoreFloats(y, AddScaled(sum, scales[g], in[r * stride].scale, LoadFloats(y)));
    }
  }
}

// Rows [0, count) of the panels of a tile and one superblock.
inline void AddRows(const PanelBytesOf* bytes, size_t words, const Floats (&scales)[kTileGroups],
                    const IntegerInput* in, size_t stride, PanelSums* sums, size_t count) {
  size_t r = 0;
  for (; r + kTileRows <= count; r += kTileRows)
    AddTile<kTileRows>(bytes, words, scales, in + r * stride, stride, sums, r);
  for (; r + 2 <= count; r += 2) AddTile<2>(bytes, words, scales, in + r * stride, stride, sums, r);
  if (r < count) AddTile<1>(bytes, words, scales, in + r * stride, stride, sums, r);
}

// Panels [first, end), at most kPassPanels, of rows [row, row + count), at most kPassRows.
void RunPass(const PanelProduct& product, size_t first, size_t end, size_t row, size_t count) {
  const size_t superblocks = product.superblocks();
  PanelSums sums[kPassPanels];
  std::memset(sums, 0, sizeof(sums));
  PanelBytesOf bytes[kPassPanels];
  for (size_t b = 0; b < superblocks; ++b) {
    for (size_t tile = first; tile < end; tile += kTilePanels) {
      Floats scales[kTileGroups];
      PanelBytesOf* at = bytes + (tile - first);
      WEFT_UNROLL
      for (size_t p = 0; p < kTilePanels; ++p) {
        // An odd last panel is computed twice.
        const size_t panel = tile + p < end ? tile + p : end - 1;
        const PanelPart part = PartOf(product.Panel(panel), product.weight.columns, b);
        WEFT_UNROLL
        for (size_t g = 0; g < kParts; ++g) scales[p * kParts + g] = ScalesOf(part, g * kLanes);
        Expand(part, at + p);
      }
      const size_t words = BlocksInSuperblock(product.weight.columns, b) * 8;
      AddRows(at, words, scales, product.in + row * superblocks + b, superblocks,
              sums + (tile - first), count);
    }
  }
  for (size_t panel = first; panel < end; ++panel)
    for (size_t r = 0; r < count; ++r)
      StorePanel(product, panel, row + r, sums[panel - first].y[r]);
}

inline void RunSome(const PanelProduct& product, size_t first, size_t end) {
  size_t row = 0;
  for (; row + 4 <= product.rows; row += 4) RunFewRows<4>(product, first, end, row);
  switch (product.rows - row) {
    case 3:
      return RunFewRows<3>(product, first, end, row);
    case 2:
      return RunFewRows<2>(product, first, end, row);
    case 1:
      return RunFewRows<1>(product, first, end, row);
    default:
      return;
  }
}

inline void RunQ4s(const PanelProduct& product, size_t first, size_t end) {
  if (product.rows < kManyRows) return RunSome(product, first, end);
  for (size_t row = 0; row < product.rows; row += kPassRows) {
    const size_t left = product.rows - row;
    for (size_t panel = first; panel < end; panel += kPassPanels) {
      RunPass(product, panel, panel + kPassPanels < end ? panel + kPassPanels : end, row,
              left < kPassRows ? left : kPassRows);
    }
  }
}
