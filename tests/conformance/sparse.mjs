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
const data = process.env.WEFT_DATA ?? join(root, 'build', 'test-data');
const checkpoints = join(data, 'checkpoints-2026');
const work = mkdtempSync(join(tmpdir(), 'weft-sparse-'));
after(() => rmSync(work, { recursive: true }));
const greedySteps = 24;

const names = ['deepseek-v2', 'deepseek-v3', 'glm4-moe', 'glm4-moe-lite'];

// Configurations that no checkpoint has, over the weights of one that fits: the second
// implementation alone is the judge. Nobody has written a checkpoint of mistral4.
const yarn = {
  ...{ rope_type: 'yarn', rope_theta: 10000, factor: 4, original_max_position_embeddings: 64 },
  ...{ beta_fast: 32, beta_slow: 1 },
};
const mistral4 = {
  ...{ model_type: 'mistral4', architectures: ['Mistral4ForCausalLM'], topk_method: undefined },
  ...{ norm_topk_prob: true, max_position_embeddings: 64 },
};
const madeUp = [
  ['mistral4', 'deepseek-v2', mistral4],
  [
    'mistral4 in groups, with yarn',
    'deepseek-v2',
    {
      ...{ ...mistral4, n_group: 4, topk_group: 2, max_position_embeddings: 256 },
      rope_parameters: { ...yarn, mscale: 1, mscale_all_dim: 1, llama_4_scaling_beta: 0.1 },
    },
  ],
  [
    'deepseek_v3 with yarn',
    'deepseek-v3',
    { rope_parameters: { ...yarn, mscale: 1, mscale_all_dim: 1 } },
  ],
  ['deepseek_v3 by halves', 'deepseek-v3', { rope_interleave: false, norm_topk_prob: false }],
  [
    'deepseek_v2 in groups',
    'deepseek-v2',
    { topk_method: 'group_limited_greedy', n_group: 4, topk_group: 2 },
  ],
  ['glm4_moe in groups', 'glm4-moe', { n_group: 4, topk_group: 2, use_qk_norm: true }],
];

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
  ['glm4-moe-lite', { kv_lora_rank: 0 }, /'kv_lora_rank'/],
  ['glm4-moe-lite', { kv_lora_rank: 1e9 }, /'kv_lora_rank'/],
  ['glm4-moe-lite', { kv_lora_rank: 16 }, /kv_a_proj_with_mqa.*expected shape \[24, 64\]/],
  ['glm4-moe-lite', { q_lora_rank: null }, /lacks the tensor '.*self_attn\.q_proj\.weight'/],
  ['glm4-moe-lite', { q_lora_rank: 32 }, /q_a_proj.*expected shape \[32, 64\]/],
  ['glm4-moe-lite', { qk_nope_head_dim: 0 }, /'qk_nope_head_dim'/],
  ['glm4-moe-lite', { qk_rope_head_dim: 7 }, /'qk_rope_head_dim' of 7/],
  ['glm4-moe-lite', { v_head_dim: -1 }, /'v_head_dim'/],
  ['glm4-moe-lite', { v_head_dim: 16 }, /kv_b_proj.*expected shape \[160, 32\]/],
  ['glm4-moe-lite', { mlp_layer_types: ['dense'] }, /'mlp_layer_types'.* has 1 entries for 4/],
  ['glm4-moe-lite', { mlp_layer_types: Array(4).fill('odd') }, /names "odd"; expected dense or/],
  ['deepseek-v2', { topk_method: 'noaux_tc' }, /'topk_method' .* 'noaux_tc'; expected greedy/],
  ['deepseek-v2', { norm_topk_prob: true }, /sets 'norm_topk_prob'/],
  ['deepseek-v2', { mlp_bias: true }, /sets 'mlp_bias'/],
  ['deepseek-v3', { topk_group: 5 }, /'topk_group' 5 of 'n_group' 4/],
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

function testMadeUp(name, source, changes) {
  test(`${name}, over the weights of ${source}: what the second implementation gives`, () => {
    const folder = variant(source, changes);
    const reference = join(folder, 'made-up.safetensors');
    const { input_ids: ids } = readSafetensors(join(checkpoints, source, 'reference.safetensors'));
    writeOracle(reference, new SparseDecoder(folder), ids.values.slice(0, 36));
    expectF32(folder, join(folder, 'package'), reference);
    expectQuantised(folder, join(folder, 'package-q4'), 'q4', ids.values.slice(0, 36));
  });
}

if (!weft || !existsSync(checkpoints)) {
  const reason = weft ? `no checkpoints in ${checkpoints}` : 'WEFT does not name the weft program';
  test('sparse checkpoints convert and run', { skip: reason }, () => {});
} else {
  for (const name of names) testCheckpoint(name);
  for (const [name, source, changes] of madeUp) testMadeUp(name, source, changes);
  for (const [name, changes, sentence] of refused) {
    test(`${name} with ${JSON.stringify(changes)} is refused`, () => {
      const args = ['convert', variant(name, changes), join(work, 'refused'), '--no-tokenizer'];
      const run = spawnSync(weft, args, { encoding: 'utf8' });
      assert.notEqual(run.status, 0);
      assert.match(run.stderr, sentence);
    });
  }
}
