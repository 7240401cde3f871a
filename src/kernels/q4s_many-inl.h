// The kernel of q4s for many rows, which share bytes m * (q - 8) + kByteZero, made once for all of
// them. A file includes it once, behind q4s_few-inl.h and
//   AddTile<rows>(bytes, words, scales, in, stride, sums, row)   as q4s_tile-inl.h has it
//   kTileRows                the most rows of a tile
//   kManyRows                from how many rows on bytes are worth making

// A tile of `count` rows, 1 to kRows.
template <size_t kRows>
inline void AddTileOf(size_t count, const PanelBytesOf* bytes, size_t words,
                      const Floats (&scales)[kTileGroups], const IntegerInput* in, size_t stride,
                      PanelSums* sums, size_t row) {
  if constexpr (kRows > 1) {
    if (count < kRows)
      return AddTileOf<kRows - 1>(count, bytes, words, scales, in, stride, sums, row);
  }
  AddTile<kRows>(bytes, words, scales, in, stride, sums, row);
}

// Rows [0, count) of the panels of a tile and one superblock, in tiles of nearly one height.
inline void AddRows(const PanelBytesOf* bytes, size_t words, const Floats (&scales)[kTileGroups],
                    const IntegerInput* in, size_t stride, PanelSums* sums, size_t count) {
  const size_t tiles = (count + kTileRows - 1) / kTileRows;
  for (size_t tile = 0, row = 0; tile < tiles; ++tile) {
    const size_t next = (tile + 1) * count / tiles;
    AddTileOf<kTileRows>(next - row, bytes, words, scales, in + row * stride, stride, sums, row);
    row = next;
  }
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

inline void RunQ4s(const PanelProduct& product, size_t first, size_t end) {
  if (product.rows < kManyRows) return RunSome(product, first, end);
  const size_t passes = (product.rows + kPassRows - 1) / kPassRows;
  for (size_t pass = 0, row = 0; pass < passes; ++pass) {
    const size_t next = (pass + 1) * product.rows / passes;
    for (size_t panel = first; panel < end; panel += kPassPanels) {
      RunPass(product, panel, panel + kPassPanels < end ? panel + kPassPanels : end, row,
              next - row);
    }
    row = next;
  }
}
