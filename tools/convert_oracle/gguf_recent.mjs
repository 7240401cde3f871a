// What llama.cpp's converter does to the families of 2026: names, orders and metadata of Gated
// DeltaNet (qwen35, qwen35moe, qwen3next), of GLM-4.5 (glm4moe) and of latent attention
// (deepseek2).

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

/** Names of the families that have some of their own, by model_type. */
export const recentNames = {
  qwen3_5_text: deltaNames,
  qwen3_5_moe_text: deltaNames,
  qwen3_next: deltaNames,
  glm4_moe: glmNames,
  glm4_moe_lite: latentNames,
  deepseek_v2: latentNames,
  deepseek_v3: latentNames,
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
  set('expert_gating_func', { u32: config.model_type === 'deepseek_v2' ? 1 : 2 });
  set('expert_weights_scale', { f32: config.routed_scaling_factor });
  set('expert_weights_norm', { bool: config.norm_topk_prob });
  if (!isLatent) set('nextn_predict_layers', { u32: config.num_nextn_predict_layers });
}
