"""A layer with encoded weights, in place of `torch.nn.Linear`."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from lab_utils import ops
from lab_utils.formats import SparseMatrix, encode
from lab_utils.formats.checks import DTYPES
from lab_utils.nn.linears import check_forward, recompute

NUMBERS = 4  # of a state, before the name of its format


class SparseLinear(nn.Module):
    """y[..., M] = x[..., K] · Aᵀ + bias[M], with A [M, K] encoded; for inference.

    `weight` is the `SparseMatrix`; its arrays are the buffers of this module, so that devices,
    copies, `state_dict` and pickling work as for any layer. A state of another sparsity may be
    loaded, though its arrays are longer or shorter. Whatever the arrays come from, they are
    validated before a kernel reads them. The dtype is that of the encoding and stays. The sum is
    rounded once, bias included, or before and after it (`sparse_linear`).
    """

    def __init__(self, weight: SparseMatrix, bias: Tensor | None = None):
        """`bias`: [M], of the dtype and on the device of `weight`. Raises ValueError otherwise."""
        super().__init__()
        if not isinstance(weight, SparseMatrix):
            raise ValueError(f"weight is a {type(weight).__name__}; allowed: encode(dense, format)")
        weight.ensure_valid()
        if bias is not None:
            ops.check_bias(bias, weight)
        self.out_features, self.in_features = weight.shape
        with torch.inference_mode(False):  # states are loaded into it, whoever made it
            own = None if bias is None else bias.detach().clone()
        self.bias = None if own is None else nn.Parameter(own, requires_grad=False)
        self._hold(weight.of_valid(weight.shape, weight.dtype, weight.arrays, weight.constants))

    @classmethod
    def from_linear(cls, linear: nn.Linear, format: str = "tca_bme", **options: Any) -> Self:
        """The layer with the weights of `linear` (fp16 or bf16) encoded on their device.

        -0, which pruning by multiplying with a mask leaves behind, is taken for +0. What
        `torch.nn.utils.prune` would recompute before a forward is recomputed here, once and for
        all. Buffers and attributes of one's own are not taken over.
        Raises ValueError where the weights do not fit the format, or its `options`, and for
        forward hooks that do anything else, or another forward than torch.nn.Linear's.
        """
        if not isinstance(linear, nn.Linear):
            raise ValueError(f"linear is a {type(linear).__name__}; allowed: torch.nn.Linear")
        check_forward(linear)
        recompute(linear)
        dense = linear.weight.detach()
        layer = cls(encode(dense.masked_fill(dense == 0, 0), format, **options), linear.bias)
        return layer.train(linear.training)

    def to_linear(self) -> nn.Linear:
        """A `torch.nn.Linear` with the decoded weights, on the same device."""
        M, K = self.weight.shape
        place = {"device": self.weight.device, "dtype": self.weight.dtype}
        linear = nn.utils.skip_init(nn.Linear, K, M, bias=self.bias is not None, **place)
        linear.weight = nn.Parameter(self.weight.decode())
        if self.bias is not None:
            linear.bias = nn.Parameter(self.bias.detach().clone())
        return linear.train(self.training)

    @property
    def weight(self) -> SparseMatrix:
        """The encoded weights [M, K], as they are now."""
        return self._weight

    def forward(self, x: Tensor) -> Tensor:
        """y[..., M] for x[..., K], of the dtype and on the device of the weights.

        Raises RuntimeError where a gradient would have to flow to x.
        """
        _check_gradient(x)
        if ops.is_graph_made() and not ops.is_cast(x):
            return ops.named_linear(x, self._key, self.bias)
        return ops.sparse_linear(x, self._weight, self.bias)

    def product(self, x: Tensor) -> Tensor:
        """The same without the bias, for callers that add it together with something else."""
        _check_gradient(x)
        return ops.sparse_linear(x, self._weight)

    def relu(self, x: Tensor) -> Tensor | None:
        """max(forward(x), 0), rounded once, where products of the format take it; else None.

        Raises what `forward` does, where it is not None.
        """
        _check_gradient(x)
        if self.bias is None or not ops.has_epilogue(self._weight):
            return None
        return ops.sparse_relu(x, self._weight, self.bias)

    def extra_repr(self) -> str:
        A = self.weight
        zeros = "no values" if A.device.type == "meta" else f"{A.sparsity:.1%} zeros"
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}, {A.name}, {str(A.dtype).removeprefix('torch.')}, "
            f"{zeros}, {A.nbytes:,} bytes"
        )

    # --- where arrays come from: each way ends in _hold ----------------------------------------

    def _hold(self, weight: SparseMatrix) -> None:
        """Make the arrays of `weight` buffers; it and this module share one dict of them.

        So what torch does to buffers happens to the encoding, which notices it at the next launch.
        """
        for name, array in weight.arrays.items():
            self.register_buffer(name, array)
        weight.arrays = self._buffers
        self._weight, self._key = weight, weight.key

    def _revalidated(self) -> SparseMatrix:
        """The encoding that the buffers are now; ValueError if they are none."""
        A = self._weight
        return type(A)(A.shape, A.dtype, dict(self._buffers))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        for name, mine in self._own():
            if (dtype := fn(mine.new_empty(0)).dtype) != mine.dtype:
                raise ValueError(
                    f"dtype={dtype}: {name!r} of this layer is {mine.dtype} and stays so; "
                    "convert the torch.nn.Linear before it is encoded, or to_linear(). Layers "
                    "before it are converted by now, and may have lost digits"
                )
        before = dict(self._buffers)
        super()._apply(fn, recurse)
        moved = any(array is not before[name] for name, array in self._buffers.items())
        if moved and self._weight.device.type != "meta":
            self._hold(self._revalidated())
        return self

    def _load_from_state_dict(self, state_dict: Mapping, prefix: str, *others: Any) -> None:
        """All of a state or nothing: what is refused leaves arrays and bias as they were."""
        *_, missing, unexpected, errors = others
        counts, taken = [len(missing), len(unexpected), len(errors)], False
        arrays, bias = dict(self._buffers), self.bias
        values = None if bias is None else bias.detach().clone()
        try:
            self._make_room(state_dict, prefix)
            super()._load_from_state_dict(state_dict, prefix, *others)
            self._check_whole(state_dict, prefix, missing[counts[0] :] + unexpected[counts[1] :])
            if len(errors) == counts[2]:
                self._hold(self._revalidated())
                taken = True
        except ValueError as error:
            errors.append(f"{prefix.removesuffix('.') or type(self).__name__}: {error}")
        finally:  # also where memory did not suffice
            if not taken:
                self._buffers.update(arrays)  # which nobody wrote to
                self.bias = bias
                if bias is not None:  # into which torch copies
                    with torch.no_grad():
                        bias.copy_(values)

    def _check_whole(self, state_dict: Mapping, prefix: str, amiss: list[str]) -> None:
        """Raise ValueError if a state has but a part of this layer's own, or more than that.

        torch says so, too, but once all layers have taken what there was for them.
        """
        amiss = [name for name in amiss if name != f"{prefix}_extra_state"]
        own = [name for name, _ in self._own()]
        if amiss and any(prefix + name in state_dict for name in own):
            found = ", ".join(amiss)
            raise ValueError(f"{found}: missing or unexpected; allowed: all of {', '.join(own)}")

    def _make_room(self, state_dict: Mapping, prefix: str) -> None:
        """New buffers, as long as the arrays to come, for torch copies between equal shapes."""
        if (extra := state_dict.get(f"{prefix}_extra_state")) is not None:
            self.set_extra_state(extra)
        for name, mine in self._own():
            new = state_dict.get(prefix + name)
            if isinstance(new, Tensor) and new.dtype != mine.dtype:
                raise ValueError(f"{name!r} is {new.dtype}; allowed: {mine.dtype}")
            if isinstance(new, Tensor) and name in self._buffers:  # which other layers may share
                self._buffers[name] = mine.new_empty(new.shape)

    def _own(self) -> list[tuple[str, Tensor]]:
        """Arrays and bias, by name."""
        return [*self._buffers.items(), *self.named_parameters(recurse=False)]

    def get_extra_state(self) -> Tensor:
        """What arrays need not say: version of the format, M, K, which of DTYPES; its name."""
        A = self._weight
        numbers = A.version, *A.shape, list(DTYPES.values()).index(A.dtype)
        return torch.tensor([*numbers, *A.name.encode()], device="cpu")  # safetensors have no text

    def set_extra_state(self, state: Tensor) -> None:
        """Raises ValueError unless `state` is that of a matrix of this format, shape and dtype."""
        every = self.get_extra_state().tolist()
        found = state.tolist() if isinstance(state, Tensor) else state
        mine, name = every[:NUMBERS], every[NUMBERS:]
        if isinstance(found, list) and found[NUMBERS:] not in (name, []):
            raise ValueError(f"this state is {_text(found[NUMBERS:])}; allowed: {_text(name)}")
        # Older states have no name, and those before them no dtype, which some arrays have.
        older = mine[:3] if None in self._weight.ARRAYS.values() else mine
        if found not in (every, mine, older):
            shown = found[:NUMBERS] if isinstance(found, list) else found
            dtypes = ", ".join(f"{number}: {name}" for number, name in enumerate(DTYPES))
            raise ValueError(f"version, M, K, dtype ({dtypes}) are {shown}; allowed: {mine}")

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self._hold(self._revalidated())


def _text(codes: list) -> str:
    """The name that a state has; what it holds instead, if that is none."""
    try:
        return bytes(codes).decode()
    except (TypeError, ValueError):
        return f"{codes!r:.60}"


def _check_gradient(x: Tensor) -> None:
    if torch.is_grad_enabled() and isinstance(x, Tensor) and x.requires_grad:
        raise RuntimeError(
            "x requires a gradient; SparseLinear has none: call it under torch.no_grad() or "
            "torch.inference_mode(), or give it x.detach()"
        )
