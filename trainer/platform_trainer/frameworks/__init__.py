"""The frameworks the trainer knows: each is a module with the four hooks load, train, evaluate and export."""
from __future__ import annotations

from importlib import import_module
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Tuple

from ..events import EventWriter
from ..faults import Fault
from ..protocol import Spec


class Job(NamedTuple):
    """What every hook gets."""

    spec: Spec
    events: EventWriter
    stop_requested: Callable[[], bool]


class Outcome(NamedTuple):
    """What training came to; the epoch of the best checkpoint is 0 when no epoch was finished."""

    stopped: bool
    best_epoch: int
    epochs_done: int


class Framework(NamedTuple):
    """The hooks in their order; what `load` returns is handed to the others."""

    load: Callable[[Job], Any]
    train: Callable[[Job, Any], Outcome]
    evaluate: Callable[[Job, Any], Mapping[str, float]]
    export: Callable[[Job, Any, Mapping[str, float]], None]


_MODULES: Dict[Tuple[str, str], str] = {("image_classification", "torchvision"): "torchvision_classification"}


def find_framework(task: str, framework: str) -> Framework:
    """The hooks of a framework for a task; its packages are imported only here."""
    name = _MODULES.get((task, framework))
    if name is None:
        known: List[str] = [f"{of} for {task}" for task, of in _MODULES]
        raise Fault(f"The trainer has no {framework!r} for {task!r}.", f"Use {', '.join(known)}.")
    try:
        module = import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        remedy = "Name a Python that has torch, torchvision, numpy and Pillow in the platform's TRAINER_PYTHON."
        raise Fault(f"The Python package {error.name} is missing.", remedy) from error
    return Framework(module.load, module.train, module.evaluate, module.export)
