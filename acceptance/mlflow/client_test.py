"""Drives a running platform with the real MLflow client, as any user would: `python client_test.py`.

Reads MLFLOW_TRACKING_URI and MLFLOW_TRACKING_TOKEN. Prints one line per check and ends with 1 at the first that fails.
"""
from __future__ import annotations

import math
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import mlflow
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag, ViewType
from mlflow.exceptions import MlflowException

os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
THREE = int(mlflow.__version__.split(".")[0]) >= 3
suffix = uuid.uuid4().hex[:8]
client = MlflowClient()
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def refused(code, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except MlflowException as error:
        assert error.error_code == code, f"{error.error_code}: {error}"
        return str(error)
    raise AssertionError(f"{call.__name__} was not refused with {code}")


def new_run(name=None):
    experiment = client.get_experiment_by_name(f"checks-{suffix}")
    experiment_id = experiment.experiment_id if experiment else client.create_experiment(f"checks-{suffix}")
    return client.create_run(experiment_id, run_name=name)


@check
def experiments():
    assert client.get_experiment("0").name == "Default"
    assert client.get_experiment_by_name(f"nobody-{suffix}") is None
    name = f"experiment-{suffix}"
    experiment_id = client.create_experiment(name, tags={"team": "a"})
    refused("RESOURCE_ALREADY_EXISTS", client.create_experiment, name)
    client.set_experiment_tag(experiment_id, "owner", "me")
    found = client.search_experiments(filter_string=f"name = '{name}' AND tags.team = 'a'")
    assert [e.experiment_id for e in found] == [experiment_id]
    assert found[0].tags == {"team": "a", "owner": "me"}
    client.rename_experiment(experiment_id, name + "-renamed")
    client.delete_experiment(experiment_id)
    assert client.get_experiment(experiment_id).lifecycle_stage == "deleted"
    refused("RESOURCE_ALREADY_EXISTS", client.create_experiment, name + "-renamed")
    assert experiment_id in [e.experiment_id for e in client.search_experiments(view_type=ViewType.DELETED_ONLY)]
    client.restore_experiment(experiment_id)
    assert client.get_experiment(experiment_id).lifecycle_stage == "active"
    pages = client.search_experiments(max_results=1)
    assert len(pages) == 1 and pages.token


@check
def runs():
    run = new_run("named")
    run_id = run.info.run_id
    assert run.data.tags["mlflow.runName"] == run.info.run_name == "named"
    client.log_param(run_id, "lr", 0.1)
    client.log_param(run_id, "lr", 0.1)
    refused("INVALID_PARAMETER_VALUE", client.log_param, run_id, "lr", 0.2)
    client.set_tag(run_id, "colour", "blue")
    client.set_tag(run_id, "colour", "red")
    client.update_run(run_id, status="FINISHED", name="renamed")
    run = client.get_run(run_id)
    assert run.info.status == "FINISHED" and run.info.run_name == run.data.tags["mlflow.runName"] == "renamed"
    assert run.data.params == {"lr": "0.1"} and run.data.tags["colour"] == "red"
    client.delete_tag(run_id, "colour")
    refused("RESOURCE_DOES_NOT_EXIST", client.delete_tag, run_id, "colour")
    client.delete_run(run_id)
    refused("INVALID_PARAMETER_VALUE", client.log_metric, run_id, "a", 1)
    client.restore_run(run_id)
    client.set_terminated(run_id, "KILLED")
    assert client.get_run(run_id).info.status == "KILLED"
    refused("RESOURCE_DOES_NOT_EXIST", client.get_run, "0" * 32)


@check
def metrics():
    run_id = new_run().info.run_id
    for step, value in [(3, 3.0), (1, 1.0), (2, float("nan")), (2, float("inf")), (2, -float("inf"))]:
        client.log_metric(run_id, "m", value, step=step, timestamp=1000 + step)
    assert client.get_run(run_id).data.metrics == {"m": 3.0}
    history = client.get_metric_history(run_id, "m")
    values = [m.value for m in history]
    assert sorted(v for v in values if math.isfinite(v)) == [1.0, 3.0] and len(values) == 5
    assert sum(math.isnan(v) for v in values) == 1 and math.inf in values and -math.inf in values
    assert client.get_metric_history(run_id, "none") == []
    batch = [Metric("many", float(i), 5000 + i, i) for i in range(3000)]
    for start in range(0, len(batch), 1000):
        client.log_batch(run_id, metrics=batch[start : start + 1000])
    assert [m.step for m in client.get_metric_history(run_id, "many")] == list(range(3000))


@check
def batches():
    run_id = new_run().info.run_id
    now = int(time.time() * 1000)
    client.log_batch(
        run_id,
        metrics=[Metric(f"m{i}", i, now, 0) for i in range(800)],
        params=[Param(f"p{i}", str(i)) for i in range(100)],
        tags=[RunTag(f"t{i}", str(i)) for i in range(100)],
    )
    run = client.get_run(run_id)
    assert len(run.data.metrics) == 800 and len(run.data.params) == 100 and run.data.tags["t99"] == "99"
    refused("INVALID_PARAMETER_VALUE", client.log_batch, run_id, params=[Param("p0", "other")])


@check
def search():
    experiment_id = client.create_experiment(f"search-{suffix}")
    for i in range(10):
        run = client.create_run(experiment_id, tags={"mlflow.user": "u" + str(i % 2)}, run_name=f"run-{i}")
        client.log_metric(run.info.run_id, "acc/val", i / 10)
        client.log_param(run.info.run_id, "model size", "large" if i % 2 else "small")
        if i == 9:
            client.log_metric(run.info.run_id, "rare", float("nan"))

    def names(filter_string="", order_by=None, **kwargs):
        return [r.info.run_name for r in client.search_runs([experiment_id], filter_string, order_by=order_by, **kwargs)]

    assert names("metrics.`acc/val` >= 0.7", ["metrics.`acc/val` DESC"]) == ["run-9", "run-8", "run-7"]
    assert names("params.`model size` = 'large' AND metrics.`acc/val` < 0.4", ["attributes.start_time ASC"]) == ["run-1", "run-3"]
    assert names("params.`model size` ILIKE 'SM%' and attributes.run_name LIKE 'run-_'", ["tags.`mlflow.runName` desc"])[0] == "run-8"
    assert names("attributes.run_name = 'run-3'") == ["run-3"] == names("run_name IN ('run-3')")
    assert len(names("attributes.status = 'RUNNING'")) == 10 and names("metrics.rare > 0") == []
    assert names("", ["metrics.rare ASC"])[0] == "run-9"
    assert len(names("", max_results=3)) == 3
    page = client.search_runs([experiment_id], max_results=6)
    rest = client.search_runs([experiment_id], max_results=6, page_token=page.token)
    assert len(page) == 6 and len(rest) == 4 and not rest.token
    refused("INVALID_PARAMETER_VALUE", client.search_runs, [experiment_id], "metrics.a > 'x'")
    refused("INVALID_PARAMETER_VALUE", client.search_runs, [experiment_id], "nothing.a = 'x'")
    frame = mlflow.search_runs([experiment_id], "metrics.`acc/val` > 0.75")
    assert sorted(frame["tags.mlflow.runName"]) == ["run-8", "run-9"]


@check
def artifacts():
    run_id = new_run().info.run_id
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tree", "sub folder")
        path.mkdir(parents=True)
        (path / "ü 1.txt").write_text("deep")
        Path(folder, "tree", "top.bin").write_bytes(os.urandom(3_000_000))
        client.log_artifacts(run_id, str(Path(folder, "tree")), "data")
        client.log_text(run_id, "hello", "notes/a.txt")
        client.log_dict(run_id, {"a": 1}, "b.json")
        assert sorted((f.path, f.is_dir) for f in client.list_artifacts(run_id)) == [
            ("b.json", False), ("data", True), ("notes", True)]
        listed = {f.path: f.file_size for f in client.list_artifacts(run_id, "data")}
        assert listed == {"data/sub folder": None, "data/top.bin": 3_000_000}
        got = client.download_artifacts(run_id, "", folder)
        assert Path(got, "data/sub folder/ü 1.txt").read_text() == "deep"
        assert Path(got, "data/top.bin").read_bytes() == Path(folder, "tree", "top.bin").read_bytes()
    assert mlflow.artifacts.load_text(f"runs:/{run_id}/notes/a.txt") == "hello"


@check
def large_files():
    # Clients ask for uploads in parts and for parts of downloads where they may; both end in what the platform offers.
    asked = {"MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD": "true", "MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD": "true",
             "MLFLOW_MULTIPART_UPLOAD_MINIMUM_FILE_SIZE": "1000000",
             "MLFLOW_MULTIPART_DOWNLOAD_MINIMUM_FILE_SIZE": "1000000"}
    os.environ.update(asked)
    run_id = new_run().info.run_id
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.bin")
        path.write_bytes(os.urandom(12_000_000))
        client.log_artifact(run_id, str(path), "in parts")
        got = client.download_artifacts(run_id, "in parts/large.bin", folder)
        assert Path(got).read_bytes() == path.read_bytes()
    for name in asked:
        del os.environ[name]


@check
def inputs():
    import pandas

    mlflow.set_experiment(f"checks-{suffix}")
    with mlflow.start_run() as active:
        data = mlflow.data.from_pandas(pandas.DataFrame({"a": [1, 2]}), name="table")
        mlflow.log_input(data, context="training")
    run = client.get_run(active.info.run_id)
    assert run.inputs.dataset_inputs[0].dataset.name == "table"
    found = client.search_runs([run.info.experiment_id], "dataset.name = 'table' AND dataset.context = 'training'")
    assert [r.info.run_id for r in found] == [active.info.run_id]


def train():
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression

    features, target = load_iris(return_X_y=True)
    return LogisticRegression(max_iter=200), features, target


@check
def autologging():
    mlflow.set_experiment(f"auto-{suffix}")
    mlflow.sklearn.autolog(log_datasets=True)
    with mlflow.start_run() as active:
        model, features, target = train()
        model.fit(features, target)
    mlflow.sklearn.autolog(disable=True)
    run = client.get_run(active.info.run_id)
    assert "training_accuracy_score" in run.data.metrics and run.data.params["max_iter"] == "200"
    loaded = mlflow.pyfunc.load_model(f"runs:/{active.info.run_id}/model")
    assert (loaded.predict(features) == model.predict(features)).all()


@check
def registry():
    name = f"iris-{suffix}"
    model, features, target = train()
    model.fit(features, target)
    mlflow.set_experiment(f"registry-{suffix}")
    for _ in range(2):
        with mlflow.start_run():
            key = {"name": "model"} if THREE else {"artifact_path": "model"}
            mlflow.sklearn.log_model(model, registered_model_name=name, input_example=features[:2], **key)
    refused("RESOURCE_ALREADY_EXISTS", client.create_registered_model, name)
    client.set_registered_model_tag(name, "kind", "linear")
    client.update_registered_model(name, description="about flowers")
    client.set_registered_model_alias(name, "champion", "1")
    for alias in ("latest", "v2"):
        refused("INVALID_PARAMETER_VALUE", client.set_registered_model_alias, name, alias, "1")
    assert client.get_model_version_by_alias(name, "champion").version in ("1", 1)
    found = client.get_registered_model(name)
    assert found.tags["kind"] == "linear" and found.description == "about flowers"
    assert [m.name for m in client.search_registered_models(f"name LIKE 'iris-{suffix}%'")] == [name]
    version = client.get_model_version(name, "2")
    assert version.status == "READY" and version.run_id
    for uri in (f"models:/{name}/2", f"models:/{name}@champion"):
        loaded = mlflow.pyfunc.load_model(uri)
        assert (loaded.predict(features) == model.predict(features)).all()
    client.transition_model_version_stage(name, "1", "production")
    client.transition_model_version_stage(name, "2", "Production", archive_existing_versions=True)
    assert client.get_model_version(name, "1").current_stage == "Archived"
    refused("INVALID_PARAMETER_VALUE", client.transition_model_version_stage, name, "1", "None", True)
    assert [v.version for v in client.get_latest_versions(name, ["Production"])] in (["2"], [2])
    client.set_model_version_tag(name, "1", "checked", "yes")
    versions = client.search_model_versions(f"name = '{name}' AND tags.checked = 'yes'")
    assert [int(v.version) for v in versions] == [1]
    client.delete_model_version_tag(name, "1", "checked")
    client.update_model_version(name, "1", description="the first")
    assert client.get_model_version(name, "1").description == "the first"
    refused("RESOURCE_CONFLICT", client.delete_registered_model, name)
    client.transition_model_version_stage(name, "2", "Archived")
    client.rename_registered_model(name, name + "-new")
    client.delete_registered_model_alias(name + "-new", "champion")
    client.delete_model_version(name + "-new", "1")
    refused("RESOURCE_DOES_NOT_EXIST", client.get_model_version, name + "-new", "1")
    client.delete_registered_model(name + "-new")
    refused("RESOURCE_DOES_NOT_EXIST", client.get_registered_model, name + "-new")


def command(*arguments):
    program = Path(sys.executable).with_name("mlflow")
    ended = subprocess.run([program, *arguments], capture_output=True, text=True)
    assert ended.returncode == 0, f"mlflow {' '.join(arguments)}: {ended.stdout}{ended.stderr}"
    return ended.stdout


@check
def commands():
    name = f"commands-{suffix}"
    model, features, target = train()
    model.fit(features, target)
    mlflow.set_experiment(name)
    with mlflow.start_run() as active:
        key = {"name": "model"} if THREE else {"artifact_path": "model"}
        mlflow.sklearn.log_model(model, registered_model_name=name, **key)
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder, "asked.json")
        asked.write_text(json.dumps({"inputs": features[:3].tolist()}))
        uri = f"models:/{name}/1"
        said = command("models", "predict", "-m", uri, "-i", str(asked), "-t", "json", "--env-manager", "local")
        assert json.loads(said)["predictions"] == model.predict(features[:3]).tolist()
        command("models", "generate-dockerfile", "-m", uri, "-d", str(Path(folder, "image")), "--env-manager", "local")
        assert Path(folder, "image", "Dockerfile").exists() and Path(folder, "image", "model_dir", "MLmodel").exists()
    assert active.info.run_id in command("experiments", "csv", "-x", active.info.experiment_id)


@check
def logged_models():
    if not THREE:
        return
    mlflow.set_experiment(f"logged-{suffix}")
    model, features, target = train()
    model.fit(features, target)
    with mlflow.start_run() as active:
        info = mlflow.sklearn.log_model(model, name="iris", params={"depth": "3"}, tags={"a": "b"})
        mlflow.log_metric("score", 0.9, model_id=info.model_id)
    logged = mlflow.get_logged_model(info.model_id)
    assert logged.status == "READY" and logged.params == {"depth": "3"} and logged.tags["a"] == "b"
    assert [m.value for m in logged.metrics] == [0.9]
    assert client.get_run(active.info.run_id).outputs.model_outputs[0].model_id == info.model_id
    found = mlflow.search_logged_models([active.info.experiment_id], "metrics.score > 0.5 AND params.depth = '3'", output_format="list")
    assert [m.model_id for m in found] == [info.model_id]
    assert (mlflow.sklearn.load_model(info.model_uri).predict(features) == model.predict(features)).all()
    client.set_logged_model_tags(info.model_id, {"c": "d"})
    client.delete_logged_model_tag(info.model_id, "c")
    client.delete_logged_model(info.model_id)
    refused("RESOURCE_DOES_NOT_EXIST", client.get_logged_model, info.model_id)


def main() -> int:
    print(f"MLflow {mlflow.__version__}, Python {sys.version.split()[0]}", flush=True)
    for function in CHECKS:
        start = time.time()
        function()
        print(f"ok {function.__name__} {time.time() - start:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
