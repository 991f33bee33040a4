"""The spec of a training job, protocol 1: what the platform writes and the trainer reads (PROTOCOL.md)."""
from __future__ import annotations

import json
from dataclasses import MISSING, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Iterator, List

from .faults import Fault
from .records import choice, flag, nested, number, read, text, texts

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Augmentation:
    """Random changes of the training images, drawn anew for each image and epoch."""

    horizontal_flip: float = number(0.5, 0, 1, "chance that an image is mirrored")
    crop: float = number(0.5, 0.05, 1, "smallest part of the area that a random crop keeps; 1 = no crop")
    rotation: float = number(0, 0, 180, "largest random rotation, in degrees either way")
    color_jitter: float = number(0, 0, 1, "random change of brightness, contrast and saturation; 0 = none")


@dataclass(frozen=True)
class EarlyStopping:
    """When to end before the last epoch, and what makes an epoch the best one."""

    patience: int = number(0, 0, 10_000, "epochs without improvement before training ends; 0 = never", whole=True)
    metric: str = choice("top1", ("top1", "loss"), "top1 or loss of the validation split; also picks the best epoch")
    min_delta: float = number(0, 0, 1, "smallest change that counts as an improvement")


@dataclass(frozen=True)
class Hyperparameters:
    """Everything a user may tune; the comments become the YAML text of the catalogue."""

    epochs: int = number(15, 1, 10_000, "passes over the training images", whole=True)
    batch_size: int = number(24, 1, 4096, "images per optimizer step; less needs less memory", whole=True)
    image_size: int = number(64, 16, 1024, "width and height, in pixels, that every image is resized to", whole=True)
    optimizer: str = choice("adamw", ("adamw", "sgd"), "adamw or sgd")
    learning_rate: float = number(0.0025, 1e-7, 10, "highest learning rate of the schedule")
    weight_decay: float = number(0.05, 0, 1, "pull of the weights towards zero")
    momentum: float = number(0.9, 0, 0.999, "of sgd; adamw ignores it")
    schedule: str = choice("one_cycle", ("one_cycle", "cosine", "constant"), "one_cycle, cosine or constant")
    warmup_epochs: float = number(4.5, 0, 1000, "epochs over which the learning rate rises; half of all at most")
    label_smoothing: float = number(0.1, 0, 0.9, "share of the target spread over all classes")
    gradient_clip: float = number(0, 0, 1000, "largest norm of the gradients; 0 = not limited")
    augmentation: Augmentation = nested(Augmentation)
    early_stopping: EarlyStopping = nested(EarlyStopping)


@dataclass(frozen=True)
class Data:
    """Where the images lie; `classes` fixes the order of the outputs."""

    root: str = text()
    index: str = text()
    classes: List[str] = texts()


@dataclass(frozen=True)
class Split:
    """How to carve a validation split when the index has none."""

    validation_fraction: float = number(0.1, 0, 0.9)


@dataclass(frozen=True)
class Evaluation:
    """The split the final numbers come from; falls back to val, then train."""

    split: str = choice("test", SPLITS)


@dataclass(frozen=True)
class Export:
    """The form of the exported model."""

    format: str = choice("onnx", ("onnx",))
    opset: int = number(17, 11, 17, whole=True)


@dataclass(frozen=True)
class Spec:
    """One training job. Paths are absolute; `threads` 0 means one per processor."""

    protocol: int = number(MISSING, 1, 1, whole=True)
    task: str = text()
    framework: str = text()
    model: str = text()
    data: Data = nested(Data)
    output: str = text()
    events: str = text()
    hyperparameters: Hyperparameters = nested(Hyperparameters)
    split: Split = nested(Split)
    seed: int = number(0, 0, 2**31 - 1, whole=True)
    threads: int = number(0, 0, 1024, whole=True)
    device: str = choice("auto", ("auto", "cpu", "cuda"))
    evaluation: Evaluation = nested(Evaluation)
    export: Export = nested(Export)
    resume: bool = flag(False)


@dataclass(frozen=True)
class Sample:
    """One line of the index: a file relative to the root, its class and its split."""

    path: str
    label: str
    split: str


def parse_spec(values: Any) -> Spec:
    """The spec from plain JSON; a fault in the hyperparameters names the key as the user wrote it."""
    return read(Spec, values, "")


def read_index(path: Path) -> Iterator[Sample]:
    """The samples of index.jsonl, in its order; raises a Fault that names the line."""
    with open(path, encoding="utf-8") as lines:
        for row, line in enumerate(lines, start=1):
            if line.strip():
                yield _sample(line, row)


def _sample(line: str, row: int) -> Sample:
    try:
        value = json.loads(line)
        sample = Sample(str(value["path"]), str(value["label"]), str(value["split"]))
    except (ValueError, KeyError, TypeError):
        raise Fault(f"Line {row} of the index is not a sample.", "Validate the data set again.") from None
    if sample.split not in SPLITS:
        raise Fault(f"Line {row} of the index has the split {sample.split!r}.", f"Use one of {', '.join(SPLITS)}.")
    parts = PurePosixPath(sample.path)
    if parts.is_absolute() or ".." in parts.parts:
        raise Fault(f"Line {row} of the index leaves the data folder: {sample.path}", "Validate the data set again.")
    return sample
