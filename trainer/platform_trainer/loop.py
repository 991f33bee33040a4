"""The training loop: epochs, schedule, early stopping, best checkpoint, graceful stop and exact resume."""
from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from .augmentation import augment
from .checkpoints import load_checkpoint, random_state, restore_random_state, save_checkpoint
from .events import EventWriter
from .faults import Fault, Stopped
from .images import ImageSet
from .protocol import Hyperparameters
from .schedule import learning_rate_factor
from .scoring import Scores, score

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Checkpoints may take this share of the time; what a crash loses is bounded by a hundred times what saving takes.
_SAVING_SHARE = 0.01


@dataclass
class Progress:
    """How far training came; it is part of a checkpoint."""

    epochs_done: int = 0
    best_epoch: int = 0
    best: Dict[str, float] = field(default_factory=dict)
    stale_epochs: int = 0
    stopped: bool = False


class Trainer:
    """One network in training."""

    def __init__(
        self,
        network: nn.Module,
        images: ImageSet,
        hyperparameters: Hyperparameters,
        device: torch.device,
        seed: int,
        folder: Path,
        events: EventWriter,
        stop_requested: Callable[[], bool],
    ) -> None:
        self.images, self.hyperparameters, self.device = images, hyperparameters, device
        self.events, self.stop_requested = events, stop_requested
        self.best_file, self.last_file = folder / "best.pt", folder / "last.pt"
        self.network = network.to(device)
        self.optimizer = _optimizer(self.network, hyperparameters)
        self.generator = torch.Generator().manual_seed(seed)
        self.progress = Progress()
        self.best_weights: Dict[str, Tensor] = {}
        self.save_after = -math.inf
        self.batches = _batches(len(images.rows["train"]), hyperparameters.batch_size)
        self.mean = torch.tensor(MEAN, device=device).view(3, 1, 1)
        self.std = torch.tensor(STD, device=device).view(3, 1, 1)

    def run(self) -> Progress:
        """Train to the end, to the patience of early stopping or to a stop; raises Stopped when no batch was done."""
        while not self._finished():
            batches_done, values = self._epoch()
            if batches_done < self.batches:
                self._keep_after_stop(batches_done)
                return self.progress
            self._finish_epoch(values)
        self._save()
        return self.progress

    def resume(self) -> None:
        """Continue after the last whole epoch of last.pt, exactly as if there had been no break."""
        state = load_checkpoint(self.last_file)
        try:
            self.network.load_state_dict(state["network"])
            groups = self.optimizer.state_dict()["param_groups"]  # the spec decides their values, not the past
            self.optimizer.load_state_dict({"state": state["optimizer"], "param_groups": groups})
        except (KeyError, ValueError, RuntimeError) as error:
            remedy = "Keep the model, the classes and the optimizer when resuming, or start anew."
            raise Fault(f"The checkpoint does not fit this experiment: {str(error).splitlines()[0]}", remedy) from error
        restore_random_state(state["random"], self.generator)
        self.best_weights = load_checkpoint(self.best_file)["network"]
        self.progress = Progress(**json.loads(state["progress"]))
        self.events.log(f"Resuming after epoch {self.progress.epochs_done}.")

    def restore_best(self) -> None:
        """Give the network the weights of its best epoch."""
        self.network.load_state_dict(self.best_weights)

    def score(self, split: str) -> Scores:
        """The network's scores of a split, without augmentation and in full precision."""
        self.network.eval()
        scores = score(self.images.rows[split], self.images.labels, self._logits)
        self.network.train()
        return scores

    def _finished(self) -> bool:
        if self.progress.epochs_done >= self.hyperparameters.epochs:
            return True
        patience = self.hyperparameters.early_stopping.patience
        if not patience or self.progress.stale_epochs < patience:
            return False
        self.events.log(f"No improvement for {patience} epochs: training ends early.")
        return True

    def _epoch(self) -> Tuple[int, Dict[str, float]]:
        """The batches done, fewer than all after a stop, and the epoch's training values."""
        self.network.train()
        rows = self.images.rows["train"]
        order = rows[torch.randperm(len(rows), generator=self.generator)]
        total = torch.zeros((), device=self.device)
        first_step = self.progress.epochs_done * self.batches
        for batch, picked in enumerate(order.split(self.hyperparameters.batch_size)[: self.batches]):
            if self.stop_requested():
                self.events.log("Stopping: the last batch is done.")
                return batch, {}
            rate = self._set_learning_rate(first_step + batch)
            loss = self._step(picked)
            total += loss
            if self.events.due("batch"):
                self._tell_batch(first_step + batch + 1, loss.item(), rate)
        loss_mean = self._finite(total.item() / self.batches)
        return self.batches, {"train/loss": loss_mean, "train/learning_rate": rate}

    def _step(self, rows: Tensor) -> Tensor:
        images = augment(self._pixels(rows), self.hyperparameters.augmentation, self.generator)
        labels = self.images.labels[rows].to(self.device)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=_fast_half(self.device)):
            logits = self.network(self._normalise(images))
            smoothing = self.hyperparameters.label_smoothing
            loss = functional.cross_entropy(logits.float(), labels, label_smoothing=smoothing)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.hyperparameters.gradient_clip:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.hyperparameters.gradient_clip)
        self.optimizer.step()
        return loss.detach()

    def _finish_epoch(self, values: Dict[str, float]) -> None:
        progress, epochs = self.progress, self.hyperparameters.epochs
        progress.epochs_done += 1
        if "val" in self.images.rows:
            scores = self.score("val")
            values.update({"val/loss": scores.loss, "val/top1": scores.top1})
        if self._improved(values):
            progress.best_epoch, progress.best, progress.stale_epochs = progress.epochs_done, dict(values), 0
            self._keep_best()
        else:
            progress.stale_epochs += 1
        if time.monotonic() > self.save_after:
            self._save()
        self.events.metrics(progress.epochs_done, values)
        self._tell_progress(progress.epochs_done)
        told = ", ".join(f"{key} {value:.4g}" for key, value in values.items())
        self.events.log(f"Epoch {progress.epochs_done} of {epochs}: {told}")

    def _improved(self, values: Dict[str, float]) -> bool:
        """Without a validation split the last epoch is the best; equal top-1 is decided by the loss."""
        best, rule = self.progress.best, self.hyperparameters.early_stopping
        if not best or "val/loss" not in values:
            return True
        lower_loss = values["val/loss"] < best["val/loss"] - rule.min_delta
        if rule.metric == "loss":
            return lower_loss
        difference = values["val/top1"] - best["val/top1"]
        return difference > rule.min_delta or (difference == 0 and lower_loss)

    def _keep_after_stop(self, batches_done: int) -> None:
        """last.pt stays that of a whole epoch, so resuming is exact; before the first one the weights are kept as is."""
        self.progress.stopped = True
        if not self.progress.epochs_done:
            if not batches_done:
                raise Stopped()
            self._keep_best()
        save_checkpoint(self.best_file, {"network": self.best_weights})

    def _keep_best(self) -> None:
        self.best_weights = {name: value.detach().clone() for name, value in self.network.state_dict().items()}

    def _save(self) -> None:
        began = time.monotonic()
        # In this order: last.pt names the best epoch, so its weights are there before.
        save_checkpoint(self.best_file, {"network": self.best_weights})
        state = {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict()["state"],
            "random": random_state(self.generator),
            "progress": json.dumps(asdict(self.progress)),
        }
        save_checkpoint(self.last_file, state)
        ended = time.monotonic()
        self.save_after = ended + (ended - began) / _SAVING_SHARE

    def _set_learning_rate(self, step: int) -> float:
        wanted = self.hyperparameters
        warmup = min(wanted.warmup_epochs, wanted.epochs * 0.5) * self.batches
        rate = wanted.learning_rate * learning_rate_factor(
            wanted.schedule, step, wanted.epochs * self.batches, warmup
        )
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        return rate

    def _pixels(self, rows: Tensor) -> Tensor:
        return self.images.pixels[rows].to(self.device).float().div_(255)

    def _logits(self, rows: Tensor) -> Tensor:
        return self.network(self._normalise(self._pixels(rows)))

    def _normalise(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std

    def _tell_batch(self, step: int, loss: float, rate: float) -> None:
        self.events.metrics(step, {"train/batch_loss": self._finite(loss), "train/batch_learning_rate": rate})
        self._tell_progress(step / self.batches)

    def _tell_progress(self, epochs_done: float) -> None:
        share, epochs = epochs_done / self.hyperparameters.epochs, self.hyperparameters.epochs
        self.events.step_state("train", "running", share, f"Epoch {min(int(epochs_done) + 1, epochs)} of {epochs}")
        self.events.progress(5 + 88 * share, self.progress.epochs_done, epochs)

    def _finite(self, loss: float) -> float:
        if not math.isfinite(loss):
            message = f"The loss is no longer a number in epoch {self.progress.epochs_done + 1}."
            raise Fault(message, "Lower learning_rate, or set gradient_clip to 1.")
        return loss


def _optimizer(network: nn.Module, wanted: Hyperparameters) -> torch.optim.Optimizer:
    options: Dict[str, Any] = {"lr": wanted.learning_rate, "weight_decay": wanted.weight_decay}
    if wanted.optimizer == "sgd":
        return torch.optim.SGD(network.parameters(), momentum=wanted.momentum, nesterov=wanted.momentum > 0, **options)
    return torch.optim.AdamW(network.parameters(), **options)


def _batches(images: int, size: int) -> int:
    """A last batch of one image is left out: batch normalisation has no variance there."""
    return max(1, math.ceil(images / size) - (images % size == 1 and size > 1))


def _fast_half(device: torch.device) -> bool:
    return device.type == "cuda" and bool(torch.cuda.is_bf16_supported())
