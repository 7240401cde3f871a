// The form in which tests/data keeps files: a folder becomes NAME.pack.00, NAME.pack.01, ...
//
//   parts, joined    one brotli stream
//   the stream       u32 length of the index, the index, the literal bytes of all files in order
//   the index        JSON: [{path, bytes, runs: [{at, type, count, seed, low, high}, ...]}, ...]
//
// A file is its literal bytes with the runs put in at their places: `at` counts in the whole file.
// Runs are weights by the rule of seeded.mjs. Parts have at most 480 KiB.
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib';
import { kValueBytes, runBytes } from './seeded.mjs';

const partBytes = 480 * 1024;

/** The literal bytes of a file: those that no run makes. */
function literalOf(bytes, runs) {
  const pieces = [];
  let end = 0;
  for (const run of runs) {
    pieces.push(bytes.subarray(end, run.at));
    end = run.at + run.count * kValueBytes[run.type];
  }
  pieces.push(bytes.subarray(end));
  return Buffer.concat(pieces);
}

/** A file of `bytes` bytes out of its literal bytes and its runs. */
export function composeFile({ bytes, runs }, literal) {
  const file = Buffer.alloc(bytes);
  let [end, taken] = [0, 0];
  const copy = (until) => {
    literal.copy(file, end, taken, taken + until - end);
    taken += until - end;
  };
  for (const run of runs) {
    copy(run.at);
    const made = runBytes(run);
    made.copy(file, run.at);
    end = run.at + made.length;
  }
  copy(bytes);
  return file;
}

function filesBelow(folder) {
  return readdirSync(folder, { recursive: true })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile())
    .sort();
}

function writeU32(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

/** Writes the parts of `folder`'s pack; `runsOf(path, bytes)` names the runs of a file. */
export function writePack(folder, prefix, runsOf = () => []) {
  const index = [];
  const literals = [];
  for (const path of filesBelow(folder)) {
    const bytes = readFileSync(path);
    const runs = runsOf(path, bytes);
    index.push({ path: relative(folder, path), bytes: bytes.length, runs });
    literals.push(literalOf(bytes, runs));
  }
  const head = Buffer.from(JSON.stringify(index));
  const stream = Buffer.concat([writeU32(head.length), head, ...literals]);
  const packed = brotliCompressSync(stream, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: 11,
      [constants.BROTLI_PARAM_LGWIN]: 24,
      [constants.BROTLI_PARAM_SIZE_HINT]: stream.length,
    },
  });
  mkdirSync(dirname(prefix), { recursive: true });
  for (let part = 0; part * partBytes < packed.length; ++part) {
    const bytes = packed.subarray(part * partBytes, (part + 1) * partBytes);
    writeFileSync(`${prefix}.pack.${String(part).padStart(2, '0')}`, bytes);
  }
  return packed.length;
}

/** The names of the packs of a folder, without their parts' numbers. */
export function packNames(folder) {
  const parts = readdirSync(folder).filter((name) => /\.pack\.\d\d$/.test(name));
  return [...new Set(parts.map((name) => name.slice(0, -'.pack.00'.length)))].sort();
}

/** The files of a pack: [{path, bytes, runs, content}], where `content` makes the whole file. */
export function readPack(prefix) {
  const parts = [];
  for (let part = 0; ; ++part) {
    const path = `${prefix}.pack.${String(part).padStart(2, '0')}`;
    if (!existsSync(path)) break;
    parts.push(readFileSync(path));
  }
  if (parts.length === 0) throw new Error(`there is no ${prefix}.pack.00`);
  const stream = brotliDecompressSync(Buffer.concat(parts));
  const end = 4 + stream.readUInt32LE(0);
  let at = end;
  return JSON.parse(stream.subarray(4, end)).map((entry) => {
    const made = entry.runs.reduce((all, { type, count }) => all + count * kValueBytes[type], 0);
    const literal = stream.subarray(at, at + entry.bytes - made);
    at += literal.length;
    return { ...entry, content: () => composeFile(entry, literal) };
  });
}
