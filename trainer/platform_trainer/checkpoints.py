"""Checkpoints: written whole or not at all, and loaded without running any code that a file could hold.

For that, PyTorch 1.13 takes tensors, texts, whole numbers and mappings of them, but no fractions.
"""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO, Dict, Optional

import torch

from .faults import Fault

State = Dict[str, Any]


class _Sink:
    """Takes what PyTorch writes and remembers why it could not: PyTorch itself ends the process on a full disk."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.error: Optional[OSError] = None

    def write(self, data: Any) -> int:
        """Write on, or pretend to after an error."""
        if self.error is None:
            try:
                self.file.write(data)
            except OSError as error:
                self.error = error
        return len(data)

    def flush(self) -> None:
        """Nothing: `save_checkpoint` flushes."""


def save_checkpoint(path: Path, state: State) -> None:
    """Write the state beside its place and onto the disk, then rename it there; raises OSError when it does not fit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        with open(unfinished, "wb", buffering=0) as file:
            sink = _Sink(file)
            torch.save(state, sink)
            if sink.error is not None:
                raise sink.error
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


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
