"""What a backend says that it will do, before it does it."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Plan:
    """How one product will be launched; `str(plan)` is what `explain` prints.

    `kernel` is the name that rows of measurements carry; `choices` maps each decision to its value
    and reason. `split_k` is the mean number of parts that the sums over K are computed in.
    `product`, what is multiplied, is added by `ops.explain`.
    """

    backend: str
    kernel: str
    choices: dict[str, str] = field(default_factory=dict)
    split_k: float = 1
    product: str = ""

    def __str__(self) -> str:
        lines = {"product": self.product, "backend": self.backend, "kernel": self.kernel}
        return "\n".join(f"{name:<8}  {value}" for name, value in (lines | self.choices).items())
