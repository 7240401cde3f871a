// node make.mjs seed DATA OUT    OUT gets DATA's checkpoints with weights by the rule of seeded.mjs
// node make.mjs pack DATA PACKS  packs every folder of DATA; weights that have runs go as runs
//
// How the packs of tests/data were made: `seed` gives every tensor of a checkpoint seeded values of
// the mean and the spread that it has; transformers computes references from those files
// (tools/references/make_references.py --read); `pack` writes the folder with them.
// A file beside the weights, runs.json, names the runs of its folder's safetensors files.
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { writePack } from './pack.mjs';
import { kValueBytes, runBytes, seedOf } from './seeded.mjs';

function floatsOf(type, bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const values = new Float32Array(bytes.length / kValueBytes[type]);
  const bits = new Uint32Array(values.buffer);
  for (let i = 0; i < values.length; ++i) {
    if (type === 'F32') values[i] = view.getFloat32(4 * i, true);
    else if (type === 'BF16') bits[i] = view.getUint16(2 * i, true) << 16;
    else if (type === 'U8') values[i] = view.getUint8(i);
    else throw new Error(`no runs of ${type}`);
  }
  return values;
}

/** Low and high of uniform values with about the mean and the spread of `values`. */
function rangeOf(type, values) {
  if (type === 'U8') {
    const smaller = (a, b) => Math.min(a, b);
    const larger = (a, b) => Math.max(a, b);
    return { low: values.reduce(smaller), high: values.reduce(larger) };
  }
  const mean = values.reduce((all, value) => all + value, 0) / values.length;
  const square = values.reduce((all, value) => all + (value - mean) ** 2, 0) / values.length;
  const half = Math.sqrt(3 * square);
  return { low: Number((mean - half).toPrecision(3)), high: Number((mean + half).toPrecision(3)) };
}

/** The runs of a safetensors file, in the order of its bytes. */
function runsOfSafetensors(file) {
  const begin = 8 + Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.subarray(8, begin));
  const runs = [];
  for (const [name, { dtype, data_offsets: place }] of Object.entries(header)) {
    // Tables of ids are no weights.
    if (name === '__metadata__' || !(dtype in kValueBytes)) continue;
    const [from, to] = place;
    const values = floatsOf(dtype, file.subarray(begin + from, begin + to));
    const range = rangeOf(dtype, values);
    if (values.length < 2 || range.low === range.high) continue;
    // A model with towers has the weights of the same model without them.
    const seed = seedOf(name.replace('language_model.', ''));
    runs.push({ at: begin + from, type: dtype, count: values.length, seed, ...range });
  }
  return runs.sort((a, b) => a.at - b.at);
}

function seedCheckpoint(source, target) {
  mkdirSync(target, { recursive: true });
  const runs = {};
  for (const name of readdirSync(source)) {
    if (name.startsWith('reference')) continue;
    if (!name.endsWith('.safetensors')) {
      copyFileSync(join(source, name), join(target, name));
      continue;
    }
    const file = readFileSync(join(source, name));
    runs[name] = runsOfSafetensors(file);
    for (const run of runs[name]) runBytes(run).copy(file, run.at);
    writeFileSync(join(target, name), file);
  }
  writeFileSync(join(target, 'runs.json'), JSON.stringify(runs));
}

function seed(data, out) {
  for (const kind of readdirSync(data).filter((name) => name.startsWith('checkpoints'))) {
    for (const name of readdirSync(join(data, kind))) {
      seedCheckpoint(join(data, kind, name), join(out, kind, name));
    }
  }
}

function knownRuns(path) {
  const list = join(dirname(path), 'runs.json');
  if (!existsSync(list)) return [];
  return JSON.parse(readFileSync(list, 'utf8'))[basename(path)] ?? [];
}

function pack(data, packs) {
  for (const kind of readdirSync(data).filter((name) => statSync(join(data, name)).isDirectory())) {
    const size = writePack(join(data, kind), join(packs, kind), knownRuns);
    console.log(`${kind}: ${size} bytes`);
  }
}

const [command, data, out] = process.argv.slice(2);
if (command === 'seed' && out) seed(data, out);
else if (command === 'pack' && out) pack(data, out);
else throw new Error('usage: node make.mjs seed DATA OUT | node make.mjs pack DATA PACKS');
