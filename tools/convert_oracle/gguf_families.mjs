// What llama.cpp's converter does to dense families beside Llama's, and to those that have layers
// of short convolutions (lfm2, lfm2moe) or of Mamba2 (granitehybrid, nemotron_h_moe): names,
// shapes, metadata.

const afterNames = {
  post_attention_layernorm: 'post_attention_norm',
  post_feedforward_layernorm: 'post_ffw_norm',
};
const lfm2Names = {
  operator_norm: 'attn_norm',
  ffn_norm: 'ffn_norm',
  'self_attn.out_proj': 'attn_output',
  'self_attn.q_layernorm': 'attn_q_norm',
  'self_attn.k_layernorm': 'attn_k_norm',
  'conv.in_proj': 'shortconv.in_proj',
  'conv.conv': 'shortconv.conv',
  'conv.out_proj': 'shortconv.out_proj',
  'feed_forward.gate': 'ffn_gate_inp',
  'feed_forward.w1': 'ffn_gate',
  'feed_forward.w2': 'ffn_down',
  'feed_forward.w3': 'ffn_up',
};
const graniteNames = {
  'mamba.in_proj': 'ssm_in',
  'mamba.conv1d': 'ssm_conv1d',
  'mamba.norm': 'ssm_norm',
  'mamba.out_proj': 'ssm_out',
  'block_sparse_moe.router.layer': 'ffn_gate_inp',
  'block_sparse_moe.output_linear': 'ffn_down_exps',
};

const nemotronNames = {
  norm: 'attn_norm',
  'mixer.q_proj': 'attn_q',
  'mixer.k_proj': 'attn_k',
  'mixer.v_proj': 'attn_v',
  'mixer.o_proj': 'attn_output',
  'mixer.in_proj': 'ssm_in',
  'mixer.conv1d': 'ssm_conv1d',
  'mixer.out_proj': 'ssm_out',
  'mixer.gate': 'ffn_gate_inp',
  'mixer.up_proj': 'ffn_up',
  'mixer.down_proj': 'ffn_down',
  'mixer.shared_experts.up_proj': 'ffn_up_shexp',
  'mixer.shared_experts.down_proj': 'ffn_down_shexp',
};

/** Names of tensors that families have of their own, by model_type. */
export const familyNames = {
  olmo2: afterNames,
  olmo3: afterNames,
  exaone4: afterNames,
  seed_oss: { post_attention_layernorm: 'post_attention_norm' },
  glm4: {
    post_self_attn_layernorm: 'post_attention_norm',
    post_mlp_layernorm: 'post_ffw_norm',
  },
  hunyuan_v1_dense: {
    'self_attn.query_layernorm': 'attn_q_norm',
    'self_attn.key_layernorm': 'attn_k_norm',
  },
  lfm2: lfm2Names,
  lfm2_moe: lfm2Names,
  granitemoehybrid: graniteNames,
  nemotron_h: nemotronNames,
};

/** general.architecture by model_type. */
export const familyArchitectures = {
  cohere2: 'cohere2',
  ernie4_5: 'ernie4_5',
  exaone4: 'exaone4',
  glm4: 'glm4',
  granite: 'granite',
  granitemoehybrid: 'granitehybrid',
  hunyuan_v1_dense: 'hunyuan-dense',
  lfm2: 'lfm2',
  lfm2_moe: 'lfm2moe',
  ministral3: 'mistral3',
  nemotron_h: 'nemotron_h_moe',
  olmo2: 'olmo2',
  olmo3: 'olmo2',
  seed_oss: 'seed_oss',
  smollm3: 'smollm3',
};

/** Whose rows of q and k the converter puts into the order of neighbouring columns. */
export const permuted = new Set([
  ...['granite', 'granitemoehybrid', 'ministral3', 'nemotron_h', 'smollm3'],
]);

/** [experts, 2 rows, columns] or [2 rows, columns] cut into its halves. */
function halves({ dims, values }) {
  const rows = dims.at(-2) / 2;
  const size = rows * dims.at(-1);
  const shape = [...dims.slice(0, -2), rows, dims.at(-1)];
  const half = (which) => {
    const out = new Float32Array(values.length / 2);
    for (let at = 0; at < out.length; at += size) {
      out.set(values.subarray(2 * at + which * size, 2 * at + (which + 1) * size), at);
    }
    return { shape, values: out };
  };
  return [half(0), half(1)];
}

/** The tensors of a name in a layer that is not only renamed, or nothing. */
export function familyTensors(config, layer, rest, { dims, values }) {
  const block = (name, shape = dims, own = values) =>
    ({ name: `blk.${layer}.${name}`, shape, values: own });
  const hasExperts = (config.num_local_experts ?? 0) > 0;
  switch (rest) {
    case 'feed_forward.expert_bias':
      return [block('exp_probs_b.bias')];
    case 'conv.conv.weight':
      return [block('shortconv.conv.weight', [dims[0], dims[2]])];
    case 'mamba.conv1d.weight':
    case 'mixer.conv1d.weight':
      return [block('ssm_conv1d.weight', [dims[0], dims[2]])];
    case 'mamba.A_log':
    case 'mixer.A_log':
      return [block('ssm_a', [dims[0], 1], values.map((a) => -Math.exp(a)))];
    case 'mamba.D':
    case 'mixer.D':
      return [block('ssm_d', [dims[0], 1])];
    case 'mamba.dt_bias':
    case 'mixer.dt_bias':
      return [block('ssm_dt.bias')];
    case 'mixer.gate.e_score_correction_bias':
      return [block('exp_probs_b.bias')];
    case 'mamba.norm.weight':
    case 'mixer.norm.weight': {
      const groups = config.mamba_n_groups ?? config.n_groups;
      return [block('ssm_norm.weight', [groups, dims[0] / groups])];
    }
    case 'block_sparse_moe.input_linear.weight': {
      const [gate, up] = halves({ dims, values });
      return [
        block('ffn_gate_exps.weight', gate.shape, gate.values),
        block('ffn_up_exps.weight', up.shape, up.values),
      ];
    }
    case 'shared_mlp.input_linear.weight': {
      const [gate, up] = halves({ dims, values });
      const end = hasExperts ? '_shexp.weight' : '.weight';
      return [
        block(`ffn_gate${end}`, gate.shape, gate.values),
        block(`ffn_up${end}`, up.shape, up.values),
      ];
    }
    case 'shared_mlp.output_linear.weight':
      return [block(hasExperts ? 'ffn_down_shexp.weight' : 'ffn_down.weight')];
    default:
      return undefined;
  }
}

function hybridMetadata(config, set) {
  const attends = (type) => ['full_attention', 'attention'].includes(type);
  const heads = config.layer_types.map((type) => (attends(type) ? config.num_key_value_heads : 0));
  set('attention.head_count_kv', { u32s: heads });
}

function mambaMetadata(config, set) {
  set('ssm.conv_kernel', { u32: config.mamba_d_conv });
  set('ssm.state_size', { u32: config.mamba_d_state });
  set('ssm.group_count', { u32: config.mamba_n_groups });
  set('ssm.inner_size', { u32: config.mamba_expand * config.hidden_size });
  set('ssm.time_step_rank', { u32: config.mamba_n_heads });
  set('rope.scaling.finetuned', { bool: config.position_embedding_type === 'rope' });
  set('expert_shared_feed_forward_length', { u32: config.shared_intermediate_size });
}

function nemotronMetadata(config, set) {
  const types = config.layers_block_type;
  const attends = (type) => type === 'full_attention';
  const width = (type) => (type === 'moe' ? config.moe_intermediate_size : 0);
  const heads = types.map((type) => (attends(type) ? config.num_key_value_heads : 0));
  set('attention.head_count_kv', { u32s: heads });
  set('feed_forward_length', { u32s: types.map(width) });
  set('attention.layer_norm_rms_epsilon', { f32: config.layer_norm_epsilon });
  set('ssm.conv_kernel', { u32: config.conv_kernel });
  set('ssm.state_size', { u32: config.ssm_state_size });
  set('ssm.group_count', { u32: config.n_groups });
  set('ssm.inner_size', { u32: config.mamba_num_heads * config.mamba_head_dim });
  set('ssm.time_step_rank', { u32: config.mamba_num_heads });
  const shared = config.moe_shared_expert_intermediate_size;
  set('expert_shared_feed_forward_length', { u32: shared });
  set('expert_shared_count', { u32: config.n_shared_experts });
  set('expert_weights_norm', { bool: config.norm_topk_prob });
  set('expert_weights_scale', { f32: config.routed_scaling_factor });
  set('expert_group_count', { u32: config.n_group });
}

/** Adds what the families have in their metadata, or have otherwise than Llama. */
export function familyMetadata(config, set, drop) {
  const type = config.model_type;
  if (type.startsWith('granite')) {
    set('attention.scale', { f32: config.attention_multiplier });
    set('embedding_scale', { f32: config.embedding_multiplier });
    set('residual_scale', { f32: config.residual_multiplier });
    set('logit_scale', { f32: config.logits_scaling });
  }
  if (type === 'cohere2') {
    drop('attention.layer_norm_rms_epsilon');
    set('attention.layer_norm_epsilon', { f32: config.layer_norm_eps });
    set('logit_scale', { f32: config.logit_scale });
  }
  if (['exaone4', 'olmo3'].includes(type) && config.sliding_window) {
    const sliding = config.layer_types.map((it) => it === 'sliding_attention');
    set('attention.sliding_window_pattern', { bools: sliding });
  }
  if (type === 'ministral3') {
    const { mscale_all_dim: all, llama_4_scaling_beta: beta } = config.rope_parameters;
    if (all) set('rope.scaling.yarn_log_multiplier', { f32: all });
    if (beta) set('attention.temperature_scale', { f32: beta });
  }
  if (type.startsWith('lfm2')) {
    hybridMetadata(config, set);
    set('attention.layer_norm_rms_epsilon', { f32: config.norm_eps });
    set('shortconv.l_cache', { u32: config.conv_L_cache });
  }
  if (type === 'lfm2_moe') {
    set('leading_dense_block_count', { u32: config.num_dense_layers });
    set('expert_gating_func', { u32: 2 });
  }
  if (type === 'nemotron_h') {
    nemotronMetadata(config, set);
    drop('leading_dense_block_count');
  }
  if (type === 'granitemoehybrid') {
    hybridMetadata(config, set);
    mambaMetadata(config, set);
    drop('expert_feed_forward_length');
  }
}
