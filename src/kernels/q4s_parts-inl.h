// Parts of a panel of q4s in registers of any width. A file includes it once, behind
// registers_*-inl.h. A group is what a register has of a panel: 16 outputs, 8 or 4.

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
