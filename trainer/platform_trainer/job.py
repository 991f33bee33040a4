"""A training job from its spec to its result."""
from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, Mapping

from .events import EventWriter
from .faults import Fault, Stopped, explain
from .frameworks import Job, find_framework
from .protocol import Spec, parse_spec


class StopSignal:
    """SIGTERM and SIGINT: the first asks for a graceful stop, the second ends the process at once."""

    def __init__(self) -> None:
        self.requested = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._receive)

    def _receive(self, number: int, _frame: Any) -> None:
        if self.requested:
            os._exit(128 + number)
        self.requested = True


def run_job(spec_file: Path, stop: StopSignal) -> int:
    """Run the job of a spec file; returns the exit code: 0 after success or a stop, 1 after an `error` event."""
    try:
        values = json.loads(spec_file.read_text(encoding="utf-8"))
        events = EventWriter(Path(values["events"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"error: the spec {spec_file} cannot be used: {error!r}", file=sys.stderr)
        return 1
    try:
        spec = parse_spec(values)
        events.plan()
        _run_steps(spec, events, stop)
        return 0
    except Stopped:
        events.emit("result", state="stopped", metrics={}, best_epoch=0)
        return 0
    except Exception as error:
        message, remedy = explain(error)
        if not isinstance(error, Fault):
            traceback.print_exc()
        print(f"error: {message} {remedy}", file=sys.stderr, flush=True)
        try:
            events.emit("error", message=message, remedy=remedy)
        except OSError:
            pass  # a full disk takes no last words either; the platform finds it full
        return 1


def _run_steps(spec: Spec, events: EventWriter, stop: StopSignal) -> None:
    job = Job(spec, events, lambda: stop.requested)
    with events.step("load"):
        framework = find_framework(spec.task, spec.framework)
        loaded = framework.load(job)
    with events.step("train"):
        outcome = framework.train(job, loaded)
    with events.step("evaluate"):
        metrics: Mapping[str, float] = framework.evaluate(job, loaded)
    events.progress(96, outcome.epochs_done, spec.hyperparameters.epochs)
    with events.step("export"):
        framework.export(job, loaded, metrics)
    events.progress(100, outcome.epochs_done, spec.hyperparameters.epochs)
    state = "stopped" if outcome.stopped else "succeeded"
    events.emit("result", state=state, metrics=dict(metrics), best_epoch=outcome.best_epoch)
