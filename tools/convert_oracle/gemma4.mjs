// The decoder of Gemma 4 (dense, with experts beside the MLP, with embeddings for each layer, with
// layers that share keys and values) in doubles, written from the published code and from no part
// of weft: what a checkpoint's logits must be.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readSafetensors } from '../onnx_check/reference.mjs';
import { readWeights, toFloats } from './dequantize.mjs';

const windowed = 'sliding_attention';

/** W x, for W [rows, columns]. */
function product({ dims: [rows, columns], values }, x) {
  const y = new Array(rows).fill(0);
  for (let i = 0; i < rows; ++i) {
    for (let j = 0; j < columns; ++j) y[i] += values[i * columns + j] * x[j];
  }
  return y;
}

function sum(a, b) {
  return a.map((value, i) => value + b[i]);
}

function geluTanh(x) {
  return 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
}

/** Halves of a head, turned by `position` times the frequencies. */
function rotate(x, position, frequencies) {
  const half = frequencies.length;
  const y = [...x];
  frequencies.forEach((frequency, i) => {
    const cos = Math.cos(position * frequency);
    const sin = Math.sin(position * frequency);
    y[i] = x[i] * cos - x[i + half] * sin;
    y[i + half] = x[i + half] * cos + x[i] * sin;
  });
  return y;
}

function frequenciesOf(rope, columns) {
  const { rope_type: type, rope_theta: theta, partial_rotary_factor: share = 1 } = rope;
  const turning = type === 'proportional' ? Math.floor((share * columns) / 2) : columns / 2;
  return Array.from({ length: columns / 2 }, (_, i) =>
    i < turning ? theta ** ((-2 * i) / columns) : 0,
  );
}

/** A model with towers has its decoder one level deeper. */
function decoderWeights(folder) {
  const tensors = Object.entries(readSafetensors(join(folder, 'model.safetensors')));
  return Object.fromEntries(
    tensors.map(([name, tensor]) => [name.replace('model.language_model.', 'model.'), tensor]),
  );
}

/**
 * The weights of a package made of the checkpoint in `folder`, maybe quantised, under the names of
 * the checkpoint. A package has the experts' factors in their matrices.
 */
export function weightsOfPackage(target, folder) {
  const manifest = JSON.parse(readFileSync(join(target, 'weft.json'), 'utf8'));
  const weights = {};
  for (const [name, weight] of Object.entries(readWeights({ folder: target, manifest }))) {
    const tensor = { dims: weight.shape, values: toFloats(weight) };
    const expert = /^(.*)mlp\.(experts\.(gate_up|down)_proj)\.weight$/.exec(name);
    if (expert) weights[`${expert[1]}${expert[2]}`] = tensor;
    else weights[name.replace('mlp.router.weight', 'router.proj.weight')] = tensor;
    if (expert) {
      const ones = new Array(weight.shape[0]).fill(1);
      weights[`${expert[1]}router.per_expert_scale`] = { dims: [ones.length], values: ones };
    }
    if (name.endsWith('router.scale')) {
      tensor.values = tensor.values.map((value) => value * Math.sqrt(weight.shape[0]));
    }
  }
  joinLayerTables(weights);
  const own = decoderWeights(folder);
  for (const [name, tensor] of Object.entries(own)) {
    if (name.endsWith('.layer_scalar')) weights[name] = tensor;
  }
  return weights;
}

/** A package has a table for each layer, a checkpoint one with a row of all layers for a token. */
function joinLayerTables(weights) {
  const tables = [];
  for (let layer = 0; ; ++layer) {
    const name = `model.embed_tokens_per_layer.${layer}.weight`;
    if (!weights[name]) break;
    tables.push(weights[name]);
    delete weights[name];
  }
  if (tables.length === 0) return;
  const [rows, columns] = tables[0].dims;
  const values = new Float32Array(rows * columns * tables.length);
  for (let row = 0; row < rows; ++row) {
    tables.forEach((table, layer) => {
      const from = Array.from(table.values.slice(row * columns, (row + 1) * columns));
      values.set(from, (row * tables.length + layer) * columns);
    });
  }
  const dims = [rows, columns * tables.length];
  weights['model.embed_tokens_per_layer.weight'] = { dims, values };
}

/** The matrix of one expert out of stacked ones. */
function expertOf({ dims: [, rows, columns], values }, expert) {
  const begin = expert * rows * columns;
  return { dims: [rows, columns], values: values.slice(begin, begin + rows * columns) };
}

/** The decoder of a folder, or of other `weights` in place of its own. */
export class Gemma4 {
  constructor(folder, weights) {
    const config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'));
    this.config = config.text_config ?? config;
    this.weights = weights ?? decoderWeights(folder);
    this.clear();
  }

  clear() {
    this.position = 0;
    this.cache = Array.from({ length: this.config.num_hidden_layers }, () => []);
  }

  /** The logits after one more token. */
  next(token) {
    const { hidden_size: hidden, final_logit_softcapping: cap } = this.config;
    const table = this.weights['model.embed_tokens.weight'];
    let row = Array.from(
      table.values.slice(token * hidden, (token + 1) * hidden),
      (value) => value * Math.sqrt(hidden),
    );
    const inputs = this.#layerInputs(token, row);
    for (let i = 0; i < this.cache.length; ++i) row = this.#layer(i, row, inputs?.[i]);
    this.position += 1;
    const logits = product(table, this.#norm(row, this.weights['model.norm.weight']));
    return cap ? logits.map((value) => cap * Math.tanh(value / cap)) : logits;
  }

  #norm(x, weight) {
    const square = x.reduce((all, value) => all + value * value, 0) / x.length;
    const factor = 1 / Math.sqrt(square + this.config.rms_norm_eps);
    return x.map((value, i) => value * factor * (weight ? weight.values[i] : 1));
  }

  /** What each layer mixes in at its end; undefined where layers have no embeddings. */
  #layerInputs(token, embedded) {
    const { hidden_size: hidden, num_hidden_layers: count } = this.config;
    const columns = this.config.hidden_size_per_layer_input;
    if (!columns) return undefined;
    const table = this.weights['model.embed_tokens_per_layer.weight'];
    const contexts = product(this.weights['model.per_layer_model_projection.weight'], embedded);
    const norm = this.weights['model.per_layer_projection_norm.weight'];
    return Array.from({ length: count }, (_, layer) => {
      const begin = layer * columns;
      const context = contexts.slice(begin, begin + columns).map((x) => x / Math.sqrt(hidden));
      const first = token * count * columns + begin;
      return this.#norm(context, norm).map(
        (x, i) => (x + Math.sqrt(columns) * table.values[first + i]) / Math.SQRT2,
      );
    });
  }

  /** The layer whose keys and values a layer attends to. */
  #sourceOf(index) {
    const { num_kv_shared_layers: sharing = 0, layer_types: types } = this.config;
    const own = types.length - sharing;
    return index < own ? index : types.slice(0, own).lastIndexOf(types[index]);
  }

  #layer(index, row, input) {
    const weight = (name) => this.weights[`model.layers.${index}.${name}`];
    const norm = (x, name) => this.#norm(x, weight(`${name}.weight`));
    const attention = this.#attention(index, norm(row, 'input_layernorm'));
    row = sum(row, norm(attention, 'post_attention_layernorm'));
    const x = norm(row, 'pre_feedforward_layernorm');
    const up = product(weight('mlp.up_proj.weight'), x);
    const gated = product(weight('mlp.gate_proj.weight'), x).map((g, i) => geluTanh(g) * up[i]);
    let mlp = product(weight('mlp.down_proj.weight'), gated);
    if (this.config.enable_moe_block) {
      const experts = this.#experts(weight, row, norm(row, 'pre_feedforward_layernorm_2'));
      mlp = sum(
        norm(mlp, 'post_feedforward_layernorm_1'),
        norm(experts, 'post_feedforward_layernorm_2'),
      );
    }
    row = sum(row, norm(mlp, 'post_feedforward_layernorm'));
    if (input) {
      const gate = product(weight('per_layer_input_gate.weight'), row);
      const mixed = gate.map((g, i) => geluTanh(g) * input[i]);
      const out = product(weight('per_layer_projection.weight'), mixed);
      row = sum(row, norm(out, 'post_per_layer_input_norm'));
    }
    return row.map((value) => value * weight('layer_scalar').values[0]);
  }

  /** `row` chooses, `x` is what the experts take. */
  #experts(weight, row, x) {
    const scale = weight('router.scale').values;
    const factor = 1 / Math.sqrt(row.length);
    const normed = this.#norm(row).map((value, i) => value * scale[i] * factor);
    const logits = product(weight('router.proj.weight'), normed);
    const order = logits.map((_, i) => i).sort((a, b) => logits[b] - logits[a] || a - b);
    const chosen = order.slice(0, this.config.top_k_experts);
    const shares = chosen.map((expert) => Math.exp(logits[expert] - logits[chosen[0]]));
    const whole = shares.reduce((all, share) => all + share, 0);
    let out = x.map(() => 0);
    chosen.forEach((expert, i) => {
      const both = product(expertOf(weight('experts.gate_up_proj'), expert), x);
      const width = both.length / 2;
      const gated = both.slice(0, width).map((g, j) => geluTanh(g) * both[width + j]);
      const y = product(expertOf(weight('experts.down_proj'), expert), gated);
      const share = (shares[i] / whole) * weight('router.per_expert_scale').values[expert];
      out = sum(
        out,
        y.map((value) => value * share),
      );
    });
    return out;
  }

  #attention(index, x) {
    const { config } = this;
    const weight = (name) => this.weights[`model.layers.${index}.self_attn.${name}.weight`];
    const type = config.layer_types[index];
    const own = config.per_layer_config[index] ?? {};
    const columns = own.head_dim ?? config.head_dim;
    const kvHeads = own.num_key_value_heads ?? config.num_key_value_heads;
    const frequencies = frequenciesOf(config.rope_parameters[type], columns);
    const heads = (y) =>
      Array.from({ length: y.length / columns }, (_, i) =>
        y.slice(i * columns, (i + 1) * columns),
      );
    const turned = (name) =>
      heads(product(weight(`${name}_proj`), x)).map((head) =>
        rotate(this.#norm(head, weight(`${name}_norm`)), this.position, frequencies),
      );
    const source = this.#sourceOf(index);
    const cache = this.cache[source];
    if (source === index) {
      const isOne = config.attention_k_eq_v && type !== windowed;
      const values = heads(product(weight(isOne ? 'k_proj' : 'v_proj'), x));
      cache.push({ k: turned('k'), v: values.map((head) => this.#norm(head)) });
    }
    const first = type === windowed ? Math.max(0, cache.length - config.sliding_window) : 0;
    const seen = cache.slice(first);
    const out = turned('q').flatMap((q, i) => {
      const kv = Math.floor(i / (config.num_attention_heads / kvHeads));
      const scores = seen.map(({ k }) => q.reduce((all, a, j) => all + a * k[kv][j], 0));
      const most = Math.max(...scores);
      const shares = scores.map((score) => Math.exp(score - most));
      const whole = shares.reduce((all, share) => all + share, 0);
      return q.map((_, j) =>
        shares.reduce((all, share, t) => all + (share / whole) * seen[t].v[kv][j], 0),
      );
    });
    return product(weight('o_proj'), out);
  }
}
