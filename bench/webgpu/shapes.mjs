// The shapes that the WebGPU benchmark runs: Qwen3's, and small ones for trying the benchmark.
const qwen3 = { kvHeads: 8, headColumns: 128, vocabulary: 151936 };

export const kShapes = {
  tiny: {
    layers: 2,
    hidden: 64,
    width: 96,
    heads: 4,
    kvHeads: 2,
    headColumns: 16,
    vocabulary: 320,
  },
  "weft-tiny": {
    layers: 8,
    hidden: 256,
    width: 768,
    heads: 4,
    kvHeads: 2,
    headColumns: 64,
    vocabulary: 4096,
  },
  "0.6B": { ...qwen3, layers: 28, hidden: 1024, width: 3072, heads: 16 },
  "1.7B": { ...qwen3, layers: 28, hidden: 2048, width: 6144, heads: 16 },
  "4B": { ...qwen3, layers: 36, hidden: 2560, width: 9728, heads: 32 },
  "8B": { ...qwen3, layers: 36, hidden: 4096, width: 12288, heads: 32 },
};

// Shapes with experts, which the WebGPU benchmark does not run. Of 30B-A3B's 48 layers 12 are 4 GB.
// Mixtral 8x7B has few and large ones: a layer of it is 0.8 GB.
export const kExpertShapes = {
  "30B-A3B": {
    ...{ layers: 48, hidden: 2048, width: 768, heads: 32, kvHeads: 4, headColumns: 128 },
    ...{ experts: 128, used: 8, vocabulary: 151936 },
  },
  "8x7B": {
    ...{ layers: 32, hidden: 4096, width: 14336, heads: 32, kvHeads: 8, headColumns: 128 },
    ...{ experts: 8, used: 2, vocabulary: 32000 },
  },
};

export function shapeOf(size) {
  const shape = kShapes[size];
  if (!shape) throw new Error(`no shape '${size}'; known: ${Object.keys(kShapes).join(", ")}`);
  return shape;
}

// Bytes of q4 weights (blocks of 32 with an f16 scale) that a token reads: every layer and the
// head; one row of the embedding is left out.
export function bytesPerToken(shape) {
  const { layers, hidden, width, heads, kvHeads, headColumns, vocabulary } = shape;
  const q4 = (rows, columns) => (rows * columns * 18) / 32;
  const qkv = q4((heads + 2 * kvHeads) * headColumns, hidden);
  const attention = qkv + q4(hidden, heads * headColumns);
  return layers * (attention + 3 * q4(width, hidden)) + q4(vocabulary, hidden);
}

// Bytes of f16 keys and values that a token reads for every position before it.
export function kvBytesPerPosition({ layers, kvHeads, headColumns }) {
  return layers * 2 * kvHeads * headColumns * 2;
}
