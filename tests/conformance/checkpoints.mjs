// Every checkpoint of the test data becomes a package in f32, f16, q8 and q4. Its graph in
// onnxruntime (whole, and cut everywhere) and its programs in the native engine (by one worker, and
// by one for each layer) give the logits and greedy tokens that transformers gave; q8 and q4 give
// those of the same model with the quantised weights in f32.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const weft = process.env.WEFT;
const data = process.env.WEFT_DATA ?? join(root, '..', 'shared', 'data');
const checkpoints = join(data, 'checkpoints');

function check(name) {
  const script = join(root, 'tools', 'convert_oracle', 'check.mjs');
  const args = [script, '--weft', weft, '--data', data, '--only', name];
  const run = spawnSync(process.execPath, [...args, '--cuts', 'yes', '--native', 'yes'], {
    encoding: 'utf8',
  });
  assert.notEqual(run.stdout, '', run.stderr);
  return JSON.parse(run.stdout).results;
}

if (!weft || !existsSync(checkpoints)) {
  const reason = weft ? `no checkpoints in ${checkpoints}` : 'WEFT does not name the weft program';
  test('checkpoints convert and run', { skip: reason }, () => {});
} else {
  for (const name of readdirSync(checkpoints).sort()) {
    test(`${name}: packages in four formats, two engines`, () => {
      const results = check(name);
      assert.deepEqual(
        results.map((result) => result.quantisation),
        ['f32', 'f16', 'q8', 'q4'],
      );
      for (const result of results) {
        assert.ok(result.ok, JSON.stringify(result));
        assert.ok(result.native_max_abs_logit_error <= 2e-2, JSON.stringify(result));
      }
      assert.ok(results[0].max_abs_cut_error <= 1e-4, JSON.stringify(results[0]));
    });
  }
}
