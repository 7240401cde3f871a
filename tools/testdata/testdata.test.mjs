import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { readPack, writePack } from './pack.mjs';
import { runBytes, seedOf } from './seeded.mjs';
import { unpack } from './unpack.mjs';

const known = JSON.parse(readFileSync(new URL('../../tests/data/seeded.json', import.meta.url)));

for (const run of known) {
  test(`${run.count} values of ${run.type} from seed ${run.seed}`, () => {
    const bytes = runBytes(run);
    assert.equal(bytes.subarray(0, 8).toString('hex'), run.first_bytes);
    assert.equal(createHash('sha256').update(bytes).digest('hex'), run.sha256);
  });
}

test('a seed is FNV-1a of the name', () => {
  assert.equal(seedOf(''), 0x811c9dc5);
  assert.equal(seedOf('foobar'), 0xbf9cf968);
});

test('what is packed comes out again, over several parts and with runs inside', () => {
  const work = mkdtempSync(join(tmpdir(), 'weft-pack-'));
  try {
    const folder = join(work, 'from');
    mkdirSync(join(folder, 'a', 'deep'), { recursive: true });
    // Bytes that do not shrink: more than one part.
    const large = Buffer.concat(
      Array.from({ length: 15_500 }, (_, i) => createHash('sha256').update(`${i}`).digest()),
    );
    const runs = [{ at: 3, type: 'BF16', count: 4, seed: 9, low: -1, high: 1 }];
    const weights = Buffer.alloc(20, 7);
    runBytes(runs[0]).copy(weights, 3);
    writeFileSync(join(folder, 'large'), large);
    writeFileSync(join(folder, 'a', 'deep', 'weights'), weights);
    writeFileSync(join(folder, 'a', 'empty'), '');
    const prefix = join(work, 'packs', 'kind');
    writePack(folder, prefix, (path) => (path.endsWith('weights') ? runs : []));
    assert.ok(readdirSync(join(work, 'packs')).length > 1);
    const stored = readPack(prefix).find(({ path }) => path === 'a/deep/weights');
    assert.deepEqual(stored.runs, runs);
    assert.equal(unpack(join(work, 'out'), join(work, 'packs')), 3);
    const read = (name) => readFileSync(join(work, 'out', 'kind', name));
    assert.deepEqual(read('large'), large);
    assert.deepEqual(read('a/deep/weights'), weights);
    assert.equal(read('a/empty').length, 0);
    assert.throws(() => readPack(join(work, 'packs', 'other')), /there is no .*other\.pack\.00/);
  } finally {
    rmSync(work, { recursive: true });
  }
});
