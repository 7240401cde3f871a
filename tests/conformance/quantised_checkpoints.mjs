// Checkpoints that others have quantised: FP8 as DeepSeek and Qwen publish it (a scale for each
// block), as vLLM's tools do (for each row) and as Ministral is (for the matrix), GPTQ with and
// without act-order and zero points, AWQ. Each gets random codes, and a second checkpoint the f32
// values that the independent reader below finds in them, by the formulas of these methods. In f32
// and in q8 both must be the same model; whole numbers that are kept give nearly the logits of f32.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { logitsOf, randomNumbers, readTensors, writeTensors } from './support/checkpoints.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const weft = process.env.WEFT;
const data = process.env.WEFT_DATA ?? join(root, 'build', 'test-data');
const random = randomNumbers(88172645);

const half = (value) => {
  // Powers of two times three bits of mantissa: the same number in f16 and in f32.
  const [exponent, mantissa] = value;
  const bits = ((exponent + 15) << 10) | (mantissa << 7);
  return { bits, number: 2 ** exponent * (1 + mantissa / 8) };
};
const randomHalf = (least) => half([least + random(3), random(8)]);

const f32 = (values) => Buffer.from(Float32Array.from(values).buffer);
const f16 = (halves) => Buffer.from(Uint16Array.from(halves, ({ bits }) => bits).buffer);
const i32 = (words) => Buffer.from(Uint32Array.from(words, (word) => word >>> 0).buffer);

// E4M3: a sign, four bits of exponent (bias 7), three of mantissa.
function e4m3(code) {
  const exponent = (code >> 3) & 15;
  const mantissa = (code & 7) / 8;
  const magnitude = exponent === 0 ? mantissa * 2 ** -6 : (1 + mantissa) * 2 ** (exponent - 7);
  return code & 128 ? -magnitude : magnitude;
}

// FP8 with a scale for each block of [blockRows, blockColumns].
const fp8 = (ending, shapeOf, [blockRows, blockColumns]) => ({ name, shape: [rows, columns] }) => {
  const height = Math.min(blockRows, rows);
  const width = Math.min(blockColumns, columns);
  const across = Math.ceil(columns / width);
  const length = Math.ceil(rows / height) * across;
  const scales = Array.from({ length }, () => randomHalf(-9).number);
  const codes = Buffer.alloc(rows * columns).map(() => {
    const code = random(256);
    return (code & 127) > 0x70 ? code & 0xbf : code; // no NaN, and none of the largest
  });
  const values = Array.from(codes, (code, i) => {
    const [row, column] = [Math.floor(i / columns), i % columns];
    const scale = scales[Math.floor(row / height) * across + Math.floor(column / width)];
    return Math.fround(e4m3(code) * scale);
  });
  const shape = shapeOf(Math.ceil(rows / height), across);
  return {
    packed: [
      { name, dtype: 'F8_E4M3', shape: [rows, columns], bytes: codes },
      { name: `${name}_${ending}`, dtype: 'F32', shape, bytes: f32(scales) },
    ],
    values,
  };
};

const any = () => random(16);

// Codes, zero points and scales of groups; group(column) says which group a column is of.
function groups(rows, columns, count, group, zero) {
  const codes = Array.from({ length: rows * columns }, () => random(16)); // [row, column]
  const zeros = Array.from({ length: count * rows }, () => zero());
  const scales = Array.from({ length: count * rows }, () => randomHalf(-8));
  const values = codes.map((code, i) => {
    const [row, column] = [Math.floor(i / columns), i % columns];
    const at = group(column) * rows + row;
    return Math.fround((code - zeros[at]) * scales[at].number);
  });
  return { codes, zeros, scales, values };
}

// A part of the matrix `name`.
const part = (name, ending, dtype, shape, bytes) =>
  ({ name: name.replace(/weight$/, ending), dtype, shape, bytes });
const int32 = (name, ending, shape, words) => part(name, ending, 'I32', shape, i32(words));
const float16 = (name, ending, shape, halves) => part(name, ending, 'F16', shape, f16(halves));

// Eight values to a word, the first in the lowest bits.
function packWords(count, value) {
  return Array.from({ length: count }, (_, word) => {
    let bits = 0;
    for (let i = 0; i < 8; ++i) bits |= value(word, i) << (4 * i);
    return bits;
  });
}

const gptq = ({ size, zero, stored = -1, actOrder }) => ({ name, shape: [rows, columns] }) => {
  const count = Math.ceil(columns / size);
  const order = Array.from({ length: columns }, (_, i) => i);
  if (actOrder) order.sort(() => random(3) - 1);
  const groupOf = order.map((place) => Math.floor(place / size));
  const made = groups(rows, columns, count, (column) => groupOf[column], zero);
  const code = (column, row) => made.codes[row * columns + column];
  // qweight [columns / 8, rows], qzeros [groups, rows / 8]
  const words = packWords((columns / 8) * rows, (word, i) =>
    code(Math.floor(word / rows) * 8 + i, word % rows));
  const zeros = packWords((count * rows) / 8, (word, i) => {
    const at = Math.floor(word / (rows / 8)) * rows + (word % (rows / 8)) * 8 + i;
    return (made.zeros[at] + stored) & 15;
  });
  return {
    packed: [
      int32(name, 'qweight', [columns / 8, rows], words),
      int32(name, 'qzeros', [count, rows / 8], zeros),
      float16(name, 'scales', [count, rows], made.scales),
      int32(name, 'g_idx', [columns], groupOf),
    ],
    values: made.values,
  };
};

// Place p of a word holds row kOrder[p] of every eight.
const kOrder = [0, 2, 4, 6, 1, 3, 5, 7];
const awq = ({ size }) => ({ name, shape: [rows, columns] }) => {
  const count = columns / size;
  const made = groups(rows, columns, count, (column) => Math.floor(column / size), any);
  const wide = rows / 8;
  const words = packWords(columns * wide, (word, i) =>
    made.codes[((word % wide) * 8 + kOrder[i]) * columns + Math.floor(word / wide)]);
  const zeros = packWords(count * wide, (word, i) =>
    made.zeros[Math.floor(word / wide) * rows + (word % wide) * 8 + kOrder[i]]);
  return {
    packed: [
      int32(name, 'qweight', [columns, wide], words),
      int32(name, 'qzeros', [count, wide], zeros),
      float16(name, 'scales', [count, rows], made.scales),
    ],
    values: made.values,
  };
};

const middle = () => 8;
// The older form stores them less 1, in four bits.
const upTo15 = () => 1 + random(15);
const upTo16 = () => 1 + random(16);
const blockwise = { quant_method: 'fp8', weight_block_size: [16, 32] };
const ofRows = { quant_method: 'compressed-tensors', format: 'float-quantized' };

// [what, checkpoint, quantization_config, how a matrix is packed]
const cases = [
  ['FP8, a scale for each block', 'qwen3', blockwise,
    fp8('scale_inv', (r, c) => [r, c], [16, 32])],
  ['FP8, a scale for each row', 'llama3', ofRows, fp8('scale', (r) => [r, 1], [1, Infinity])],
  ['FP8, a scale for the matrix', 'mistral', { quant_method: 'fp8', weight_block_size: null },
    fp8('scale_inv', () => [], [Infinity, Infinity])],
  ['FP8, latent attention and experts', 'deepseek-v3', blockwise,
    fp8('scale_inv', (r, c) => [r, c], [16, 32])],
  ['GPTQ, symmetric', 'qwen3', { quant_method: 'gptq', bits: 4 }, gptq({ size: 32, zero: middle })],
  ['GPTQ, zero points', 'phi3', { quant_method: 'gptq', bits: 4 },
    gptq({ size: 32, zero: upTo15 })],
  ['GPTQ, zero points of 16', 'qwen2', { quant_method: 'gptq', bits: 4 },
    gptq({ size: 32, zero: upTo16 })],
  ['GPTQ, its newer form', 'llama3',
    { quant_method: 'gptq', bits: 4, checkpoint_format: 'gptq_v2' },
    gptq({ size: 32, zero: any, stored: 0 })],
  ['GPTQ, act-order', 'qwen3', { quant_method: 'gptq', bits: 4, desc_act: true },
    gptq({ size: 16, zero: upTo15, actOrder: true })],
  ['AWQ', 'llama3', { quant_method: 'awq', bits: 4, version: 'gemm' }, awq({ size: 32 })],
  ['AWQ, experts', 'qwen3-moe', { quant_method: 'awq', bits: 4 }, awq({ size: 32 })],
];

function writeCheckpoint(source, folder, tensors, changes) {
  mkdirSync(folder);
  writeTensors(join(folder, 'model.safetensors'), tensors);
  const config = JSON.parse(readFileSync(join(source, 'config.json'), 'utf8'));
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ ...config, ...changes }));
}

for (const [what, name, quantization_config, pack] of cases) {
  const isWhole = /gptq|awq/.test(quantization_config.quant_method);
  const source = ['checkpoints', 'checkpoints-2026'].map((kind) => join(data, kind, name))
    .find((folder) => existsSync(folder));
  const missing = weft ? `there is no ${name}` : 'WEFT does not name the weft program';
  const skip = weft && source ? false : missing;
  test(`${what}: the model of its values`, { skip }, () => {
    const work = mkdtempSync(join(tmpdir(), 'weft-quantised-'));
    try {
      const tensors = readTensors(join(source, 'model.safetensors'));
      const packs = new Map(tensors
        .filter((tensor) => /proj\.weight$|proj_with_mqa\.weight$/.test(tensor.name))
        .filter(({ shape }) => shape.length === 2 && shape[0] % 8 === 0 && shape[1] % 32 === 0)
        .map((tensor) => [tensor.name, pack(tensor)]));
      assert.ok(packs.size >= 8, `${packs.size} matrices`);
      const packed = tensors.flatMap((tensor) => packs.get(tensor.name)?.packed ?? [tensor]);
      const plain = tensors.map((tensor) => {
        const values = packs.get(tensor.name)?.values;
        return values ? { ...tensor, dtype: 'F32', bytes: f32(values) } : tensor;
      });
      writeCheckpoint(source, join(work, 'packed'), packed, { quantization_config });
      writeCheckpoint(source, join(work, 'plain'), plain, {});
      const got = logitsOf(join(work, 'packed'), join(work, 'packed.weft'));
      const expected = logitsOf(join(work, 'plain'), join(work, 'plain.weft'));
      assert.ok(expected.logits.some((value) => Math.abs(value) > 0.1));
      assert.deepEqual(got.logits, expected.logits);
      assert.deepEqual(got.output_ids, expected.output_ids);
      if (isWhole) {
        // Kept as it is, without a change of any value.
        const kept = logitsOf(join(work, 'packed'), join(work, 'kept.weft'), null);
        const scale = Math.max(...expected.logits.map(Math.abs));
        const error = Math.max(...kept.logits.map((x, i) => Math.abs(x - expected.logits[i])));
        assert.ok(error <= 0.03 * scale, `${error} of ${scale}`);
      } else {
        const [ours, theirs] = ['packed', 'plain'].map((kind) =>
          logitsOf(join(work, kind), join(work, `${kind}.q8.weft`), 'q8'));
        assert.deepEqual(ours.logits, theirs.logits);
      }
    } finally {
      rmSync(work, { recursive: true });
    }
  });
}
