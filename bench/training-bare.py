"""The peer of the training-overhead benchmark: the same training as the trainer's, in one plain PyTorch file.

    python3 bench/training-bare.py DATA [--epochs 15] [--threads 2] [--seed 0]

DATA is a folder with train/<class>/* and test/<class>/*. A tenth of each training class is held out, as the trainer
does; no events, no checkpoints, no export. Prints one JSON line with the seconds and the test accuracy.
"""
import argparse
import json
import math
import random
import time
from pathlib import Path

started = time.monotonic()

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=15)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--size", type=int, default=64)
parser.add_argument("--batch", type=int, default=24)
parser.add_argument("--learning-rate", type=float, default=2.5e-3)
parser.add_argument("--weight-decay", type=float, default=0.05)
parser.add_argument("--smoothing", type=float, default=0.1)
parser.add_argument("--crop", type=float, default=0.5)
parser.add_argument("--jitter", type=float, default=0.0)
parser.add_argument("--validation", type=float, default=0.1)
parser.add_argument("--channels-last", action="store_true")
arguments = parser.parse_args()

import numpy  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402
from PIL import Image, ImageOps  # noqa: E402
from torch.nn import functional  # noqa: E402

torch.set_num_threads(arguments.threads)
torch.manual_seed(arguments.seed)
SIZE = arguments.size
CLASSES = sorted(folder.name for folder in (arguments.data / "train").iterdir())


def load(paths):
    images = torch.empty(len(paths), 3, SIZE, SIZE, dtype=torch.uint8)
    for row, path in enumerate(paths):
        image = ImageOps.exif_transpose(Image.open(path)).convert("RGB").resize((SIZE, SIZE), Image.BILINEAR)
        images[row] = torch.from_numpy(numpy.array(image)).permute(2, 0, 1)
    return images, torch.tensor([CLASSES.index(path.parent.name) for path in paths])


def augment(x):
    """Random resized crop, flip and colour, one value per image."""
    n = len(x)
    area = torch.empty(n).uniform_(arguments.crop, 1)
    ratio = torch.empty(n).uniform_(math.log(3 / 4), math.log(4 / 3)).exp()
    width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    flip = torch.where(torch.rand(n) < 0.5, -1.0, 1.0)
    theta = torch.zeros(n, 2, 3)
    theta[:, 0, 0], theta[:, 1, 1] = width * flip, height
    theta[:, 0, 2], theta[:, 1, 2] = (torch.rand(n) * 2 - 1) * (1 - width), (torch.rand(n) * 2 - 1) * (1 - height)
    grid = functional.affine_grid(theta, list(x.shape), align_corners=False)
    x = functional.grid_sample(x, grid, padding_mode="reflection", align_corners=False)
    if not arguments.jitter:
        return x
    brightness, contrast, saturation = (1 + (torch.rand(3, n, 1, 1, 1) * 2 - 1) * arguments.jitter)
    x = x * brightness
    x = torch.lerp(x.mean((1, 2, 3), keepdim=True), x, contrast)
    return torch.lerp(x.mean(1, keepdim=True), x, saturation).clamp(0, 1)


train, held_out = [], []
for folder in sorted((arguments.data / "train").iterdir()):
    paths = sorted(folder.iterdir())
    random.Random(arguments.seed).shuffle(paths)
    cut = round(len(paths) * arguments.validation)
    held_out += paths[:cut]
    train += paths[cut:]
x_train, y_train = load(train)
x_held_out, y_held_out = load(held_out) if held_out else (None, None)
x_test, y_test = load(sorted((arguments.data / "test").glob("*/*")))
mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)

model = torchvision.models.resnet18(weights=None, num_classes=len(CLASSES))
if arguments.channels_last:
    model = model.to(memory_format=torch.channels_last)
optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate, weight_decay=arguments.weight_decay)
steps_per_epoch = math.ceil(len(x_train) / arguments.batch)
schedule = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, arguments.learning_rate, total_steps=arguments.epochs * steps_per_epoch, cycle_momentum=False
)


def accuracy(x, y):
    model.eval()
    with torch.no_grad():
        scores = torch.cat([model((part / 255 - mean) / std) for part in x.split(128)])
    model.train()
    return (scores.argmax(1) == y).float().mean().item(), functional.cross_entropy(scores, y).item()


for epoch in range(arguments.epochs):
    for rows in torch.randperm(len(x_train)).split(arguments.batch):
        x = (augment(x_train[rows] / 255) - mean) / std
        if arguments.channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        loss = functional.cross_entropy(model(x), y_train[rows], label_smoothing=arguments.smoothing)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
    val = accuracy(x_held_out, y_held_out) if held_out else (0, 0)
    print(f"epoch {epoch + 1}: loss {loss.item():.3f}, held out {val[0]:.3f} {val[1]:.3f}, {time.monotonic() - started:.1f} s", flush=True)

top1, _ = accuracy(x_test, y_test)
print(json.dumps({"seconds": round(time.monotonic() - started, 2), "test_top1": round(top1, 4), "epochs": arguments.epochs}))
