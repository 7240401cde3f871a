// Weights of q4s as bytes, which many rows share. A file includes it once, behind q4s_parts-inl.h
// and
//   kByteZero   what is added to m * (q - 8): 128 where products take unsigned bytes, or else 0

// m * (q - 8) + kByteZero of one superblock: [64][16] words of four columns.
struct alignas(64) PanelBytesOf {
  uint8_t bytes[64][64];
};

// Products of bytes, each below 256, by two multiplications of every other byte.
inline Ints TimesBytes(Ints q, Ints m, Ints zero) {
  const Ints even = TimesHalves(And(q, AllWords(0x00ff00ff)), m);
  const Ints odd = TimesHalves(HalvesDown(q, 8), m);
  return AddBytes(EveryOther(even, HalvesUp(odd, 8)), zero);
}

inline void Expand(const PanelPart& part, PanelBytesOf* out) {
  for (size_t i = 0; i < part.blocks * 2; ++i) {
    for (size_t first = 0; first < kPanelOutputs; first += kLanes) {
      const Ints magnitude = And(ShiftRight(MagnitudesOf(part, i, first), i % 8 * 4), AllWords(15));
      const Ints m = Negated(magnitude, static_cast<uint32_t>(part.signs()[i]) >> first);
      const Ints twice = Halves(m, ShiftLeft(m, 16));
      // kByteZero - 8 m in every byte.
      const Ints zero16 = SubtractHalves(AllWords(kByteZero * 0x00010001), HalvesUp(twice, 3));
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

constexpr size_t kPassRows = 96;   // whose superblocks stay in the second cache
constexpr size_t kPassPanels = 4;  // whose bytes stay in the first

// y [kPassRows] of a panel.
struct alignas(64) PanelSums {
  float y[kPassRows][kPanelOutputs];
};
