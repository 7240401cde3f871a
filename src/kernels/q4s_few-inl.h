// The kernel of q4s for few rows, which reads a weight once and is bound by memory, whatever the
// width of registers. A file includes it once, behind q4s_parts-inl.h and
//   Pairs(magnitudes, i, signs)   m of nibbles i as AddColumns wants it, negative where a bit of
//                            `signs` is set, the first lane's lowest
//   AddColumns(q, in, i, m, sum)   adds 256 H + L of columns 16 i to 16 i + 15: four columns a
//                            register of levels q = 0..15 as they are stored
//   kPanelsOfOneRow, kPanelsOfFewRows   what was measured, where hints help (read_ahead.h)

// A superblock of kGroups groups for kRows rows. Hints, if any, are so many bytes ahead.
template <size_t kRows, bool kHints, size_t kGroups>
inline void AddSuperblock(const PanelPart (&parts)[kGroups], ptrdiff_t ahead,
                          const IntegerInput* in, size_t stride, Floats (&y)[kRows][kGroups]) {
  Ints sum[kRows][kGroups];
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) WEFT_UNROLL
  for (size_t g = 0; g < kGroups; ++g) sum[r][g] = ZeroInts();
  for (size_t i = 0; i < parts[0].blocks * 2; ++i) {
    WEFT_UNROLL
    for (size_t g = 0; g < kGroups; ++g) {
      const size_t first = g % kParts * kLanes;
      const uint8_t* at = parts[g].nibbles + i * 128 + first * 4;
      if constexpr (kHints) HintAt(at, ahead), HintAt(at + 64, ahead);
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

template <size_t kRows, size_t kPanels, size_t kAhead>
void RunFew(const PanelProduct& product, size_t panel, size_t row) {
  constexpr size_t kGroups = kPanels * kParts;
  const size_t superblocks = product.superblocks();
  Floats y[kRows][kGroups];
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) WEFT_UNROLL
  for (size_t g = 0; g < kGroups; ++g) y[r][g] = ZeroFloats();
  HintsAhead hints(superblocks, kSuperblockBytes, product.panel_bytes(), kPanels, kAhead);
  for (size_t b = 0; b < superblocks; ++b) {
    PanelPart parts[kGroups];
    WEFT_UNROLL
    for (size_t g = 0; g < kGroups; ++g)
      parts[g] = PartOf(product.Panel(panel + g / kParts), product.weight.columns, b);
    AddSuperblock<kRows, (kAhead > 0)>(parts, hints.Next(b), product.in + row * superblocks + b,
                                       superblocks, y);
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
  const ReadAhead ahead = kRows == 1 ? product.one_row : ReadAhead::kSideBySide;
  if (ahead == ReadAhead::kOneStream)
    for (; panel < end; ++panel) RunFew<kRows, 1, 0>(product, panel, row);
  if (ahead == ReadAhead::kHintedStream)
    for (; panel < end; ++panel) RunFew<kRows, 1, kFarHint>(product, panel, row);
  if (kRows == 1 && product.superblocks() <= kNarrowSuperblocks)
    for (; panel < end; ++panel) RunFew<kRows, 1, kHint>(product, panel, row);
  for (; panel + kPanels <= end; panel += kPanels)
    RunFew<kRows, kPanels, kHint>(product, panel, row);
  for (; panel < end; ++panel) RunFew<kRows, 1, kHint>(product, panel, row);
}

// All rows, however many.
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
