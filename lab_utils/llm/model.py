"""OPT, from 125M to 175B: embeddings, layers of attention and MLP, and the head.

    tokens ─ embedding ─ project_in ─┬─ layer 0 … layer L-1 ─ final_norm ─ project_out ─ head
    positions ───────────────────────┘
    layer:  x + out(attention(qkv(norm(x)))),  then  x + fc2(relu(fc1(norm(x))))

Each of the four matrices of a layer is a `torch.nn.Linear` or a `lab_utils.SparseLinear`; qkv is
one matrix, the rows of q first, then k, then v.
"""

import math
from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lab_utils.llm import attention, one_kernel
from lab_utils.llm.checks import check_count
from lab_utils.llm.config import OPTConfig
from lab_utils.llm.one_kernel import in_step
from lab_utils.llm.parallel import ALONE, Ranks
from lab_utils.llm.residual import Product, Residual
from lab_utils.llm.scratch import Scratch
from lab_utils.nn import SparseLinear
from lab_utils.ops import explain

MATRICES = ("qkv", "out", "fc1", "fc2")
POSITION_OFFSET = 2  # rows of the position table that OPT keeps for padding

# A kernel that decodes while it multiplies decodes anew for each block of tokens. Above so many
# tokens, by kind of device, a matrix is decoded first, once, for one dense product: then a dense
# copy of one matrix is in memory. Two cores of a CPU break even near 512 tokens, in one trial of
# 4096 x 4096. On a GPU the product does so itself, piece by piece, where its plan expects it to be
# faster.
DENSE_ABOVE = {"cpu": 512}

Attend = Callable[[int, Product], Tensor]


def matrix_names(config: OPTConfig) -> list[str]:
    """The sparse or dense matrices of all layers: "layers.0.qkv", "layers.0.out" …"""
    return [f"layers.{i}.{name}" for i in range(config.layers) for name in MATRICES]


def causal(layer: int, qkv: Product) -> Tensor:
    """Attention of all tokens to themselves and earlier ones, without a cache.

    qkv: [3, batch, heads, tokens, head_dim]; result as each of the three.
    """
    return F.scaled_dot_product_attention(*qkv.sum(), is_causal=True)


def _add_positions(x: Tensor, table: Tensor, places: Tensor) -> Tensor:
    return x + F.embedding(places + POSITION_OFFSET, table)


class Layer(nn.Module):
    """One decoder layer; with `ranks`, one rank's share of it, whose sums are over all ranks."""

    def __init__(self, config: OPTConfig, index: int, ranks: Ranks = ALONE,
                 scratch: Scratch | None = None, **place):  # fmt: skip
        super().__init__()
        self.config, self.index, self.ranks = config, index, ranks
        self.scratch = scratch or Scratch(config, ranks.world)
        heads, ffn = config.share(ranks.world)
        H, width = config.hidden, heads * config.head_dim
        bias, affine = config.bias, config.norm_affine
        self.attention_norm = nn.LayerNorm(H, elementwise_affine=affine, **place)
        self.qkv = nn.Linear(H, 3 * width, bias=bias, **place)
        self.out = nn.Linear(width, H, bias=bias, **place)
        self.mlp_norm = nn.LayerNorm(H, elementwise_affine=affine, **place)
        self.fc1 = nn.Linear(H, ffn, bias=bias, **place)
        self.fc2 = nn.Linear(ffn, H, bias=bias, **place)

    def full_name(self, matrix: str) -> str:
        """The name of a matrix in the whole model, such as "layers.3.fc1"."""
        return f"layers.{self.index}.{matrix}"

    def forward(self, x: Tensor, attend: Attend = causal) -> Tensor:
        """x: [batch, tokens, hidden] -> the same shape."""
        return self.extended(Residual(x), attend).sum()

    def extended(self, x: Residual, attend: Attend) -> Residual:
        """x with what this layer adds to it, the last of which may wait for the next layer."""
        if self.config.norm_first:
            x = x + self.attention(x.norm(self.attention_norm), attend)
            return x + self.mlp(x.norm(self.mlp_norm))
        x = x + self.attention(x.sum(), attend)
        x = Residual(x.norm(self.attention_norm))
        x = x + self.mlp(x.sum())
        return Residual(x.norm(self.mlp_norm))

    def attention(self, x: Tensor, attend: Attend) -> Product:
        """[batch, tokens, hidden] -> the same: q, k, v, what `attend` makes of them, and out."""
        qkv = self.multiply(self.qkv, x).of_heads(self.config.head_dim)
        y = attend(self.index, qkv)  # [batch, heads, tokens, dim]
        return self.over_ranks(self.out, y.transpose(1, 2).flatten(2))

    def mlp(self, x: Tensor) -> Product:
        """[batch, tokens, hidden] -> the same."""
        return self.over_ranks(self.fc2, self.activated(x))

    def activated(self, x: Tensor) -> Tensor:
        """[batch, tokens, hidden] -> [batch, tokens, ffn]: relu(fc1(x)).

        In inference mode, where nobody asks for gradients or hooks, the kernel of the product takes
        the maximum: cuBLAS of a dense one, and those of sparse ones that can.
        """
        fc1, inferring = self.fc1, torch.is_inference_mode_enabled()
        few = x.shape[:-1].numel() <= self.limit(x.device)
        if isinstance(fc1, SparseLinear) and inferring and few and (y := fc1.relu(x)) is not None:
            return y
        if isinstance(fc1, SparseLinear) or fc1.bias is None or not inferring:
            return self.multiply(fc1, x).relu()
        y = torch._addmm_activation(fc1.bias, x.flatten(0, -2), fc1.weight.T)
        return y.view(*x.shape[:-1], -1)

    def over_ranks(self, linear: nn.Module, x: Tensor) -> Product:
        """linear(x), of which each of several ranks has a part of every sum, but the whole bias."""
        y, bias = self.multiply(linear, x, bias_waits=self.ranks.world > 1)
        return Product(self.ranks.sum(y), bias)

    def multiply(self, linear: nn.Module, x: Tensor, bias_waits: bool = False) -> Product:
        """linear(x), decoded first where that is expected to be faster (see `DENSE_ABOVE`).

        Dense products add their bias themselves, unless `bias_waits`; that of a sparse one is still
        to be added.
        """
        added, waiting = (None, linear.bias) if bias_waits else (linear.bias, None)
        if not isinstance(linear, SparseLinear):  # as a module it has hooks
            y = F.linear(x, linear.weight) if bias_waits else linear(x)
            return Product(y, waiting)
        if x.shape[:-1].numel() > self.limit(x.device):
            return Product(F.linear(x, self.scratch.decoded(linear.weight), added), waiting)
        return Product(linear.product(x), linear.bias)

    def limit(self, device: torch.device) -> float:
        """The most tokens for which sparse matrices are not decoded first."""
        return DENSE_ABOVE.get(device.type, math.inf)

    def explain(self, name: str, tokens: int) -> str:
        """How matrix `name` is multiplied with so many tokens; ValueError for any other."""
        if name not in MATRICES:
            raise ValueError(f"name={name!r:.60}; allowed: {', '.join(MATRICES)}")
        check_count("tokens", tokens, 1)
        linear = getattr(self, name)
        shape = f"{name} [{linear.out_features}, {linear.in_features}]"
        if not isinstance(linear, SparseLinear):
            return f"{shape}: dense"
        A, limit = linear.weight, self.limit(linear.weight.device)
        if tokens > limit:
            how = f"decoded first, multiplied dense ({tokens} tokens, above {limit})"
        elif math.isinf(limit):
            B = torch.empty(tokens, A.shape[1], dtype=A.dtype, device=A.device).T
            how = f"{explain(A, B).kernel} ({tokens} tokens)"
        else:
            how = f"decoded in the kernel ({tokens} tokens, at most {limit})"
        return f"{shape}: {A.name}, {how}"


class OPT(nn.Module):
    """The whole model, on `device` and of `dtype`; with `ranks`, one rank's share of it.

    On device "meta" nothing is allocated: a loader then puts real modules in its place, layer by
    layer. `head` is None where it is tied to the embedding. Inference only: no dropout.
    Raises ValueError where the number of ranks does not divide the heads and the MLP.
    """

    def __init__(
        self,
        config: OPTConfig,
        ranks: Ranks = ALONE,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ):
        super().__init__()
        config.share(ranks.world)
        self.config, self.ranks = config, ranks
        self.weights_origin = "random"  # loaders say "checkpoint" where it is one
        H, E, place = config.hidden, config.embed, {"device": device, "dtype": dtype}
        projected = config.embed != config.hidden
        self.embedding = nn.Embedding(config.vocab, E, **place)
        self.positions = nn.Embedding(config.max_positions + POSITION_OFFSET, H, **place)
        self.project_in = nn.Linear(E, H, bias=False, **place) if projected else None
        scratch = Scratch(config, ranks.world)
        layers = (Layer(config, i, ranks, scratch, **place) for i in range(config.layers))
        self.layers = nn.ModuleList(layers)
        norm = {"elementwise_affine": config.norm_affine, **place}
        self.final_norm = nn.LayerNorm(H, **norm) if config.final_norm else None
        self.project_out = nn.Linear(H, E, bias=False, **place) if projected else None
        self.head = None if config.tied else nn.Linear(E, config.vocab, bias=False, **place)

    @property
    def dtype(self) -> torch.dtype:
        return self.embedding.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    def check_whole(self) -> None:
        """Raise ValueError for one of several ranks' shares."""
        if (world := self.ranks.world) > 1:
            raise ValueError(f"model is one of world={world} shares; allowed: a whole one")

    def explain(self, tokens: int) -> str:
        """How the matrices of all layers are multiplied with so many tokens, a line for each way,
        and how a step computes what lies between the products.

        `tokens`: of all sequences together, so batch · prompt at first, then batch. Raises
        ValueError unless there are any.
        """
        ways = Counter(layer.explain(name, tokens) for name in MATRICES for layer in self.layers)
        lines = [f"{count} × {way}" for way, count in ways.items()]
        lines.append(f"sums, norms, ReLU: {one_kernel.explain(self.device)}")
        heads, _ = self.config.share(self.ranks.world)
        of_step = attention.explain(tokens * heads, self.device, self.dtype)
        return "\n".join([*lines, f"attention of a step of {tokens} sequences: {of_step}"])

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits [batch, tokens, vocab] of tokens [batch, tokens], from position 0, no cache."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.logits(self.hidden(tokens, places, causal))

    def embed(self, tokens: Tensor, places: Tensor) -> Tensor:
        """x [batch, tokens, hidden] of tokens [batch, tokens] at positions `places`, from 0 on."""
        x = self.embedding(tokens)
        x = x if self.project_in is None else self.project_in(x)
        return in_step(_add_positions, x, self.positions.weight, places)

    def hidden(self, tokens: Tensor, places: Tensor, attend: Attend) -> Tensor:
        """What all layers and the final norm put out, [batch, tokens, hidden]."""
        x = Residual(self.embed(tokens, places))
        for layer in self.layers:
            x = layer.extended(x, attend)
        return self.normed(x)

    def normed(self, x: Residual) -> Tensor:
        """What the last layer puts out, [batch, tokens, hidden], after the final norm."""
        return x.sum() if self.final_norm is None else x.norm(self.final_norm)

    def logits(self, x: Tensor) -> Tensor:
        """Logits [..., vocab] of what comes after the final norm, [..., hidden]."""
        x = x if self.project_out is None else self.project_out(x)
        return F.linear(x, (self.head or self.embedding).weight)


def check_model(model: OPT) -> None:
    """Raise ValueError unless it is one."""
    if not isinstance(model, OPT):
        raise ValueError(f"model={model!r:.60}; allowed: OPT, as load(source) gives it")
