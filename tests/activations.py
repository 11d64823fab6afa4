"""Activations as models have them: how they may lie, for a layer [M, K]."""

import torch

M, K = 96, 192
WIDE = torch.randn(9, K + 8, generator=torch.Generator().manual_seed(0)).half()
ACTIVATIONS = {
    "tokens": WIDE[:8, :K].contiguous(),
    "part of more": WIDE[:8, :K],
    "one token": WIDE[:1, :K].contiguous(),
    "sequences": WIDE[:8, :K].contiguous().view(4, 2, K),
    "parts of sequences": WIDE[:8, :K].view(4, 2, K),
    "a vector": WIDE[0, :K].contiguous(),
}
