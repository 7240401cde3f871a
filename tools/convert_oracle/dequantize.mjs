// A second implementation of the block formats (tensor/dtype.h), written from their description:
// turns the weights of a package back into an f32 checkpoint.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bfloatToFloat, halfToFloat, readSafetensors } from '../onnx_check/reference.mjs';

const q8 = 16;
const q4 = 17;
const dtypes = {
  ...{ 0: 'f32', 1: 'f16', 2: 'bf16', [q8]: 'q8', [q4]: 'q4' },
  ...{ 19: 'q4k', 20: 'q5k', 21: 'q6k' },
};

/** Just enough of protobuf for program.proto: { field number: [values] }, messages as bytes. */
function parseMessage(bytes) {
  const fields = {};
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return Number(value);
    }
  };
  while (at < bytes.length) {
    const key = varint();
    const wire = key & 7;
    let value;
    if (wire === 0) value = varint();
    else if (wire === 2) {
      const count = varint();
      value = bytes.subarray(at, at + count);
      at += count;
    } else if (wire === 5) {
      value = bytes.readFloatLE(at);
      at += 4;
    } else throw new Error(`Wire type ${wire} in a program.`);
    (fields[key >> 3] ??= []).push(value);
  }
  return fields;
}

function varints(bytes) {
  const values = [];
  let value = 0;
  let scale = 1;
  for (const byte of bytes) {
    value += (byte & 0x7f) * scale;
    scale *= 128;
    if (byte < 0x80) {
      values.push(value);
      value = 0;
      scale = 1;
    }
  }
  return values;
}

/** The weights that the programs of a package name: { name: { dtype, shape, data, scale } }. */
export function readWeights(model) {
  const blob = (hex) => readFileSync(join(model.folder, 'blobs', hex));
  const collect = (parts) =>
    Buffer.concat(
      (parts ?? []).map((bytes) => {
        const part = parseMessage(bytes);
        const offset = part[2]?.[0] ?? 0;
        return blob(part[1][0].toString('hex')).subarray(offset, offset + part[3][0]);
      }),
    );
  const weights = {};
  for (const layer of model.manifest.layers) {
    for (const bytes of parseMessage(blob(layer.program))[4] ?? []) {
      const weight = parseMessage(bytes);
      weights[weight[1][0].toString()] = {
        dtype: dtypes[weight[2]?.[0] ?? 0],
        shape: varints(weight[3][0]),
        data: collect(weight[4]),
        scale: collect(weight[5]),
      };
    }
  }
  return weights;
}

// Of q4k, q5k and q6k: bytes of a record, and where the bits above a level's low four begin.
const records = {
  q4k: { bytes: 16, upper: 16, bits: 0 },
  q5k: { bytes: 48, upper: 16, bits: 1 },
  q6k: { bytes: 82, upper: 18, bits: 2 },
};

/** The value of column `column` of 256, from their nibbles and their record. */
function kQuantValue(dtype, nibbles, record, column) {
  const { upper, bits } = records[dtype];
  let q = (nibbles[column >> 1] >> (column % 2 ? 4 : 0)) & 15;
  if (bits > 0) {
    const columns = 32 / bits; // whose bits are one word
    const byte = upper + 4 * Math.floor(column / columns) + (column % 4);
    const shift = bits * Math.floor((column % columns) / 4);
    q |= ((record[byte] >> shift) & (2 ** bits - 1)) << 4;
  }
  const d = halfToFloat(record.readUInt16LE(0));
  if (dtype === 'q6k') return Math.fround(d * record.readInt8(2 + (column >> 4)) * (q - 32));
  const j = 4 + (column >> 5);
  const [s, m] =
    j < 8
      ? [record[j] & 63, record[j + 4] & 63]
      : [
          (record[j + 4] & 15) | ((record[j - 4] >> 6) << 4),
          (record[j + 4] >> 4) | ((record[j] >> 6) << 4),
        ];
  return Math.fround(d * s * q - halfToFloat(record.readUInt16LE(2)) * m);
}

export function toFloats({ dtype, shape, data, scale }) {
  const columns = shape.at(-1);
  const rows = shape.slice(0, -1).reduce((a, b) => a * b, 1);
  const values = new Float32Array(rows * columns);
  const blocks = Math.ceil(columns / 32);
  let record;
  let nibbles;
  for (let row = 0; row < rows; ++row) {
    for (let column = 0; column < columns; ++column) {
      const i = row * columns + column;
      if (dtype === 'f32') values[i] = data.readFloatLE(4 * i);
      else if (dtype === 'bf16') values[i] = bfloatToFloat(data.readUInt16LE(2 * i));
      else if (dtype === 'f16') values[i] = halfToFloat(data.readUInt16LE(2 * i));
      else if (records[dtype]) {
        if (i % 256 === 0) {
          const superblock = i / 256;
          const { bytes } = records[dtype];
          record = scale.subarray(superblock * bytes, (superblock + 1) * bytes);
          nibbles = data.subarray(superblock * 128, (superblock + 1) * 128);
        }
        values[i] = kQuantValue(dtype, nibbles, record, i % 256);
      } else {
        const block = row * blocks + Math.floor(column / 32);
        const s = halfToFloat(scale.readUInt16LE(2 * block));
        const within = column % 32;
        const q =
          dtype === 'q8'
            ? data[32 * block + within] - 128
            : ((data[16 * block + (within >> 1)] >> (within % 2 ? 4 : 0)) & 15) - 8;
        values[i] = Math.fround(q * s);
      }
    }
  }
  return values;
}

const typeNames = new Map([
  [Float32Array, 'F32'],
  [BigInt64Array, 'I64'],
]);

export function writeSafetensors(path, tensors) {
  const header = {};
  let offset = 0;
  for (const [name, { shape, values }] of Object.entries(tensors)) {
    const dtype = typeNames.get(values.constructor);
    header[name] = { dtype, shape, data_offsets: [offset, offset + values.byteLength] };
    offset += values.byteLength;
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const data = Object.values(tensors).map(({ values }) => Buffer.from(values.buffer));
  writeFileSync(path, Buffer.concat([length, text, ...data]));
}

/** What a run gave, as the test data's reference.safetensors has it. */
export function writeReference(path, prompt, { prefill, greedy, margins }) {
  const tensor = (values) => ({ shape: [values.length], values });
  writeSafetensors(path, {
    input_ids: tensor(BigInt64Array.from(prompt, BigInt)),
    greedy_ids: tensor(BigInt64Array.from(greedy, BigInt)),
    greedy_margin: tensor(Float32Array.from(margins)),
    logits: tensor(prefill),
  });
}

/** [n, a, b] -> [n, b, a] */
function transposed({ shape: [n, a, b], values }) {
  const out = new Float32Array(values.length);
  for (let i = 0; i < n; ++i) {
    for (let row = 0; row < a; ++row) {
      for (let column = 0; column < b; ++column) {
        out[(i * b + column) * a + row] = values[(i * a + row) * b + column];
      }
    }
  }
  return { shape: [n, b, a], values: out };
}

/** [n, 2 w, ...] with all gate rows, then all up rows -> one of each in turn. */
function inTurn({ shape, values }) {
  const [n, rows] = shape;
  const columns = shape[2] ?? 1;
  const out = new Float32Array(values.length);
  for (let i = 0; i < n * rows; ++i) {
    const expert = Math.floor(i / rows);
    const row = i % rows;
    const half = rows / 2;
    const to = expert * rows + (row < half ? 2 * row : 2 * (row - half) + 1);
    out.set(values.subarray(i * columns, (i + 1) * columns), to * columns);
  }
  return { shape, values: out };
}

/** A weight of the package under a name and in the layout that the checkpoint may have. */
function asInCheckpoint(name, weight, config) {
  const tensor = { shape: weight.shape, values: toFloats(weight) };
  if (/^gemma[23]/.test(config.model_type) && name.includes('norm')) {
    tensor.values = tensor.values.map((value) => value - 1);
  }
  const expert = /^(.*\.experts\.)(gate_up|down)_proj\.(weight|bias)$/.exec(name);
  if (!expert) return [name, tensor];
  const [, prefix, matrix, kind] = expert;
  const renamed = `${prefix}${matrix}_proj${kind === 'bias' ? '_bias' : ''}`;
  if (config.model_type !== 'gpt_oss') return [renamed, tensor];
  const ordered = matrix === 'gate_up' ? inTurn(tensor) : tensor;
  return [renamed, kind === 'bias' ? ordered : transposed(ordered)];
}

/** Writes `folder`: the configuration of `source` and the weights of `model` as f32. */
export function writeDequantized(model, source, folder) {
  mkdirSync(folder, { recursive: true });
  // A model with towers becomes its text model alone.
  const whole = JSON.parse(readFileSync(join(source, 'config.json'), 'utf8'));
  const config = whole.text_config ?? whole;
  const tensors = {};
  for (const [name, weight] of Object.entries(readWeights(model))) {
    if (name.startsWith('rotary.') || name.startsWith('ones.')) continue; // not of the checkpoint
    const [as, tensor] = asInCheckpoint(name, weight, config);
    tensors[as] = tensor;
  }
  if (config.model_type === 'glm4') packGateAndUp(tensors);
  if (config.model_type.startsWith('gemma4')) addLayerScalars(source, tensors);
  // Programs name the head by itself even where it is the embedding table; a packed model was
  // taken apart.
  const untied = { ...config, tie_word_embeddings: false };
  if (config.model_type === 'phi3') Object.assign(untied, llamaNames(config));
  writeFileSync(join(folder, 'config.json'), JSON.stringify(untied));
  writeSafetensors(join(folder, 'model.safetensors'), tensors);
}

/** GLM-4 has one matrix with the rows of gate, then those of up. */
function packGateAndUp(tensors) {
  for (const name of Object.keys(tensors)) {
    if (!name.endsWith('.mlp.gate_proj.weight')) continue;
    const up = name.replace('gate_proj', 'up_proj');
    const [rows, columns] = tensors[name].shape;
    const values = new Float32Array(2 * rows * columns);
    values.set(tensors[name].values);
    values.set(tensors[up].values, rows * columns);
    tensors[name.replace('gate_proj', 'gate_up_proj')] = { shape: [2 * rows, columns], values };
    delete tensors[name];
    delete tensors[up];
  }
}

/** Numbers of the checkpoint that programs hold as they are. */
function addLayerScalars(source, tensors) {
  const all = readSafetensors(join(source, 'model.safetensors'));
  for (const [name, { values }] of Object.entries(all)) {
    if (!name.endsWith('.layer_scalar')) continue;
    const plain = name.replace('model.language_model.', 'model.');
    tensors[plain] = { shape: [1], values: Float32Array.from(values) };
  }
}

/** Phi-3 without its packed projections is a Mistral. */
function llamaNames() {
  return { model_type: 'mistral', architectures: ['MistralForCausalLM'] };
}
