// GGUF files, written by tools/convert_oracle as llama.cpp's converter writes them, become
// packages: with the logits that transformers computed for the same checkpoint, and with exactly
// the weights that the blocks stand for by a second reading of every block type.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readWeights, toFloats } from '../../tools/convert_oracle/dequantize.mjs';
import { blockTypes, decodeTensor, encodeTensor } from '../../tools/convert_oracle/gguf_blocks.mjs';
import { writeRandomGemma4 } from '../../tools/convert_oracle/gemma4_random.mjs';
import { ggufMetadata, ggufTensors, writeGguf } from '../../tools/convert_oracle/gguf_writer.mjs';
import { Package } from '../../tools/convert_oracle/package.mjs';
import { readSafetensors } from '../../tools/onnx_check/reference.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const weft = process.env.WEFT;
const data = process.env.WEFT_DATA ?? join(root, 'build', 'test-data');
const work = mkdtempSync(join(tmpdir(), 'weft-gguf-'));
after(() => rmSync(work, { recursive: true, force: true }));

function convert(source, target, quantisation) {
  const args = ['convert', source, target, '--quant', quantisation, '--json', '--force'];
  const run = spawnSync(weft, args, { encoding: 'utf8' });
  const ok = run.status === 0;
  return { ok, errors: run.stderr, report: ok && JSON.parse(run.stdout) };
}

/** Tensors in `type` where their rows are whole blocks and they are matrices; the rest as F32. */
function encodeAll(tensors, type) {
  return tensors.map(({ name, shape, values }) => {
    const fits = shape.length > 1 && shape.at(-1) % blockTypes[type].values === 0;
    const own = fits && !name.includes('_inp.') ? type : 'F32';
    return { name, type: own, shape, bytes: encodeTensor(own, values) };
  });
}

function writeModel(path, config, checkpoint, type, extra = {}) {
  const { metadata, extra: more } = ggufMetadata(config);
  const tensors = encodeAll([...ggufTensors(config, checkpoint), ...more], type);
  writeGguf(path, { ...metadata, ...extra }, tensors);
  return tensors;
}

/** The logits of a package against what transformers computed. */
function evaluate(folder, reference) {
  const args = ['eval', folder, '--reference', reference];
  const stdio = ['ignore', 'pipe', 'inherit'];
  return JSON.parse(execFileSync(weft, args, { encoding: 'utf8', stdio }));
}

// A model of 256 columns, which the super-blocks need, with every value made up.
const wide = {
  model_type: 'llama', hidden_size: 256, intermediate_size: 512, num_hidden_layers: 1,
  num_attention_heads: 4, num_key_value_heads: 2, head_dim: 64, vocab_size: 64,
  max_position_embeddings: 128, rms_norm_eps: 1e-5, tie_word_embeddings: false,
  rope_parameters: { rope_type: 'default', rope_theta: 10000 },
};

// The same as a mixture of experts.
const wideMixture = {
  ...wide, model_type: 'qwen3_moe', num_hidden_layers: 2, num_experts: 4, num_experts_per_tok: 2,
  moe_intermediate_size: 256, norm_topk_prob: true, decoder_sparse_step: 1, mlp_only_layers: [],
};

/** Calls add(name, ...dims) for every tensor of such a mixture. */
function addMixture(add) {
  add('model.embed_tokens.weight', 64, 256);
  add('model.norm.weight', 256);
  add('lm_head.weight', 64, 256);
  for (const layer of ['model.layers.0.', 'model.layers.1.']) {
    add(`${layer}input_layernorm.weight`, 256);
    add(`${layer}self_attn.q_proj.weight`, 256, 256);
    add(`${layer}self_attn.k_proj.weight`, 128, 256);
    add(`${layer}self_attn.v_proj.weight`, 128, 256);
    add(`${layer}self_attn.o_proj.weight`, 256, 256);
    add(`${layer}self_attn.q_norm.weight`, 64);
    add(`${layer}self_attn.k_norm.weight`, 64);
    add(`${layer}post_attention_layernorm.weight`, 256);
    add(`${layer}mlp.gate.weight`, 4, 256);
    for (const expert of [0, 1, 2, 3]) {
      for (const matrix of ['gate', 'up', 'down']) {
        add(`${layer}mlp.experts.${expert}.${matrix}_proj.weight`, 256, 256);
      }
    }
  }
}

/** `addAll` is given a function that makes up a tensor: add(name, ...dims). */
function madeUp(addAll) {
  let state = 1;
  const random = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32 - 0.5;
  };
  const tensors = {};
  const add = (name, ...dims) => {
    const count = dims.reduce((a, b) => a * b);
    // Rows of very different size, and one of zeros, as real ones have them.
    const values = Float32Array.from({ length: count }, (_, i) => {
      const row = Math.floor(i / dims.at(-1));
      return Math.fround(row === 3 && dims.length > 1 ? 0 : random() * 2 ** -(row % 7));
    });
    tensors[name] = { dims, values };
  };
  addAll(add);
  return tensors;
}

function addWide(add) {
  add('model.embed_tokens.weight', 64, 256);
  add('model.norm.weight', 256);
  add('lm_head.weight', 64, 256);
  const layer = 'model.layers.0.';
  add(`${layer}input_layernorm.weight`, 256);
  add(`${layer}self_attn.q_proj.weight`, 256, 256);
  add(`${layer}self_attn.k_proj.weight`, 128, 256);
  add(`${layer}self_attn.v_proj.weight`, 128, 256);
  add(`${layer}self_attn.o_proj.weight`, 256, 256);
  add(`${layer}post_attention_layernorm.weight`, 256);
  add(`${layer}mlp.gate_proj.weight`, 512, 256);
  add(`${layer}mlp.up_proj.weight`, 512, 256);
  add(`${layer}mlp.down_proj.weight`, 256, 512);
}

// The families of 2026 that GGUF files are read of.
const recent = [
  ...['deepseek-v2', 'deepseek-v3', 'glm4-moe', 'glm4-moe-lite', 'qwen3_5', 'qwen3_5-moe'],
  ...['qwen3-next', 'cohere2', 'ernie4_5', 'exaone4', 'glm4', 'granite', 'granite-h', 'hunyuan'],
  ...['lfm2', 'lfm2-moe', 'ministral3', 'nemotron-h', 'olmo2', 'olmo3', 'seed-oss', 'smollm3'],
];

/** Row of a GGUF matrix of q or k where row `row` of the checkpoint's lies. */
function permutedRow(row) {
  const within = row % 64;
  return row - within + (within < 32 ? 2 * within : 2 * (within - 32) + 1);
}

/** Compares every matrix of a package with the blocks of the file; returns the largest error. */
function compareWeights(folder, tensors, names) {
  const weights = readWeights(new Package(folder));
  let worst = 0;
  for (const { name, type, shape, bytes } of tensors) {
    const expected = decodeTensor(type, bytes);
    const weight = weights[names[name]];
    assert.ok(weight, `${folder} has no ${names[name]}`);
    const actual = toFloats(weight);
    const columns = shape.at(-1);
    assert.equal(actual.length, expected.length);
    const isPermuted = /attn_[qk]\./.test(name);
    for (let i = 0; i < actual.length; ++i) {
      const row = Math.floor(i / columns);
      const from = (isPermuted ? permutedRow(row) : row) * columns + (i % columns);
      worst = Math.max(worst, Math.abs(actual[i] - expected[from]));
    }
  }
  return worst;
}

const wideNames = {
  'token_embd.weight': 'model.embed_tokens.weight',
  'output_norm.weight': 'model.norm.weight',
  'output.weight': 'lm_head.weight',
  'blk.0.attn_norm.weight': 'model.layers.0.input_layernorm.weight',
  'blk.0.attn_q.weight': 'model.layers.0.self_attn.q_proj.weight',
  'blk.0.attn_k.weight': 'model.layers.0.self_attn.k_proj.weight',
  'blk.0.attn_v.weight': 'model.layers.0.self_attn.v_proj.weight',
  'blk.0.attn_output.weight': 'model.layers.0.self_attn.o_proj.weight',
  'blk.0.ffn_norm.weight': 'model.layers.0.post_attention_layernorm.weight',
  'blk.0.ffn_gate.weight': 'model.layers.0.mlp.gate_proj.weight',
  'blk.0.ffn_up.weight': 'model.layers.0.mlp.up_proj.weight',
  'blk.0.ffn_down.weight': 'model.layers.0.mlp.down_proj.weight',
};
const kept = {
  F32: 'f32', F16: 'f16', BF16: 'bf16', Q8_0: 'q8', Q4_0: 'q4', Q5_0: 'q8', MXFP4: 'q8',
};

/** Gate and up of a layer's experts in one tensor, as files of stacked checkpoints have them. */
function joinExperts(tensors) {
  return tensors.flatMap((gate) => {
    if (gate.name.includes('ffn_up_exps')) return [];
    if (!gate.name.includes('ffn_gate_exps')) return [gate];
    const up = tensors.find(({ name }) => name === gate.name.replace('gate', 'up'));
    const [experts, rows, columns] = gate.shape;
    const size = rows * columns;
    const values = new Float32Array(2 * gate.values.length);
    for (let expert = 0; expert < experts; ++expert) {
      const own = ({ values: all }) => all.subarray(expert * size, (expert + 1) * size);
      values.set(own(gate), 2 * expert * size);
      values.set(own(up), (2 * expert + 1) * size);
    }
    const name = gate.name.replace('ffn_gate_exps', 'ffn_gate_up_exps');
    return [{ name, shape: [experts, 2 * rows, columns], values }];
  });
}

/** The logits of two packages, whichever kernels compute the first, differ by 2% at most. */
function expectNearLogits(folder, exact) {
  const logitsOf = (path, ...args) => {
    const ids = ['--prompt-ids', '3,14,15,9,26,5,35,8,9,7,9,32', '--max-tokens', '1'];
    const run = ['generate', path, ...ids, '--json', '--logits', ...args];
    return JSON.parse(execFileSync(weft, run, { encoding: 'utf8' })).logits.flat();
  };
  const expected = logitsOf(exact);
  const largest = Math.max(...expected.map(Math.abs));
  for (const kernels of [[], ['--reference-kernels']]) {
    const got = logitsOf(folder, ...kernels);
    assert.equal(got.length, expected.length);
    const worst = Math.max(...got.map((value, i) => Math.abs(value - expected[i])));
    assert.ok(worst < 0.02 * largest, `${worst} of ${largest} ${kernels}`);
  }
}

// Largest error of eight bits for values up to 0.5.
const q8Step = 0.5 / 127;

if (!weft) {
  test('GGUF files become packages', { skip: 'WEFT does not name the weft program' }, () => {});
} else {
  const checkpoint = madeUp(addWide);
  for (const type of Object.keys(blockTypes)) {
    test(`${type}: the package holds what the blocks stand for`, () => {
      const source = join(work, `wide-${type}.gguf`);
      const tensors = writeModel(source, wide, checkpoint, type);
      const f32 = join(work, `wide-${type}-f32`);
      assert.ok(convert(source, f32, 'f32').ok);
      assert.equal(compareWeights(f32, tensors, wideNames), 0);
      const keep = join(work, `wide-${type}-keep`);
      const { ok, errors, report } = convert(source, keep, 'keep');
      assert.ok(ok, errors);
      const exact = kept[type] !== undefined;
      assert.equal(report.quantisation, kept[type] ?? 'q8');
      assert.equal(errors.includes(`${type} -> q8 (9 tensors, not bit-exact)`), !exact, errors);
      const worst = compareWeights(keep, tensors, wideNames);
      if (exact) assert.equal(worst, 0);
      else assert.ok(worst > 0 && worst < q8Step, `${worst}`);
    });
  }

  const kQuants = { Q4_K: 'q4k', Q5_K: 'q5k', Q6_K: 'q6k' };
  for (const [type, form] of Object.entries(kQuants)) {
    test(`${type}: keep-k keeps every bit, and the answers are those of its values`, () => {
      const source = join(work, `wide-${type}.gguf`);
      const tensors = writeModel(source, wide, checkpoint, type);
      const keep = join(work, `wide-${type}-keep-k`);
      const { ok, errors, report } = convert(source, keep, 'keep-k');
      assert.ok(ok, errors);
      assert.equal(report.quantisation, 'mixed-k');
      assert.ok(!errors.includes('not bit-exact'), errors);
      const weights = readWeights(new Package(keep));
      const isKept = ({ name }) =>
        /token_embd|output\.weight|blk.*(attn_[qkvo]|ffn_(gate|up|down))/.test(name);
      const matrices = tensors.filter(isKept);
      assert.equal(matrices.length, 9);
      for (const { name } of matrices) assert.equal(weights[wideNames[name]].dtype, form);
      assert.equal(compareWeights(keep, matrices, wideNames), 0);
      // The same values in f32: rows of 16 bits are the only difference.
      const f32 = join(work, `wide-${type}-as-f32`);
      const plain = join(work, `wide-${type}-plain.gguf`);
      const decoded = tensors.map(({ name, type: its, shape, bytes }) => {
        const values = decodeTensor(its, bytes);
        return { name, type: 'F32', shape, bytes: encodeTensor('F32', values) };
      });
      writeGguf(plain, ggufMetadata(wide).metadata, decoded);
      assert.ok(convert(plain, f32, 'f32').ok);
      expectNearLogits(keep, f32);
    });
  }

  test('keep-k: matrices of experts have types of their own', () => {
    const mixture = madeUp(addMixture);
    const typeOf = (name) => {
      if (/ffn_down_exps/.test(name)) return name.includes('blk.0') ? 'Q6_K' : 'Q8_0';
      return /attn_[qkvo]|output\.weight|ffn_(gate|up)_exps/.test(name) ? 'Q4_K' : 'F32';
    };
    const all = ggufTensors(wideMixture, mixture).map(({ name, shape, values }) => {
      const type = shape.length > 1 ? typeOf(name) : 'F32';
      return { name, type, shape, bytes: encodeTensor(type, values) };
    });
    const source = join(work, 'mixture.gguf');
    writeGguf(source, ggufMetadata(wideMixture).metadata, all);
    const keep = join(work, 'mixture-keep-k');
    const { ok, errors } = convert(source, keep, 'keep-k');
    assert.ok(ok, errors);
    const weights = readWeights(new Package(keep));
    const dtypes = [0, 1].map((layer) => {
      const own = Object.entries(weights).filter(([name]) => name.includes(`layers.${layer}.`));
      const of = (matrix) => own.find(([name]) => name.includes(`experts.${matrix}`))[1].dtype;
      return [of('gate_up_proj'), of('down_proj')];
    });
    assert.deepEqual(dtypes, [['q4k', 'q6k'], ['q8', 'q8']]);
    const show = ['show', keep, '--errors', source, '--json'];
    const compared = JSON.parse(execFileSync(weft, show, { encoding: 'utf8' }))
      .filter(({ name }) => name.includes('.mlp.experts.'))
      .map(({ name, relative_rms: error }) => [name.slice('model.layers.'.length), error]);
    assert.deepEqual(compared.map(([name]) => name), [
      ...['0.mlp.experts.down_proj.weight', '0.mlp.experts.gate_up_proj.weight'],
      ...['1.mlp.experts.down_proj.weight', '1.mlp.experts.gate_up_proj.weight'],
    ]);
    assert.deepEqual(compared.slice(0, 3).map(([, error]) => error), [0, 0, 0]);
    assert.ok(compared[3][1] > 0 && compared[3][1] < 0.01, `${compared[3]}`); // Q4_K in q8
    // The same values in f32 give nearly the same logits.
    const plain = join(work, 'mixture-plain.gguf');
    const decoded = all.map(({ name, type, shape, bytes }) => {
      const values = decodeTensor(type, bytes);
      return { name, type: 'F32', shape, bytes: encodeTensor('F32', values) };
    });
    writeGguf(plain, ggufMetadata(wideMixture).metadata, decoded);
    const f32 = join(work, 'mixture-f32');
    assert.ok(convert(plain, f32, 'f32').ok);
    expectNearLogits(keep, f32);
  });

  const models = join(data, 'checkpoints');
  const older = existsSync(models) ? readdirSync(models).sort() : [];
  const newer = existsSync(join(data, 'checkpoints-2026')) ? recent : [];
  for (const source of [
    ...older.map((name) => join(models, name)),
    ...newer.map((name) => join(data, 'checkpoints-2026', name)),
  ]) {
    const name = basename(source);
    const config = JSON.parse(readFileSync(join(source, 'config.json'), 'utf8'));
    const [exact, rounded] = newer.includes(name) ? [1e-4, 3e-2] : [1e-3, 2e-2];
    for (const [type, limit] of [['F32', exact], ['F16', rounded]]) {
      test(`${name} in ${type}: logits of transformers`, () => {
        const file = join(work, `${name}-${type}.gguf`);
        writeModel(file, config, readSafetensors(join(source, 'model.safetensors')), type);
        const target = join(work, `${name}-${type}`);
        const { ok, errors, report } = convert(file, target, type === 'F32' ? 'f32' : 'keep');
        assert.ok(ok, errors);
        assert.ok(report.lowered, report.why_not_lowered);
        const result = evaluate(target, join(source, 'reference.safetensors'));
        assert.ok(result.max_abs_logit_error <= limit, JSON.stringify(result));
        if (type === 'F32') assert.ok(result.greedy_equal, JSON.stringify(result));
      });
    }
    // Their rounding may send a token to other experts, so no logits of the exact model.
    for (const type of ['BF16', 'Q8_0']) {
      test(`${name} in ${type}: as converting the values of the blocks`, () => {
        const file = join(work, `${name}-${type}.gguf`);
        const weights = readSafetensors(join(source, 'model.safetensors'));
        const tensors = writeModel(file, config, weights, type);
        const plain = tensors.map(({ name: own, type: its, shape, bytes }) => {
          const values = decodeTensor(its, bytes);
          return { name: own, type: 'F32', shape, bytes: encodeTensor('F32', values) };
        });
        const plainFile = join(work, `${name}-plain.gguf`);
        writeGguf(plainFile, ggufMetadata(config).metadata, plain);
        const [target, plainTarget] = [join(work, `${name}-${type}`), join(work, `${name}-plain`)];
        const { ok, errors } = convert(file, target, 'f32');
        assert.ok(ok, errors);
        assert.ok(convert(plainFile, plainTarget, 'f32').ok);
        const { manifest } = new Package(target);
        assert.ok(manifest.lowered);
        const others = new Package(plainTarget).manifest;
        // Gemma's programs hold a factor that is rounded to the type of the embedding table.
        const programs = new Set([...manifest.layers, ...others.layers].map((l) => l.program));
        const blobs = ({ blobs: all }) => Object.keys(all).filter((hex) => !programs.has(hex));
        assert.deepEqual(blobs(manifest).sort(), blobs(others).sort());
      });
    }
  }
  // What no reference has: yarn, files from before the scores of experts were named, and those
  // with k and v of a head in one tensor. Each must give the blobs that the checkpoint gives,
  // programs included.
  const yarn = {
    ...{ rope_type: 'yarn', rope_theta: 10000, factor: 4, original_max_position_embeddings: 64 },
    ...{ beta_fast: 32, beta_slow: 1, mscale: 1, mscale_all_dim: 1 },
  };
  const asBefore = (metadata) => {
    for (const key of ['key_length', 'value_length']) {
      metadata[`deepseek2.attention.${key}`] = metadata[`deepseek2.attention.${key}_mla`];
      delete metadata[`deepseek2.attention.${key}_mla`];
    }
    metadata['deepseek2.attention.head_count_kv'] = metadata['deepseek2.attention.head_count'];
    delete metadata['deepseek2.expert_gating_func'];
  };
  const groups = { n_group: 4, topk_group: 2, topk_method: 'group_limited_greedy' };
  const mistral4 = {
    ...{ model_type: 'mistral4', architectures: ['Mistral4ForCausalLM'], topk_method: undefined },
    ...{ norm_topk_prob: true, max_position_embeddings: 256, n_group: 1, topk_group: 1 },
    rope_parameters: { ...yarn, llama_4_scaling_beta: 0.5 },
  };
  for (const [name, what, changes, change, rearrange = (all) => all] of [
    ['deepseek-v3', 'yarn', { rope_parameters: yarn }],
    ['deepseek-v3', 'an older file', {}, asBefore],
    ['deepseek-v2', 'an older file', {}, asBefore],
    ['deepseek-v2', 'groups', groups],
    ['deepseek-v2', 'made a mistral4', mistral4],
    ['deepseek-v2', 'made a mistral4 with experts in one tensor', mistral4, undefined, joinExperts],
  ]) {
    const folder = join(data, 'checkpoints-2026', name);
    const skip = existsSync(folder) ? false : `no ${folder}`;
    test(`${name}, ${what}: as the checkpoint`, { skip }, () => {
      const source = mkdtempSync(join(work, 'source-'));
      const config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'));
      Object.assign(config, changes);
      writeFileSync(join(source, 'config.json'), JSON.stringify(config));
      const weights = readSafetensors(join(folder, 'model.safetensors'));
      copyFileSync(join(folder, 'model.safetensors'), join(source, 'model.safetensors'));
      const { metadata } = ggufMetadata(config);
      let tensors = rearrange(ggufTensors(config, weights));
      if (change) {
        change(metadata);
        tensors = tensors.filter((tensor) => !/attn_[kv]_b/.test(tensor.name));
        for (const [own, { dims, values }] of Object.entries(weights)) {
          const [, layer] = /layers\.(\d+)\.self_attn\.kv_b_proj/.exec(own) ?? [];
          if (layer) tensors.push({ name: `blk.${layer}.attn_kv_b.weight`, shape: dims, values });
        }
      }
      const file = join(source, 'model.gguf');
      writeGguf(file, metadata, encodeAll(tensors, 'F32'));
      const [fromGguf, fromFolder] = [join(source, 'a'), join(source, 'b')];
      const { ok, errors } = convert(file, fromGguf, 'f32');
      assert.ok(ok, errors);
      rmSync(file);
      const plain = convert(source, fromFolder, 'f32');
      assert.ok(plain.ok, plain.errors);
      const hex = (target) => Object.keys(new Package(target).manifest.blobs).sort();
      assert.deepEqual(hex(fromGguf), hex(fromFolder));
    });
  }
  // Gemma 4, whose references have another embedding factor than any file tells.
  const gemma4 = (name) => (target) => {
    const folder = join(data, 'checkpoints-2026', name);
    for (const file of ['config.json', 'model.safetensors']) {
      copyFileSync(join(folder, file), join(target, file));
    }
  };
  const types = ['sliding_attention', 'sliding_attention', 'full_attention', 'full_attention'];
  const randomGemma4 = (changes) => (target) => writeRandomGemma4(target, types, changes);
  const inputs = { hidden_size_per_layer_input: 64, vocab_size_per_layer_input: 80 };
  const experts = { num_experts: 4, top_k_experts: 2, moe_intermediate_size: 32 };
  const global = { attention_k_eq_v: true, num_global_key_value_heads: 1 };
  for (const [name, make] of [
    ...(newer.length > 0 ? ['gemma4', 'gemma4-e', 'gemma4-moe'].map((n) => [n, gemma4(n)]) : []),
    ['Gemma 4 with wide MLPs',
      randomGemma4({ use_double_wide_mlp: true, num_kv_shared_layers: 1 })],
    ['Gemma 4 with embeddings for each layer', randomGemma4(inputs)],
    ['Gemma 4 with all of it', randomGemma4({ ...inputs, ...experts, ...global,
      enable_moe_block: true, num_kv_shared_layers: 1 })],
  ]) {
    test(`${name}: as the checkpoint`, () => {
      const source = mkdtempSync(join(work, 'source-'));
      make(source);
      const config = JSON.parse(readFileSync(join(source, 'config.json'), 'utf8'));
      const weights = readSafetensors(join(source, 'model.safetensors'));
      const hex = (target) => Object.keys(new Package(target).manifest.blobs).sort();
      const [fromGguf, fromFolder] = [join(source, 'a'), join(source, 'b')];
      const plain = convert(source, fromFolder, 'f32');
      assert.ok(plain.ok, plain.errors);
      const file = join(work, 'gemma4.gguf');
      writeModel(file, config, weights, 'F32');
      const { ok, errors } = convert(file, fromGguf, 'f32');
      assert.ok(ok, errors);
      assert.deepEqual(hex(fromGguf), hex(fromFolder));
      const [own, other] = [fromGguf, fromFolder].map((target) => new Package(target).manifest);
      assert.deepEqual(own.keep_together, other.keep_together);
      if (config.hidden_size_per_layer_input % 32 !== 0) return;
      const tensors = writeModel(file, config, weights, 'Q8_0');
      const quantised = tensors.filter(({ type }) => type === 'Q8_0').map((t) => t.name);
      assert.ok(quantised.includes('blk.0.attn_q.weight'));
      const hasTable = config.hidden_size_per_layer_input > 0;
      assert.equal(quantised.includes('per_layer_token_embd.weight'), hasTable);
      const read = tensors.map(({ name: its, type, shape, bytes }) => {
        const values = decodeTensor(type, bytes);
        return { name: its, type: 'F32', shape, bytes: encodeTensor('F32', values) };
      });
      const kept = convert(file, fromGguf, 'f32');
      assert.ok(kept.ok, kept.errors);
      writeGguf(file, ggufMetadata(config).metadata, read);
      const again = convert(file, fromFolder, 'f32');
      assert.ok(again.ok, again.errors);
      assert.deepEqual(hex(fromGguf), hex(fromFolder));
    });
  }
  const wrongGemma4 = [
    ['attention.sliding_window_pattern', { bools: [true, true] },
      /'gemma4.attention.sliding_window_p/],
    ['attention.head_count_kv', { u32s: [2, 2, 0, 2] }, /'gemma4.attention.head_count_kv'/],
    ['feed_forward_length', { u32s: [48, 48, 48, 50] }, /an MLP of 50 columns in layer 3/],
    ['attention.shared_kv_layers', { u32: 9 }, /'num_kv_shared_layers'/],
    ['embedding_length_per_layer_input', { u32: 7 }, /per_layer_token_embd.weight/],
    ['attention.key_length', { u32: 64 }, /keys of 64 columns and values of 32/],
    ['attention.key_length_swa', { u32: 0 }, /key_length_swa/],
  ];
  for (const [key, item, sentence] of wrongGemma4) {
    test(`Gemma 4 with ${key} ${JSON.stringify(item)} is refused`, () => {
      const source = mkdtempSync(join(work, 'source-'));
      randomGemma4(inputs)(source);
      const config = JSON.parse(readFileSync(join(source, 'config.json'), 'utf8'));
      const weights = readSafetensors(join(source, 'model.safetensors'));
      const file = join(source, 'wrong.gguf');
      writeModel(file, config, weights, 'F32', { [`gemma4.${key}`]: item });
      const { ok, errors } = convert(file, join(source, 'a'), 'f32');
      assert.ok(!ok);
      assert.match(errors, sentence);
    });
  }
  if (!existsSync(models)) {
    test('checkpoints as GGUF files', { skip: `no checkpoints in ${models}` }, () => {});
  }
}
