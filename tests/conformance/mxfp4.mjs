// gpt-oss with experts in MXFP4, as its files have them, end to end: the test data's checkpoint
// gets experts whose values are random blocks, once as blocks and once as the f32 values that an
// independent reader (below) finds in them. Converted to f32 both must be the same model, the
// second in the form that checkpoints.mjs compares with transformers.
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
const source = join(data, 'checkpoints', 'gpt-oss');

// e2m1: a sign, two bits of exponent, one of fraction. Two values a byte, the first in its low
// half; 32 share a power of two, biased by 127.
const values = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0, -0.5, -1, -1.5, -2, -3, -4, -6];

const random = randomNumbers(2463534242);

// The blocks of a stacked matrix [experts, columns, rows] (inputs times matrix), and their meaning.
function pack({ name, shape: [experts, columns, rows] }) {
  const blocks = Buffer.alloc((experts * rows * columns) / 2).map(() => random(256));
  const scales = Buffer.alloc(blocks.length / 16).map(() => 120 + random(4));
  const plain = new Float32Array(experts * columns * rows);
  for (let i = 0; i < plain.length; ++i) {
    const byte = blocks[i >> 1];
    const value = values[i % 2 === 0 ? byte & 15 : byte >> 4] * 2 ** (scales[i >> 5] - 127);
    const [expert, row, column] = [
      Math.floor(i / (rows * columns)),
      Math.floor(i / columns) % rows,
      i % columns,
    ];
    plain[(expert * columns + column) * rows + row] = value;
  }
  const of = [experts, rows, columns / 32];
  return {
    packed: [
      { name: `${name}_blocks`, dtype: 'U8', shape: [...of, 16], bytes: blocks },
      { name: `${name}_scales`, dtype: 'U8', shape: of, bytes: scales },
    ],
    plain: Buffer.from(plain.buffer),
  };
}

function writeCheckpoint(folder, tensors, changes) {
  mkdirSync(folder);
  writeTensors(join(folder, 'model.safetensors'), tensors);
  const config = JSON.parse(readFileSync(join(source, 'config.json'), 'utf8'));
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ ...config, ...changes }));
}

const skip = !weft
  ? 'WEFT does not name the weft program'
  : existsSync(source)
    ? false
    : `there is no ${source}`;

test('experts in MXFP4 are the model of their values', { skip }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'weft-mxfp4-'));
  try {
    const isPacked = ({ name }) => /experts\.(gate_up|down)_proj$/.test(name);
    const tensors = readTensors(join(source, 'model.safetensors'));
    const packs = new Map(tensors.filter(isPacked).map((tensor) => [tensor.name, pack(tensor)]));
    assert.equal(packs.size, 8); // two in each of four layers
    const packed = tensors.flatMap((t) => packs.get(t.name)?.packed ?? [t]);
    const plain = tensors.map((t) => ({ ...t, bytes: packs.get(t.name)?.plain ?? t.bytes }));
    const quantization_config = { quant_method: 'mxfp4' };
    writeCheckpoint(join(folder, 'packed'), packed, { quantization_config });
    writeCheckpoint(join(folder, 'plain'), plain, {});
    const got = logitsOf(join(folder, 'packed'), join(folder, 'packed.weft'));
    const expected = logitsOf(join(folder, 'plain'), join(folder, 'plain.weft'));
    assert.ok(expected.logits.some((value) => Math.abs(value) > 0.5));
    assert.deepEqual(got.logits, expected.logits);
    assert.deepEqual(got.output_ids, expected.output_ids);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
