"""The models of Lockstep in PyTorch, with its names of tensors: what tests/peer compares with and
what bench/peers times. Plain PyTorch as one would write it: nn.Linear, nn.LayerNorm, attention as
nanoGPT's fallback does it (PyTorch 1.13 has no fused attention on the CPU)."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        mask = torch.tril(torch.ones(context, context)).view(1, 1, context, context)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(C, dim=2)
        q = q.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        k = k.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        v = v.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        out = F.softmax(scores, dim=-1) @ v
        return self.c_proj(out.transpose(1, 2).contiguous().view(B, T, C))


class MLPHalf(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads, context)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = MLPHalf(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary, layers, heads, width, context):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads, context) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers))
            elif p.dim() > 1:
                nn.init.normal_(p, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.size(1)))
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))


class MLP(nn.Module):
    def __init__(self, widths, activation):
        super().__init__()
        self.activation = activation
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, images, labels):
        x = images
        for layer in self.layers[:-1]:
            x = F.relu(layer(x)) if self.activation == "relu" else F.gelu(layer(x), approximate="tanh")
        return F.cross_entropy(self.layers[-1](x), labels)


def adamw(model, lr, weight_decay, betas):
    """Decay on matrices only, as nanoGPT configures it."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": weight_decay},
              {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=betas, eps=1e-8)


def learning_rate(step, highest, lowest, warmup, decay):
    """nanoGPT's get_lr."""
    if step < warmup:
        return highest * (step + 1) / (warmup + 1)
    if step >= decay:
        return lowest
    done = (step - warmup) / (decay - warmup)
    return lowest + 0.5 * (1 + math.cos(math.pi * done)) * (highest - lowest)
