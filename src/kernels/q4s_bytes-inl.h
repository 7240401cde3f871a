// Weights of q4s as bytes, which many rows share. A file includes it once, behind q4s_parts-inl.h
// and
//   kByteZero   what is added to m * (q - 8): 128 where products take unsigned bytes, or else 0

// m * (q - 8) + kByteZero of one superblock: [64][16] words of four columns.
struct alignas(64) PanelBytesOf {
  uint8_t bytes[64][64];
};

// Four registers of one multiplier, each of four columns: m * (q - 8) + kByteZero. Two bytes below
// 16 times |m| are one product of 16 bits, since neither passes 225. Where m is negative, |m| times
// 15 - q is |m| more than m * (q - 8) asks for.
struct SignedLevels {
  Ints flip;   // 15 in every byte of a lane whose m is negative, else 0
  Ints times;  // |m| in both halves of a lane
  Ints zero;   // kByteZero - 8 |m|, or where m is negative kByteZero - 7 |m|, in every byte

  Ints Bytes(Ints q) const { return AddBytes(TimesHalves(Xor(q, flip), times), zero); }
};

inline SignedLevels LevelsOf(const PanelPart& part, size_t i, size_t first) {
  const Ints magnitude = And(ShiftRight(MagnitudesOf(part, i, first), i % 8 * 4), AllWords(15));
  const Ints negative = LanesOf(static_cast<uint32_t>(part.signs()[i]) >> first);
  const Ints bytes = FirstBytes(magnitude);
  const Ints less = SubtractBytes(HalvesUp(bytes, 3), And(negative, bytes));
  return {And(negative, AllBytes(15)), And(bytes, AllWords(0x00ff00ff)),
          SubtractBytes(AllBytes(kByteZero), less)};
}

// Columns 16 i to 16 i + 15 of the outputs from `first` on.
inline void WeightBytes(const PanelPart& part, size_t i, size_t first, Ints (&w)[4]) {
  const SignedLevels levels = LevelsOf(part, i, first);
  const Ints a = LoadInts(part.nibbles + i * 128 + first * 4);
  const Ints c = LoadInts(part.nibbles + i * 128 + 64 + first * 4);
  w[0] = levels.Bytes(Low(a));
  w[1] = levels.Bytes(High(a));
  w[2] = levels.Bytes(Low(c));
  w[3] = levels.Bytes(High(c));
}

inline void Expand(const PanelPart& part, PanelBytesOf* out) {
  for (size_t i = 0; i < part.blocks * 2; ++i) {
    // Two superblocks on: what lies between is multiplied first.
    __builtin_prefetch(part.nibbles + i * 128 + 4096);
    __builtin_prefetch(part.nibbles + i * 128 + 4096 + 64);
    for (size_t first = 0; first < kPanelOutputs; first += kLanes) {
      Ints w[4];
      WeightBytes(part, i, first, w);
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
