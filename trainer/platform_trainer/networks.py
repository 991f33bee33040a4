"""The networks of the catalogue, with random weights; nothing is ever downloaded."""
from __future__ import annotations

from typing import Any, Dict

import torchvision
from torch import nn

from .catalogue import find_model


def build_network(key: str, classes: int, image_size: int) -> nn.Module:
    """The network of a catalogue key; raises a Fault for an unknown key or an image size it cannot take."""
    model = find_model(key, image_size)
    if model.key == "small_cnn":
        return small_cnn(classes)
    options: Dict[str, Any] = {"image_size": image_size} if model.key.startswith("vit_") else {}
    return torchvision.models.get_model(key, weights=None, num_classes=classes, **options)


def small_cnn(classes: int) -> nn.Module:
    """Four convolutions for small data sets and quick checks; any image of 16 pixels or more fits."""
    blocks = [_block(inputs, outputs) for inputs, outputs in ((3, 32), (32, 64), (64, 128), (128, 128))]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, classes))


def _block(inputs: int, outputs: int) -> nn.Module:
    convolution = nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True), nn.MaxPool2d(2))
