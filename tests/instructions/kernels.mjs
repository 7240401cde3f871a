// How many instructions products and attention take, counted by callgrind: a number that is the
// same in every run, where a time is not. What is counted are the cases of
// src/kernels/instructions_test.cc. Bounds lie a tenth above what was counted, so that a kernel
// which falls back shows. Valgrind knows no AVX-512, whose kernels are not counted.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';

const program = join(dirname(process.env.WEFT), 'kernels_test');
const isThere = spawnSync('valgrind', ['--version']).status === 0;
const processor = readFileSync('/proc/cpuinfo', 'utf8');
const hasAvx2 = /\bavx2\b/.test(processor);
// Highway's library reads a clock by RDTSCP as it is loaded. Valgrind takes it for an illegal
// instruction where the processor, or the virtual machine, does not say that it has it.
const hasRdtscp = /\brdtscp\b/.test(processor);

// Of one case, while its function runs.
function count(name, rows, within) {
  const { status, stdout, stderr } = spawnSync('valgrind', [
    '--tool=callgrind', '--callgrind-out-file=/dev/null',
    `--toggle-collect=weft::kernels::${within}*`, program, '--gtest_filter=CountedCases.*',
  ], { encoding: 'utf8', env: { ...process.env, WEFT_COUNTED_CASE: `${name} ${rows}` } });
  assert.equal(status, 0, `${stdout}${stderr}`);
  const [, collected] = stderr.match(/Collected : (\d+)/) ?? [];
  return Number(collected);
}

for (const [name, rows, within, bound] of [
  ['avx2', 1, 'RunAvx2', 375_000],
  ['avx2', 8, 'RunAvx2', 1_830_000],
  ['avx2', 64, 'RunAvx2', 11_150_000],
  ['ssse3', 1, 'RunSsse3', 872_000],
  ['ssse3', 64, 'RunSsse3', 29_100_000],
  ['attention', 1, 'AttentionSimd', 114_000],
  ['attention', 32, 'AttentionSimd', 2_720_000],
]) {
  test(`instructions of ${name}, ${rows} rows, stay within their bound`, {
    skip: isThere && hasAvx2 && hasRdtscp ? false : 'no valgrind, no AVX2, or no RDTSCP',
  }, () => {
    const instructions = count(name, rows, within);
    // Less than half is no kernel that got better, but one that did not run.
    assert.ok(instructions > bound / 2, `${instructions} instructions`);
    assert.ok(instructions <= bound, `${instructions} instructions, at most ${bound}`);
  });
}
