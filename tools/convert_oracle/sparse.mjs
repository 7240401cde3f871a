// Decoders whose experts are chosen by scores in groups, with grouped-query or latent attention
// (glm4_moe, deepseek_v2, deepseek_v3, glm4_moe_lite, mistral4), in doubles: written from the
// published formulas and from no part of weft. Keys and values of latent attention are spelt out
// for every head, as the papers have them; weft folds those products into the query and the output.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readSafetensors } from '../onnx_check/reference.mjs';
import { readWeights, toFloats } from './dequantize.mjs';

/** W x (+ b), for W [rows, columns]. */
function product({ dims: [rows, columns], values }, x, bias) {
  const y = new Array(rows).fill(0);
  for (let i = 0; i < rows; ++i) {
    for (let j = 0; j < columns; ++j) y[i] += values[i * columns + j] * x[j];
    if (bias) y[i] += bias.values[i];
  }
  return y;
}

function sum(a, b) {
  return a.map((value, i) => value + b[i]);
}

function dot(a, b) {
  return a.reduce((all, value, i) => all + value * b[i], 0);
}

function sigmoid(x) {
  return 1 / (1 + Math.exp(-x));
}

function softmax(x) {
  const most = Math.max(...x);
  const shares = x.map((value) => Math.exp(value - most));
  const whole = shares.reduce((all, share) => all + share, 0);
  return shares.map((share) => share / whole);
}

/** The indices of the `count` greatest values; among equals the lower one. */
function greatest(values, count) {
  const order = values.map((_, i) => i).sort((a, b) => values[b] - values[a] || a - b);
  return order.slice(0, count);
}

/** Turns the first columns of a head: as halves, or as neighbouring pairs. */
function rotate(x, position, { frequencies, scale }, interleaved) {
  const half = frequencies.length;
  const y = [...x];
  frequencies.forEach((frequency, i) => {
    const [a, b] = interleaved ? [2 * i, 2 * i + 1] : [i, i + half];
    const cos = Math.cos(position * frequency) * scale;
    const sin = Math.sin(position * frequency) * scale;
    y[a] = x[a] * cos - x[b] * sin;
    y[b] = x[b] * cos + x[a] * sin;
  });
  return y;
}

function yarnScale(factor, share) {
  return factor <= 1 ? 1 : 0.1 * share * Math.log(factor) + 1;
}

/** The frequencies of `columns` rotated columns, plain or stretched by yarn. */
function rotationOf(rope, columns) {
  const { rope_type: type = 'default', rope_theta: theta } = rope;
  const plain = Array.from({ length: columns / 2 }, (_, i) => theta ** ((-2 * i) / columns));
  if (type === 'default') return { frequencies: plain, scale: 1 };
  if (type !== 'yarn') throw new Error(`A rotation of type ${type}.`);
  const { factor, beta_fast: fast = 32, beta_slow: slow = 1 } = rope;
  const context = rope.original_max_position_embeddings;
  // The pair that turns `turns` times within the original context.
  const pairOf = (turns) =>
    (columns * Math.log(context / (turns * 2 * Math.PI))) / (2 * Math.log(theta));
  const low = Math.max(0, Math.floor(pairOf(fast)));
  const high = Math.min(columns - 1, Math.ceil(pairOf(slow)));
  const frequencies = plain.map((frequency, i) => {
    const stretched = Math.min(1, Math.max(0, (i - low) / Math.max(high - low, 0.001)));
    return (frequency / factor) * stretched + frequency * (1 - stretched);
  });
  const { mscale, mscale_all_dim: all } = rope;
  const scale = mscale && all ? yarnScale(factor, mscale) / yarnScale(factor, all) : null;
  return { frequencies, scale: rope.attention_factor ?? scale ?? yarnScale(factor, 1) };
}

/** Row blocks of a matrix, or of stacked ones: `count` of `rows` rows from `first` on. */
function rowsOf({ dims, values }, first, rows) {
  const columns = dims.at(-1);
  return { dims: [rows, columns], values: values.slice(first * columns, (first + rows) * columns) };
}

/** k_b [heads * rank, nope] and v_b [heads * value, rank] as one kv_b, head by head. */
function joinedHeads(k, v, config) {
  const { kv_lora_rank: rank, qk_nope_head_dim: nope, v_head_dim: value } = config;
  const values = [];
  for (let head = 0; head < config.num_attention_heads; ++head) {
    for (let i = 0; i < nope; ++i) {
      for (let j = 0; j < rank; ++j) values.push(k.values[(head * rank + j) * nope + i]);
    }
    for (const x of rowsOf(v, head * value, value).values) values.push(x);
  }
  return { dims: [config.num_attention_heads * (nope + value), rank], values };
}

/** The rows of two matrices, head by head: those of the first, then those of the second. */
function inTurn(a, b, { num_attention_heads: heads }) {
  const [rowsA, rowsB] = [a, b].map(({ dims }) => dims[0] / heads);
  const values = [];
  for (let head = 0; head < heads; ++head) {
    for (const x of rowsOf(a, head * rowsA, rowsA).values) values.push(x);
    for (const x of rowsOf(b, head * rowsB, rowsB).values) values.push(x);
  }
  return { dims: [a.dims[0] + b.dims[0], a.dims[1]], values };
}

/** The weights of a package, which may be quantised, under the names of a checkpoint. */
export function weightsOfPackage(folder, config) {
  const weights = {};
  const stored = readWeights({ folder, manifest: readJson(join(folder, 'weft.json')) });
  for (const [name, weight] of Object.entries(stored)) {
    const tensor = { dims: weight.shape, values: toFloats(weight) };
    const expert = /^(.*\.experts\.)(gate_up|down)_proj\.weight$/.exec(name);
    if (!expert) {
      const plain = name.replace('.router.choice_bias', '.router.e_score_correction_bias');
      weights[plain.replace('.router.', '.gate.')] = tensor;
      continue;
    }
    const [, prefix, matrix] = expert;
    const [count, rows] = weight.shape;
    for (let e = 0; e < count; ++e) {
      const parts = matrix === 'down' ? ['down'] : ['gate', 'up'];
      const each = rows / parts.length;
      parts.forEach((part, i) => {
        weights[`${prefix}${e}.${part}_proj.weight`] = rowsOf(tensor, e * rows + i * each, each);
      });
    }
  }
  for (const [name, k] of Object.entries(weights)) {
    if (!name.endsWith('.k_b_proj.weight')) continue;
    const v = weights[name.replace('k_b_proj', 'v_b_proj')];
    weights[name.replace('k_b_proj', 'kv_b_proj')] = joinedHeads(k, v, config);
    const part = (kind) => weights[name.replace('k_b_proj', `q_b_${kind}`)];
    const query = config.q_lora_rank ? 'q_b_proj' : 'q_proj';
    weights[name.replace('k_b_proj', query)] = inTurn(part('nope'), part('rope'), config);
    const key = weights[name.replace('k_b_proj', 'kv_a_proj')];
    const { kv_lora_rank: rank, qk_rope_head_dim: rope } = config;
    const values = [...rowsOf(key, rope, rank).values, ...rowsOf(key, 0, rope).values];
    weights[name.replace('k_b_proj', 'kv_a_proj_with_mqa')] = { dims: key.dims, values };
  }
  return weights;
}

function readJson(path) {
  return JSON.parse(readFileSync(path, 'utf8'));
}

/** The decoder of a folder; `weights` instead of those that lie in it. */
export class SparseDecoder {
  constructor(folder, weights) {
    this.config = readJson(join(folder, 'config.json'));
    this.weights = weights ?? readSafetensors(join(folder, 'model.safetensors'));
    this.isLatent = this.config.kv_lora_rank !== undefined;
    const { config } = this;
    const share = config.rope_parameters.partial_rotary_factor ?? 1;
    const columns = this.isLatent ? config.qk_rope_head_dim : config.head_dim * share;
    this.rotation = rotationOf(config.rope_parameters, columns);
    this.clear();
  }

  clear() {
    this.position = 0;
    this.cache = Array.from({ length: this.config.num_hidden_layers }, () => []);
  }

  /** The logits after one more token. */
  next(token) {
    const { hidden_size: hidden } = this.config;
    const table = this.weights['model.embed_tokens.weight'];
    let row = [...table.values.slice(token * hidden, (token + 1) * hidden)];
    for (let i = 0; i < this.cache.length; ++i) row = this.#layer(i, row);
    this.position += 1;
    const head = this.config.tie_word_embeddings ? table : this.weights['lm_head.weight'];
    return product(head, this.#norm(row, this.weights['model.norm.weight']));
  }

  #norm(x, weight, epsilon = this.config.rms_norm_eps) {
    const factor = 1 / Math.sqrt(dot(x, x) / x.length + epsilon);
    return x.map((value, i) => value * factor * weight.values[i]);
  }

  #layer(index, row) {
    const prefix = `model.layers.${index}.`;
    const norm = (x, name) => this.#norm(x, this.weights[`${prefix}${name}.weight`]);
    const x = norm(row, 'input_layernorm');
    const attention = this.isLatent ? this.#latent(index, x) : this.#grouped(index, x);
    row = sum(row, attention);
    const y = norm(row, 'post_attention_layernorm');
    const isSparse = this.weights[`${prefix}mlp.gate.weight`] !== undefined;
    return sum(row, isSparse ? this.#experts(prefix, y) : this.#mlp(`${prefix}mlp.`, y));
  }

  #mlp(path, x) {
    const up = product(this.weights[`${path}up_proj.weight`], x);
    const gate = product(this.weights[`${path}gate_proj.weight`], x);
    const gated = gate.map((value, i) => value * sigmoid(value) * up[i]);
    return product(this.weights[`${path}down_proj.weight`], gated);
  }

  #experts(prefix, x) {
    const { config } = this;
    const logits = product(this.weights[`${prefix}mlp.gate.weight`], x);
    const bias = this.weights[`${prefix}mlp.gate.e_score_correction_bias`];
    const isSoftmax = config.model_type === 'deepseek_v2' || config.model_type === 'mistral4';
    const scores = isSoftmax ? softmax(logits) : logits.map(sigmoid);
    let choice = scores.map((score, i) => score + (bias ? bias.values[i] : 0));
    const groups = config.topk_method === 'greedy' ? 1 : (config.n_group ?? 1);
    if (groups > 1) {
      const members = choice.length / groups;
      const best = config.model_type === 'deepseek_v2' ? 1 : 2;
      const worth = Array.from({ length: groups }, (_, g) => {
        const group = choice.slice(g * members, (g + 1) * members).sort((a, b) => b - a);
        return group.slice(0, best).reduce((all, value) => all + value, 0);
      });
      const kept = greatest(worth, config.topk_group);
      choice = choice.map((value, i) => (kept.includes(Math.floor(i / members)) ? value : 0));
    }
    const chosen = greatest(choice, config.num_experts_per_tok);
    const whole = chosen.reduce((all, expert) => all + scores[expert], 0);
    const divisor = config.norm_topk_prob ? whole + 1e-20 : 1;
    let out = x.map(() => 0);
    if (config.n_shared_experts) out = this.#mlp(`${prefix}mlp.shared_experts.`, x);
    for (const expert of chosen) {
      const factor = (scores[expert] / divisor) * config.routed_scaling_factor;
      const y = this.#mlp(`${prefix}mlp.experts.${expert}.`, x);
      out = sum(
        out,
        y.map((value) => value * factor),
      );
    }
    return out;
  }

  /** softmax(q . k scale) v of one head, with its keys and values of all positions. */
  #attend(q, keys, values, scale) {
    const shares = softmax(keys.map((k) => dot(q, k) * scale));
    return values[0].map((_, j) =>
      shares.reduce((all, share, t) => all + share * values[t][j], 0),
    );
  }

  #grouped(index, x) {
    const { config } = this;
    const path = `model.layers.${index}.self_attn.`;
    const columns = config.head_dim;
    const heads = (name) => {
      const { [`${path}${name}.weight`]: weight, [`${path}${name}.bias`]: bias } = this.weights;
      const y = product(weight, x, bias);
      return Array.from({ length: y.length / columns }, (_, i) =>
        y.slice(i * columns, (i + 1) * columns),
      );
    };
    const turned = (name) =>
      heads(`${name}_proj`).map((head) => {
        const weight = this.weights[`${path}${name}_norm.weight`];
        const normed = weight ? this.#norm(head, weight) : head;
        return rotate(normed, this.position, this.rotation, false);
      });
    const cache = this.cache[index];
    cache.push({ k: turned('k'), v: heads('v_proj') });
    const group = config.num_attention_heads / config.num_key_value_heads;
    const out = turned('q').flatMap((q, i) => {
      const of = (kind) => cache.map((entry) => entry[kind][Math.floor(i / group)]);
      return this.#attend(q, of('k'), of('v'), 1 / Math.sqrt(columns));
    });
    return product(this.weights[`${path}o_proj.weight`], out);
  }

  #latent(index, x) {
    const { config } = this;
    const path = `model.layers.${index}.self_attn.`;
    const weight = (name) => this.weights[`${path}${name}.weight`];
    const bias = (name) => this.weights[`${path}${name}.bias`];
    const { qk_nope_head_dim: nope, qk_rope_head_dim: rope, kv_lora_rank: rank } = config;
    const value = config.v_head_dim;
    const interleaved = config.rope_interleave ?? true;
    const turn = (part) => rotate(part, this.position, this.rotation, interleaved);
    const low = weight('q_a_proj')
      ? this.#norm(product(weight('q_a_proj'), x, bias('q_a_proj')), weight('q_a_layernorm'), 1e-6)
      : x;
    const queries = product(weight('q_a_proj') ? weight('q_b_proj') : weight('q_proj'), low);
    const both = product(weight('kv_a_proj_with_mqa'), x, bias('kv_a_proj_with_mqa'));
    // These two norms have an epsilon of their own, whatever the configuration says.
    const latent = this.#norm(both.slice(0, rank), weight('kv_a_layernorm'), 1e-6);
    const turnedKey = turn(both.slice(rank));
    const expanded = product(weight('kv_b_proj'), latent);
    const stretch = nope + value;
    const perHead = Array.from({ length: config.num_attention_heads }, (_, h) => ({
      k: [...expanded.slice(h * stretch, h * stretch + nope), ...turnedKey],
      v: expanded.slice(h * stretch + nope, (h + 1) * stretch),
    }));
    const cache = this.cache[index];
    cache.push(perHead);
    const all = config.rope_parameters.mscale_all_dim ?? 0;
    const isYarn = config.rope_parameters.rope_type === 'yarn';
    const stretched = all && isYarn && config.model_type !== 'mistral4';
    const grown = stretched ? yarnScale(config.rope_parameters.factor, all) : 1;
    const scale = (grown * grown) / Math.sqrt(nope + rope);
    const out = perHead.flatMap((_, h) => {
      const q = queries.slice(h * (nope + rope), (h + 1) * (nope + rope));
      const [keys, values] = ['k', 'v'].map((kind) => cache.map((heads) => heads[h][kind]));
      return this.#attend([...q.slice(0, nope), ...turn(q.slice(nope))], keys, values, scale);
    });
    return product(weight('o_proj'), out, bias('o_proj'));
  }
}
