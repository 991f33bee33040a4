"""Image classification with TorchVision: the hooks load, train, evaluate and export."""
from __future__ import annotations

import os
from collections import Counter
from math import isfinite
from pathlib import Path
from typing import Any, Dict, List, Mapping

import torch
import torchvision

from ..evaluation import report
from ..export import export_check, export_onnx, verify_onnx
from ..faults import Fault, Stopped
from ..images import ImageSet, carve_validation, load_images
from ..loop import MEAN, STD, Trainer
from ..model_files import ONNX_FILE, mlmodel_text, model_description, write_json, write_whole
from ..networks import build_network
from ..protocol import Sample, Spec, read_index
from . import Job, Outcome


def load(job: Job) -> Trainer:
    """Check the model, decode the images, and put both together."""
    spec, size = job.spec, job.spec.hyperparameters.image_size
    torch.manual_seed(spec.seed)
    torch.set_num_threads(spec.threads or os.cpu_count() or 1)
    device = _device(spec.device)
    network = build_network(spec.model, len(spec.data.classes), size)
    images = _images(job, size)
    folder = Path(spec.output) / "checkpoints"
    trainer = Trainer(network, images, spec.hyperparameters, device, spec.seed, folder, job.events, job.stop_requested)
    counts = ", ".join(f"{len(rows)} {split}" for split, rows in images.rows.items())
    parameters = sum(parameter.numel() for parameter in network.parameters()) / 1e6
    where = f"{device.type}, {torch.get_num_threads()} threads"
    job.events.log(f"{spec.model} with {parameters:.2f} million parameters on {where}; images: {counts}.")
    return trainer


def train(job: Job, trainer: Trainer) -> Outcome:
    """Train, leaving checkpoints/best.pt and last.pt."""
    if job.spec.resume and trainer.last_file.exists():
        trainer.resume()
    progress = trainer.run()
    files = [file for file in (trainer.best_file, trainer.last_file) if file.exists()]
    job.events.artifacts(Path(job.spec.output), files, "checkpoint")
    return Outcome(progress.stopped, progress.best_epoch, progress.epochs_done)


def evaluate(job: Job, trainer: Trainer) -> Mapping[str, float]:
    """Score the best checkpoint on the asked split, or the next that has images, and write evaluation.json."""
    trainer.restore_best()
    wanted = [job.spec.evaluation.split, "val", "train"]
    split = next(name for name in wanted if name in trainer.images.rows)
    if split != wanted[0]:
        job.events.log(f"There is no {wanted[0]} split: evaluating on {split}.", "warning")
    scores = trainer.score(split)
    found = report(scores.truths, scores.predictions, scores.ranks, scores.loss, job.spec.data.classes)
    path = Path(job.spec.output) / "evaluation.json"
    write_json(path, {"split": split, **found})
    job.events.artifact(path.parent, path, "report")
    metrics = {f"{split}/{key}": value for key, value in found["metrics"].items()}
    best = {key: value for key, value in trainer.progress.best.items() if key.startswith("val/") and isfinite(value)}
    job.events.metrics(trainer.progress.best_epoch, metrics)
    job.events.log(", ".join(f"{key} {value:.4g}" for key, value in metrics.items()))
    return {**best, **metrics}


def export(job: Job, trainer: Trainer, metrics: Mapping[str, float]) -> None:
    """Write model/model.onnx with its description, checked against PyTorch, and export_check.json for the platform."""
    spec, size = job.spec, job.spec.hyperparameters.image_size
    output = Path(spec.output)
    folder = output / "model"
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / ONNX_FILE
    export_onnx(trainer.network, size, spec.export.opset, model)
    check = export_check(trainer.network, size)
    verified = verify_onnx(model, check)
    job.events.log(f"Checked the exported model: {verified or 'left to the platform, there is no ONNX runtime here'}.")
    version = torchvision.__version__
    description = model_description(spec.model, version, size, spec.data.classes, MEAN, STD, metrics)
    write_json(folder / "model.json", description)
    write_whole(folder / "MLmodel", mlmodel_text(description, model.stat().st_size))
    write_json(output / "export_check.json", check)
    job.events.artifacts(output, [model, folder / "model.json", folder / "MLmodel"], "model")
    job.events.artifact(output, output / "export_check.json", "report")


def _images(job: Job, size: int) -> ImageSet:
    spec = job.spec
    samples = carve_validation(_samples(job), spec.split.validation_fraction, spec.seed)

    def told(done: int) -> None:
        if job.stop_requested():
            raise Stopped()
        if job.events.due("load"):
            share = done / len(samples)
            job.events.step_state("load", "running", share, f"{done} of {len(samples)} images")
            job.events.progress(5 * share, 0, spec.hyperparameters.epochs)

    def unreadable(message: str) -> None:
        job.events.log(f"Left out, cannot be read: {message}", "warning")

    output = Path(spec.output)
    output.mkdir(parents=True, exist_ok=True)
    root, spill = Path(spec.data.root), output / "pixels.unfinished"
    return load_images(root, samples, spec.data.classes, size, spill, told, unreadable)


def _samples(job: Job) -> List[Sample]:
    wanted, left_out = set(job.spec.data.classes), Counter()  # type: ignore[var-annotated]
    samples: List[Sample] = []
    for sample in read_index(Path(job.spec.data.index)):
        if sample.label in wanted:
            samples.append(sample)
        else:
            left_out[sample.label] += 1
    if left_out:
        job.events.log(f"{sum(left_out.values())} images of {len(left_out)} classes that were not chosen are left out.")
    if not samples:
        raise Fault("The index holds no image of the chosen classes.", "Choose classes of this data set.")
    return samples


def _device(wanted: str) -> torch.device:
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise Fault("device is cuda, but this machine offers PyTorch no GPU.", "Use the device auto or cpu.")
    return torch.device("cuda" if available and wanted != "cpu" else "cpu")
