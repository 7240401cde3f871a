// Checkpoints with recurrent layers, which onnxruntime has no operators for: the programs in the
// native engine, by one worker and by one for each layer, with vectors and scalar, give the logits
// and greedy tokens that transformers gave in f32; f16 stays as near as rounding weights allows.
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
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const weft = process.env.WEFT;
const data = process.env.WEFT_DATA ?? join(root, 'build', 'test-data');
const checkpoints = join(data, 'checkpoints-2026');
const work = mkdtempSync(join(tmpdir(), 'weft-recurrent-'));
after(() => rmSync(work, { recursive: true }));

const names = [
  ...['qwen3_5', 'qwen3_5-moe', 'qwen3-next'],
  ...['lfm2', 'lfm2-moe', 'granite-h', 'nemotron-h'],
];
const limits = { f32: 1e-4, f16: 3e-2 };

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
  mkdirSync(target, { recursive: true });
  copyFileSync(join(checkpoints, name, 'model.safetensors'), join(target, 'model.safetensors'));
  const config = JSON.parse(readFileSync(join(checkpoints, name, 'config.json'), 'utf8'));
  writeFileSync(join(target, 'config.json'), JSON.stringify({ ...config, ...changes }));
  return target;
}

// What is wrong with a configuration is said in a sentence.
const refused = [
  ['qwen3_5', { layer_types: ['linear_attention'] }, /'layer_types'.* has 1 entries for 4 layers/],
  [
    'qwen3_5',
    { layer_types: Array(4).fill('chunked_attention') },
    /names "chunked_attention"; expected linear_attention or full_attention/,
  ],
  ['qwen3_5', { linear_num_value_heads: 3 }, /2 'linear_num_key_heads' and 3/],
  ['qwen3_5', { linear_num_key_heads: 1e9 }, /'linear_num_key_heads'/],
  ['qwen3_5', { linear_key_head_dim: 100000 }, /'linear_key_head_dim'/],
  ['qwen3_5', { linear_value_head_dim: 0 }, /'linear_value_head_dim'/],
  ['qwen3_5', { linear_conv_kernel_dim: 1 }, /'linear_conv_kernel_dim'/],
  ['qwen3_5', { linear_conv_kernel_dim: 5 }, /conv1d\.weight' .*expected shape \[128, 1, 5\]/],
  ['qwen3_5', { linear_num_value_heads: 8 }, /in_proj_qkv\.weight' .*expected shape \[192, 64\]/],
  ['qwen3_5', { full_attention_interval: 0 }, /'full_attention_interval'/],
  ['nemotron-h', { num_hidden_layers: 7 }, /'layers_block_type'.* has 6 entries for 7 layers/],
  ['nemotron-h', { use_bias: true }, /lacks the tensor .*in_proj\.bias/],
  ['nemotron-h', { n_groups: 3 }, /in 3 groups; expected a multiple of the groups/],
  ['nemotron-h', { moe_latent_size: 32 }, /'moe_latent_size'/],
  ['nemotron-h', { mlp_hidden_act: 'silu' }, /'mlp_hidden_act' .* is 'silu'; weft converts relu2/],
];

if (!weft || !existsSync(checkpoints)) {
  const reason = weft ? `no checkpoints in ${checkpoints}` : 'WEFT does not name the weft program';
  test('recurrent checkpoints convert and run', { skip: reason }, () => {});
} else {
  for (const name of names) {
    for (const [quantisation, limit] of Object.entries(limits)) {
      test(`${name} in ${quantisation}: what transformers gave`, () => {
        const target = join(work, `${name}-${quantisation}`);
        const report = convert(join(checkpoints, name), target, quantisation);
        assert.ok(report.lowered, report.why_not_lowered);
        const reference = join(checkpoints, name, 'reference.safetensors');
        const exact = quantisation === 'f32';
        const ways = exact ? [[], ['--split-everywhere'], ['--reference-kernels']] : [[]];
        for (const options of ways) {
          const result = evaluate(target, reference, ...options);
          assert.ok(result.max_abs_logit_error <= limit, JSON.stringify(result));
          if (exact) assert.ok(result.greedy_equal, JSON.stringify(result));
        }
      });
    }
  }
  for (const [name, changes, sentence] of refused) {
    test(`${name} with ${JSON.stringify(changes)} is refused`, () => {
      const args = ['convert', variant(name, changes), join(work, 'refused'), '--no-tokenizer'];
      const run = spawnSync(weft, args, { encoding: 'utf8' });
      assert.notEqual(run.status, 0);
      assert.match(run.stderr, sentence);
    });
  }
}
