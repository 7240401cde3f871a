// Writes GGUF files: values, tensors, and a Hugging Face checkpoint as llama.cpp's converter names,
// orders and permutes its parts.
import { openSync, writeSync, closeSync } from 'node:fs';
import { blockTypes } from './gguf_blocks.mjs';
import {
  familyArchitectures,
  familyMetadata,
  familyNames,
  familyTensors,
  permuted,
} from './gguf_families.mjs';
import {
  gemma4Metadata,
  hasDeltaNet,
  recentMetadata,
  recentNames,
  recentTensors,
} from './gguf_recent.mjs';

const alignment = 32;

function u32(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
function u64(value) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}
function text(value) {
  const bytes = Buffer.from(value);
  return Buffer.concat([u64(bytes.length), bytes]);
}
function f32(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
}

/** A value of the metadata: { raw } is type and bytes as they are. */
function value(item) {
  if (item.raw) return item.raw;
  if (item.bools) {
    const bytes = Buffer.from(item.bools.map((one) => (one ? 1 : 0)));
    return Buffer.concat([u32(9), u32(7), u64(bytes.length), bytes]);
  }
  if (item.u32s) {
    return Buffer.concat([u32(9), u32(4), u64(item.u32s.length), ...item.u32s.map(u32)]);
  }
  if (item.u16 !== undefined) {
    return Buffer.concat([u32(2), Buffer.from([item.u16, item.u16 >> 8])]);
  }
  if (item.u32 !== undefined) return Buffer.concat([u32(4), u32(item.u32)]);
  if (item.i32 !== undefined) return Buffer.concat([u32(5), u32(item.i32 >>> 0)]);
  if (item.f32 !== undefined) return Buffer.concat([u32(6), f32(item.f32)]);
  if (item.bool !== undefined) return Buffer.concat([u32(7), Buffer.from([item.bool ? 1 : 0])]);
  if (item.text !== undefined) return Buffer.concat([u32(8), text(item.text)]);
  throw new Error(`No value in ${JSON.stringify(item)}.`);
}

const padded = (count) => Math.ceil(count / alignment) * alignment;

/** `metadata`: { key: { u32: 7 } }; `tensors`: [{ name, type, shape, bytes }], outermost first. */
export function writeGguf(path, metadata, tensors) {
  const parts = [Buffer.from('GGUF'), u32(3), u64(tensors.length)];
  parts.push(u64(Object.keys(metadata).length));
  for (const [key, item] of Object.entries(metadata)) parts.push(text(key), value(item));
  let offset = 0;
  for (const { name, type, shape, bytes } of tensors) {
    parts.push(text(name), u32(shape.length), ...shape.toReversed().map(u64));
    parts.push(u32(blockTypes[type].number), u64(offset));
    offset += padded(bytes.length);
  }
  const header = Buffer.concat(parts);
  const file = openSync(path, 'w');
  const put = (bytes) => {
    writeSync(file, bytes);
    writeSync(file, Buffer.alloc(padded(bytes.length) - bytes.length));
  };
  put(header);
  for (const { bytes } of tensors) put(bytes);
  closeSync(file);
}

/** llama.cpp rotates neighbouring rows of q and k: (2, n / 2) of each head becomes (n / 2, 2). */
function permute(values, rows, headRows) {
  const columns = values.length / rows;
  const out = new Float32Array(values.length);
  for (let row = 0; row < rows; ++row) {
    const head = row - (row % headRows);
    const within = row % headRows;
    const half = headRows / 2;
    const place = within < half ? 2 * within : 2 * (within - half) + 1;
    out.set(values.slice(row * columns, (row + 1) * columns), (head + place) * columns);
  }
  return out;
}

const architectures = {
  llama: 'llama',
  mistral: 'llama',
  mixtral: 'llama',
  phi3: 'phi3',
  qwen2: 'qwen2',
  qwen3: 'qwen3',
  qwen3_moe: 'qwen3moe',
  gemma2: 'gemma2',
  gemma3_text: 'gemma3',
  gpt_oss: 'gpt-oss',
  qwen3_5_text: 'qwen35',
  qwen3_5_moe_text: 'qwen35moe',
  qwen3_next: 'qwen3next',
  glm4_moe: 'glm4moe',
  glm4_moe_lite: 'deepseek2',
  deepseek_v2: 'deepseek2',
  deepseek_v3: 'deepseek2',
  mistral4: 'mistral4',
  gemma4_text: 'gemma4',
  ...familyArchitectures,
};

const outside = {
  'model.embed_tokens.weight': 'token_embd.weight',
  'model.norm.weight': 'output_norm.weight',
  'model.embedding_norm.weight': 'token_embd_norm.weight',
  'backbone.embeddings.weight': 'token_embd.weight',
  'backbone.norm_f.weight': 'output_norm.weight',
  'lm_head.weight': 'output.weight',
  'model.embed_tokens_per_layer.weight': 'per_layer_token_embd.weight',
  'model.per_layer_model_projection.weight': 'per_layer_model_proj.weight',
  'model.per_layer_projection_norm.weight': 'per_layer_proj_norm.weight',
};
const inLayer = {
  input_layernorm: 'attn_norm',
  'self_attn.q_proj': 'attn_q',
  'self_attn.k_proj': 'attn_k',
  'self_attn.v_proj': 'attn_v',
  'self_attn.qkv_proj': 'attn_qkv',
  'self_attn.o_proj': 'attn_output',
  'self_attn.q_norm': 'attn_q_norm',
  'self_attn.k_norm': 'attn_k_norm',
  'self_attn.sinks': 'attn_sinks',
  post_attention_layernorm: 'ffn_norm',
  'mlp.gate_proj': 'ffn_gate',
  'mlp.up_proj': 'ffn_up',
  'mlp.gate_up_proj': 'ffn_up',
  'mlp.down_proj': 'ffn_down',
  'mlp.gate': 'ffn_gate_inp',
  'mlp.router': 'ffn_gate_inp',
  'block_sparse_moe.gate': 'ffn_gate_inp',
};
const gemma = {
  post_attention_layernorm: 'post_attention_norm',
  pre_feedforward_layernorm: 'ffn_norm',
  post_feedforward_layernorm: 'post_ffw_norm',
};
const expertKinds = { w1: 'gate', w2: 'down', w3: 'up' };

const isGemma = (config) => ['gemma2', 'gemma3_text'].includes(config.model_type);

function layerName(config, stem) {
  if (isGemma(config) && gemma[stem]) return gemma[stem];
  if (config.model_type === 'gpt_oss' && stem === 'post_attention_layernorm') {
    return 'post_attention_norm';
  }
  const own = { ...recentNames[config.model_type], ...familyNames[config.model_type] };
  return own[stem] ?? inLayer[stem];
}

/** gpt-oss: [experts, in, 2 out] with gate and up in turns, or [experts, in, out], turned over. */
function* splitGptOssExperts(layer, stem, { dims, values }) {
  const isBias = stem.endsWith('_bias');
  const kinds = stem.startsWith('gate_up') ? ['gate', 'up'] : ['down'];
  const experts = dims[0];
  const wide = dims.at(-1);
  const outputs = wide / kinds.length;
  const inputs = isBias ? 1 : dims[1];
  for (const [k, kind] of kinds.entries()) {
    const turned = new Float32Array(experts * outputs * inputs);
    for (let e = 0; e < experts; ++e) {
      for (let o = 0; o < outputs; ++o) {
        for (let i = 0; i < inputs; ++i) {
          const from = (e * inputs + i) * wide + o * kinds.length + k;
          turned[(e * outputs + o) * inputs + i] = values[from];
        }
      }
    }
    const shape = isBias ? [experts, outputs] : [experts, outputs, inputs];
    const name = `blk.${layer}.ffn_${kind}_exps.${isBias ? 'bias' : 'weight'}`;
    yield { name, shape, values: turned };
  }
}

/** The tensors of a checkpoint ({ name: { dims, values } }) as llama.cpp has them. */
export function ggufTensors(config, checkpoint) {
  const headRows = config.head_dim ?? config.hidden_size / config.num_attention_heads;
  const isPermuted =
    architectures[config.model_type] === 'llama' || permuted.has(config.model_type);
  const tensors = [];
  const stacks = {};
  for (const [name, { dims, values }] of Object.entries(checkpoint)) {
    let own = Float32Array.from(values);
    const isShifted = name.endsWith('norm.weight') && !name.endsWith('linear_attn.norm.weight');
    if (isShifted && (isGemma(config) || hasDeltaNet(config))) own = own.map((w) => 1 + w);
    if (outside[name]) {
      tensors.push({ name: outside[name], shape: dims, values: own });
      continue;
    }
    const [, layer, rest] = /^(?:model|backbone)\.layers\.(\d+)\.(.*)$/.exec(name);
    const tensor = { dims, values: own };
    const recent =
      familyTensors(config, layer, rest, tensor) ?? recentTensors(config, layer, rest, tensor);
    if (recent) {
      tensors.push(...recent);
      continue;
    }
    const expert = /\.experts\.(\d+)\.(\w+?)(?:_proj)?\.weight$/.exec(rest);
    const stacked = /^mlp\.experts\.(\w+)$/.exec(rest);
    if (expert) {
      const stack = `blk.${layer}.ffn_${expertKinds[expert[2]] ?? expert[2]}_exps.weight`;
      (stacks[stack] ??= [])[Number(expert[1])] = { dims, values: own };
    } else if (stacked) {
      tensors.push(...splitGptOssExperts(layer, stacked[1], { dims, values: own }));
    } else {
      const kind = rest.endsWith('.bias') ? '.bias' : '.weight';
      const stem = rest.replace(/\.(weight|bias)$/, '');
      const short = layerName(config, stem);
      if (isPermuted && (short === 'attn_q' || short === 'attn_k')) {
        own = permute(own, dims[0], headRows);
      }
      tensors.push({ name: `blk.${layer}.${short}${kind}`, shape: dims, values: own });
    }
  }
  for (const [name, experts] of Object.entries(stacks)) {
    const all = new Float32Array(experts.length * experts[0].values.length);
    experts.forEach(({ values }, i) => all.set(values, i * values.length));
    tensors.push({ name, shape: [experts.length, ...experts[0].dims], values: all });
  }
  return tensors;
}

/** Llama 3's stretched rotation: llama.cpp has a table of divisors instead of the parameters. */
function llama3Divisors(rope, columns) {
  const divisors = [];
  for (let i = 0; i < columns; i += 2) {
    const wave = 2 * Math.PI * rope.rope_theta ** (i / columns);
    const low = rope.original_max_position_embeddings / rope.low_freq_factor;
    const high = rope.original_max_position_embeddings / rope.high_freq_factor;
    if (wave < high) divisors.push(1);
    else if (wave > low) divisors.push(rope.factor);
    else {
      const smooth =
        (rope.original_max_position_embeddings / wave - rope.low_freq_factor) /
        (rope.high_freq_factor - rope.low_freq_factor);
      divisors.push(1 / ((1 - smooth) / rope.factor + smooth));
    }
  }
  return Float32Array.from(divisors);
}

/** What llama.cpp's converter writes into the metadata for a config.json, and extra tensors. */
export function ggufMetadata(config) {
  const architecture = architectures[config.model_type];
  const metadata = { 'general.architecture': { text: architecture } };
  const set = (key, item) => (metadata[`${architecture}.${key}`] = item);
  const headColumns = config.head_dim ?? config.hidden_size / config.num_attention_heads;
  const ropes = config.rope_parameters ?? { rope_theta: 10000 };
  const layers = config.num_hidden_layers ?? config.layers_block_type.length;
  const rope = ropes.full_attention ?? ropes;
  // Those of DeepSeek are left out.
  const drafting = architecture === 'deepseek2' ? 0 : (config.num_nextn_predict_layers ?? 0);
  set('block_count', { u32: layers + drafting });
  set('context_length', { u32: config.max_position_embeddings });
  set('embedding_length', { u32: config.hidden_size });
  set('feed_forward_length', { u32: config.intermediate_size });
  set('attention.head_count', { u32: config.num_attention_heads });
  set('attention.head_count_kv', { u32: config.num_key_value_heads });
  set('attention.layer_norm_rms_epsilon', { f32: config.rms_norm_eps });
  set('attention.key_length', { u32: headColumns });
  set('attention.value_length', { u32: headColumns });
  const rotated = headColumns * (rope.partial_rotary_factor ?? 1);
  set('rope.dimension_count', { u32: rotated });
  set('rope.freq_base', { f32: rope.rope_theta });
  set('vocab_size', { u32: config.vocab_size });
  if (ropes.sliding_attention) {
    set('rope.freq_base_swa', { f32: ropes.sliding_attention.rope_theta });
  }
  if (config.sliding_window) set('attention.sliding_window', { u32: config.sliding_window });
  if (config.attn_logit_softcapping) {
    set('attn_logit_softcapping', { f32: config.attn_logit_softcapping });
  }
  if (config.final_logit_softcapping) {
    set('final_logit_softcapping', { f32: config.final_logit_softcapping });
  }
  const experts = config.num_local_experts ?? config.num_experts ?? config.n_routed_experts;
  if (experts) {
    set('expert_count', { u32: experts });
    set('expert_used_count', { u32: config.num_experts_per_tok });
    const width = config.moe_intermediate_size ?? config.intermediate_size;
    set('expert_feed_forward_length', { u32: width });
  }
  if (rope.rope_type === 'yarn') {
    set('rope.scaling.type', { text: 'yarn' });
    set('rope.scaling.factor', { f32: rope.factor });
    const original = rope.original_max_position_embeddings;
    set('rope.scaling.original_context_length', { u32: original });
  }
  recentMetadata(config, set);
  familyMetadata(config, set, (key) => delete metadata[`${architecture}.${key}`]);
  const isGemma4 = config.model_type === 'gemma4_text';
  const extra = isGemma4 ? [gemma4Metadata(config, set)] : [];
  // The block that drafts, of which only that it is there matters.
  for (let i = 0; i < drafting; ++i) {
    const name = `blk.${layers + i}.nextn.enorm.weight`;
    const values = new Float32Array(config.hidden_size).fill(1);
    extra.push({ name, shape: [values.length], values });
  }
  if (rope.rope_type === 'llama3') {
    const values = llama3Divisors(rope, headColumns);
    extra.push({ name: 'rope_freqs.weight', shape: [values.length], values });
  }
  return { metadata, extra };
}
