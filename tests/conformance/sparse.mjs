// Families whose experts are chosen by scores and groups, or whose attention is latent. A second
// implementation (tools/convert_oracle/sparse.mjs) is held against transformers first; then weft is
// held against transformers in f32 (by one worker, by one for each layer, with scalar kernels) and
// in f16, and in q8 and q4 against that implementation with the quantised weights, keys and values
// in f32.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { writeReference } from '../../tools/convert_oracle/dequantize.mjs';
import { SparseDecoder, weightsOfPackage } from '../../tools/convert_oracle/sparse.mjs';
import { readSafetensors } from '../../tools/onnx_check/reference.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const weft = process.env.WEFT;
const data = process.env.WEFT_DATA ?? join(root, '..', 'shared', 'data');
const checkpoints = join(data, 'checkpoints-2026');
const work = mkdtempSync(join(tmpdir(), 'weft-sparse-'));
after(() => rmSync(work, { recursive: true }));
const greedySteps = 24;

const names = ['glm4-moe'];

// What is wrong with a configuration is said in a sentence.
const refused = [
  ['glm4-moe', { n_group: 3 }, /in 'topk_group' 1 of 'n_group' 3 groups/],
  ['glm4-moe', { n_group: 4, topk_group: 9 }, /'topk_group' 9 of 'n_group' 4 groups/],
  ['glm4-moe', { n_group: 1e6 }, /'n_group'/],
  ['glm4-moe', { n_group: 8 }, /of 'n_group' 8 groups/],
  ['glm4-moe', { n_routed_experts: 0 }, /'n_routed_experts'/],
  ['glm4-moe', { n_routed_experts: 1e9 }, /'n_routed_experts'/],
  ['glm4-moe', { n_routed_experts: 16 }, /mlp\.(gate|router).*expected shape \[16, 64\]/],
  ['glm4-moe', { num_experts_per_tok: 9 }, /'num_experts_per_tok'/],
  ['glm4-moe', { first_k_dense_replace: 5 }, /'first_k_dense_replace'/],
  ['glm4-moe', { first_k_dense_replace: 0 }, /lacks the tensor '.*layers\.0\.mlp\.gate/],
  ['glm4-moe', { n_shared_experts: 1000 }, /'n_shared_experts'/],
  ['glm4-moe', { n_shared_experts: 2 }, /shared_experts.*expected shape \[64, 64\]/],
  ['glm4-moe', { moe_intermediate_size: 0 }, /'moe_intermediate_size'/],
  ['glm4-moe', { routed_scaling_factor: -1 }, /'routed_scaling_factor'/],
  ['glm4-moe', { norm_topk_prob: 'yes' }, /'norm_topk_prob'/],
];

function convert(source, target, quantisation) {
  const args = ['convert', source, target, '--quant', quantisation, '--no-tokenizer', '--json'];
  return JSON.parse(execFileSync(weft, args, { stdio: ['ignore', 'pipe', 'inherit'] }));
}

function evaluate(target, reference, ...options) {
  const args = ['eval', target, '--reference', reference, ...options];
  return JSON.parse(execFileSync(weft, args, { stdio: ['ignore', 'pipe', 'inherit'] }));
}

/** A copy of the checkpoint whose config.json is changed; a key that is undefined goes. */
function variant(name, changes) {
  const target = mkdtempSync(join(work, 'variant-'));
  copyFileSync(join(checkpoints, name, 'model.safetensors'), join(target, 'model.safetensors'));
  const config = JSON.parse(readFileSync(join(checkpoints, name, 'config.json'), 'utf8'));
  writeFileSync(join(target, 'config.json'), JSON.stringify({ ...config, ...changes }));
  return target;
}

function logitsOf(model, ids) {
  model.clear();
  return ids.flatMap((id) => model.next(id));
}

/** What `model` answers, as reference.safetensors has it. */
function writeOracle(path, model, ids) {
  const prefill = Float32Array.from(logitsOf(model, ids));
  let last = [...prefill.subarray(prefill.length - model.config.vocab_size)];
  const greedy = [];
  const margins = [];
  for (let step = 0; step < greedySteps; ++step) {
    const [best, second] = [...last].sort((a, b) => b - a);
    greedy.push(last.indexOf(best));
    margins.push(best - second);
    last = model.next(greedy.at(-1));
  }
  writeReference(path, ids, { prefill, greedy, margins });
}

/** Keys, values and boundaries of the package become f32, so that its weights alone are judged. */
function keepExact(target) {
  const path = join(target, 'weft.json');
  const manifest = JSON.parse(readFileSync(path, 'utf8'));
  const exact = { ...manifest, quantisation: 'f32', boundary_dtype: 'f32' };
  writeFileSync(path, JSON.stringify(exact));
}

function expectF32(folder, target, reference) {
  const report = convert(folder, target, 'f32');
  assert.ok(report.lowered, report.why_not_lowered);
  for (const options of [[], ['--split-everywhere'], ['--reference-kernels']]) {
    const result = evaluate(target, reference, ...options);
    assert.ok(result.max_abs_logit_error <= 1e-4, JSON.stringify(result));
    assert.ok(result.greedy_equal, JSON.stringify(result));
  }
}

function expectQuantised(folder, target, quantisation, ids) {
  convert(folder, target, quantisation);
  const config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'));
  const oracle = new SparseDecoder(folder, weightsOfPackage(target, config));
  const reference = join(work, 'quantised.safetensors');
  writeOracle(reference, oracle, ids);
  keepExact(target);
  const result = evaluate(target, reference);
  assert.ok(result.max_abs_logit_error <= 1e-4, JSON.stringify(result));
  assert.ok(result.greedy_equal, JSON.stringify(result));
}

function testCheckpoint(name) {
  const folder = join(checkpoints, name);
  const reference = join(folder, 'reference.safetensors');
  const at = (quantisation) => join(work, `${name}-${quantisation}`);
  const { input_ids: ids, logits } = readSafetensors(reference);
  test(`${name}: the second implementation gives what transformers gave`, () => {
    const worst = logitsOf(new SparseDecoder(folder), ids.values).reduce(
      (most, value, i) => Math.max(most, Math.abs(value - logits.values[i])),
      0,
    );
    assert.ok(worst <= 1e-5, `${worst}`);
  });
  test(`${name} in f32: what transformers gave`, () => {
    expectF32(folder, at('f32'), reference);
  });
  test(`${name} in f16: near what transformers gave`, () => {
    convert(folder, at('f16'), 'f16');
    const result = evaluate(at('f16'), reference);
    assert.ok(result.max_abs_logit_error <= 3e-2, JSON.stringify(result));
  });
  for (const quantisation of ['q8', 'q4']) {
    test(`${name} in ${quantisation}: what its quantised weights give`, () => {
      expectQuantised(folder, at(quantisation), quantisation, ids.values);
    });
  }
}

if (!weft || !existsSync(checkpoints)) {
  const reason = weft ? `no checkpoints in ${checkpoints}` : 'WEFT does not name the weft program';
  test('sparse checkpoints convert and run', { skip: reason }, () => {});
} else {
  for (const name of names) testCheckpoint(name);
  for (const [name, changes, sentence] of refused) {
    test(`${name} with ${JSON.stringify(changes)} is refused`, () => {
      const args = ['convert', variant(name, changes), join(work, 'refused'), '--no-tokenizer'];
      const run = spawnSync(weft, args, { encoding: 'utf8' });
      assert.notEqual(run.status, 0);
      assert.match(run.stderr, sentence);
    });
  }
}
