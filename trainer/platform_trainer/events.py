"""Events as JSON lines: each is one append to the file, so a reader by byte offset never sees half of two."""
from __future__ import annotations

import hashlib
import json
import math
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

from .faults import Stopped

STEPS: Tuple[Tuple[str, str], ...] = (
    ("load", "Load the images"),
    ("train", "Train"),
    ("evaluate", "Evaluate the best checkpoint"),
    ("export", "Export and check the model"),
)
_INTERVAL_SECONDS = 0.5


class EventWriter:
    """Appends events to the file and tells people the same on standard output."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._last: Dict[str, float] = {}
        self._end_torn_line()
        self._told = _steps_told(path)

    def _end_torn_line(self) -> None:
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")

    def emit(self, event_type: str, **fields: Any) -> None:
        """Append one event."""
        event = {"ts": _now(), "type": event_type, **fields}
        line = json.dumps(event, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        while line:
            line = line[os.write(self._file, line) :]

    def due(self, what: str) -> bool:
        """Whether `what` may be told again: at most twice a second."""
        now = time.monotonic()
        if now - self._last.get(what, -math.inf) < _INTERVAL_SECONDS:
            return False
        self._last[what] = now
        return True

    def plan(self) -> None:
        """Announce the steps."""
        self.emit("plan", steps=[{"id": id, "title": title} for id, title in STEPS])

    @contextmanager
    def step(self, id: str) -> Iterator[None]:
        """Tell the start and the end of a step."""
        self.step_state(id, "running", 0)
        try:
            yield
        except Stopped:
            for later, _ in STEPS[[name for name, _ in STEPS].index(id) :]:
                self.step_state(later, "skipped", None, "Stopped before there was anything to keep.")
            raise
        except BaseException as error:
            self.step_state(id, "failed", None, str(error).strip().split("\n")[0])
            raise
        self.step_state(id, "succeeded", 1)

    def step_state(self, id: str, state: str, progress: Any = None, message: str = "") -> None:
        """Tell the state of a step; progress is 0..1 or, where it means nothing, None."""
        fields = {} if progress is None else {"progress": round(float(progress), 4)}
        self.emit("step", id=id, state=state, message=message, **fields)

    def progress(self, percent: float, epoch: int, epochs: int) -> None:
        """Tell how far the whole job is, in percent, and the epochs done."""
        self.emit("progress", percent=round(percent, 1), epoch=epoch, epochs=epochs)

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Tell metric values of one step; those that are not finite have no place in JSON and are left out.

        So are those that a job which resumes has told before: it repeats the same numbers.
        """
        now = _now()
        points: List[Dict[str, Any]] = [
            {"key": key, "step": step, "value": float(value), "ts": now}
            for key, value in values.items()
            if math.isfinite(value) and step > self._told.get(key, -math.inf)
        ]
        if points:
            self.emit("metrics", points=points)

    def log(self, message: str, level: str = "info") -> None:
        """Tell people a line, in the events and on standard output."""
        print(message if level == "info" else f"{level}: {message}", flush=True)
        self.emit("log", level=level, message=message)

    def artifact(self, output: Path, path: Path, kind: str) -> None:
        """Tell of a finished file; kind is model, checkpoint or report."""
        digest, size = _digest(path)
        self.emit("artifact", path=path.relative_to(output).as_posix(), kind=kind, size=size, sha256=digest)

    def artifacts(self, output: Path, paths: Sequence[Path], kind: str) -> None:
        """Tell of several finished files."""
        for path in paths:
            self.artifact(output, path, kind)


def _steps_told(path: Path) -> Dict[str, int]:
    """The last step of each metric in an event file."""
    told: Dict[str, int] = {}
    with open(path, "rb") as lines:
        for line in lines:
            if b'"type":"metrics"' not in line:
                continue
            try:
                told.update((point["key"], point["step"]) for point in json.loads(line)["points"])
            except (ValueError, KeyError, TypeError):
                continue  # torn by a crash
    return told


def _now() -> int:
    return int(time.time() * 1000)


def _digest(path: Path) -> Tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
            size += len(block)
    return digest.hexdigest(), size
