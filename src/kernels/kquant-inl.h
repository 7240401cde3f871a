// The kernel of q4k, q5k and q6k, whatever the width of a processor's registers. A file includes it
// once, between WEFT_BEGIN_TARGET and WEFT_END_TARGET (target_region.h), behind these names for its
// registers:
//   Ints, Floats        of kLanes 32-bit numbers: 16 outputs of a panel, or 8
//   LoadInts(bytes), AllBytes(byte), AllWords(word), AllFloats(x), ZeroInts(), ZeroFloats()
//   LoadHalves(bytes)   f16 as Floats; StoreFloats(at, x)
//   And, Or, AddInts, TimesInts (low 32 bits), Times, ToFloats
//   ShiftLeft(words, bits), ShiftRight(words, bits), ShiftRightSigned24(words)
//   NibblesDown(bytes), NibblesUp(bytes), TwoDown(bytes): by 4, 4 and 2 bits, across byte borders
//   Fma(a, b, c) = a * b + c, FmaNegative(a, b, c) = c - a * b
//   Dot(sum, q, x)      adds four products of unsigned q with the signed bytes at x, a lane
//
// Four levels of an output are a lane. After 32 columns (q6k: 16) that share a scale, the sums of q
// * high and of q * low are multiplied by it. Levels are made once for several rows. Minima times
// sums of x are dots of bytes, too. Eight m of an output are two words of the record once unpacked,
// and the eight sums of a row lie in three planes of bytes.

constexpr size_t kParts = kPanelOutputs / kLanes;

// Outputs [part * kLanes, (part + 1) * kLanes) of a superblock of a panel.
template <DType kForm>
struct Superblock {
  static constexpr KQuantLayout kLayout = LayoutOf(kForm);
  const uint8_t* at;
  size_t part;

  // A word of each output.
  Ints Words(size_t offset) const { return LoadInts(at + offset + part * kLanes * 4); }
  Floats Factors(size_t i) const {
    return LoadHalves(at + kLayout.factors + (i * kPanelOutputs + part * kLanes) * 2);
  }

  // The levels of 32 columns, four columns a register. Hints, if any, are so many bytes ahead.
  template <bool kHints>
  void Levels(size_t j, ptrdiff_t ahead, Ints (&q)[8]) const {
    WEFT_UNROLL
    for (size_t t = 0; t < 4; ++t) {
      const size_t nibbles = kLayout.Nibbles(4 * j + t);
      if constexpr (kHints) HintAt(at + nibbles, ahead);
      const Ints both = Words(nibbles);
      q[2 * t] = And(both, AllBytes(15));
      q[2 * t + 1] = And(NibblesDown(both), AllBytes(15));
    }
    if constexpr (kForm == DType::kQ5K) {
      if constexpr (kHints) HintAt(at + kLayout.Upper(j), ahead);
      const Ints fifth = Words(kLayout.Upper(j));
      WEFT_UNROLL
      for (size_t k = 0; k < 8; ++k)
        q[k] = Or(q[k], NibblesUp(And(ShiftRight(fifth, k), AllBytes(1))));
    }
    if constexpr (kForm == DType::kQ6K) {
      if constexpr (kHints) HintAt(at + kLayout.Upper(2 * j), ahead);
      if constexpr (kHints) HintAt(at + kLayout.Upper(2 * j + 1), ahead);
      WEFT_UNROLL
      for (size_t k = 0; k < 8; ++k) {
        const Ints upper = Words(kLayout.Upper(2 * j + k / 4));
        q[k] = Or(q[k], NibblesUp(And(ShiftRight(upper, k % 4 * 2), AllBytes(3))));
      }
    }
  }
};

// s and m of a superblock, four bytes a lane.
template <DType kForm>
struct Scales {
  Ints s[kForm == DType::kQ6K ? 4 : 2];
  Ints m[2];

  explicit Scales(const Superblock<kForm>& superblock) {
    constexpr size_t kAt = LayoutOf(kForm).scales, kWord = kPanelOutputs * 4;
    if constexpr (kForm == DType::kQ6K) {
      WEFT_UNROLL
      for (size_t i = 0; i < 4; ++i) s[i] = superblock.Words(kAt + i * kWord);
    } else {
      const Ints a = superblock.Words(kAt), b = superblock.Words(kAt + kWord),
                 c = superblock.Words(kAt + 2 * kWord);
      // The high two bits of each byte of a and b become bits 4 and 5.
      s[0] = And(a, AllBytes(63));
      m[0] = And(b, AllBytes(63));
      s[1] = Or(And(c, AllBytes(15)), And(TwoDown(a), AllBytes(0x30)));
      m[1] = Or(And(NibblesDown(c), AllBytes(15)), And(TwoDown(b), AllBytes(0x30)));
    }
  }
  // Scale `i`: of 32 columns, in q6k of 16.
  Ints Of(size_t i) const {
    if constexpr (kForm == DType::kQ6K)
      return ShiftRightSigned24(ShiftLeft(s[i / 4], 24 - i % 4 * 8));
    else
      return And(ShiftRight(s[i / 4], i % 4 * 8), AllWords(255));
  }
};

struct Sums {
  Ints high, low;
};

// Adds s times the sums of q * high and of q * low of 4 * kCount columns from `column` on.
template <size_t kCount>
inline void AddColumns(const Ints* q, const IntegerInput& in, size_t column, Ints high, Ints low,
                       Ints s, Sums* sums) {
  WEFT_UNROLL
  for (size_t k = 0; k < kCount; ++k) {
    high = Dot(high, q[k], in.high + column + 4 * k);
    low = Dot(low, q[k], in.low + column + 4 * k);
  }
  sums->high = AddInts(sums->high, TimesInts(high, s));
  sums->low = AddInts(sums->low, TimesInts(low, s));
}

// The sum of m times the row's sums.
inline Floats Minima(const Ints (&m)[2], const IntegerInput& in) {
  Ints sum = ZeroInts();
  WEFT_UNROLL
  for (size_t plane = 3; plane-- > 0;) {
    sum = Dot(ShiftLeft(sum, 8), m[0], in.sums[plane]);
    sum = Dot(sum, m[1], in.sums[plane] + 4);
  }
  return ToFloats(sum);
}

template <DType kForm, size_t kRows, bool kHints>
inline void AddSuperblock(const Superblock<kForm>& superblock, ptrdiff_t ahead,
                          const IntegerInput* in, size_t stride, Floats* y) {
  const Scales<kForm> scales(superblock);
  Sums sums[kRows];
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) sums[r] = {ZeroInts(), ZeroInts()};
  for (size_t j = 0; j < 8; ++j) {
    Ints q[8];
    superblock.template Levels<kHints>(j, ahead, q);
    if constexpr (kForm == DType::kQ6K) {
      WEFT_UNROLL
      for (size_t i = 0; i < 2; ++i) {
        const Ints s = scales.Of(2 * j + i);
        WEFT_UNROLL
        for (size_t r = 0; r < kRows; ++r) {
          const IntegerInput& row = in[r * stride];
          // -32 times the sums of 16 bytes.
          AddColumns<4>(q + 4 * i, row, 32 * j + 16 * i, AllWords(4 * row.high_zero[2 * j + i]),
                        AllWords(4 * row.low_zero[2 * j + i]), s, &sums[r]);
        }
      }
    } else {
      const Ints s = scales.Of(j);
      WEFT_UNROLL
      for (size_t r = 0; r < kRows; ++r)
        AddColumns<8>(q, in[r * stride], 32 * j, ZeroInts(), ZeroInts(), s, &sums[r]);
    }
  }
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    const IntegerInput& row = in[r * stride];
    const Floats scale = AllFloats(row.scale);
    const Floats both = Times(superblock.Factors(0), scale);
    y[r] = Fma(ToFloats(sums[r].high), Times(AllFloats(256), both), y[r]);
    y[r] = Fma(ToFloats(sums[r].low), both, y[r]);
    if constexpr (kForm != DType::kQ6K)
      y[r] = FmaNegative(Minima(scales.m, row), Times(superblock.Factors(1), scale), y[r]);
  }
}

// kPanels panels that follow each other, so that their sums do not wait for each other.
template <DType kForm, size_t kRows, size_t kPanels, size_t kAhead>
inline void RunTile(const PanelProduct& product, size_t panel, size_t row) {
  const size_t superblocks = product.superblocks();
  alignas(64) float values[kPanels][kRows][kPanelOutputs];
  for (size_t part = 0; part < kParts; ++part) {
    Floats y[kPanels][kRows];
    WEFT_UNROLL
    for (size_t p = 0; p < kPanels; ++p) WEFT_UNROLL
    for (size_t r = 0; r < kRows; ++r) y[p][r] = ZeroFloats();
    HintsAhead hints(superblocks, LayoutOf(kForm).end, product.panel_bytes(), kPanels, kAhead);
    for (size_t b = 0; b < superblocks; ++b) {
      const ptrdiff_t ahead = hints.Next(b);
      WEFT_UNROLL
      for (size_t p = 0; p < kPanels; ++p) {
        const Superblock<kForm> own{product.Panel(panel + p) + b * LayoutOf(kForm).end, part};
        AddSuperblock<kForm, kRows, (kAhead > 0)>(own, ahead, product.in + row * superblocks + b,
                                                  superblocks, y[p]);
      }
    }
    WEFT_UNROLL
    for (size_t p = 0; p < kPanels; ++p) WEFT_UNROLL
    for (size_t r = 0; r < kRows; ++r) StoreFloats(values[p][r] + part * kLanes, y[p][r]);
  }
  WEFT_UNROLL
  for (size_t p = 0; p < kPanels; ++p) WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) StorePanel(product, panel + p, row + r, values[p][r]);
}

template <DType kForm, size_t kRows>
inline void RunRows(const PanelProduct& product, size_t first, size_t end, size_t row) {
  constexpr size_t kPanels = kRows == 1 ? kPanelsOfOneRow : 1;
  size_t panel = first;
  const ReadAhead ahead = kRows == 1 ? product.one_row : ReadAhead::kSideBySide;
  if (ahead == ReadAhead::kOneStream)
    for (; panel < end; ++panel) RunTile<kForm, kRows, 1, 0>(product, panel, row);
  if (ahead == ReadAhead::kHintedStream)
    for (; panel < end; ++panel) RunTile<kForm, kRows, 1, kFarHint>(product, panel, row);
  if (kRows == 1 && product.superblocks() <= kNarrowSuperblocks)
    for (; panel < end; ++panel) RunTile<kForm, kRows, 1, kHint>(product, panel, row);
  for (; panel + kPanels <= end; panel += kPanels)
    RunTile<kForm, kRows, kPanels, kHint>(product, panel, row);
  for (; panel < end; ++panel) RunTile<kForm, kRows, 1, kHint>(product, panel, row);
}

constexpr size_t kPassRows = 64;  // whose superblocks stay in the second cache

template <DType kForm>
inline void RunForm(const PanelProduct& product, size_t first, size_t end) {
  for (size_t pass = 0; pass < product.rows; pass += kPassRows) {
    const size_t pass_end = pass + kPassRows < product.rows ? pass + kPassRows : product.rows;
    // A panel is read again from the caches for every tile of a pass.
    const size_t step = pass_end - pass > kTileRows ? 1 : end - first;
    for (size_t panel = first; panel < end; panel += step) {
      size_t row = pass;
      for (; row + kTileRows <= pass_end; row += kTileRows)
        RunRows<kForm, kTileRows>(product, panel, panel + step, row);
      if constexpr (kTileRows > 4)
        for (; row + 4 <= pass_end; row += 4) RunRows<kForm, 4>(product, panel, panel + step, row);
      for (; row + 2 <= pass_end; row += 2) RunRows<kForm, 2>(product, panel, panel + step, row);
      if (row < pass_end) RunRows<kForm, 1>(product, panel, panel + step, row);
    }
  }
}

inline void RunKQuants(const PanelProduct& product, size_t first, size_t end) {
  switch (product.weight.dtype) {
    case DType::kQ4K:
      return RunForm<DType::kQ4K>(product, first, end);
    case DType::kQ5K:
      return RunForm<DType::kQ5K>(product, first, end);
    default:
      return RunForm<DType::kQ6K>(product, first, end);
  }
}
