"""Checkpoints: written whole or not at all, and loaded without running any code that a file could hold.

For that, PyTorch 1.13 takes tensors, texts, whole numbers and mappings of them, but no fractions.
"""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict

import torch

from .faults import Fault

State = Dict[str, Any]


def save_checkpoint(path: Path, state: State) -> None:
    """Write the state beside its place, then rename it there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".unfinished")
    torch.save(state, unfinished)
    os.replace(unfinished, path)


def load_checkpoint(path: Path) -> State:
    """The state of a checkpoint, on the CPU; raises a Fault when the file is damaged."""
    try:
        return dict(torch.load(path, map_location="cpu", weights_only=True))
    except OSError:
        raise
    except Exception as error:
        raise Fault(f"The checkpoint {path.name} cannot be read: {error}", "Start the experiment anew.") from error


def random_state(generator: torch.Generator) -> State:
    """The state of every random number generator that training draws from."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"generator": generator.get_state(), "torch": torch.get_rng_state(), "cuda": cuda}


def restore_random_state(state: State, generator: torch.Generator) -> None:
    """Continue the random numbers where `random_state` was taken."""
    generator.set_state(state["generator"])
    torch.set_rng_state(state["torch"])
    if len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
