"""The Qwen3 architecture in plain PyTorch, named as in Hugging Face checkpoints; for training only.

Checked against transformers' own implementation after every training (export.py). To add the
mixture-of-experts twin, write a feed-forward class with experts, register it in ARCHITECTURES under
"qwen3_moe" with its configuration, and train with --arch qwen3_moe; corpus, tokenizer, packing,
evaluation and card stay as they are.
"""

import torch
import torch.nn.functional as F
from torch import nn

_BASE = {
    "vocab_size": 4096, "hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 8,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0, "max_position_embeddings": 4096,
}


class RmsNorm(nn.Module):
    def __init__(self, width: int, eps: float):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * self.weight).to(x.dtype)


def rope_tables(config: dict, device):
    """cos and sin, [positions, head_dim]; each half holds the same angles, as rotate() pairs a
    head's low half with its high half."""
    half = torch.arange(0, config["head_dim"], 2, device=device).float() / config["head_dim"]
    positions = torch.arange(config["max_position_embeddings"], device=device).float()
    angles = torch.outer(positions, config["rope_theta"] ** -half)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    """x [batch, heads, positions, head_dim]; cos, sin [positions, head_dim]."""
    low, high = x.chunk(2, dim=-1)
    return (x * cos + torch.cat((-high, low), dim=-1) * sin).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, c: dict):
        super().__init__()
        self.heads, self.kv_heads = c["num_attention_heads"], c["num_key_value_heads"]
        self.head_dim = c["head_dim"]
        self.q_proj = nn.Linear(c["hidden_size"], self.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(c["hidden_size"], self.kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(c["hidden_size"], self.kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.head_dim, c["hidden_size"], bias=False)
        self.q_norm, self.k_norm = (RmsNorm(self.head_dim, c["rms_norm_eps"]) for _ in range(2))

    def forward(self, x, cos, sin):
        batch, positions, _ = x.shape

        def heads(y):  # [batch, positions, heads * head_dim] -> [batch, positions, heads, head_dim]
            return y.view(batch, positions, -1, self.head_dim)

        q = rotate(self.q_norm(heads(self.q_proj(x))).transpose(1, 2), cos, sin)
        k = rotate(self.k_norm(heads(self.k_proj(x))).transpose(1, 2), cos, sin)
        v = heads(self.v_proj(x)).transpose(1, 2)
        repeat = self.heads // self.kv_heads
        k, v = k.repeat_interleave(repeat, dim=1), v.repeat_interleave(repeat, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(batch, positions, -1))


class GatedMlp(nn.Module):
    def __init__(self, c: dict):
        super().__init__()
        self.gate_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.up_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.down_proj = nn.Linear(c["intermediate_size"], c["hidden_size"], bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


# name -> (configuration, feed-forward class, names in transformers)
ARCHITECTURES = {"qwen3": (_BASE, GatedMlp, ("Qwen3Config", "Qwen3ForCausalLM"))}


class Layer(nn.Module):
    def __init__(self, c: dict, feed_forward):
        super().__init__()
        self.input_layernorm = RmsNorm(c["hidden_size"], c["rms_norm_eps"])
        self.self_attn = Attention(c)
        self.post_attention_layernorm = RmsNorm(c["hidden_size"], c["rms_norm_eps"])
        self.mlp = feed_forward(c)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """The layers between token ids and the last norm; named "model" in checkpoints."""

    def __init__(self, c: dict, feed_forward):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Layer(c, feed_forward) for _ in range(c["num_hidden_layers"]))
        self.norm = RmsNorm(c["hidden_size"], c["rms_norm_eps"])


class CausalLm(nn.Module):
    def __init__(self, arch: str = "qwen3"):
        super().__init__()
        self.config, feed_forward, _ = ARCHITECTURES[arch]
        self.model = Decoder(self.config, feed_forward)
        self.apply(self._init)
        # Keeps the residual stream's variance flat at the start.
        scale = (2 * self.config["num_hidden_layers"]) ** -0.5
        for name, p in self.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                p.data.mul_(scale)

    @staticmethod
    def _init(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids, cos, sin):
        """ids [batch, positions] -> hidden [batch, positions, hidden_size] after the last norm."""
        x = self.model.embed_tokens(ids)
        cos, sin = cos[:ids.shape[1]], sin[:ids.shape[1]]
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return self.model.norm(x)

    def logits(self, hidden):
        return F.linear(hidden, self.model.embed_tokens.weight)
