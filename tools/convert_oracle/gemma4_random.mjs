// Checkpoints of Gemma 4 with random weights: what the published configuration class allows and no
// checkpoint at hand has.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeSafetensors } from './dequantize.mjs';

/** Numbers from a fixed seed, evenly from -1 to 1. */
function randomNumbers() {
  let state = 12345;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  };
}

function attentionShapes(config, layer, columns, kvHeads) {
  const { hidden_size: hidden, num_attention_heads: heads } = config;
  const shapes = { q_proj: [heads * columns, hidden], q_norm: [columns] };
  shapes.o_proj = [hidden, heads * columns];
  // Published files have those of sharing layers, too, which nothing reads.
  const isSharing = layer >= config.layer_types.length - config.num_kv_shared_layers;
  if (isSharing && !config.enable_moe_block) return shapes;
  shapes.k_proj = [kvHeads * columns, hidden];
  shapes.k_norm = [columns];
  const isWindowed = config.layer_types[layer] === 'sliding_attention';
  if (isWindowed || !config.attention_k_eq_v) shapes.v_proj = [kvHeads * columns, hidden];
  return shapes;
}

function expertShapes(config) {
  const { hidden_size: hidden, num_experts: count, moe_intermediate_size: width } = config;
  const norms = ['post_feedforward_layernorm_1', 'pre_feedforward_layernorm_2'];
  return Object.fromEntries([
    ...[...norms, 'post_feedforward_layernorm_2'].map((name) => [`${name}.weight`, [hidden]]),
    ['router.scale', [hidden]],
    ['router.proj.weight', [count, hidden]],
    ['router.per_expert_scale', [count]],
    ['experts.gate_up_proj', [count, 2 * width, hidden]],
    ['experts.down_proj', [count, hidden, width]],
  ]);
}

function layerShapes(config, layer) {
  const { hidden_size: hidden, hidden_size_per_layer_input: own } = config;
  const isWindowed = config.layer_types[layer] === 'sliding_attention';
  const columns = isWindowed ? config.head_dim : config.global_head_dim;
  const kvHeads =
    config.attention_k_eq_v && !isWindowed
      ? config.num_global_key_value_heads
      : config.num_key_value_heads;
  const isSharing = layer >= config.layer_types.length - config.num_kv_shared_layers;
  const isWide = config.use_double_wide_mlp && isSharing;
  const width = config.intermediate_size * (isWide ? 2 : 1);
  const shapes = { layer_scalar: [1] };
  for (const name of ['input', 'post_attention', 'pre_feedforward', 'post_feedforward']) {
    shapes[`${name}_layernorm.weight`] = [hidden];
  }
  const attention = attentionShapes(config, layer, columns, kvHeads);
  for (const [name, shape] of Object.entries(attention)) {
    shapes[`self_attn.${name}.weight`] = shape;
  }
  shapes['mlp.gate_proj.weight'] = shapes['mlp.up_proj.weight'] = [width, hidden];
  shapes['mlp.down_proj.weight'] = [hidden, width];
  if (own > 0) {
    shapes['per_layer_input_gate.weight'] = [own, hidden];
    shapes['per_layer_projection.weight'] = [hidden, own];
    shapes['post_per_layer_input_norm.weight'] = [hidden];
  }
  return config.enable_moe_block ? { ...shapes, ...expertShapes(config) } : shapes;
}

function allShapes(config) {
  const { hidden_size: hidden, hidden_size_per_layer_input: own } = config;
  const count = config.layer_types.length;
  const shapes = { 'embed_tokens.weight': [config.vocab_size, hidden], 'norm.weight': [hidden] };
  if (own > 0) {
    const rows = config.vocab_size_per_layer_input;
    shapes['embed_tokens_per_layer.weight'] = [rows, count * own];
    shapes['per_layer_model_projection.weight'] = [count * own, hidden];
    shapes['per_layer_projection_norm.weight'] = [own];
  }
  for (let layer = 0; layer < count; ++layer) {
    for (const [name, shape] of Object.entries(layerShapes(config, layer))) {
      shapes[`layers.${layer}.${name}`] = shape;
    }
  }
  return shapes;
}

/**
 * Writes config.json and model.safetensors of a model with layers of these types; `changes` are of
 * its configuration, and `wrapped` puts it into one with towers.
 */
export function writeRandomGemma4(folder, types, { wrapped = false, ...changes }) {
  const perLayer = {};
  const config = {
    architectures: ['Gemma4ForCausalLM'],
    model_type: 'gemma4_text',
    vocab_size: 64,
    hidden_size: 64,
    intermediate_size: 48,
    num_hidden_layers: types.length,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    num_global_key_value_heads: null,
    head_dim: 16,
    global_head_dim: 32,
    hidden_activation: 'gelu_pytorch_tanh',
    max_position_embeddings: 256,
    rms_norm_eps: 1e-6,
    tie_word_embeddings: true,
    sliding_window: 8,
    layer_types: types,
    final_logit_softcapping: 30,
    hidden_size_per_layer_input: 0,
    vocab_size_per_layer_input: 64,
    num_kv_shared_layers: 0,
    attention_k_eq_v: false,
    enable_moe_block: false,
    use_double_wide_mlp: false,
    rope_parameters: {
      full_attention: { partial_rotary_factor: 0.25, rope_theta: 1e6, rope_type: 'proportional' },
      sliding_attention: { rope_theta: 1e4, rope_type: 'default' },
    },
    ...changes,
  };
  const random = randomNumbers();
  const tensors = {};
  const prefix = wrapped ? 'model.language_model.' : 'model.';
  for (const [name, shape] of Object.entries(allShapes(config))) {
    const count = shape.reduce((all, size) => all * size, 1);
    const isMatrix = shape.length > 1;
    const values = Float32Array.from({ length: count }, () =>
      isMatrix ? 0.15 * random() : 1 + 0.2 * random(),
    );
    tensors[`${prefix}${name}`] = { shape, values };
  }
  types.forEach((type, layer) => {
    if (type === 'sliding_attention') return;
    const heads = config.attention_k_eq_v ? config.num_global_key_value_heads : null;
    const own = heads ? { num_key_value_heads: heads } : {};
    perLayer[layer] = { head_dim: config.global_head_dim, ...own };
  });
  const text = { ...config, per_layer_config: perLayer };
  const whole = {
    architectures: ['Gemma4ForConditionalGeneration'],
    model_type: 'gemma4',
    text_config: text,
    vision_config: { hidden_size: 8 },
    audio_config: { hidden_size: 8 },
    tie_word_embeddings: true,
  };
  if (wrapped) {
    const tower = { shape: [2, 2], values: Float32Array.of(1, 2, 3, 4) };
    tensors['model.vision_tower.encoder.weight'] = tower;
    tensors['model.audio_tower.output_proj.weight'] = tower;
  }
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'config.json'), JSON.stringify(wrapped ? whole : text));
  writeSafetensors(join(folder, 'model.safetensors'), tensors);
}
