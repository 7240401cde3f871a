// Embeddings of whole models against transformers. Its references hold logits, and those are the
// head's matrix times the normed rows, of which embeddings are made: the matrix times the mean of
// all rows has to be the mean of all logits, and times the last row the last logits, each but for
// its length, since embeddings have a length of 1.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const weft = process.env.WEFT;
const data = process.env.WEFT_DATA ?? join(root, 'build', 'test-data');

// Heads without a soft cap: nothing stands between the rows and the logits but a product.
const families = [
  ...['llama3', 'mistral', 'qwen2', 'qwen3', 'qwen3-untied', 'qwen3-moe', 'phi3', 'gemma3'],
];

const kElements = { F32: [4, 'getFloat32'], I64: [8, 'getBigInt64'] };

/** {name: {shape, values}} of a safetensors file with f32, bf16 and i64. */
function readTensors(path) {
  const file = readFileSync(path);
  const length = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.subarray(8, 8 + length));
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets: offsets }] of Object.entries(header)) {
    if (name === '__metadata__') continue;
    const bytes = file.subarray(8 + length + offsets[0], 8 + length + offsets[1]);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const [size, get] = kElements[dtype];
    const count = bytes.length / size;
    const values = Array.from({ length: count }, (_, i) => Number(view[get](size * i, true)));
    tensors[name] = { shape, values };
  }
  return tensors;
}

function unit(vector) {
  const length = Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0));
  return vector.map((x) => x / length);
}

/** `matrix` [rows, columns] times `vector`. */
function times({ shape: [rows, columns], values }, vector) {
  assert.equal(columns, vector.length);
  return Array.from({ length: rows }, (_, row) => {
    let sum = 0;
    for (let i = 0; i < columns; ++i) sum += values[row * columns + i] * vector[i];
    return sum;
  });
}

async function withServer(folder, body) {
  const server = spawn(weft, ['serve', folder, '--port', '0', '--threads', '1']);
  let output = '';
  try {
    const origin = await new Promise((resolve, reject) => {
      const take = (chunk) => {
        output += chunk;
        const found = output.match(/chat:\s+(http:\/\/[^/\s]+)\//);
        if (found) resolve(found[1]);
      };
      server.stdout.on('data', take);
      server.stderr.on('data', take);
      server.on('exit', () => reject(new Error(output)));
    });
    await body(origin);
  } finally {
    server.kill('SIGKILL');
  }
}

async function embed(origin, input) {
  const response = await fetch(`${origin}/v1/embeddings`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ input }),
  });
  const answer = await response.json();
  assert.equal(response.status, 200, JSON.stringify(answer));
  return answer.data.map(({ embedding }) => embedding);
}

/** A copy of a checkpoint with the smallest tokenizer: tests name tokens by their ids. */
function copyOf(name, work) {
  const folder = join(work, name);
  cpSync(join(data, 'checkpoints', name), folder, { recursive: true });
  const model = { type: 'BPE', vocab: { a: 0, b: 1 }, merges: [] };
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify({ model }));
  return folder;
}

/** The head's matrix; where the checkpoint has none, the embedding is that, too. */
function headOf(folder) {
  const tensors = readTensors(join(folder, 'model.safetensors'));
  return tensors['lm_head.weight'] ?? tensors['model.embed_tokens.weight'];
}

for (const name of families) {
  const skip = !weft
    ? 'WEFT does not name the weft program'
    : existsSync(join(data, 'checkpoints', name)) ? false : `there is no ${name}`;
  test(`${name}: rows are those that transformers has its logits of`, { skip }, async () => {
    const work = mkdtempSync(join(tmpdir(), 'weft-embeddings-'));
    try {
      const source = copyOf(name, work);
      const reference = readTensors(join(source, 'reference.safetensors'));
      const ids = reference.input_ids.values;
      const [rows, vocabulary] = reference.logits.shape;
      const logits = (row) =>
        reference.logits.values.slice(row * vocabulary, (row + 1) * vocabulary);
      const mean = (count) => {
        const sum = new Array(vocabulary).fill(0);
        for (let row = 0; row < count; ++row) logits(row).forEach((x, i) => (sum[i] += x));
        return sum.map((x) => x / count);
      };
      assert.equal(rows, ids.length);
      const head = headOf(source);
      for (const pooling of ['mean', 'last']) {
        const folder = join(work, pooling);
        execFileSync(weft,
          ['convert', source, folder, '--embedding', pooling, '--quant', 'f32'], { stdio: 'pipe' });
        await withServer(folder, async (origin) => {
          const counts = [rows, 1, 7];
          const vectors = await embed(origin, counts.map((count) => ids.slice(0, count)));
          counts.forEach((count, i) => {
            assert.ok(Math.abs(Math.hypot(...vectors[i]) - 1) < 1e-6);
            const ours = unit(times(head, vectors[i]));
            const theirs = unit(pooling === 'mean' ? mean(count) : logits(count - 1));
            const error = Math.max(...ours.map((x, j) => Math.abs(x - theirs[j])));
            assert.ok(error < 1e-5, `${pooling} of ${count} rows: ${error}`);
          });
        });
      }
    } finally {
      rmSync(work, { recursive: true });
    }
  });
}
