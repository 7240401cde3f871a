// The kernel of q4s for units that multiply tiles of bytes: A, rows of activations, 64 columns
// each; B, 16 outputs of a panel of the same columns; C, their sums. What a tile is made of here
// suits AMX: B is four columns of 16 outputs after the other, as panels are. A file includes it
// once, behind kernels/q4s_panels.h and
//   PanelBytesOf, Expand(part, bytes)   m * (q - 8) as q4s_bytes-inl.h has it, kByteZero = 0
//   Tiles               the unit, with two tiles C:
//     Begin(rows), End()      for tiles A and C of up to 16 rows
//     Clear()                 C = 0
//     Multiply(high, low, stride_bytes, b)   adds the products of B, 16 times 64 bytes, and of
//                             both planes: their rows begin `stride_bytes` after each other
//     Store(sums)             C
//   AddTileSums(sums, part, in, stride, rows, y)   y = fma(256 H + L, S * s, y) of 16 outputs
//
// A superblock is four multiplications, and f32 begins after it. Columns that there are not are 0
// in A, so that B may have any bytes there.

constexpr size_t kTileMostRows = 16;
constexpr size_t kTileColumns = 64;
constexpr size_t kPassTiles = 6;  // whose rows stay in the second cache
constexpr size_t kLeastRows = 8;  // below, a tile is mostly empty

// All tiles of so many rows are of one height. Example: 33 rows are three tiles of 11.
inline size_t TileRows(size_t count) {
  const size_t tiles = (count + kTileMostRows - 1) / kTileMostRows;
  return (count + tiles - 1) / tiles;
}
// Rows [row, row + count), at most kPassTiles tiles. The last one may begin before its neighbour
// ends: both have the same of what they share.
inline void RunPanel(Tiles* unit, const PanelProduct& product, size_t panel, size_t row,
                     size_t count) {
  const size_t superblocks = product.superblocks();
  const size_t tile_rows = TileRows(count), tiles = (count + tile_rows - 1) / tile_rows;
  alignas(64) float y[kPassTiles][kTileMostRows][kPanelOutputs] = {};
  TileSums sums;
  PanelBytesOf bytes = {};
  const auto first_row = [&](size_t t) {
    return row + (t + 1 < tiles ? t * tile_rows : count - tile_rows);
  };
  for (size_t b = 0; b < superblocks; ++b) {
    const PanelPart part = PartOf(product.Panel(panel), product.weight.columns, b);
    Expand(part, &bytes);
    for (size_t t = 0; t < tiles; ++t) {
      const IntegerInput* in = product.in + first_row(t) * superblocks + b;
      unit->Clear();
      for (size_t first = 0; first < part.blocks * 32; first += kTileColumns)
        unit->Multiply(in->high + first, in->low + first, superblocks * sizeof(IntegerInput),
                       bytes.bytes[first / 4]);
      unit->Store(&sums);
      AddTileSums(sums, part, in, superblocks, tile_rows, y[t]);
    }
  }
  for (size_t t = 0; t < tiles; ++t)
    for (size_t r = 0; r < tile_rows; ++r) StorePanel(product, panel, first_row(t) + r, y[t][r]);
}

// Returns how many rows are done: fewer than kLeastRows may be left.
inline size_t RunTiles(const PanelProduct& product, size_t first, size_t end) {
  constexpr size_t kMostRows = kPassTiles * kTileMostRows;
  Tiles unit;
  size_t row = 0;
  while (product.rows - row >= kLeastRows) {
    const size_t left = product.rows - row;
    const size_t count = left < kMostRows ? left : kMostRows;
    unit.Begin(TileRows(count));
    for (size_t panel = first; panel < end; ++panel) RunPanel(&unit, product, panel, row, count);
    unit.End();
    row += count;
  }
  return row;
}
