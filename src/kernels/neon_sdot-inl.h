// The dot products of ARM (sdot) by the name that neon-inl.h uses. A file includes it once, behind
// registers_neon-inl.h.

inline Ints Dot(Ints sum, Ints w, const int8_t* x) {
  return vdotq_s32(sum, SignedBytes(w), SignedBytes(WordOf(x)));
}
