"""Trains a small network with Lightning under MLflow's autologging: `python lightning_test.py`.

Needs mlflow, torch and lightning (or pytorch_lightning) of releases that fit each other; they are too large to install
for a test, so MLFLOW_LIGHTNING_PYTHON names a Python that has them. Reads what client_test.py reads.
"""
from __future__ import annotations

import sys
import tempfile
import uuid

import mlflow
import torch
from mlflow import MlflowClient
from torch.utils.data import DataLoader, TensorDataset

try:
    import lightning.pytorch as lightning
except ImportError:
    import pytorch_lightning as lightning

name = f"network-{uuid.uuid4().hex[:8]}"
client = MlflowClient()
epochs = 3


class Network(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))

    def forward(self, features):
        return self.layers(features)

    def loss(self, batch):
        features, target = batch
        return torch.nn.functional.mse_loss(self(features), target)

    def training_step(self, batch, _):
        loss = self.loss(batch)
        self.log("train_loss", loss, on_epoch=True)
        return loss

    def validation_step(self, batch, _):
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def train(folder):
    features = torch.randn(64, 4)
    data = DataLoader(TensorDataset(features, features.sum(1, keepdim=True)), batch_size=16)
    network = Network()
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    trainer = lightning.Trainer(max_epochs=epochs, accelerator="cpu", default_root_dir=folder, **quiet)
    with mlflow.start_run() as active:
        trainer.fit(network, data, data)
    return active.info.run_id, network, features


def main() -> int:
    mlflow.set_experiment(name)
    mlflow.pytorch.autolog(registered_model_name=name, checkpoint_monitor="val_loss")
    with tempfile.TemporaryDirectory() as folder:
        run_id, network, features = train(folder)
    run = client.get_run(run_id)
    assert run.data.params["optimizer_name"] == "Adam" and float(run.data.params["lr"]) == 0.01, run.data.params
    for key in ("train_loss", "val_loss"):
        steps = [point.step for point in client.get_metric_history(run_id, key)]
        assert steps == list(range(epochs)), f"{key}: {steps}"
    print("ok parameters and curves")
    version = client.search_model_versions(f"name = '{name}'")[0].version
    network.eval()
    with torch.no_grad():
        expected = network(features)
        for uri in (f"runs:/{run_id}/model", f"models:/{name}/{version}"):
            assert torch.equal(mlflow.pytorch.load_model(uri)(features), expected)
    predicted = mlflow.pyfunc.load_model(f"models:/{name}/{version}").predict(features.numpy())
    assert abs(predicted - expected.numpy()).max() < 1e-6
    print("ok model")
    assert isinstance(mlflow.pytorch.load_checkpoint(Network, run_id), Network)
    print("ok checkpoint")
    return 0


if __name__ == "__main__":
    sys.exit(main())
