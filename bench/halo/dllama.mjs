// distributed-llama (github.com/b4rtaz/distributed-llama) as a peer of the halo bench: random
// weights in its file format, and the time of a token between its devices.
//
//   magic, bytes of the header, (key, value)... | embedding f32 | layers | norm f32 | head
//   a layer: q, k, v, o, gate, down, up in Q4_0 | norms of q and k, of attention, of the MLP in f32
import { randomFillSync } from "node:crypto";
import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";

import { median } from "../lib/statistics.mjs";
import { until, WeftProcess } from "../lib/weft_processes.mjs";

const kPort = 9990;
const kContext = 256;
const kPrompt = "This is story number one.";
// Tokens behind a change of the lines that do not count.
const kWarmUp = 3;

// Header keys of src/llm.hpp and src/tokenizer.cpp.
const kModelMagic = 0xa00abcd;
const kTokenizerMagic = 0x567124;
const kQwen3 = 0xabcd01;
const kSilu = 1;
const kQ40 = 2;

const int32 = (values) => Buffer.from(new Int32Array(values).buffer);

function headerOf(magic, pairs) {
  const body = int32(pairs.flat());
  return Buffer.concat([int32([magic, 8 + body.length]), body]);
}

// 18 bytes for 32 weights: a scale of 2^-8 in f16, then nibbles.
function blocksOf(byteCount) {
  const blocks = randomFillSync(Buffer.alloc(byteCount));
  for (let at = 0; at < byteCount; at += 18) blocks.writeUInt16LE(0x1c00, at);
  return blocks;
}

function writeModel(path, shape) {
  const { layers, hidden, width, heads, kvHeads, headColumns, vocabulary } = shape;
  const file = openSync(path, "w");
  const write = (bytes) => writeSync(file, bytes);
  const floats = (count, value) => write(Buffer.from(new Float32Array(count).fill(value).buffer));
  const matrix = (rows, columns) => write(blocksOf((rows * columns * 18) / 32));
  write(headerOf(kModelMagic, [
    [0, 0], [1, kQwen3], [2, hidden], [3, width], [4, layers], [5, heads], [6, kvHeads], [7, 0],
    [8, 0], [9, vocabulary], [10, 8192], [11, kSilu], [12, 1_000_000], [13, kQ40],
    [19, headColumns], [20, 6],
  ]));
  floats(vocabulary * hidden, 0.01);
  for (let layer = 0; layer < layers; ++layer) {
    matrix(heads * headColumns, hidden);
    matrix(kvHeads * headColumns, hidden);
    matrix(kvHeads * headColumns, hidden);
    matrix(hidden, heads * headColumns);
    matrix(width, hidden);
    matrix(hidden, width);
    matrix(width, hidden);
    floats(headColumns, 1);
    floats(headColumns, 1);
    floats(hidden, 1);
    floats(hidden, 1);
  }
  floats(hidden, 1);
  matrix(vocabulary, hidden);
  closeSync(file);
}

// Single bytes, then made-up words; the last token begins a text.
function writeTokenizer(path, count) {
  const words = Array.from({ length: count }, (_, id) =>
    id < 256 ? Buffer.from([id]) : Buffer.from(`word${id}`));
  const longest = Math.max(...words.map((word) => word.length));
  const pairs = [[0, 1], [1, count], [2, longest], [3, count - 1], [9, 1], [10, 0]];
  const entries = words.flatMap((word) =>
    [Buffer.from(new Float32Array([0]).buffer), int32([word.length]), word]);
  const file = openSync(path, "w");
  writeSync(file, Buffer.concat([headerOf(kTokenizerMagic, pairs), int32([count - 1]),
    ...entries]));
  closeSync(file);
}

export function writeRandomModel(folder, shape) {
  mkdirSync(folder, { recursive: true });
  const files = { model: join(folder, "model.m"), tokenizer: join(folder, "tokenizer.t") };
  writeModel(files.model, shape);
  writeTokenizer(files.tokenizer, shape.vocabulary);
  return files;
}

// Milliseconds a token over each of `lines` ({ loss, delay }): medians of `repeat` stretches of
// `tokens` tokens. Weights go to the workers first, over lines that lose nothing.
export async function measureDllama({ dllama, files, members, helpers, lines, setLines, tokens,
  repeat, threads }) {
  const common = ["--nthreads", threads];
  // What it prints is buffered otherwise, and comes too late.
  const start = (prefix, args) =>
    new WeftProcess(dllama, args, { prefix: [...prefix, "stdbuf", "-oL"] });
  const workers = [];
  for (let i = 1; i <= helpers; ++i)
    workers.push(start(["nsenter", `--net=${members[i]}`],
      ["worker", "--port", String(kPort), ...common]));
  await until(() => workers.every(({ lines }) => lines.some((line) => line.includes("Listening"))),
    () => workers.map(({ lines }) => lines.join()).join());
  const hosts = workers.map((_, i) => `10.77.0.${i + 2}:${kPort}`);
  const root = start([], ["inference", "--model", files.model, "--tokenizer", files.tokenizer,
    "--prompt", kPrompt, "--steps", String(kContext), "--max-seq-len", String(kContext),
    "--buffer-float-type", "q80", "--temperature", "0", ...common,
    ...(helpers > 0 ? ["--workers", ...hosts] : [])]);
  const cameAt = []; // when each token was told
  root.child.stdout.on("data", (text) => {
    for (let left = text.split("Pred ").length - 1; left > 0; --left)
      cameAt.push(performance.now());
  });
  const reach = async (count) => await until(() => {
    if (root.exited) throw new Error(`dllama ended: ${root.lines.slice(-3).join("\n")}`);
    return cameAt.length >= count;
  }, () => root.lines.slice(-3).join("\n"), 300_000);
  const times = [];
  try {
    await reach(1);
    for (const line of lines) {
      setLines(line);
      const first = cameAt.length + kWarmUp;
      await reach(first + repeat * tokens + 1);
      const stretches = Array.from({ length: repeat }, (_, i) =>
        (cameAt[first + (i + 1) * tokens] - cameAt[first + i * tokens]) / tokens);
      times.push({ loss: line.loss, delay_ms: line.delay, ms: median(stretches) });
    }
  } finally {
    setLines(null);
    root.signal("SIGKILL");
    for (const worker of workers) worker.signal("SIGKILL");
  }
  return times;
}
