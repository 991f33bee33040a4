"""Moves an experiment between a stock MLflow server and a running platform with mlflow-export-import, both ways.

Reads MLFLOW_TRACKING_URI and MLFLOW_TRACKING_TOKEN. Prints one line per direction and ends with 1 at the first difference.
"""
from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from contextlib import contextmanager
from pathlib import Path

import mlflow
import numpy
from mlflow import MlflowClient
from sklearn.linear_model import LogisticRegression

PLATFORM = os.environ["MLFLOW_TRACKING_URI"]


@contextmanager
def stock_server(folder: Path):
    """A server as it comes, on a database of its own; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    stores = ["--backend-store-uri", f"sqlite:///{folder}/stock.db", "--artifacts-destination", f"{folder}/artifacts"]
    listen = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    with open(folder / "stock.log", "w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", *listen, *stores], stdout=log, stderr=log, start_new_session=True
        )
    try:
        uri = f"http://127.0.0.1:{port}"
        wait_for(server, uri + "/health", folder / "stock.log")
        yield uri
    finally:
        os.killpg(server.pid, 15)
        server.wait()


def wait_for(server: subprocess.Popen, url: str, log: Path) -> None:
    while True:
        assert server.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(url, timeout=5)
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)


def tool(uri: str, name: str, *arguments: str) -> None:
    environment = {**os.environ, "MLFLOW_TRACKING_URI": uri}
    program = os.path.join(os.path.dirname(sys.executable), name)
    done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{name} failed on {uri}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def fill(uri: str, name: str) -> None:
    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment(name)
    with mlflow.start_run(run_name="one"):
        mlflow.log_params({"lr": 0.1, "seed": 7})
        mlflow.set_tag("team", "vision")
        for step in range(5):
            mlflow.log_metric("loss", 1 / (step + 1), step=step)
        mlflow.log_text("hello", "notes/a.txt")
        mlflow.sklearn.log_model(LogisticRegression().fit([[0.0], [1.0]], [0, 1]), "model")


def contents(uri: str, name: str) -> dict:
    """What the tool moves; it leaves inputs of runs behind."""
    mlflow.set_tracking_uri(uri)
    client = MlflowClient()
    [run] = client.search_runs([client.get_experiment_by_name(name).experiment_id])
    history = client.get_metric_history(run.info.run_id, "loss")
    model = mlflow.pyfunc.load_model(f"{run.info.artifact_uri}/model")
    return {
        "name": run.info.run_name,
        "params": run.data.params,
        "team": run.data.tags["team"],
        "history": sorted((point.step, point.value) for point in history),
        "text": mlflow.artifacts.load_text(f"{run.info.artifact_uri}/notes/a.txt"),
        "predictions": model.predict(numpy.array([[0.0], [1.0]])).tolist(),
    }


def move(source: str, target: str, name: str, folder: Path) -> None:
    """Experiments only: for registered models the tool sends no token, and wants artifacts on its own disk."""
    fill(source, name)
    tool(source, "export-experiment", "--experiment", name, "--output-dir", str(folder / "experiment"))
    tool(target, "import-experiment", "--experiment-name", name, "--input-dir", str(folder / "experiment"))
    before, after = contents(source, name), contents(target, name)
    assert before == after, f"{name}: {before} became {after}"


def main() -> int:
    suffix = uuid.uuid4().hex[:8]
    with tempfile.TemporaryDirectory() as folder:
        with stock_server(Path(folder)) as stock:
            for direction, source, target in [("in", stock, PLATFORM), ("out", PLATFORM, stock)]:
                place = Path(folder) / direction
                place.mkdir()
                move(source, target, f"moved-{direction}-{suffix}", place)
                print(f"ok moved {direction}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
