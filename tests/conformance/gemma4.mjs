// Gemma 4 against a second implementation (tools/convert_oracle/gemma4.mjs), which is held against
// transformers' logits first. The second implementation then serves made-up checkpoints, with what
// those of transformers do not have, and quantised weights that onnxruntime cannot run.
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
import { writeRandomGemma4 } from '../../tools/convert_oracle/gemma4_random.mjs';
import { readSafetensors } from '../../tools/onnx_check/reference.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const weft = process.env.WEFT;
const data = process.env.WEFT_DATA ?? join(root, 'build', 'test-data');
const checkpoints = join(data, 'checkpoints-2026');
const greedySteps = 24;

/** Why a test that needs the program and a folder is skipped; false where it is not. */
function missing(folder) {
  return weft && existsSync(folder) ? false : `WEFT names no program, or there is no ${folder}`;
}

function logitsOf(model, ids) {
  model.clear();
  return ids.flatMap((id) => model.next(id));
}

function worstOf(actual, expected) {
  return actual.reduce((worst, value, i) => Math.max(worst, Math.abs(value - expected[i])), 0);
}

/** What the published model answers, as reference.safetensors has it. */
function writeOracle(path, folder, ids, weights) {
  const model = new Gemma4(folder, weights);
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

/** The token ids of a folder's reference, whose logits the second implementation must give. */
function expectTransformers(folder) {
  const reference = readSafetensors(join(folder, 'reference.safetensors'));
  const ids = reference.input_ids.values;
  const worst = worstOf(logitsOf(new Gemma4(folder), ids), reference.logits.values);
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

/**
 * The native engine in f32 against the implementation, in q8 and q4 against it with the quantised
 * weights, keys and values in f32.
 */
function expectAgreement(folder, ids, work) {
  for (const quantisation of ['f32', 'q8', 'q4']) {
    const target = join(work, quantisation);
    convert(folder, target, quantisation);
    const manifestPath = join(target, 'weft.json');
    const manifest = JSON.parse(readFileSync(manifestPath, 'utf8'));
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
}

function inFolder(run) {
  const work = mkdtempSync(join(tmpdir(), 'weft-gemma4-'));
  try {
    run(work);
  } finally {
    rmSync(work, { recursive: true });
  }
}

// onnxruntime has neither experts with gelu nor keys and values of other layers: the native engine
// alone.
for (const name of ['gemma4-moe', 'gemma4-e']) {
  const folder = join(checkpoints, name);
  const skip = missing(folder);
  test(`${name}: transformers, the second implementation and weft agree`, { skip }, () => {
    inFolder((work) => expectAgreement(folder, expectTransformers(folder), work));
  });
}

// What the checkpoints at hand do not have, made of random weights.
const patterns = {
  short: 'sliding_attention full_attention sliding_attention full_attention',
  long: 'sliding_attention sliding_attention full_attention full_attention sliding_attention ' +
    'sliding_attention sliding_attention full_attention',
};
const variants = [
  ['layers share, no embeddings of their own', 'long', { num_kv_shared_layers: 4 }],
  ['one layer shares, wide MLP', 'long', { num_kv_shared_layers: 1, use_double_wide_mlp: true }],
  [
    'embeddings of their own, nothing shared',
    'short',
    { hidden_size_per_layer_input: 64, use_double_wide_mlp: true },
  ],
  [
    'keys are values, shared, a larger table',
    'long',
    {
      attention_k_eq_v: true,
      hidden_size_per_layer_input: 4,
      vocab_size_per_layer_input: 80,
      num_kv_shared_layers: 3,
      num_global_key_value_heads: 1,
    },
  ],
  [
    'experts beside, wrapped with towers, unused keys and values',
    'short',
    {
      wrapped: true,
      enable_moe_block: true,
      num_experts: 4,
      top_k_experts: 2,
      moe_intermediate_size: 32,
      hidden_size_per_layer_input: 16,
      num_kv_shared_layers: 2,
    },
  ],
];
for (const [name, pattern, changes] of variants) {
  test(`Gemma 4 where ${name}`, { skip: missing('.') }, () => {
    inFolder((work) => {
      const folder = join(work, 'checkpoint');
      writeRandomGemma4(folder, patterns[pattern].split(' '), changes);
      const ids = Array.from({ length: 20 }, (_, i) => (i * 37) % 64);
      expectAgreement(folder, ids, work);
    });
  });
}

{
  const name = 'gemma4-moe';
  const folder = join(checkpoints, name);
  const skip = missing(folder);
  const refused = [
    [{ top_k_experts: 9 }, /'top_k_experts'/],
    [{ num_experts: 1e9 }, /'num_experts'/],
    [{ num_experts: 4 }, /router\.proj\.weight.*expected shape \[4, 64\]/],
    [{ moe_intermediate_size: null }, /'moe_intermediate_size'/],
    [{ moe_intermediate_size: 16 }, /experts\.gate_up_proj.*expected shape \[8, 32, 64\]/],
    [{ hidden_size_per_layer_input: 16 }, /lacks the tensor 'model\.embed_tokens_per_layer/],
    [{ hidden_size_per_layer_input: 'x' }, /'hidden_size_per_layer_input'/],
    [{ hidden_size_per_layer_input: 1 << 14, num_hidden_layers: 4000 }, /layer_types/],
    [{ hidden_size_per_layer_input: 16, vocab_size_per_layer_input: 8 }, /8 of \d+ tokens/],
    [{ num_kv_shared_layers: 99 }, /'num_kv_shared_layers'/],
    [{ num_kv_shared_layers: 4 }, /shares the keys and values of an earlier layer/],
    [{ use_double_wide_mlp: 3 }, /'use_double_wide_mlp'/],
    [{ per_layer_config: { 1: { head_dim: 64, depth: 2 } } }, /'depth'/],
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
