"""What a network says of a whole split, image by image."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable, List

import torch
from torch import Tensor
from torch.nn import functional

_BATCH = 128


@dataclass(frozen=True)
class Scores:
    """The mean loss (infinite when it is no number), and for each image its class, the one predicted, and its rank.

    The rank counts the classes scored above the image's own.
    """

    loss: float
    truths: List[int]
    predictions: List[int]
    ranks: List[int]

    @property
    def top1(self) -> float:
        """The share of images whose class was scored highest."""
        return sum(rank == 0 for rank in self.ranks) / len(self.ranks)


def score(rows: Tensor, labels: Tensor, logits_of: Callable[[Tensor], Tensor]) -> Scores:
    """The scores of these rows, of which there is at least one."""
    truths: List[int] = []
    predictions: List[int] = []
    ranks: List[int] = []
    loss = 0.0
    with torch.no_grad():
        for picked in rows.split(_BATCH):
            logits, own = logits_of(picked).float().cpu(), labels[picked]
            loss += functional.cross_entropy(logits, own, reduction="sum").item()
            truths += own.tolist()
            predictions += logits.argmax(1).tolist()
            ranks += ranks_of(logits, own).tolist()
    mean = loss / len(truths)
    return Scores(mean if math.isfinite(mean) else math.inf, truths, predictions, ranks)


def ranks_of(logits: Tensor, labels: Tensor) -> Tensor:
    """Classes scored above the true one; among equals the lower index wins, as argmax has it."""
    own = logits.gather(1, labels[:, None])
    earlier = torch.arange(logits.shape[1]) < labels[:, None]
    return ((logits > own) | ((logits == own) & earlier)).sum(1)
