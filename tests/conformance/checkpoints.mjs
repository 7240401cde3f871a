// Every checkpoint of the test data becomes a package in f32, f16, q8 and q4. Its graph in
// onnxruntime (whole, and cut everywhere) and its programs in the native engine (by one worker, and
// by one for each layer) give the logits and greedy tokens that transformers gave; q8 and q4 give
// those of the same model with the quantised weights in f32. tests/data/checkpoints has more of
// them (tools/references), compared in f32: what the test data has not. Variants change a
// configuration, so that transformers has no answer; there the two engines are compared.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const weft = process.env.WEFT;
const data = process.env.WEFT_DATA ?? join(root, 'build', 'test-data');
const checkpoints = join(data, 'checkpoints');

const variants = [
  ['qwen3-moe', 'weights of experts as they are', { norm_topk_prob: false }],
  [
    'gemma3',
    'two bases of rotation',
    {
      layer_types: [
        'sliding_attention',
        'full_attention',
        'sliding_attention',
        'full_attention',
      ],
    },
  ],
];

// Of the families of 2026, `checkpoints-2026` of the test data: those that weft converts.
const recent = [
  ...['cohere2', 'ernie4_5', 'exaone4', 'gemma4', 'gemma4-e', 'gemma4-moe', 'gemma4-unified'],
  ...['gemma4-wrapped', 'glm4', 'granite', 'hunyuan', 'ministral3', 'olmo2', 'olmo3', 'seed-oss'],
  ...['smollm3'],
];

// onnxruntime has neither experts with gelu, nor keys and values of other layers, nor latent
// attention. Gemma's q8 and q4 are compared with a second implementation in gemma4.mjs.
const nativeAlone = {
  'gemma4-e': ['f32', 'f16'],
  'gemma4-moe': ['f32', 'f16'],
  'deepseek-v3-fp8': ['f32'],
};

/** Logits and greedy tokens of the native engine alone, whole and cut at every layer. */
function expectNative(folder, quantisation) {
  const work = mkdtempSync(join(tmpdir(), 'weft-native-'));
  try {
    const target = join(work, 'package');
    const run = (...args) => {
      const { status, stdout, stderr } = spawnSync(weft, args, { encoding: 'utf8' });
      assert.equal(status, 0, stderr);
      return stdout;
    };
    run('convert', folder, target, '--quant', quantisation, '--no-tokenizer');
    for (const split of [[], ['--split-everywhere']]) {
      const reference = ['--reference', join(folder, 'reference.safetensors')];
      const result = JSON.parse(run('eval', target, ...reference, ...split));
      // The weights are bf16, which f16 holds; its keys and values round.
      const limit = quantisation === 'f32' ? 1e-4 : 3e-2;
      assert.ok(result.max_abs_logit_error <= limit, JSON.stringify(result));
      if (quantisation === 'f32') assert.ok(result.greedy_equal, JSON.stringify(result));
    }
  } finally {
    rmSync(work, { recursive: true });
  }
}

function check(folder, name, ...options) {
  const script = join(root, 'tools', 'convert_oracle', 'check.mjs');
  const args = [script, '--weft', weft, '--data', folder, '--only', name, '--native', 'yes'];
  const run = spawnSync(process.execPath, [...args, ...options], { encoding: 'utf8' });
  assert.notEqual(run.stdout, '', run.stderr);
  return JSON.parse(run.stdout).results;
}

/** A folder like the test data's with one checkpoint, whose configuration is changed. */
function makeVariant(name, changes) {
  const folder = mkdtempSync(join(tmpdir(), 'weft-variant-'));
  const target = join(folder, 'checkpoints', name);
  mkdirSync(target, { recursive: true });
  for (const file of ['model.safetensors', 'reference.safetensors']) {
    copyFileSync(join(checkpoints, name, file), join(target, file));
  }
  const config = JSON.parse(readFileSync(join(checkpoints, name, 'config.json'), 'utf8'));
  writeFileSync(join(target, 'config.json'), JSON.stringify({ ...config, ...changes }));
  return folder;
}

const ours = join(root, 'tests', 'data');
// A text beyond the original context is rotated by another table, which `--context` chooses.
const references = [
  ['reference.safetensors', []],
  ['reference_long.safetensors', ['--context', '512']],
];
for (const name of readdirSync(join(ours, 'checkpoints')).sort()) {
  for (const [file, options] of references) {
    if (!existsSync(join(ours, 'checkpoints', name, file))) continue;
    const skip = weft ? false : 'WEFT does not name the weft program';
    if (nativeAlone[name]) {
      test(`${name}, ${file}: f32, the native engine`, { skip }, () => {
        expectNative(join(ours, 'checkpoints', name), 'f32');
      });
      continue;
    }
    test(`${name}, ${file}: f32, two engines`, { skip }, () => {
      const f32 = ['--quant', 'f32', '--cuts', 'yes'];
      const [result] = check(ours, name, ...f32, '--reference', file, ...options);
      assert.ok(result.ok, JSON.stringify(result));
      assert.ok(result.max_abs_cut_error <= 1e-4, JSON.stringify(result));
    });
  }
}

if (!weft || !existsSync(checkpoints)) {
  const reason = weft ? `no checkpoints in ${checkpoints}` : 'WEFT does not name the weft program';
  test('checkpoints convert and run', { skip: reason }, () => {});
} else {
  const known = existsSync(join(data, 'checkpoints-2026')) ? recent : [];
  const folders = [
    ...readdirSync(checkpoints).sort().map((name) => [name, 'checkpoints']),
    ...known.map((name) => [name, 'checkpoints-2026']),
  ];
  for (const [name, folder] of folders) {
    for (const quantisation of nativeAlone[name] ?? []) {
      test(`${name} in ${quantisation}: the native engine and transformers`, () => {
        expectNative(join(data, folder, name), quantisation);
      });
    }
    if (nativeAlone[name]) continue;
    test(`${name}: packages in four formats, two engines`, () => {
      const results = check(data, name, '--cuts', 'yes', '--folder', folder);
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
  for (const [name, what, changes] of variants) {
    test(`${name}, ${what}: the engines agree`, () => {
      const folder = makeVariant(name, changes);
      try {
        const [result] = check(folder, name, '--quant', 'q8');
        assert.ok(result.ok, JSON.stringify(result));
        // The change is one that counts.
        assert.ok(result.max_abs_error_of_quantising > 1, JSON.stringify(result));
      } finally {
        rmSync(folder, { recursive: true });
      }
    });
  }
}
