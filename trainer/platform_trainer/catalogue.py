"""The catalogue of models: the table below and the declared hyperparameters make catalogue.json, which both sides read.

`python -m platform_trainer.catalogue` writes it anew; a test fails when the committed file is stale.
"""
from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from .faults import Fault
from .protocol import Hyperparameters
from .records import rules

CATALOGUE_FILE = Path(__file__).with_name("catalogue.json")


class Model(NamedTuple):
    """One network; parameters are counted in millions for 1,000 classes, sizes are in pixels."""

    key: str
    title: str
    parameters_millions: float
    minimum_image_size: int
    image_size_multiple: int
    defaults: Mapping[str, Any]


_MOBILE: Dict[str, Any] = {"epochs": 40, "image_size": 96, "learning_rate": 0.002}
_LARGE: Dict[str, Any] = {"epochs": 40, "image_size": 128, "learning_rate": 0.001}
_NO_NORM: Dict[str, Any] = {**_LARGE, "schedule": "cosine", "warmup_epochs": 5, "gradient_clip": 1}

MODELS: List[Model] = [
    Model("small_cnn", "Small CNN", 0.37, 16, 1, {"epochs": 30, "learning_rate": 0.005}),
    Model("resnet18", "ResNet-18", 11.69, 32, 1, {}),
    Model("resnet34", "ResNet-34", 21.8, 32, 1, {"epochs": 25, "learning_rate": 0.002}),
    Model("resnet50", "ResNet-50", 25.56, 32, 1, {**_LARGE, "learning_rate": 0.002}),
    Model("mobilenet_v2", "MobileNetV2", 3.5, 32, 1, _MOBILE),
    Model("mobilenet_v3_small", "MobileNetV3 small", 2.54, 32, 1, _MOBILE),
    Model("mobilenet_v3_large", "MobileNetV3 large", 5.48, 32, 1, _MOBILE),
    Model("efficientnet_b0", "EfficientNet-B0", 5.29, 32, 1, _MOBILE),
    Model("shufflenet_v2_x1_0", "ShuffleNetV2 1.0x", 2.28, 32, 1, _MOBILE),
    Model("squeezenet1_1", "SqueezeNet 1.1", 1.24, 32, 1, {**_NO_NORM, "image_size": 96, "weight_decay": 0.0005}),
    Model("regnet_y_400mf", "RegNetY-400MF", 4.34, 32, 1, _MOBILE),
    Model("densenet121", "DenseNet-121", 7.98, 32, 1, {**_LARGE, "batch_size": 16}),
    Model("convnext_tiny", "ConvNeXt tiny", 28.59, 32, 1, {**_NO_NORM, "batch_size": 16}),
    Model("vit_b_16", "ViT-B/16", 86.57, 32, 16, {**_NO_NORM, "batch_size": 16, "learning_rate": 0.0003}),
]


def find_model(key: str, image_size: int) -> Model:
    """The catalogue's model that takes images of this size; raises a Fault that names the key."""
    model = next((model for model in MODELS if model.key == key), None)
    if model is None:
        raise Fault(f"The model {key!r} is not in the catalogue.", f"Use one of {', '.join(m.key for m in MODELS)}.")
    if image_size < model.minimum_image_size:
        remedy = f"Use an image_size of at least {model.minimum_image_size} for {key}."
        raise Fault(f"hyperparameters.image_size {image_size} is too small.", remedy)
    if image_size % model.image_size_multiple:
        remedy = f"Use a multiple of {model.image_size_multiple} for {key}."
        raise Fault(f"hyperparameters.image_size {image_size} does not fit.", remedy)
    return model


def hyperparameters_yaml(model: Model) -> str:
    """The default hyperparameters of a model as the commented text a user edits."""
    heading = f"# {model.title} from random weights. A key that is left out keeps the value shown here."
    return "\n".join([heading, *_yaml_lines(Hyperparameters(), model.defaults)]) + "\n"


def _yaml_lines(record: Any, overrides: Mapping[str, Any], indent: str = "") -> List[str]:
    lines: List[str] = []
    for field in dataclasses.fields(record):
        value = overrides.get(field.name, getattr(record, field.name))
        if dataclasses.is_dataclass(value):
            lines += [f"{indent}{field.name}:", *_yaml_lines(value, {}, indent + "  ")]
        else:
            lines.append(f"{indent}{field.name}: {value}".ljust(28) + f"# {field.metadata['about']}")
    return lines


def catalogue() -> Dict[str, Any]:
    """What catalogue.json holds."""
    models = [
        {
            "key": model.key,
            "title": model.title,
            "parameters_millions": model.parameters_millions,
            "minimum_image_size": model.minimum_image_size,
            "image_size_multiple": model.image_size_multiple,
            "hyperparameters_yaml": hyperparameters_yaml(model),
        }
        for model in MODELS
    ]
    framework = {
        "key": "torchvision",
        "title": "TorchVision",
        "task": "image_classification",
        "description": "Convolutional networks and transformers of the PyTorch project that tell what an image shows.",
        "license": "BSD-3-Clause",
        "hyperparameters": rules(Hyperparameters),
        "models": models,
    }
    return {"format": 1, "frameworks": [framework]}


def write_catalogue(path: Optional[Path] = None) -> None:
    """Write catalogue.json."""
    content = json.dumps(catalogue(), indent=2, ensure_ascii=False) + "\n"
    (path or CATALOGUE_FILE).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    write_catalogue()
