// node unpack.mjs OUT [FROM]
// Writes the reference data of tests/data/packs (FROM) as plain files: OUT/checkpoints/qwen3/... as
// tests read them. `./dev test` does it once and again when a pack or the rule of weights changed.
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { packNames, readPack } from './pack.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');

/** Unpacks every pack of `from`; the folder appears when it is whole. Returns the files' number. */
export function unpack(out, from = join(root, 'tests', 'data', 'packs')) {
  const making = `${out}.making`;
  rmSync(making, { recursive: true, force: true });
  let count = 0;
  for (const name of packNames(from)) {
    for (const file of readPack(join(from, name))) {
      const path = join(making, name, file.path);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, file.content());
      count += 1;
    }
  }
  rmSync(out, { recursive: true, force: true });
  renameSync(making, out);
  return count;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [out, from] = process.argv.slice(2);
  if (!out) throw new Error('usage: node unpack.mjs OUT [FROM]');
  console.log(`${unpack(out, from)} files in ${out}`);
}
