// Writes an ONNX decoder of Qwen3's form with random 4-bit weights, in the form in which
// onnxruntime's WebGPU provider is fastest: MatMulNBits that it may fuse with norms (q, k, v; gate,
// up), GroupQueryAttention with rotation and head norms inside, f16, and ArgMax at the end, so that
// a token comes back instead of its logits. Weights go to files of at most --chunk MiB beside it.
//
//   node bench/webgpu/peers/random_onnx.mjs DIR --size 1.7B [--dtype f16|f32] [--chunk 1024]
//
// Inputs: input_ids int64 [1, rows], seqlens_k int32 [1] (the last position), total_length int32
// scalar, past_key_values.N.key/value [1, heads, positions, columns]; outputs: token int64 [1, 1]
// and present.N.key/value. Runs without anything else: a machine that has only Node can make it.
import { randomFillSync } from "node:crypto";
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { shapeOf } from "../shapes.mjs";
import { bytesField, floatField, intField, message, toHalf } from "./proto.mjs";

const Type = { f32: 1, uint8: 2, int32: 6, int64: 7, f16: 10 };
const kBlock = 32;
const kMaxPositions = 8192;
const kAlignment = 4096;
const kMicrosoft = "com.microsoft";

// External data in files of a limited size; what is written is only random, or a given pattern.
class Chunks {
  #dir;
  #limit;
  #file = null;
  #size = 0;
  #pool = randomFillSync(Buffer.alloc(32 << 20));
  names = [];

  constructor(dir, limitBytes) {
    this.#dir = dir;
    this.#limit = limitBytes;
  }

  // Returns where the bytes are.
  place(byteCount, pattern) {
    if (this.#file === null || this.#size + byteCount > this.#limit) this.#next();
    const at = this.#size;
    const source = pattern ?? this.#pool;
    for (let done = 0; done < byteCount; done += source.length) {
      const bytes = source.subarray(0, Math.min(source.length, byteCount - done));
      writeSync(this.#file, bytes, 0, bytes.length, at + done);
    }
    this.#size = Math.ceil((at + byteCount) / kAlignment) * kAlignment;
    return { location: this.names.at(-1), offset: at, length: byteCount };
  }

  #next() {
    this.close();
    this.names.push(`weights_${this.names.length}.bin`);
    this.#file = openSync(join(this.#dir, this.names.at(-1)), "w");
    this.#size = 0;
  }

  close() {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
  }
}

const attribute = {
  int: (name, value) =>
    bytesField(5, message(bytesField(1, name), intField(3, value), intField(20, 2))),
  float: (name, value) =>
    bytesField(5, message(bytesField(1, name), floatField(2, value), intField(20, 1))),
};

class Graph {
  nodes = [];
  initializers = [];
  inputs = [];
  outputs = [];

  node(op, inputs, outputs, attributes = [], domain = "") {
    const fields = [
      ...inputs.map((name) => bytesField(1, name)),
      ...outputs.map((name) => bytesField(2, name)),
      bytesField(3, outputs[0]),
      bytesField(4, op),
      ...attributes,
      bytesField(7, domain),
    ];
    this.nodes.push(bytesField(1, message(fields)));
    return outputs[0];
  }

  external(name, type, dims, { location, offset, length }) {
    const entry = (key, value) =>
      bytesField(13, message(bytesField(1, key), bytesField(2, String(value))));
    const fields = [
      ...dims.map((dim) => intField(1, dim)),
      intField(2, type),
      bytesField(8, name),
      entry("location", location),
      entry("offset", offset),
      entry("length", length),
      intField(14, 1),
    ];
    this.initializers.push(bytesField(5, message(fields)));
    return name;
  }

  constant(name, type, dims, raw) {
    const fields = [...dims.map((dim) => intField(1, dim)), intField(2, type)];
    fields.push(bytesField(8, name), bytesField(9, raw));
    this.initializers.push(bytesField(5, message(fields)));
    return name;
  }

  value(name, type, dims) {
    const shape = dims.map((dim) =>
      bytesField(1, typeof dim === "string" ? bytesField(2, dim) : intField(1, dim)),
    );
    const tensor = message(intField(1, type), bytesField(2, message(shape)));
    return message(bytesField(1, name), bytesField(2, bytesField(1, tensor)));
  }

  bytes() {
    const graph = message(
      this.nodes,
      bytesField(2, "decoder"),
      this.initializers,
      this.inputs.map((value) => bytesField(11, value)),
      this.outputs.map((value) => bytesField(12, value)),
    );
    const opset = (domain, version) =>
      bytesField(8, message(bytesField(1, domain), intField(2, version)));
    return message(
      intField(1, 10),
      bytesField(2, "weft bench"),
      bytesField(7, graph),
      opset("", 21),
      opset(kMicrosoft, 1),
    );
  }
}

class Decoder {
  #shape;
  #graph = new Graph();
  #chunks;
  #type;
  #scale; // a pattern of scales

  constructor(shape, chunks, dtype) {
    this.#shape = shape;
    this.#chunks = chunks;
    this.#type = Type[dtype];
    this.#scale = this.#numbers(new Array(1 << 16).fill(2 ** -4));
  }

  #numbers(values) {
    if (this.#type === Type.f32) return Buffer.from(Float32Array.from(values).buffer);
    return Buffer.from(Uint16Array.from(values, toHalf).buffer);
  }

  get #width() {
    return this.#type === Type.f32 ? 4 : 2;
  }

  build() {
    const { layers, hidden, vocabulary } = this.#shape;
    this.#io();
    this.#tables();
    const table = this.#blocks(vocabulary, hidden);
    let residual = this.#embed(table);
    let normed = this.#norm("norm.0", residual);
    for (let layer = 0; layer < layers; ++layer) {
      const name = `layer.${layer}`;
      const attended = this.#attention(name, layer, normed);
      [normed, residual] = this.#skipNorm(`${name}.mid`, residual, attended);
      const mlp = this.#mlp(name, normed);
      [normed, residual] = this.#skipNorm(`${name}.end`, residual, mlp);
    }
    this.#head(table, normed);
    return this.#graph.bytes();
  }

  #io() {
    const { layers, kvHeads, headColumns } = this.#shape;
    const graph = this.#graph;
    graph.inputs.push(graph.value("input_ids", Type.int64, [1, "rows"]));
    graph.inputs.push(graph.value("seqlens_k", Type.int32, [1]));
    graph.inputs.push(graph.value("total_length", Type.int32, []));
    graph.outputs.push(graph.value("token", Type.int64, [1, 1]));
    for (let layer = 0; layer < layers; ++layer) {
      for (const part of ["key", "value"]) {
        const dims = (positions) => [1, kvHeads, positions, headColumns];
        const past = `past_key_values.${layer}.${part}`;
        graph.inputs.push(graph.value(past, this.#type, dims("past")));
        graph.outputs.push(graph.value(`present.${layer}.${part}`, this.#type, dims("present")));
      }
    }
  }

  #tables() {
    const { headColumns, hidden } = this.#shape;
    const half = headColumns / 2;
    for (const [name, of] of [["cos", Math.cos], ["sin", Math.sin]]) {
      const values = Array.from({ length: kMaxPositions * half }, (_, i) =>
        of(Math.floor(i / half) * 1e6 ** (-(i % half) / half)),
      );
      const bytes = this.#numbers(values);
      const placed = this.#chunks.place(bytes.length, bytes);
      this.#graph.external(`${name}_cache`, this.#type, [kMaxPositions, half], placed);
    }
    const ones = (count) => this.#numbers(new Array(count).fill(1));
    this.#graph.constant("norm.weight", this.#type, [hidden], ones(hidden));
    this.#graph.constant("head_norm.weight", this.#type, [headColumns], ones(headColumns));
  }

  // Random blocks of a matrix: where its values and its scales are.
  #blocks(rows, columns) {
    const scales = (rows * columns) / kBlock;
    return {
      rows,
      columns,
      data: this.#chunks.place((rows * columns) / 2),
      scale: this.#chunks.place(scales * this.#width, this.#scale),
    };
  }

  #embed({ rows, columns, data, scale }) {
    const graph = this.#graph;
    graph.external("embedding", Type.uint8, [rows, columns / 2], data);
    graph.external("embedding.scale", this.#type, [rows, columns / kBlock], scale);
    return graph.node(
      "GatherBlockQuantized",
      ["embedding", "input_ids", "embedding.scale"],
      ["embedded"],
      [
        attribute.int("bits", 4),
        attribute.int("block_size", kBlock),
        attribute.int("gather_axis", 0),
        attribute.int("quantize_axis", 1),
      ],
      kMicrosoft,
    );
  }

  #norm(name, x) {
    const lastAxis = BigInt.asUintN(64, -1n);
    const attributes = [attribute.float("epsilon", 1e-6), attribute.int("axis", lastAxis)];
    return this.#graph.node("SimplifiedLayerNormalization", [x, "norm.weight"], [name], attributes);
  }

  #skipNorm(name, residual, added) {
    const sum = `${name}.sum`;
    this.#graph.node(
      "SkipSimplifiedLayerNormalization",
      [residual, added, "norm.weight"],
      [name, "", "", sum],
      [attribute.float("epsilon", 1e-6)],
      kMicrosoft,
    );
    return [name, sum];
  }

  #linear(name, x, rows, columns, blocks = this.#blocks(rows, columns)) {
    const graph = this.#graph;
    const dims = [rows, columns / kBlock, kBlock / 2];
    graph.external(`${name}.weight`, Type.uint8, dims, blocks.data);
    graph.external(`${name}.scale`, this.#type, [rows * (columns / kBlock)], blocks.scale);
    return graph.node(
      "MatMulNBits",
      [x, `${name}.weight`, `${name}.scale`],
      [name],
      [
        attribute.int("K", columns),
        attribute.int("N", rows),
        attribute.int("bits", 4),
        attribute.int("block_size", kBlock),
        attribute.int("accuracy_level", 4),
      ],
      kMicrosoft,
    );
  }

  #attention(name, layer, x) {
    const { hidden, heads, kvHeads, headColumns } = this.#shape;
    const q = this.#linear(`${name}.q`, x, heads * headColumns, hidden);
    const k = this.#linear(`${name}.k`, x, kvHeads * headColumns, hidden);
    const v = this.#linear(`${name}.v`, x, kvHeads * headColumns, hidden);
    const past = `past_key_values.${layer}`;
    const inputs = [q, k, v, `${past}.key`, `${past}.value`, "seqlens_k", "total_length"];
    inputs.push("cos_cache", "sin_cache", "", "", "", "", "");
    inputs.push("head_norm.weight", "head_norm.weight"); // of q and k
    const present = `present.${layer}`;
    const attended = this.#graph.node(
      "GroupQueryAttention",
      inputs,
      [`${name}.attention`, `${present}.key`, `${present}.value`],
      [
        attribute.int("num_heads", heads),
        attribute.int("kv_num_heads", kvHeads),
        attribute.int("do_rotary", 1),
        attribute.float("scale", headColumns ** -0.5),
      ],
      kMicrosoft,
    );
    return this.#linear(`${name}.o`, attended, hidden, heads * headColumns);
  }

  #mlp(name, x) {
    const { hidden, width } = this.#shape;
    const gate = this.#linear(`${name}.gate`, x, width, hidden);
    const up = this.#linear(`${name}.up`, x, width, hidden);
    const sigmoid = this.#graph.node("Sigmoid", [gate], [`${name}.sigmoid`]);
    const active = this.#graph.node("Mul", [gate, sigmoid], [`${name}.active`]);
    const both = this.#graph.node("Mul", [active, up], [`${name}.gated`]);
    return this.#linear(`${name}.down`, both, hidden, width);
  }

  // Only the last row goes through the head.
  #head(table, x) {
    const { hidden, vocabulary } = this.#shape;
    const int64 = (value) => Buffer.from(BigInt64Array.of(BigInt(value)).buffer);
    this.#graph.constant("last", Type.int64, [1], int64(-1));
    const row = this.#graph.node("Gather", [x, "last"], ["last_row"], [attribute.int("axis", 1)]);
    const logits = this.#linear("logits", row, vocabulary, hidden, table);
    const attributes = [attribute.int("axis", 2), attribute.int("keepdims", 0)];
    this.#graph.node("ArgMax", [logits], ["token"], attributes);
  }
}

// Returns what was written: {model, chunks: [names], bytes}.
export function writeOnnx(dir, size, dtype = "f16", chunkMiB = 1024) {
  mkdirSync(dir, { recursive: true });
  const chunks = new Chunks(dir, chunkMiB * 2 ** 20);
  const bytes = new Decoder(shapeOf(size), chunks, dtype).build();
  chunks.close();
  writeFileSync(join(dir, "model.onnx"), bytes);
  const about = { size, dtype, chunks: chunks.names };
  writeFileSync(join(dir, "model.json"), JSON.stringify(about));
  return about;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      size: { type: "string", default: "tiny" },
      dtype: { type: "string", default: "f16" },
      chunk: { type: "string", default: "1024" },
    },
  });
  const [dir] = positionals;
  console.log(JSON.stringify(writeOnnx(dir, values.size, values.dtype, Number(values.chunk))));
}
