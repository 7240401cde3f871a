// Every ONNX model of the test data, cut at every layer boundary and every pair of boundaries,
// gives in onnxruntime the logits of the whole model.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const weft = process.env.WEFT;
const models = join(process.env.WEFT_DATA ?? join(root, 'build', 'test-data'), 'onnx');

function check(directory) {
  const script = join(root, 'tools', 'onnx_check', 'check.mjs');
  const run = spawnSync(process.execPath, [script, '--weft', weft, directory], {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
  assert.notEqual(run.stdout, '', run.stderr);
  return JSON.parse(run.stdout);
}

if (!weft || !existsSync(models)) {
  const reason = weft ? `no models in ${models}` : 'WEFT does not name the weft program';
  test('cut models agree with the whole', { skip: reason }, () => {});
} else {
  for (const name of readdirSync(models).sort()) {
    if (!existsSync(join(models, name, 'reference.safetensors'))) continue;
    test(`${name}: cut and whole agree`, () => {
      const report = check(join(models, name));
      const lines = JSON.stringify({ ...report, per_cut: undefined });
      assert.ok(report.passed, lines);
      assert.ok(report.greedy_equal, lines);
      // n layers have n - 1 cuts and every pair of those, and all of them at once.
      const single = report.layers - 1;
      assert.equal(report.cuts, single + (single * (single - 1)) / 2 + 1);
      // The whole model gives here what the reference says, up to the kernels of this processor:
      // with int8 activations (AVX2 against VNNI) they differ as much as the int8 does.
      const most = report.quantizes_activations ? Math.max(0.05, report.reference_error) : 0.05;
      assert.ok(report.reference_error_runtime <= most && report.reference_error <= 0.2, lines);
    });
  }
}
