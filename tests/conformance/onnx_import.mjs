// Packages made from other people's ONNX folders: the graph of the package, whose matrices lie
// transposed in blobs, gives in onnxruntime what the model gave as it came, whole and cut.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const weft = process.env.WEFT;
const models = join(process.env.WEFT_DATA ?? join(root, 'build', 'test-data'), 'onnx');
// Two of the builder's, a spelt-out, a half-precision and a dynamically quantised one.
const names = [
  'qwen3-genai-int4',
  'qwen3-moe-genai-int4',
  'gemma2-optimum',
  'qwen3-moe-optimum-fp16',
  'qwen3-optimum-int8',
];

function run(command, ...args) {
  const done = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 26 });
  assert.notEqual(done.stdout, '', done.stderr);
  return JSON.parse(done.stdout);
}

if (!weft || !existsSync(models)) {
  const reason = weft ? `no models in ${models}` : 'WEFT does not name the weft program';
  test('imported graphs give what they gave', { skip: reason }, () => {});
} else {
  for (const name of names) {
    test(`${name}: the package's graph gives what the model gave`, () => {
      const folder = mkdtempSync(join(tmpdir(), 'weft-onnx-import-'));
      try {
        const model = join(folder, 'package');
        const report = run(weft, 'convert', join(models, name), model, '--no-tokenizer', '--json');
        assert.equal(report.lowered, name !== 'qwen3-optimum-int8', report.why_not_lowered);
        // onnxruntime looks for a graph's data beside it.
        for (const blob of readdirSync(join(model, 'blobs'))) {
          copyFileSync(join(model, 'blobs', blob), join(model, blob));
        }
        const reference = 'reference.safetensors';
        copyFileSync(join(models, name, reference), join(model, reference));
        const script = join(root, 'tools', 'onnx_check', 'check.mjs');
        const checked = run(process.execPath, script, '--weft', weft, model);
        const lines = JSON.stringify({ ...checked, per_cut: undefined });
        assert.ok(checked.passed && checked.greedy_equal, lines);
        const most = checked.quantizes_activations ? checked.reference_error : 1e-4;
        assert.ok(checked.reference_error_runtime <= Math.max(1e-4, most), lines);
      } finally {
        rmSync(folder, { recursive: true });
      }
    });
  }
}
