// Checkpoints that tests write, and what the program makes of them.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

/** The tensors of a safetensors file: [{ name, dtype, shape, bytes }]. */
export function readTensors(path) {
  const file = readFileSync(path);
  const headerBytes = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString('utf8', 8, 8 + headerBytes));
  delete header.__metadata__;
  return Object.entries(header).map(([name, { dtype, shape, data_offsets: [from, to] }]) => {
    const bytes = file.subarray(8 + headerBytes + from, 8 + headerBytes + to);
    return { name, dtype, shape, bytes };
  });
}

/** Writes them again. */
export function writeTensors(path, tensors) {
  const header = {};
  let at = 0;
  for (const { name, dtype, shape, bytes } of tensors) {
    header[name] = { dtype, shape, data_offsets: [at, (at += bytes.length)] };
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(path, Buffer.concat([length, text, ...tensors.map(({ bytes }) => bytes)]));
}

/** Marsaglia's xorshift: a function that gives whole numbers from 0 to below its argument. */
export function randomNumbers(seed) {
  let state = seed;
  return (count) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % count;
  };
}

/**
 * Logits and greedy tokens of the checkpoint in `folder`, converted into `target`. Without
 * `quantisation` the matrices stay as they are.
 */
export function logitsOf(folder, target, quantisation = 'f32') {
  const weft = process.env.WEFT;
  const silent = { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8', maxBuffer: 1 << 26 };
  const quant = quantisation ? ['--quant', quantisation] : [];
  execFileSync(weft, ['convert', folder, target, ...quant, '--no-tokenizer'], silent);
  const args = ['generate', target, '--prompt-ids', '3,141,59,26,5,35,97,93,238,46,264,33,83,27'];
  const answer = execFileSync(weft, [...args, '--max-tokens', '6', '--json', '--logits'], silent);
  return JSON.parse(answer);
}
