"""Small OPT models with random weights: those of transformers, and ours with the same weights."""

from typing import TypeVar

import torch
import transformers
from torch import Tensor, nn

from lab_utils import SparseLinear
from lab_utils.llm import OPT, OPTConfig
from lab_utils.llm.model import MATRICES
from lab_utils.llm.parallel import ALONE, Ranks, cut

SMALL = {
    "vocab_size": 97,
    "hidden_size": 64,
    "ffn_dim": 144,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 48,
}
VARIANTS = {
    "pre-norm": {},
    "post-norm": {"do_layer_norm_before": False, "word_embed_proj_dim": 24},  # like OPT-350M
    "projected": {"word_embed_proj_dim": 80},
    "no bias": {"enable_bias": False},
    "plain norms": {"layer_norm_elementwise_affine": False},
    "no final norm": {"_remove_final_layer_norm": True},
    "own head": {"tie_word_embeddings": False},
}
Model = TypeVar("Model", bound=nn.Module)
THEIR_MATRICES = {"out": "self_attn.out_proj", "fc1": "fc1", "fc2": "fc2"}
THEIR_NORMS = {"attention_norm": "self_attn_layer_norm", "mlp_norm": "final_layer_norm"}


def theirs(variant: str = "pre-norm", seed: int = 0, **changes) -> transformers.OPTForCausalLM:
    """A model of transformers in fp32; biases and norms are random too, unlike its own start."""
    config = transformers.OPTConfig(**{**SMALL, **VARIANTS[variant], **changes})
    return randomized(transformers.OPTForCausalLM(config), seed)


def randomized(model: Model, seed: int, spread: float = 0.3) -> Model:
    """Random weights; the layers' are so large that what they add decides about the next token."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            mean = 1.0 if "norm.weight" in name else 0.0
            wide = "layers" in name and parameter.ndim == 2
            parameter.normal_(mean, spread if wide else 0.1, generator=generator)
    return model.eval()


def ours(other: transformers.OPTForCausalLM, folder, dtype: torch.dtype = torch.float32) -> OPT:
    """The same model, as the config.json says that transformers writes into `folder`."""
    other.config.save_pretrained(folder)
    model = OPT(OPTConfig.from_folder(folder))
    model.load_state_dict(renamed(other))
    return model.to(dtype).eval()


def renamed(other: transformers.OPTForCausalLM) -> dict[str, Tensor]:
    """The weights of a model of transformers under our names."""
    decoder, state = other.model.decoder, {}
    tops = {"embedding": "embed_tokens", "positions": "embed_positions"}
    tops |= {name: name for name in ("project_in", "project_out")}
    tops |= {"final_norm": "final_layer_norm"}
    for mine, name in tops.items():
        state |= _prefixed(mine, getattr(decoder, name))
    if not other.config.tie_word_embeddings:
        state |= _prefixed("head", other.lm_head)
    for index, layer in enumerate(decoder.layers):
        for mine, name in (THEIR_MATRICES | THEIR_NORMS).items():
            state |= _prefixed(f"layers.{index}.{mine}", layer.get_submodule(name))
        parts = [getattr(layer.self_attn, f"{which}_proj").state_dict() for which in "qkv"]
        for key in parts[0]:
            state[f"layers.{index}.qkv.{key}"] = torch.cat([part[key] for part in parts])
    return state


def _prefixed(prefix: str, module: nn.Module | None) -> dict[str, Tensor]:
    return {} if module is None else {f"{prefix}.{k}": v for k, v in module.state_dict().items()}


def config(**changes) -> OPTConfig:
    """A small configuration of ours, for tests that compare with nothing of transformers."""
    sizes = {"hidden": 64, "ffn": 128, "layers": 2, "heads": 4, "vocab": 97, "max_positions": 48}
    return OPTConfig(**{"name": "small", **sizes, "embed": 64, **changes})


def random_model(dtype: torch.dtype = torch.float32, spread: float = 0.3, **changes) -> OPT:
    """A model of ours, every weight random."""
    return randomized(OPT(config(**changes), dtype=dtype), 3, spread)


def pruned(model: OPT, sparsity: float) -> OPT:
    """`model` with the smallest weights of its layers' matrices set to 0, in place."""
    with torch.no_grad():
        for layer in model.layers:
            for name in MATRICES:
                weight = getattr(layer, name).weight
                least = weight.abs().float().quantile(sparsity)
                weight.masked_fill_(weight.abs().float() < least, 0)
    return model


def sparse(model: OPT, format: str = "tca_bme") -> OPT:
    """`model` with the matrices of its layers encoded, in place."""
    for layer in model.layers:
        for name in MATRICES:
            setattr(layer, name, SparseLinear.from_linear(getattr(layer, name), format))
    return model


def share(model: OPT, ranks: Ranks = ALONE) -> OPT:
    """What `ranks` has of `model`, whose matrices are dense."""
    part = OPT(model.config, ranks, dtype=model.dtype).eval()
    state = model.state_dict()
    for index, layer in enumerate(model.layers):
        for name in MATRICES:
            linear = getattr(layer, name)
            weight, bias = cut(name, linear.weight.detach(), linear.bias, ranks)
            state[f"layers.{index}.{name}.weight"] = weight
            state.pop(f"layers.{index}.{name}.bias", None)
            if bias is not None:
                state[f"layers.{index}.{name}.bias"] = bias.detach()
    part.load_state_dict(state)
    return part


def prompts(batch: int = 3, tokens: int = 7, seed: int = 0, vocab: int = 97) -> Tensor:
    return torch.randint(vocab, (batch, tokens), generator=torch.Generator().manual_seed(seed))
