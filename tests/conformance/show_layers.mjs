// `weft show --layers` says of every layer what the checkpoint's config.json says of it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const weft = process.env.WEFT;
const data = process.env.WEFT_DATA ?? join(root, 'build', 'test-data');

const attention = (config, more = {}) => ({
  mixer: 'attention',
  heads: config.num_attention_heads,
  kv_heads: config.num_key_value_heads,
  head_columns: config.head_dim ?? config.hidden_size / config.num_attention_heads,
  ...more,
});
const experts = (config) => ({
  experts: config.num_experts ?? config.n_routed_experts,
  experts_per_token: config.num_experts_per_tok,
  expert_columns: config.moe_intermediate_size,
});

// name of a checkpoint -> (config, layer) -> what that transformer layer is
const expectations = {
  'gemma4-e': (config, i) => {
    const slides = config.layer_types[i] === 'sliding_attention';
    const first = config.num_hidden_layers - config.num_kv_shared_layers;
    const own = config.per_layer_config[i] ?? {};
    const like = config.layer_types.slice(0, first).lastIndexOf(config.layer_types[i]);
    return {
      ...attention(config, { head_columns: own.head_dim ?? config.head_dim }),
      ...(slides ? { window: config.sliding_window } : {}),
      // The package counts its embedding as layer 0.
      ...(i >= first ? { kv_layer: like + 1 } : {}),
      mlp_columns: config.intermediate_size * (i >= first ? 2 : 1),
    };
  },
  'lfm2-moe': (config, i) => ({
    ...(config.layer_types[i] === 'conv' ? { mixer: 'short convolution' } : attention(config)),
    ...(i < config.num_dense_layers ? { mlp_columns: config.intermediate_size } : experts(config)),
  }),
  'qwen3-next': (config, i) => ({
    ...(config.layer_types[i] === 'full_attention' ? attention(config) : {
      mixer: 'delta rule',
      heads: config.linear_num_value_heads,
      kv_heads: config.linear_num_key_heads,
      head_columns: config.linear_value_head_dim,
    }),
    ...experts(config),
    mlp_columns: config.shared_expert_intermediate_size,
  }),
  'nemotron-h': (config, i) => ({
    linear_attention: {
      mixer: 'selective scan',
      heads: config.mamba_num_heads,
      kv_heads: config.n_groups,
      head_columns: config.mamba_head_dim,
    },
    full_attention: attention(config),
    mlp: { mlp_columns: config.intermediate_size },
    moe: { ...experts(config), mlp_columns: config.moe_shared_expert_intermediate_size },
  })[config.layers_block_type[i]],
};

const isShape = (key) => !/^(layer|kind)$|_bytes/.test(key);

for (const [name, expected] of Object.entries(expectations)) {
  const folder = join(data, 'checkpoints-2026', name);
  const missing = weft ? `there is no ${folder}` : 'WEFT does not name the weft program';
  const skip = weft && existsSync(folder) ? false : missing;
  test(`show --layers of ${name}`, { skip }, () => {
    const work = mkdtempSync(join(tmpdir(), 'weft-layers-'));
    try {
      const run = (...args) => execFileSync(weft, args, { encoding: 'utf8' });
      const target = join(work, 'package');
      run('convert', folder, target, '--quant', 'q8', '--no-tokenizer');
      const layers = JSON.parse(run('show', target, '--layers', '--json'));
      const config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'));
      const count = config.num_hidden_layers ?? config.layers_block_type.length;
      assert.equal(layers.length, count + 2);
      assert.deepEqual([layers[0].kind, layers.at(-1).kind], ['embedding', 'head']);
      layers.slice(1, -1).forEach((layer, i) => {
        const shape = Object.fromEntries(Object.entries(layer).filter(([key]) => isShape(key)));
        assert.deepEqual(shape, expected(config, i), `layer ${layer.layer}`);
        assert.ok(layer.weight_bytes > 0);
      });
      const manifest = JSON.parse(readFileSync(join(target, 'weft.json'), 'utf8'));
      const bytes = (key) => manifest.layers.map((layer) => layer[key]);
      assert.deepEqual(layers.map((layer) => layer.weight_bytes), bytes('weight_bytes'));
      assert.deepEqual(layers.map((layer) => layer.kv_bytes_per_token),
        bytes('kv_bytes_per_position'));
      const lines = run('show', target, '--layers').trimEnd().split('\n');
      assert.equal(lines.length, layers.length + 1);
      assert.match(lines[0], /^LAYER +WEIGHTS/);
      for (const layer of layers.filter((each) => each.mixer))
        assert.match(lines[layer.layer + 1], new RegExp(`  ${layer.mixer}`));
    } finally {
      rmSync(work, { recursive: true });
    }
  });
}
