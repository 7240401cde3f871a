// Writes a GGUF of Qwen3's form, or of its form with experts. It has random weights, Q4_0 (18 bytes
// for 32 of them, as our q4) or others, and a vocabulary of single bytes and made-up words. It is
// split into files that a browser takes.
//
//   node bench/webgpu/peers/random_gguf.mjs DIR --size 1.7B [--weights q4_k] [--table q6_k]
//     [--layers N] [--vocabulary N] [--chunk 1024]
//
// The output head is the embedding's table, as in Qwen3 up to 4B: a token reads as many bytes.
// The table has the form of --weights unless --table names another; llama-quantize makes it Q6_K.
import { randomFillSync } from "node:crypto";
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { kExpertShapes, shapeOf } from "../shapes.mjs";

const Kind = { u16: 2, u32: 4, i32: 5, f32: 6, text: 8, array: 9 };
const kF32 = 0;
// Of ggml: a block's bytes, its values, and its scales in f16 with their places: 2^-8, or 2^-14,
// which K-quants multiply by up to 63. What Q4_K and Q5_K take off is so large that weights are 0
// in the mean (7.5 and 15.5 * 2^-14): deep models' rows would grow beyond f16 otherwise.
const kForms = {
  q4_0: { type: 2, bytes: 18, values: 32, scales: { 0: 0x1c00 } },
  q8_0: { type: 8, bytes: 34, values: 32, scales: { 0: 0x0c00 } },
  q4_k: { type: 12, bytes: 144, values: 256, scales: { 0: 0x0400, 2: 0x0f80 } },
  q5_k: { type: 13, bytes: 176, values: 256, scales: { 0: 0x0400, 2: 0x13c0 } },
  q6_k: { type: 14, bytes: 210, values: 256, scales: { 208: 0x0400 } },
};
const kAlignment = 32;
// For benches that chat: messages as they are, one behind the other.
const kTemplate = "{% for message in messages %}{{ message.content }}{% endfor %}";
const kPattern = 16 << 20;
const kStep = 942480; // whole blocks of each form, and whole floats

const padded = (size) => Math.ceil(size / kAlignment) * kAlignment;

function number(bytes, method, value) {
  const buffer = Buffer.alloc(bytes);
  buffer[method](value);
  return buffer;
}
const u16 = (value) => number(2, "writeUInt16LE", value);
const u32 = (value) => number(4, "writeUInt32LE", value);
const u64 = (value) => number(8, "writeBigUInt64LE", BigInt(value));
const f32 = (value) => number(4, "writeFloatLE", value);
const text = (value) => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);

function array(kind, items) {
  return Buffer.concat([u32(kind), u64(items.length), ...items]);
}

// One entry of the metadata.
function entry(key, kind, bytes) {
  return Buffer.concat([text(key), u32(kind), bytes]);
}

// GPT-2's printable characters for bytes, what the one merge makes, then words that none makes.
function vocabulary(count) {
  const isPrinted = (byte) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  let next = 256;
  const bytes = Array.from({ length: 256 }, (_, byte) =>
    String.fromCharCode(isPrinted(byte) ? byte : next++),
  );
  return Array.from({ length: count }, (_, id) => bytes[id] ?? (id === 256 ? "aa" : `word${id}`));
}

function metadata(shape) {
  const { layers, hidden, width, heads, kvHeads, headColumns, vocabulary: count } = shape;
  const family = shape.experts ? "qwen3moe" : "qwen3";
  const own = (key, value) => entry(`${family}.${key}`, Kind.u32, u32(value));
  const experts = [
    ["expert_count", shape.experts],
    ["expert_used_count", shape.used],
    ["expert_feed_forward_length", width],
  ];
  const words = vocabulary(count);
  return [
    entry("general.architecture", Kind.text, text(family)),
    entry("general.name", Kind.text, text("random")),
    entry("general.file_type", Kind.u32, u32(2)),
    own("block_count", layers),
    own("context_length", 8192),
    own("embedding_length", hidden),
    own("feed_forward_length", width),
    own("attention.head_count", heads),
    own("attention.head_count_kv", kvHeads),
    own("attention.key_length", headColumns),
    own("attention.value_length", headColumns),
    entry(`${family}.attention.layer_norm_rms_epsilon`, Kind.f32, f32(1e-6)),
    entry(`${family}.rope.freq_base`, Kind.f32, f32(1e6)),
    ...(shape.experts ? experts.map(([key, value]) => own(key, value)) : []),
    entry("tokenizer.ggml.model", Kind.text, text("gpt2")),
    entry("tokenizer.ggml.pre", Kind.text, text("gpt-2")),
    entry("tokenizer.ggml.tokens", Kind.array, array(Kind.text, words.map(text))),
    entry("tokenizer.ggml.token_type", Kind.array, array(Kind.i32, words.map(() => u32(1)))),
    entry("tokenizer.ggml.merges", Kind.array, array(Kind.text, [text("a a")])),
    entry("tokenizer.ggml.eos_token_id", Kind.u32, u32(0)),
    entry("tokenizer.chat_template", Kind.text, text(kTemplate)),
  ];
}

function formOf(weights = "q4_0") {
  const form = kForms[weights];
  if (!form) throw new Error(`no weights ${weights}, but ${Object.keys(kForms).join(", ")}`);
  return form;
}
const tableOf = ({ weights, table }) => formOf(table ?? weights);

function tensors(shape) {
  const { layers, hidden, width, heads, kvHeads, headColumns, vocabulary: count } = shape;
  const inForm = (form) => (name, rows, columns, count = []) => {
    const dims = [columns, rows, ...count];
    const bytes = (dims.reduce((product, dim) => product * dim) * form.bytes) / form.values;
    return { name: `${name}.weight`, dims, type: form.type, bytes };
  };
  // With `count` matrices in one tensor: those of experts.
  const matrix = inForm(formOf(shape.weights));
  const vector = (name, columns) => {
    return { name: `${name}.weight`, dims: [columns], type: kF32, bytes: 4 * columns };
  };
  const feedForward = (name) => {
    if (!shape.experts) {
      return [
        matrix(name("ffn_gate"), width, hidden),
        matrix(name("ffn_up"), width, hidden),
        matrix(name("ffn_down"), hidden, width),
      ];
    }
    const router = vector(name("ffn_gate_inp"), hidden * shape.experts);
    return [
      { ...router, dims: [hidden, shape.experts] },
      matrix(name("ffn_gate_exps"), width, hidden, [shape.experts]),
      matrix(name("ffn_up_exps"), width, hidden, [shape.experts]),
      matrix(name("ffn_down_exps"), hidden, width, [shape.experts]),
    ];
  };
  const list = [inForm(tableOf(shape))("token_embd", count, hidden)];
  for (let layer = 0; layer < layers; ++layer) {
    const name = (part) => `blk.${layer}.${part}`;
    list.push(
      vector(name("attn_norm"), hidden),
      matrix(name("attn_q"), heads * headColumns, hidden),
      matrix(name("attn_k"), kvHeads * headColumns, hidden),
      matrix(name("attn_v"), kvHeads * headColumns, hidden),
      matrix(name("attn_output"), hidden, heads * headColumns),
      vector(name("attn_q_norm"), headColumns),
      vector(name("attn_k_norm"), headColumns),
      vector(name("ffn_norm"), hidden),
      ...feedForward(name),
    );
  }
  return [...list, vector("output_norm", hidden)];
}

// Tensors in groups of at most so many bytes.
function split(list, limit) {
  const groups = [[]];
  let size = 0;
  for (const tensor of list) {
    if (size + tensor.bytes > limit && groups.at(-1).length > 0) {
      groups.push([]);
      size = 0;
    }
    groups.at(-1).push(tensor);
    size += tensor.bytes;
  }
  return groups;
}

// Random blocks of a form, with its scales.
function blocksOf({ bytes, scales }) {
  const blocks = randomFillSync(Buffer.alloc(kPattern - (kPattern % (bytes * kAlignment))));
  for (let at = 0; at < blocks.length; at += bytes) {
    for (const [place, scale] of Object.entries(scales))
      blocks.writeUInt16LE(scale, at + Number(place));
  }
  return blocks;
}

// By type of tensor: random blocks, and ones.
function patterns(forms) {
  const ones = Buffer.from(new Float32Array(1 << 16).fill(1).buffer);
  return Object.fromEntries([[kF32, ones], ...forms.map((form) => [form.type, blocksOf(form)])]);
}

function writeFile(path, entries, list, fill) {
  let offset = 0;
  const infos = list.map(({ name, dims, type, bytes }) => {
    const at = offset;
    offset += padded(bytes);
    return Buffer.concat([text(name), u32(dims.length), ...dims.map(u64), u32(type), u64(at)]);
  });
  const head = [Buffer.from("GGUF"), u32(3), u64(list.length), u64(entries.length)];
  const header = Buffer.concat([...head, ...entries, ...infos]);
  const file = openSync(path, "w");
  writeSync(file, header, 0, header.length, 0);
  let at = padded(header.length);
  for (const [index, { type, bytes }] of list.entries()) {
    const source = fill[type];
    // Each begins elsewhere: who keeps equal bytes once would keep one layer.
    let from = (index * kStep) % source.length;
    for (let done = 0; done < bytes; from = 0) {
      const count = Math.min(source.length - from, bytes - done);
      writeSync(file, source, from, count, at + done);
      done += count;
    }
    at += padded(bytes);
  }
  writeSync(file, Buffer.alloc(1), 0, 1, at - 1); // padding of the last tensor
  closeSync(file);
}

// `size` is the name of a shape, or a shape. Returns {size, files}.
export function writeGguf(dir, size, chunkMiB = 1024) {
  mkdirSync(dir, { recursive: true });
  const shape = typeof size === "string" ? shapeOf(size) : size;
  const all = tensors(shape);
  const groups = split(all, chunkMiB * 2 ** 20);
  const fill = patterns([formOf(shape.weights), tableOf(shape)]);
  const padding = (index) => String(index).padStart(5, "0");
  const files = groups.map((list, index) => {
    const name = `model-${padding(index + 1)}-of-${padding(groups.length)}.gguf`;
    const place = [
      entry("split.no", Kind.u16, u16(index)),
      entry("split.count", Kind.u16, u16(groups.length)),
      entry("split.tensors.count", Kind.i32, u32(all.length)),
    ];
    const isSplit = groups.length > 1;
    const entries = [...(index === 0 ? metadata(shape) : []), ...(isSplit ? place : [])];
    writeFile(join(dir, name), entries, list, fill);
    return name;
  });
  const about = { size, files };
  writeFileSync(join(dir, "gguf.json"), JSON.stringify(about));
  return about;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      size: { type: "string", default: "tiny" },
      chunk: { type: "string", default: "1024" },
      weights: { type: "string" },
      table: { type: "string" },
      layers: { type: "string" },
      vocabulary: { type: "string" },
    },
  });
  const shape = { ...(kExpertShapes[values.size] ?? shapeOf(values.size)) };
  if (values.weights) shape.weights = values.weights;
  if (values.table) shape.table = values.table;
  if (values.layers) shape.layers = Number(values.layers);
  if (values.vocabulary) shape.vocabulary = Number(values.vocabulary);
  console.log(JSON.stringify(writeGguf(positionals[0], shape, Number(values.chunk))));
}
