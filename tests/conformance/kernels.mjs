// The kernels for weights in superblocks: which there are, how one is forced, and that those for
// ARM have the bits of the scalar rule. A cross compiler builds these, an emulator of single
// programs runs them; where one of the two is missing, their tests are skipped.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const weft = process.env.WEFT;
const compiler = 'aarch64-linux-gnu-g++';
const emulator = 'qemu-aarch64';
const isThere = (program) => spawnSync(program, ['--version']).status === 0;

const folder = mkdtempSync(join(tmpdir(), 'weft-kernels-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const worker = (...args) => spawnSync(weft, ['worker', ...args], { encoding: 'utf8' });

test('the kernels are listed, one of them is used, and the last one runs everywhere', () => {
  const { status, stdout } = worker('--list-kernels');
  assert.equal(status, 0);
  const lines = stdout.trimEnd().split('\n');
  assert.equal(lines.filter((line) => line.endsWith(' (used)')).length, 1);
  assert.match(lines.at(-1), /^scalar/);
  const form = /^[a-z0-9-]+( \(used\)| \(this machine lacks it\))?$/;
  for (const line of lines) assert.match(line, form);
});

test('kernels that this machine has can be forced, others are an error', () => {
  const listed = worker('--list-kernels').stdout.trimEnd().split('\n');
  for (const line of listed) {
    const name = line.split(' ')[0];
    const forced = worker('--kernels', name, '--list-kernels');
    if (line.endsWith('lacks it)')) {
      assert.notEqual(forced.status, 0);
      const sentence = `cannot run the kernels '${name}'. It can run: .*scalar`;
      assert.match(forced.stderr, new RegExp(sentence));
    } else {
      assert.equal(forced.status, 0);
      assert.ok(forced.stdout.split('\n').includes(`${name} (used)`), forced.stdout);
    }
  }
  const unknown = worker('--kernels', 'mmx', '--list-kernels');
  assert.notEqual(unknown.status, 0);
  assert.match(unknown.stderr, /no kernels named 'mmx'. Expected one of: .*scalar/);
});

// What the check needs, and nothing else.
const sources = [
  'tests/conformance/support/neon/check.cc',
  ...['integer_rows', 'kquant_panels', 'neon', 'neon_dot', 'neon_i8mm', 'panel_matmul',
    'panel_product', 'panels', 'q4s_panels', 'superblock_row'].map((n) => `src/kernels/${n}.cc`),
  ...['dtype', 'kquants', 'q4s'].map((n) => `src/tensor/${n}.cc`),
  ...['check', 'result'].map((n) => `src/base/${n}.cc`),
];

test('the kernels for ARM compile, and have the bits of the rule', {
  skip: isThere(compiler) && isThere(emulator) ? false : `no ${compiler} or no ${emulator}`,
}, () => {
  const program = join(folder, 'check');
  execFileSync(compiler, ['-std=c++20', '-O2', '-Wall', '-Wextra', '-Wshadow', '-Werror',
    '-ffp-contract=off', '-static', '-Isrc', ...sources, '-o', program], { cwd: root });
  // Processors of 2015, 2019 and of all that the emulator knows.
  const expected = {
    'cortex-a72': ['neon-i8mm lacking', 'neon-dotprod lacking', 'neon ok', 'scalar ok'],
    'neoverse-n1': ['neon-i8mm lacking', 'neon-dotprod ok', 'neon ok', 'scalar ok'],
    max: ['neon-i8mm ok', 'neon-dotprod ok', 'neon ok', 'scalar ok'],
  };
  for (const [cpu, lines] of Object.entries(expected)) {
    const out = execFileSync(emulator, ['-cpu', cpu, program], { encoding: 'utf8' });
    assert.deepEqual(out.trimEnd().split('\n'), lines);
  }
});
