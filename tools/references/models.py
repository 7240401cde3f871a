"""The models that make_references.py writes: what the families have in the wild and the first
reference data has not. Keys of a model: `config` for transformers; `dtype` of the files;
`shard_bytes` for several files; `older`, to write config.json in the spelling of transformers 4
with these keys added and those of `without` removed; `prompts`, file names and their lengths;
`fp8`, the block of a scale, or "matrix" where each matrix has one (fp8.py)."""


def base(**changes):
    config = {
        "vocab_size": 139,
        "hidden_size": 64,
        "intermediate_size": 80,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": False,
        "rope_parameters": rope("default"),
    }
    config.update(changes)
    return config


def rope(kind, theta=10000.0, **more):
    return {"rope_type": kind, "rope_theta": theta, **more}


def long_rope(columns, original, **more):
    half = columns // 2
    return rope(
        "longrope",
        short_factor=[1.0 + 0.03 * i for i in range(half)],
        long_factor=[1.0 + 0.9 * i + 0.05 * i * i for i in range(half)],
        original_max_position_embeddings=original,
        **more,
    )


def model(model_type, config, dtype="bf16", **more):
    return {"model_type": model_type, "config": config, "dtype": dtype, **more}


def long_phi(**changes):
    return base(
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        original_max_position_embeddings=64,
        **changes,
    )


def gemma(**changes):
    config = base(
        head_dim=24,
        num_hidden_layers=3,
        tie_word_embeddings=True,
        sliding_window=9,
        query_pre_attn_scalar=40,
    )
    config.update(changes)
    return config


def two_bases(full, local=10000.0):
    return {"full_attention": full, "sliding_attention": rope("default", local)}


MIXED = ["sliding_attention", "full_attention", "sliding_attention"]
BOTH = {"reference": 40, "reference_long": 90}

LLAMA3 = rope(
    "llama3",
    500000.0,
    factor=32.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=64,
)
YARN = rope(
    "yarn", 150000.0, factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
    original_max_position_embeddings=64,
)


def gpt_oss(**changes):
    config = base(
        head_dim=32,
        num_hidden_layers=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        sliding_window=16,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters=YARN,
    )
    config.update(changes)
    return config


def qwen_moe(**changes):
    config = base(
        head_dim=16,
        moe_intermediate_size=32,
        num_experts=6,
        num_experts_per_tok=3,
        norm_topk_prob=False,
    )
    config.update(changes)
    return config


MODELS = {
    # Long within 64 positions by the short table, beyond by the long one.
    "phi3-longrope": model(
        "phi3", long_phi(rope_parameters=long_rope(32, 64)), "f32", prompts=BOTH
    ),
    "phi3-longrope-older": model(
        "phi3", long_phi(rope_parameters=long_rope(32, 64)), older={}, prompts=BOTH
    ),
    # Phi-4-mini: three quarters of a head turn, one table for both ends.
    "phi3-longrope-partial": model(
        "phi3",
        long_phi(
            rope_parameters=long_rope(24, 64, partial_rotary_factor=0.75),
            tie_word_embeddings=True,
            sliding_window=262144,
        ),
        prompts=BOTH,
    ),
    "phi3-partial": model(
        "phi3",
        base(hidden_size=96, num_attention_heads=3, num_key_value_heads=1, sliding_window=7,
             rope_parameters=rope("default", partial_rotary_factor=0.75)),
        "f16",
        older={},
    ),
    "gemma3-linear": model(
        "gemma3_text",
        gemma(layer_types=MIXED,
              rope_parameters=two_bases(rope("linear", 1000000.0, factor=8.0))),
        "f32",
    ),
    "gemma3-bases-older": model(
        "gemma3_text",
        gemma(layer_types=["sliding_attention", "sliding_attention", "full_attention"],
              rope_parameters=two_bases(rope("linear", 1000000.0, factor=8.0), 5000.0)),
        older={"sliding_window_pattern": 3},
        without=["layer_types", "_sliding_window_pattern"],
    ),
    "gemma3-odd": model(
        "gemma3_text",
        gemma(hidden_size=72, head_dim=40, num_attention_heads=2, num_key_value_heads=1,
              layer_types=["full_attention", "sliding_attention"], num_hidden_layers=2,
              rope_parameters=two_bases(rope("default", 1000000.0))),
    ),
    "gemma2-no-caps": model(
        "gemma2",
        gemma(attn_logit_softcapping=None, final_logit_softcapping=None),
    ),
    "gemma2-caps-odd": model(
        "gemma2",
        gemma(hidden_size=72, num_hidden_layers=2, query_pre_attn_scalar=17,
              attn_logit_softcapping=3.0, final_logit_softcapping=4.0, vocab_size=101),
        "f32",
        older={},
        without=["layer_types"],
    ),
    "gpt-oss-mxfp4": model(
        "gpt_oss", gpt_oss(intermediate_size=96), mxfp4=True, older={"swiglu_limit": 7.0}
    ),
    "gpt-oss-truncate": model(
        "gpt_oss",
        gpt_oss(intermediate_size=48, num_local_experts=3, rope_parameters={**YARN,
                "truncate": True, "factor": 8.0}, layer_types=["full_attention"] * 2),
    ),
    "llama3-scaled": model(
        "llama", base(rope_parameters=LLAMA3, tie_word_embeddings=True), "f16", older={}
    ),
    "llama-biases": model(
        "llama", base(attention_bias=True, mlp_bias=True), shard_bytes=60000
    ),
    "llama-head80": model(
        "llama",
        base(hidden_size=80, head_dim=80, num_attention_heads=2, num_key_value_heads=1,
             num_hidden_layers=1, intermediate_size=107, rms_norm_eps=1e-5),
    ),
    "llama-head96-odd": model(
        "llama",
        base(hidden_size=51, head_dim=96, num_attention_heads=3, num_key_value_heads=3,
             num_hidden_layers=2, intermediate_size=75, vocab_size=97),
        "f16",
        shard_bytes=50000,
    ),
    "llama-linear": model("llama", base(rope_parameters=rope("linear", factor=4.0)), older={}),
    "llama-dynamic": model("llama", base(rope_parameters=rope("dynamic", factor=4.0)), "f16"),
    "qwen2-window": model(
        "qwen2",
        base(use_sliding_window=True, sliding_window=11, max_window_layers=0,
             tie_word_embeddings=True),
    ),
    "qwen2-window-older": model(
        "qwen2",
        base(use_sliding_window=True, sliding_window=16, max_window_layers=1),
        "f16",
        older={},
        without=["layer_types"],
    ),
    # Qwen's files have a window that is not used.
    "qwen2-unused-window": model(
        "qwen2",
        base(use_sliding_window=False, sliding_window=8, max_window_layers=1,
             tie_word_embeddings=True, num_hidden_layers=2),
        older={"sliding_window": 8},
        without=["layer_types"],
    ),
    "qwen3-yarn": model(
        "qwen3",
        base(head_dim=20, attention_bias=True, rope_parameters=rope(
            "yarn", 1000000.0, factor=4.0, original_max_position_embeddings=128)),
        older={},
        without=["layer_types"],
    ),
    "qwen3-moe-sparse-step": model(
        "qwen3_moe", qwen_moe(decoder_sparse_step=2, mlp_only_layers=[], num_hidden_layers=4)
    ),
    "qwen3-moe-mlp-only": model(
        "qwen3_moe", qwen_moe(mlp_only_layers=[0, 2], num_hidden_layers=3, num_experts=4), "f16",
        shard_bytes=60000
    ),
    "mistral-nemo": model(
        "mistral",
        base(hidden_size=80, head_dim=32, num_attention_heads=4, sliding_window=None),
    ),
    "mistral-window": model(
        "mistral",
        base(head_dim=24, sliding_window=5, num_key_value_heads=1, num_hidden_layers=2),
        "f16",
        older={},
    ),
    "mixtral-window": model(
        "mixtral",
        base(num_hidden_layers=2, intermediate_size=40, num_local_experts=5,
             num_experts_per_tok=3, sliding_window=12, head_dim=24),
        shard_bytes=90000,
    ),
    "mixtral-f16": model(
        "mixtral",
        base(num_hidden_layers=2, intermediate_size=64, num_local_experts=3,
             num_experts_per_tok=2, sliding_window=None, hidden_size=72, vocab_size=107),
        "f16",
        older={},
    ),
    "qwen3-fp8": model("qwen3", base(head_dim=16, intermediate_size=96), fp8=(16, 32)),
    "qwen3-moe-fp8": model("qwen3_moe", qwen_moe(num_experts=4), fp8=(32, 32)),
    "deepseek-v3-fp8": model(
        "deepseek_v3",
        base(
            num_key_value_heads=4,
            intermediate_size=96,
            moe_intermediate_size=32,
            first_k_dense_replace=1,
            n_routed_experts=4,
            n_shared_experts=1,
            n_group=2,
            topk_group=1,
            num_experts_per_tok=2,
            q_lora_rank=32,
            kv_lora_rank=32,
            qk_nope_head_dim=24,
            qk_rope_head_dim=8,
            v_head_dim=32,
            routed_scaling_factor=1.8,
        ),
        fp8=(8, 32),
    ),
    "ministral3-fp8": model(
        "ministral3",
        base(
            head_dim=32,
            intermediate_size=96,
            rope_parameters=rope(
                "yarn", 1000000.0, factor=16.0, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
                mscale_all_dim=1.0, llama_4_scaling_beta=0.1,
                original_max_position_embeddings=256,
            ),
        ),
        fp8="matrix",
    ),
}
