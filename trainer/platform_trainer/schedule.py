"""The learning rate over a training run, as a factor of its highest value."""
from __future__ import annotations

import math

_ONE_CYCLE_START = 1 / 25
_ONE_CYCLE_END = 1 / 250_000


def learning_rate_factor(schedule: str, step: int, steps: int, warmup_steps: float) -> float:
    """The factor at a step of 0..steps-1; one_cycle and cosine fall to nearly zero at the last one.

    @source one_cycle: Smith and Topin, Super-Convergence, 2018, with the constants of PyTorch's OneCycleLR
    """
    start = _ONE_CYCLE_START if schedule == "one_cycle" else 0.0
    if step < warmup_steps:
        if schedule == "one_cycle":
            return _cosine(start, 1, step / warmup_steps)
        return (step + 1) / (warmup_steps + 1)
    if schedule == "constant":
        return 1.0
    falling = (step - warmup_steps) / max(1.0, steps - 1 - warmup_steps)
    return _cosine(1, _ONE_CYCLE_END, min(1.0, falling))


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2
