// Rows as whole numbers (integer_rows.h), whatever the width of registers. A file includes it once,
// behind registers_128-inl.h or registers_256-inl.h and
//   Rounded(at, factor)    kLanes floats times `factor`, rounded to whole numbers, ties to even
//   BytesOf(a, b, c, d)    whole numbers of 4 * kLanes columns as bytes, in order
//   MostInts(a, b)         the larger of two signed numbers, a lane
//   SumOf16s(bytes, sums)  the sums of every 16 signed bytes, to kLanes / 4 places

constexpr size_t kBlock = 4 * kLanes;  // columns that are one register of bytes

inline uint32_t LargestBits(const float* row) {
  Ints most = ZeroInts();
  for (size_t i = 0; i < 256; i += kLanes)
    most = MostInts(most,
                    And(LoadInts(reinterpret_cast<const uint8_t*>(row + i)), AllWords(0x7fffffff)));
  uint32_t lanes[kLanes], largest = 0;
  std::memcpy(lanes, &most, sizeof(lanes));
  for (const uint32_t lane : lanes) largest = lane > largest ? lane : largest;
  return largest;
}

inline float PowerOfTwo(uint32_t biased_exponent) {
  const uint32_t bits = biased_exponent << 23;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

inline void PrepareBlock(const float* at, float factor, size_t first, IntegerInput* out) {
  Ints high[4], low[4];
  WEFT_UNROLL
  for (size_t j = 0; j < 4; ++j) {
    const Ints x = Rounded(at + j * kLanes, factor);
    high[j] = ShiftRightSigned8(AddInts(x, AllWords(128)));
    low[j] = SubtractInts(x, ShiftLeft(high[j], 8));
  }
  const Ints highs = BytesOf(high[0], high[1], high[2], high[3]);
  const Ints lows = BytesOf(low[0], low[1], low[2], low[3]);
  std::memcpy(out->high + first, &highs, sizeof(highs));
  std::memcpy(out->low + first, &lows, sizeof(lows));
  int32_t high_sums[kLanes / 4], low_sums[kLanes / 4];
  SumOf16s(highs, high_sums);
  SumOf16s(lows, low_sums);
  for (size_t i = 0; i < kLanes / 4; ++i) {
    out->high_zero[first / 16 + i] = -8 * high_sums[i];
    out->low_zero[first / 16 + i] = -8 * low_sums[i];
    out->byte_zero -= 128 * (256 * high_sums[i] + low_sums[i]);
  }
}

inline void PrepareSuperblock(const float* row, IntegerInput* out) {
  const uint32_t largest = LargestBits(row);
  uint32_t exponent = largest >> 23;
  exponent = exponent < kLeastRowExponent ? kLeastRowExponent : exponent;
  exponent = exponent > kMostRowExponent ? kMostRowExponent : exponent;
  if (largest >= 0x7f800000u) {
    std::memset(static_cast<void*>(out), 0, offsetof(IntegerInput, scale));
    out->scale = __builtin_nanf("");
    return;
  }
  out->byte_zero = 0;
  out->scale = PowerOfTwo(exponent - 14) * kIntegerInverseHeadroom;
  const float factor = PowerOfTwo(268 - exponent) * kIntegerHeadroom;
  for (size_t first = 0; first < 256; first += kBlock)
    PrepareBlock(row + first, factor, first, out);
  AddSums(out);
}

inline void PrepareRow(std::span<const float> row, IntegerInput* out) {
  size_t first = 0;
  for (; first + 256 <= row.size(); first += 256) PrepareSuperblock(row.data() + first, out++);
  if (first == row.size()) return;
  float padded[256] = {};
  std::memcpy(padded, row.data() + first, (row.size() - first) * sizeof(float));
  PrepareSuperblock(padded, out);
}
