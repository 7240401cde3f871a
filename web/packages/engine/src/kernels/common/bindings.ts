// The places of the one bind group that all kernels share (fragments/common.wgsl).
export const Binding = {
  step: 0,
  op: 1,
  act: 2,
  vectors: 3,
  data: 4,
  scale: 5,
  kv: 6,
  aux: 7,
} as const;
