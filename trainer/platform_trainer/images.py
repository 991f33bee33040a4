"""Images, decoded once into one uint8 tensor: in memory when it fits, else in a file the system pages in."""
from __future__ import annotations

import os
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import numpy
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL import __version__ as PIL_VERSION
from torch import Tensor

from .faults import Fault
from .protocol import Sample

# The bytes come from strangers: no EPS, which runs a program, nor anything else that is not plain pixels.
_PIXEL_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF")
_PIXELS_MAX = 500_000_000
_LARGE_PIXELS = 25_000_000
_ONE_LARGE_IMAGE = threading.Lock()
Image.MAX_IMAGE_PIXELS = None  # ours is _PIXELS_MAX, as the platform has it
_LARGEST_UNREADABLE_SHARE = 0.05
_CHUNK = 256
_LISTED = 20


@dataclass(frozen=True)
class ImageSet:
    """Pixels [N, 3, H, W] as uint8, the class of each image, and the rows of each split that has any."""

    pixels: Tensor
    labels: Tensor
    rows: Dict[str, Tensor]


def decode(path: Path, size: int) -> numpy.ndarray:
    """One image as RGB [3, size, size] in uint8: upright by EXIF, alpha dropped, stretched by an antialiased triangle.

    The model server repeats this. Images of many pixels are decoded one at a time.
    """
    with Image.open(path, formats=_formats()) as image:
        pixels = image.width * image.height
        if pixels > _PIXELS_MAX:
            raise ValueError(f"it has more than {_PIXELS_MAX} pixels")
        with _ONE_LARGE_IMAGE if pixels > _LARGE_PIXELS else nullcontext():
            # Pillow turns a TIFF while it loads it.
            upright = image if image.format == "TIFF" else ImageOps.exif_transpose(image)
            if upright.mode.startswith("I"):  # 16 bits, which Pillow would clip instead of scaling
                upright = upright.convert("I").point(lambda value: value * (1 / 256)).convert("L")
            return numpy.asarray(upright.convert("RGB").resize((size, size), Image.BILINEAR)).transpose(2, 0, 1)


def _formats() -> List[str]:
    """What may be decoded: pixel formats alone, of which this Pillow knows all or nearly all."""
    Image.preinit()
    if any(name not in Image.OPEN for name in _PIXEL_FORMATS):
        Image.init()
    return [name for name in _PIXEL_FORMATS if name in Image.OPEN]


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return f"damaged, or of a format that Pillow {PIL_VERSION} cannot read"
    return str(error) or type(error).__name__


def load_images(
    root: Path,
    samples: Sequence[Sample],
    classes: Sequence[str],
    size: int,
    spill: Path,
    told: Callable[[int], None],
    unreadable: Callable[[str], None],
) -> ImageSet:
    """Decode every sample; `told` hears of the images done, `unreadable` of each file that is left out.

    Raises a Fault when more than 5 % cannot be read or a class loses its last training image.
    """
    pixels = _storage((len(samples), 3, size, size), spill)
    faults: List[Tuple[int, str]] = []

    def work(row: int) -> Optional[Tuple[int, str]]:
        try:
            pixels[row] = decode(root / samples[row].path, size)
            return None
        except Exception as error:  # Pillow raises nearly anything for a broken file
            return row, f"{samples[row].path}: {_reason(error)}"

    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        for start in range(0, len(samples), _CHUNK):
            rows = range(start, min(start + _CHUNK, len(samples)))
            faults += [fault for fault in pool.map(work, rows) if fault]
            told(rows.stop)
    for _, message in faults[:_LISTED]:
        unreadable(message)
    if len(faults) > _LISTED:
        unreadable(f"{len(faults) - _LISTED} more")
    _check_unreadable(faults, len(samples))
    left_out = {row for row, _ in faults}
    _check_classes([sample for row, sample in enumerate(samples) if row not in left_out], classes)
    return _image_set(pixels, samples, classes, left_out)


def carve_validation(samples: Sequence[Sample], fraction: float, seed: int) -> List[Sample]:
    """The samples with a validation split: their own, or this fraction of each class's training images, by seed."""
    if fraction == 0 or any(sample.split == "val" for sample in samples):
        return list(samples)
    rows: Dict[str, List[int]] = {}
    for row, sample in enumerate(samples):
        if sample.split == "train":
            rows.setdefault(sample.label, []).append(row)
    shuffler = random.Random(seed)
    held_out = set()
    for label in sorted(rows):
        shuffler.shuffle(rows[label])
        held_out.update(rows[label][: min(round(len(rows[label]) * fraction), len(rows[label]) - 1)])
    return [Sample(s.path, s.label, "val") if row in held_out else s for row, s in enumerate(samples)]


def _storage(shape: Tuple[int, ...], spill: Path) -> numpy.ndarray:
    size_bytes = int(numpy.prod(shape, dtype=numpy.int64))
    if size_bytes <= memory_bytes() // 4:
        return numpy.empty(shape, dtype=numpy.uint8)
    pixels = numpy.memmap(spill, dtype=numpy.uint8, mode="w+", shape=shape)
    spill.unlink()  # the mapping keeps the space until the process ends, however it ends
    return pixels


def memory_bytes() -> int:
    """The memory this process may use: the machine's, or the limit of its control group."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limits.append(int(Path(path).read_text()))
        except (OSError, ValueError):
            continue  # absent, or "max"
    return min(limits)


def _check_unreadable(faults: Sequence[Tuple[int, str]], count: int) -> None:
    if len(faults) > _LARGEST_UNREADABLE_SHARE * count:
        share = f"{len(faults)} of {count} images cannot be read, first {faults[0][1]}"
        raise Fault(f"{share}.", "Remove or replace the broken files, then validate the data set again.")


def _check_classes(samples: Sequence[Sample], classes: Sequence[str]) -> None:
    counts = Counter(sample.label for sample in samples if sample.split == "train")
    empty = [name for name in classes if not counts[name]]
    if empty:
        raise Fault(f"No training image of {', '.join(empty[:10])}.", "Add images of it, or leave the class out.")
    if sum(counts.values()) < 2:
        raise Fault("One training image is not enough.", "Add training images.")


def _image_set(
    pixels: numpy.ndarray, samples: Sequence[Sample], classes: Sequence[str], left_out: "set[int]"
) -> ImageSet:
    number = {name: index for index, name in enumerate(classes)}
    rows: Dict[str, List[int]] = {}
    for row, sample in enumerate(samples):
        if row not in left_out:
            rows.setdefault(sample.split, []).append(row)
    labels = torch.tensor([number[sample.label] for sample in samples])
    return ImageSet(torch.from_numpy(pixels), labels, {split: torch.tensor(found) for split, found in rows.items()})
