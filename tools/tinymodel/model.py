"""The Qwen3 architectures, dense and mixture of experts, in plain PyTorch; for training only.

Modules are named as in transformers, and export.py compares logits with it after every training.
"""

import torch
import torch.nn.functional as F
from torch import nn

_BASE = {
    "vocab_size": 4096, "hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 8,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0, "max_position_embeddings": 4096,
}
_MOE = _BASE | {
    "hidden_size": 192, "num_attention_heads": 3, "num_key_value_heads": 1,
    "num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 64,
    "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [],
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
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x)), 0.0


class Experts(nn.Module):
    """gate_up_proj [experts, 2 * width, hidden]: gate rows, then up rows; down_proj [experts,
    hidden, width]."""

    def __init__(self, c: dict):
        super().__init__()
        count, width, hidden = c["num_experts"], c["moe_intermediate_size"], c["hidden_size"]
        self.gate_up_proj = nn.Parameter(torch.empty(count, 2 * width, hidden).normal_(std=0.02))
        self.down_proj = nn.Parameter(torch.empty(count, hidden, width).normal_(std=0.02))

    def forward(self, x, weight):
        """x [tokens, hidden], weight [tokens, experts] with zeros where an expert is not chosen.

        All experts run on all tokens: for experts this narrow two large products are quicker than
        sorting tokens, and the result and its gradient are the same.
        """
        count, hidden, width = self.down_proj.shape
        both = F.linear(x, self.gate_up_proj.flatten(0, 1)).view(-1, count, 2, width)
        inner = F.silu(both[:, :, 0]) * both[:, :, 1] * weight.unsqueeze(-1)
        down = self.down_proj.permute(1, 0, 2).reshape(hidden, count * width)
        return F.linear(inner.flatten(1, 2), down)


class SparseMlp(nn.Module):
    """Each token goes to the experts that its router likes best."""

    def __init__(self, c: dict):
        super().__init__()
        self.chosen = c["num_experts_per_tok"]
        self.gate = nn.Linear(c["hidden_size"], c["num_experts"], bias=False)
        self.experts = Experts(c)

    def forward(self, x):
        flat = x.flatten(0, -2)
        with torch.autocast(x.device.type, enabled=False):  # bf16 would flip close choices
            probability = F.linear(flat.float(), self.gate.weight.float()).softmax(dim=-1)
        best, index = probability.topk(self.chosen, dim=-1)
        weight = torch.zeros_like(probability).scatter(-1, index, best / best.sum(-1, keepdim=True))
        # 1 when all experts get the same share of tokens, more the less they do (Switch, eq. 4).
        share = (weight > 0).float().mean(0) / self.chosen
        balance = weight.shape[-1] * (share * probability.mean(0)).sum()
        return self.experts(flat, weight.to(x.dtype)).view_as(x), balance


# name -> (configuration, feed-forward class, names in transformers)
ARCHITECTURES = {
    "qwen3": (_BASE, GatedMlp, ("Qwen3Config", "Qwen3ForCausalLM")),
    "qwen3_moe": (_MOE, SparseMlp, ("Qwen3MoeConfig", "Qwen3MoeForCausalLM")),
}


class Layer(nn.Module):
    def __init__(self, c: dict, feed_forward):
        super().__init__()
        self.input_layernorm = RmsNorm(c["hidden_size"], c["rms_norm_eps"])
        self.self_attn = Attention(c)
        self.post_attention_layernorm = RmsNorm(c["hidden_size"], c["rms_norm_eps"])
        self.mlp = feed_forward(c)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        y, balance = self.mlp(self.post_attention_layernorm(x))
        return x + y, balance


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
            if name.endswith(("o_proj.weight", "down_proj.weight", "experts.down_proj")):
                p.data.mul_(scale)

    @staticmethod
    def _init(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids, cos, sin):
        """ids [batch, positions] -> hidden [batch, positions, hidden_size] after the last norm, and
        how unevenly experts were used (mean of the layers; 1 is even, 0 without experts)."""
        x, unbalance = self.model.embed_tokens(ids), 0.0
        cos, sin = cos[:ids.shape[1]], sin[:ids.shape[1]]
        for layer in self.model.layers:
            x, balance = layer(x, cos, sin)
            unbalance = unbalance + balance / len(self.model.layers)
        return self.model.norm(x), unbalance

    def logits(self, hidden):
        return F.linear(hidden, self.model.embed_tokens.weight)
