"""Small OPT models of transformers with random weights, and ours with the same weights."""

import torch
import transformers
from opt_models import randomized
from torch import Tensor, nn

from lab_utils.llm import OPT, OPTConfig

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
THEIR_MATRICES = {"out": "self_attn.out_proj", "fc1": "fc1", "fc2": "fc2"}
THEIR_NORMS = {"attention_norm": "self_attn_layer_norm", "mlp_norm": "final_layer_norm"}


def theirs(variant: str = "pre-norm", seed: int = 0, **changes) -> transformers.OPTForCausalLM:
    """A model of transformers in fp32; biases and norms are random too, unlike its own start."""
    config = transformers.OPTConfig(**{**SMALL, **VARIANTS[variant], **changes})
    return randomized(transformers.OPTForCausalLM(config), seed)


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
