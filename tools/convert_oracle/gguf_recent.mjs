// What llama.cpp's converter does to the families of 2026: names, orders and metadata of Gated
// DeltaNet (qwen35, qwen35moe, qwen3next), of GLM-4.5 (glm4moe), of latent attention (deepseek2,
// mistral4) and of Gemma 4 (gemma4).

const deltaNames = {
  post_attention_layernorm: 'post_attention_norm',
  'linear_attn.in_proj_qkv': 'attn_qkv',
  'linear_attn.in_proj_z': 'attn_gate',
  'linear_attn.in_proj_a': 'ssm_alpha',
  'linear_attn.in_proj_b': 'ssm_beta',
  'linear_attn.in_proj_ba': 'ssm_ba',
  'linear_attn.conv1d': 'ssm_conv1d',
  'linear_attn.norm': 'ssm_norm',
  'linear_attn.out_proj': 'ssm_out',
  'mlp.shared_expert_gate': 'ffn_gate_inp_shexp',
  'mlp.shared_expert.gate_proj': 'ffn_gate_shexp',
  'mlp.shared_expert.up_proj': 'ffn_up_shexp',
  'mlp.shared_expert.down_proj': 'ffn_down_shexp',
};
const glmNames = {
  post_attention_layernorm: 'post_attention_norm',
  'mlp.shared_experts.gate_proj': 'ffn_gate_shexp',
  'mlp.shared_experts.up_proj': 'ffn_up_shexp',
  'mlp.shared_experts.down_proj': 'ffn_down_shexp',
};

const latentNames = {
  'self_attn.q_a_proj': 'attn_q_a',
  'self_attn.q_a_layernorm': 'attn_q_a_norm',
  'self_attn.q_b_proj': 'attn_q_b',
  'self_attn.kv_a_proj_with_mqa': 'attn_kv_a_mqa',
  'self_attn.kv_a_layernorm': 'attn_kv_a_norm',
  ...glmNames,
  post_attention_layernorm: 'ffn_norm',
};

const gemma4Names = {
  post_attention_layernorm: 'post_attention_norm',
  pre_feedforward_layernorm: 'ffn_norm',
  post_feedforward_layernorm: 'post_ffw_norm',
  pre_feedforward_layernorm_2: 'pre_ffw_norm_2',
  post_feedforward_layernorm_1: 'post_ffw_norm_1',
  post_feedforward_layernorm_2: 'post_ffw_norm_2',
  'router.proj': 'ffn_gate_inp',
  per_layer_input_gate: 'inp_gate',
  per_layer_projection: 'proj',
  post_per_layer_input_norm: 'post_norm',
};

/** Names of the families that have some of their own, by model_type. */
export const recentNames = {
  qwen3_5_text: deltaNames,
  qwen3_5_moe_text: deltaNames,
  qwen3_next: deltaNames,
  glm4_moe: glmNames,
  glm4_moe_lite: latentNames,
  deepseek_v2: latentNames,
  deepseek_v3: latentNames,
  mistral4: latentNames,
  gemma4_text: gemma4Names,
};

// Tensors of Gemma 4 whose names end otherwise than in "weight", here or there.
const gemma4Vectors = {
  layer_scalar: 'layer_output_scale.weight',
  'router.scale': 'ffn_gate_inp.scale',
  'router.per_expert_scale': 'ffn_down_exps.scale',
  'experts.gate_up_proj': 'ffn_gate_up_exps.weight',
  'experts.down_proj': 'ffn_down_exps.weight',
};

const tiled = (config) => config.model_type.startsWith('qwen3_5');

export const hasDeltaNet = (config) => tiled(config) || config.model_type === 'qwen3_next';

const product = (numbers) => numbers.reduce((a, b) => a * b, 1);

/**
 * Value heads of `size` values, of which those of one key head are neighbours, dealt out to the
 * key heads in turns: head i of key head k goes to place i * keyHeads + k. `values` are
 * [outer, heads, size].
 */
function deal(config, values, size) {
  const { linear_num_key_heads: keyHeads, linear_num_value_heads: heads } = config;
  const group = heads / keyHeads;
  const out = new Float32Array(values.length);
  for (let start = 0; start < values.length; start += heads * size) {
    for (let head = 0; head < heads; ++head) {
      const place = (head % group) * keyHeads + Math.floor(head / group);
      const own = values.subarray(start + head * size, start + (head + 1) * size);
      out.set(own, start + place * size);
    }
  }
  return out;
}

/** [q | k | v] by rows of `columns`: the rows of v are dealt out. */
function dealValues(config, values, columns) {
  const keys = 2 * config.linear_num_key_heads * config.linear_key_head_dim * columns;
  const out = Float32Array.from(values);
  out.set(deal(config, values.subarray(keys), config.linear_value_head_dim * columns), keys);
  return out;
}

function dealTensor(config, stem, { dims, values }) {
  const columns = product(dims.slice(1));
  const valueColumns = config.linear_value_head_dim;
  switch (stem) {
    case 'in_proj_qkv':
    case 'conv1d':
      return dealValues(config, values, columns);
    case 'in_proj_z':
      return deal(config, values, valueColumns * columns);
    case 'in_proj_a':
    case 'in_proj_b':
      return deal(config, values, columns);
    case 'A_log':
    case 'dt_bias':
      return deal(config, values, 1);
    case 'out_proj':
      return deal(config, values, valueColumns);
    default:
      return values;
  }
}

/** Qwen3-Next's rows, key head by key head [q | k | v | z], as [q | k | v] of all and z of all. */
function* unpack(config, layer, { dims, values }) {
  const columns = dims[1];
  const keyHeads = config.linear_num_key_heads;
  const key = config.linear_key_head_dim;
  const value = (config.linear_num_value_heads / keyHeads) * config.linear_value_head_dim;
  const stretch = 2 * key + 2 * value;
  const rows = (first, count) => {
    const parts = [];
    for (let head = 0; head < keyHeads; ++head) {
      const from = (head * stretch + first) * columns;
      parts.push(...values.subarray(from, from + count * columns));
    }
    return parts;
  };
  const tensor = (name, all) => {
    const shape = [all.length / columns, columns];
    return { name: `blk.${layer}.${name}.weight`, shape, values: Float32Array.from(all) };
  };
  yield tensor('attn_qkv', [...rows(0, key), ...rows(key, key), ...rows(2 * key, value)]);
  yield tensor('attn_gate', rows(2 * key + value, value));
}

/** [k | v] of every head: k transposed, [heads, rank, nope], and v, [heads, columns, rank]. */
function splitHeads(config, prefix, { values }) {
  const { num_attention_heads: heads, kv_lora_rank: rank, qk_nope_head_dim: nope } = config;
  const columns = config.v_head_dim;
  const k = new Float32Array(heads * rank * nope);
  const v = new Float32Array(heads * columns * rank);
  for (let head = 0; head < heads; ++head) {
    const start = head * (nope + columns) * rank;
    for (let row = 0; row < nope; ++row) {
      for (let i = 0; i < rank; ++i) {
        k[(head * rank + i) * nope + row] = values[start + row * rank + i];
      }
    }
    const end = start + (nope + columns) * rank;
    v.set(values.subarray(start + nope * rank, end), head * columns * rank);
  }
  return [
    { name: `${prefix}attn_k_b.weight`, shape: [heads, rank, nope], values: k },
    { name: `${prefix}attn_v_b.weight`, shape: [heads, columns, rank], values: v },
  ];
}

/**
 * The tensors of a recent family that are not only renamed, or nothing. `rest` is the name in
 * its layer.
 */
export function recentTensors(config, layer, rest, tensor) {
  const prefix = `blk.${layer}.`;
  if (rest === 'mlp.gate.e_score_correction_bias') {
    return [{ name: `${prefix}exp_probs_b.bias`, shape: tensor.dims, values: tensor.values }];
  }
  if (config.model_type === 'gemma4_text' && gemma4Vectors[rest]) {
    const name = `${prefix}${gemma4Vectors[rest]}`;
    return [{ name, shape: tensor.dims, values: tensor.values }];
  }
  // One row, which the loader wants as a vector.
  if (rest === 'mlp.shared_expert_gate.weight') {
    const shape = [tensor.dims[1]];
    return [{ name: `${prefix}ffn_gate_inp_shexp.weight`, shape, values: tensor.values }];
  }
  if (rest === 'self_attn.kv_b_proj.weight') return splitHeads(config, prefix, tensor);
  const delta = /^linear_attn\.(\w+)(\.weight)?$/.exec(rest);
  if (!delta) return undefined;
  const [, stem] = delta;
  if (stem === 'in_proj_qkvz') return [...unpack(config, layer, tensor)];
  const values = tiled(config) ? dealTensor(config, stem, tensor) : tensor.values;
  if (stem === 'A_log') {
    const decay = values.map((a) => -Math.exp(a));
    return [{ name: `${prefix}ssm_a`, shape: tensor.dims, values: decay }];
  }
  if (stem === 'dt_bias') return [{ name: `${prefix}ssm_dt.bias`, shape: tensor.dims, values }];
  const shape = tensor.dims.filter((n) => n !== 1);
  return [{ name: `${prefix}${deltaNames[`linear_attn.${stem}`]}.weight`, shape, values }];
}

/** The heads of a layer of Gemma 4, as config.json has them in its newer form. */
function gemma4Heads(config, layer) {
  const own = config.per_layer_config[layer] ?? {};
  return {
    columns: own.head_dim ?? config.head_dim,
    kvHeads: own.num_key_value_heads ?? config.num_key_value_heads,
  };
}

/** Gemma 4's metadata; returns its table of divisors, which are 1 where pairs of columns turn. */
export function gemma4Metadata(config, set) {
  const { layer_types: types, rope_parameters: ropes } = config;
  const sliding = types.map((type) => type === 'sliding_attention');
  const layers = types.map((_, layer) => gemma4Heads(config, layer));
  const full = layers[sliding.lastIndexOf(false)].columns;
  const own = config.num_hidden_layers - (config.num_kv_shared_layers ?? 0);
  set('attention.shared_kv_layers', { u32: config.num_kv_shared_layers ?? 0 });
  const columns = config.hidden_size_per_layer_input ?? 0;
  set('embedding_length_per_layer_input', { u32: columns });
  set('attention.sliding_window_pattern', { bools: sliding });
  set('attention.key_length', { u32: full });
  set('attention.value_length', { u32: full });
  set('attention.key_length_swa', { u32: config.head_dim });
  set('attention.value_length_swa', { u32: config.head_dim });
  set('rope.dimension_count', { u32: full });
  set('rope.dimension_count_swa', { u32: config.head_dim });
  set('attention.head_count_kv', { u32s: layers.map(({ kvHeads }) => kvHeads) });
  if (config.use_double_wide_mlp) {
    const width = config.intermediate_size;
    const widths = types.map((_, layer) => (layer < own ? width : 2 * width));
    set('feed_forward_length', { u32s: widths });
  }
  if (config.enable_moe_block) {
    set('expert_count', { u32: config.num_experts });
    set('expert_used_count', { u32: config.top_k_experts });
    set('expert_feed_forward_length', { u32: config.moe_intermediate_size });
  }
  const turning = Math.floor((full * ropes.full_attention.partial_rotary_factor) / 2);
  const divisors = Float32Array.from({ length: full / 2 }, (_, i) => (i < turning ? 1 : 1e30));
  return { name: 'rope_freqs.weight', shape: [divisors.length], values: divisors };
}

/** Adds what the families have in their metadata. */
export function recentMetadata(config, set) {
  if (hasDeltaNet(config)) {
    const width = config.linear_num_value_heads * config.linear_value_head_dim;
    const interval = config.layer_types.indexOf('full_attention') + 1;
    set('ssm.conv_kernel', { u32: config.linear_conv_kernel_dim });
    set('ssm.state_size', { u32: config.linear_key_head_dim });
    set('ssm.group_count', { u32: config.linear_num_key_heads });
    set('ssm.time_step_rank', { u32: config.linear_num_value_heads });
    set('ssm.inner_size', { u32: width });
    set('full_attention_interval', { u32: interval });
  }
  if (config.shared_expert_intermediate_size) {
    const width = config.shared_expert_intermediate_size;
    set('expert_shared_feed_forward_length', { u32: width });
  }
  if (!config.n_routed_experts) return;
  const isLatent = config.kv_lora_rank !== undefined;
  if (isLatent) {
    const { kv_lora_rank: rank, qk_rope_head_dim: rotated } = config;
    set('attention.head_count_kv', { u32: 1 });
    set('attention.q_lora_rank', { u32: config.q_lora_rank });
    set('attention.kv_lora_rank', { u32: rank });
    set('attention.key_length', { u32: rank + rotated });
    set('attention.value_length', { u32: rank });
    set('attention.key_length_mla', { u32: config.qk_nope_head_dim + rotated });
    set('attention.value_length_mla', { u32: config.v_head_dim });
    set('rope.dimension_count', { u32: rotated });
    set('expert_group_count', { u32: config.n_group });
    set('expert_group_used_count', { u32: config.topk_group });
    const { mscale_all_dim: growth } = config.rope_parameters;
    if (growth) set('rope.scaling.yarn_log_multiplier', { f32: 0.1 * growth });
  }
  set('expert_shared_count', { u32: config.n_shared_experts });
  set('leading_dense_block_count', { u32: config.first_k_dense_replace });
  const isSoftmax = ['deepseek_v2', 'mistral4'].includes(config.model_type);
  set('expert_gating_func', { u32: isSoftmax ? 1 : 2 });
  const { llama_4_scaling_beta: beta } = config.rope_parameters ?? {};
  if (beta) set('attention.temperature_scale', { f32: beta });
  set('expert_weights_scale', { f32: config.routed_scaling_factor });
  set('expert_weights_norm', { bool: config.norm_topk_prob });
  if (!isLatent) set('nextn_predict_layers', { u32: config.num_nextn_predict_layers });
}
