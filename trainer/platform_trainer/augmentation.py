"""Random changes of training images, one draw per image, computed on whole batches."""
from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from .protocol import Augmentation


def augment(images: Tensor, settings: Augmentation, generator: torch.Generator) -> Tensor:
    """Changed copies of float images [N, 3, H, W] in 0..1; the draws come from the generator, a CPU one."""
    images = _move(images, settings, generator)
    return _colour(images, settings.color_jitter, generator) if settings.color_jitter else images


def _move(images: Tensor, settings: Augmentation, generator: torch.Generator) -> Tensor:
    """Crop, rotation and flip as one affine resampling."""
    if settings.crop == 1 and not settings.rotation:
        return _flip(images, settings.horizontal_flip, generator)
    count = len(images)
    area = _uniform(count, settings.crop, 1, generator)
    ratio = _uniform(count, math.log(3 / 4), math.log(4 / 3), generator).exp() if settings.crop < 1 else 1.0
    width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    angle = _uniform(count, -settings.rotation, settings.rotation, generator) * (math.pi / 180)
    mirror = torch.where(torch.rand(count, generator=generator) < settings.horizontal_flip, -1.0, 1.0)
    theta = torch.empty(count, 2, 3)
    theta[:, 0, 0], theta[:, 0, 1] = angle.cos() * width * mirror, -angle.sin() * height
    theta[:, 1, 0], theta[:, 1, 1] = angle.sin() * width * mirror, angle.cos() * height
    theta[:, 0, 2] = _uniform(count, -1, 1, generator) * (1 - width)
    theta[:, 1, 2] = _uniform(count, -1, 1, generator) * (1 - height)
    grid = functional.affine_grid(theta.to(images.device), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def _flip(images: Tensor, chance: float, generator: torch.Generator) -> Tensor:
    mirrored = torch.rand(len(images), 1, 1, 1, generator=generator) < chance
    return torch.where(mirrored.to(images.device), images.flip(3), images)


def _colour(images: Tensor, strength: float, generator: torch.Generator) -> Tensor:
    shape = (3, len(images), 1, 1, 1)
    factors = 1 + (torch.rand(shape, generator=generator) * 2 - 1) * strength
    brightness, contrast, saturation = factors.to(images.device)
    images = images * brightness
    images = torch.lerp(images.mean((1, 2, 3), keepdim=True), images, contrast)
    return torch.lerp(images.mean(1, keepdim=True), images, saturation).clamp(0, 1)


def _uniform(count: int, low: float, high: float, generator: torch.Generator) -> Tensor:
    return low + (high - low) * torch.rand(count, generator=generator)
