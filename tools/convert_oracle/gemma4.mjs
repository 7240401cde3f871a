// The decoder of Gemma 4 (dense, without layers that share keys and values) in doubles, written
// from the published code and from no part of weft: what a checkpoint's logits must be.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readSafetensors } from '../onnx_check/reference.mjs';

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

/** The decoder of a folder; `embeddingFactor` multiplies the rows of the embedding table. */
export class Gemma4 {
  constructor(folder, embeddingFactor) {
    this.config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'));
    this.weights = readSafetensors(join(folder, 'model.safetensors'));
    this.embeddingFactor = embeddingFactor ?? Math.sqrt(this.config.hidden_size);
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
    let row = table.values
      .slice(token * hidden, (token + 1) * hidden)
      .map((value) => value * this.embeddingFactor);
    for (let i = 0; i < this.cache.length; ++i) row = this.#layer(i, row);
    this.position += 1;
    const logits = product(table, this.#norm(row, this.weights['model.norm.weight']));
    return cap ? logits.map((value) => cap * Math.tanh(value / cap)) : logits;
  }

  #norm(x, weight) {
    const square = x.reduce((all, value) => all + value * value, 0) / x.length;
    const factor = 1 / Math.sqrt(square + this.config.rms_norm_eps);
    return x.map((value, i) => value * factor * (weight ? weight.values[i] : 1));
  }

  #layer(index, row) {
    const weight = (name) => this.weights[`model.layers.${index}.${name}`];
    const norm = (x, name) => this.#norm(x, weight(`${name}.weight`));
    const attention = this.#attention(index, norm(row, 'input_layernorm'));
    row = sum(row, norm(attention, 'post_attention_layernorm'));
    const x = norm(row, 'pre_feedforward_layernorm');
    const up = product(weight('mlp.up_proj.weight'), x);
    const gated = product(weight('mlp.gate_proj.weight'), x).map((g, i) => geluTanh(g) * up[i]);
    const mlp = product(weight('mlp.down_proj.weight'), gated);
    row = sum(row, norm(mlp, 'post_feedforward_layernorm'));
    return row.map((value) => value * weight('layer_scalar').values[0]);
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
    const isShared = config.attention_k_eq_v && type !== windowed;
    const values = heads(product(weight(isShared ? 'k_proj' : 'v_proj'), x));
    const cache = this.cache[index];
    cache.push({ k: turned('k'), v: values.map((head) => this.#norm(head)) });
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
