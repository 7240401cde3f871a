// Gemma 4 against a second implementation (tools/convert_oracle/gemma4.mjs), which is held against
// transformers first. The embedding factor is the one number between the two that no file of the
// test data has: there it is a made-up one, in the published models the root of the hidden size. So
// it is searched for, and with what is found all logits must be those of transformers.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { writeReference } from '../../tools/convert_oracle/dequantize.mjs';
import { Gemma4, weightsOfPackage } from '../../tools/convert_oracle/gemma4.mjs';
import { readSafetensors } from '../../tools/onnx_check/reference.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const weft = process.env.WEFT;
const data = process.env.WEFT_DATA ?? join(root, '..', 'shared', 'data');
const checkpoints = join(data, 'checkpoints-2026');
const greedySteps = 24;

function logitsOf(model, ids) {
  model.clear();
  return ids.flatMap((id) => model.next(id));
}

function worstOf(actual, expected) {
  return actual.reduce((worst, value, i) => Math.max(worst, Math.abs(value - expected[i])), 0);
}

/** The factor with the smallest error over the first positions, between 0.5 and 2. */
function findFactor(model, ids, expected) {
  let [low, high] = [0.5, 2];
  let best = 1;
  while (high - low > 1e-7) {
    const step = (high - low) / 12;
    let least = Infinity;
    for (let factor = low; factor <= high + step / 2; factor += step) {
      model.embeddingFactor = factor;
      const worst = worstOf(logitsOf(model, ids), expected);
      if (worst < least) [least, best] = [worst, factor];
    }
    [low, high] = [best - step, best + step];
  }
  return best;
}

/** What the published model answers, as reference.safetensors has it. */
function writeOracle(path, folder, ids, weights) {
  const model = new Gemma4(folder, undefined, weights);
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

/** One of the two: what transformers gave is found with another embedding factor. */
function expectKnown(folder) {
  const reference = readSafetensors(join(folder, 'reference.safetensors'));
  const ids = reference.input_ids.values;
  const expected = reference.logits.values;
  const model = new Gemma4(folder);
  model.embeddingFactor = findFactor(model, ids.slice(0, 10), expected);
  const worst = worstOf(logitsOf(model, ids), expected);
  assert.ok(worst < 1e-4, `${worst}`);
  return ids;
}

function convert(folder, target, quantisation) {
  const args = ['convert', folder, target, '--quant', quantisation, '--no-tokenizer'];
  execFileSync(weft, args, { stdio: 'ignore' });
}

function evaluate(target, reference, ...options) {
  const args = ['eval', target, '--reference', reference, ...options];
  return JSON.parse(execFileSync(weft, args, { stdio: ['ignore', 'pipe', 'inherit'] }));
}

// onnxruntime has no experts with gelu: the native engine alone, in f32 against the implementation,
// in q8 and q4 against it with the quantised weights, keys and values in f32.
{
  const name = 'gemma4-moe';
  const folder = join(checkpoints, name);
  const isThere = weft && existsSync(folder);
  const skip = isThere ? false : `WEFT names no program, or there is no ${folder}`;
  test(`${name}: transformers, the second implementation and weft agree`, { skip }, () => {
    const ids = expectKnown(folder);
    const work = mkdtempSync(join(tmpdir(), 'weft-gemma4-'));
    try {
      for (const quantisation of ['f32', 'q8', 'q4']) {
        const target = join(work, quantisation);
        convert(folder, target, quantisation);
        const manifestPath = join(target, 'weft.json');
        const manifest = JSON.parse(readFileSync(manifestPath, 'utf8'));
        const factor = Math.sqrt(JSON.parse(readFileSync(join(folder, 'config.json'))).hidden_size);
        assert.equal(factor, 8); // exact in every dtype, so that rounding it changes nothing
        const reference = join(work, `${quantisation}.safetensors`);
        writeOracle(reference, folder, ids, weightsOfPackage(target, folder));
        const exact = { ...manifest, quantisation: 'f32', boundary_dtype: 'f32' };
        writeFileSync(manifestPath, JSON.stringify(exact));
        for (const options of [[], ['--split-everywhere'], ['--reference-kernels']]) {
          const result = evaluate(target, reference, ...options);
          assert.ok(result.max_abs_logit_error < 1e-4, JSON.stringify(result));
          assert.ok(result.greedy_equal, JSON.stringify(result));
        }
      }
      const published = join(work, 'published.safetensors');
      writeOracle(published, folder, ids);
      const result = evaluate(join(work, 'f32'), published);
      assert.ok(result.max_abs_logit_error < 1e-4, JSON.stringify(result));
    } finally {
      rmSync(work, { recursive: true });
    }
  });

  const refused = [
    [{ top_k_experts: 9 }, /'top_k_experts'/],
    [{ num_experts: 1e9 }, /'num_experts'/],
    [{ num_experts: 4 }, /router\.proj\.weight.*expected shape \[4, 64\]/],
    [{ moe_intermediate_size: null }, /'moe_intermediate_size'/],
    [{ moe_intermediate_size: 16 }, /experts\.gate_up_proj.*expected shape \[8, 32, 64\]/],
    [{ hidden_size_per_layer_input: 16 }, /embeddings for each layer/],
    [{ num_kv_shared_layers: 2 }, /share keys and values/],
    [{ num_kv_shared_layers: 99 }, /'num_kv_shared_layers'/],
  ];
  for (const [changes, sentence] of refused) {
    test(`${name} with ${JSON.stringify(changes)} is refused`, { skip }, () => {
      const work = mkdtempSync(join(tmpdir(), 'weft-gemma4-'));
      try {
        copyFileSync(join(folder, 'model.safetensors'), join(work, 'model.safetensors'));
        const config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'));
        writeFileSync(join(work, 'config.json'), JSON.stringify({ ...config, ...changes }));
        const args = ['convert', work, join(work, 'package'), '--no-tokenizer'];
        const run = spawnSync(weft, args, { encoding: 'utf8' });
        assert.notEqual(run.status, 0);
        assert.match(run.stderr, sentence);
      } finally {
        rmSync(work, { recursive: true });
      }
    });
  }
}

for (const name of ['gemma4', 'gemma4-unified']) {
  const folder = join(checkpoints, name);
  const isThere = weft && existsSync(folder);
  const skip = isThere ? false : `WEFT names no program, or there is no ${folder}`;
  test(`${name}: transformers, the second implementation and both engines agree`, { skip }, () => {
    const ids = expectKnown(folder);
    const work = mkdtempSync(join(tmpdir(), 'weft-gemma4-'));
    try {
      const target = join(work, 'checkpoints', name);
      mkdirSync(target, { recursive: true });
      for (const file of ['config.json', 'model.safetensors']) {
        copyFileSync(join(folder, file), join(target, file));
      }
      writeOracle(join(target, 'reference.safetensors'), folder, ids);
      const script = join(root, 'tools', 'convert_oracle', 'check.mjs');
      const options = ['--data', work, '--only', name, '--native', 'yes', '--cuts', 'yes'];
      const run = spawnSync(process.execPath, [script, '--weft', weft, ...options], {
        encoding: 'utf8',
      });
      assert.notEqual(run.stdout, '', run.stderr);
      const { results } = JSON.parse(run.stdout);
      assert.equal(results.length, 4);
      for (const result of results) assert.ok(result.ok, JSON.stringify(result));
      assert.ok(results[0].max_abs_logit_error < 1e-4, JSON.stringify(results[0]));
      assert.ok(results[0].native_max_abs_logit_error < 1e-4, JSON.stringify(results[0]));
      assert.ok(results[0].max_abs_cut_error <= 1e-4, JSON.stringify(results[0]));
    } finally {
      rmSync(work, { recursive: true });
    }
  });
}
