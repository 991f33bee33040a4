"""Whole jobs of the real program on generated images."""
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HAS_TORCH = importlib.util.find_spec("torch") is not None and importlib.util.find_spec("torchvision") is not None
TRAINER = Path(__file__).resolve().parents[1]
CLASSES = ["blue", "green", "red"]


def write_images(folder, per_class=16):
    """Noisy images whose strongest channel is their class; returns the index lines."""
    import numpy
    from PIL import Image

    random, lines = numpy.random.default_rng(0), []
    for channel, name in ((2, "blue"), (1, "green"), (0, "red")):
        for number in range(per_class):
            pixels = random.integers(0, 160, (24, 24, 3), dtype=numpy.uint8)
            pixels[:, :, channel] += 80
            path = f"{name}-{number}.png"
            Image.fromarray(pixels).save(folder / path)
            split = "test" if number % 4 == 0 else "train"
            lines.append({"path": path, "label": name, "split": split})
    return lines


@unittest.skipUnless(HAS_TORCH, "torch and torchvision are not installed")
class Jobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.images = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.images.cleanup)
        cls.index = write_images(Path(cls.images.name))

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def start(self, name="out", index=None, model="small_cnn", hyperparameters=None, **changes):
        self.output = self.folder / name
        self.output.mkdir(exist_ok=True)
        index_file, spec_file = self.folder / "index.jsonl", self.output / "spec.json"
        index_file.write_text("\n".join(json.dumps(line) for line in index or self.index), encoding="utf-8")
        spec = {
            "protocol": 1, "task": "image_classification", "framework": "torchvision", "model": model,
            "data": {"root": self.images.name, "index": str(index_file), "classes": CLASSES},
            "hyperparameters": {"epochs": 6, "batch_size": 8, "image_size": 16, **(hyperparameters or {})},
            "split": {"validation_fraction": 0.25}, "threads": 1,
            "output": str(self.output), "events": str(self.output / "events.jsonl"), **changes,
        }
        spec_file.write_text(json.dumps(spec), encoding="utf-8")
        command = [sys.executable, "-m", "platform_trainer", "--spec", str(spec_file)]
        process = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": str(TRAINER)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.addCleanup(lambda: (process.kill(), process.wait(), process.stdout.close()))
        return process

    def finish(self, process):
        self.text = process.communicate(timeout=120)[0].decode()
        self.events = [json.loads(line) for line in (self.output / "events.jsonl").read_text().splitlines()]
        return process.returncode

    def run_job(self, **changes):
        return self.finish(self.start(**changes))

    def of(self, kind):
        return [event for event in self.events if event["type"] == kind]

    def values(self, key):
        return {p["step"]: p["value"] for e in self.of("metrics") for p in e["points"] if p["key"] == key}

    def wait_for_epoch(self, process, epoch):
        while process.poll() is None:
            if self.started() and f'"epoch":{epoch},' in (self.output / "events.jsonl").read_text():
                return
            time.sleep(0.02)
        self.fail(f"the job ended before epoch {epoch}: {process.stdout.read().decode()}")

    def started(self):
        return (self.output / "events.jsonl").exists()

    def test_job_learns_and_tells_everything_the_protocol_promises(self):
        self.assertEqual(self.run_job(), 0, getattr(self, "text", ""))
        self.assertEqual([step["id"] for step in self.of("plan")[0]["steps"]], ["load", "train", "evaluate", "export"])
        finished = [e["id"] for e in self.of("step") if e["state"] == "succeeded"]
        self.assertEqual(finished, ["load", "train", "evaluate", "export"])
        percents = [e["percent"] for e in self.of("progress")]
        self.assertEqual((percents, percents[-1]), (sorted(percents), 100))
        self.assertEqual(list(self.values("val/top1")), [1, 2, 3, 4, 5, 6])
        [result] = self.of("result")
        self.assertEqual(result["state"], "succeeded")
        self.assertGreater(result["metrics"]["test/top1"], 0.9)
        self.assertEqual({e["path"]: e["size"] for e in self.of("artifact")}, {
            path: (self.output / path).stat().st_size for path in (
                "checkpoints/best.pt", "checkpoints/last.pt", "evaluation.json", "model/model.onnx",
                "model/model.json", "model/MLmodel", "export_check.json",
            )
        })
        self.assertEqual(list(self.output.rglob("*.unfinished")), [])

    def test_files_describe_the_model_and_agree_with_each_other(self):
        self.assertEqual(self.run_job(hyperparameters={"epochs": 2}), 0)
        model, evaluation, check = (
            json.loads((self.output / path).read_text())
            for path in ("model/model.json", "evaluation.json", "export_check.json")
        )
        self.assertEqual(model["classes"], CLASSES)
        self.assertEqual(model["input"], {"name": "images", "datatype": "FP32", "shape": [-1, 3, 16, 16]})
        self.assertEqual(model["output"]["shape"], [-1, 3])
        self.assertEqual((evaluation["split"], evaluation["count"]), ("test", 12))
        self.assertEqual(sum(map(sum, evaluation["confusion_matrix"])), 12)
        self.assertEqual(model["metrics"]["test/top1"], evaluation["metrics"]["top1"])
        self.assertEqual((check["input"]["shape"], check["output"]["shape"]), ([2, 3, 16, 16], [2, 3]))
        self.assertEqual((len(check["input"]["data"]), len(check["output"]["data"])), (2 * 3 * 16 * 16, 6))
        self.assertIn("loader_module: mlflow.onnx", (self.output / "model" / "MLmodel").read_text())

    def test_same_seed_gives_the_same_numbers(self):
        self.run_job(name="one", hyperparameters={"epochs": 2})
        first = self.values("train/loss")
        self.run_job(name="two", hyperparameters={"epochs": 2})
        self.assertEqual(self.values("train/loss"), first)
        self.run_job(name="three", hyperparameters={"epochs": 2}, seed=1)
        self.assertNotEqual(self.values("train/loss"), first)

    def test_stop_in_training_exports_the_best_epoch_and_resuming_equals_never_having_stopped(self):
        hyperparameters = {"epochs": 60, "schedule": "constant", "warmup_epochs": 0}
        process = self.start(hyperparameters=hyperparameters)
        self.wait_for_epoch(process, 2)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(process), 0, self.text)
        self.assertEqual(self.of("result")[0]["state"], "stopped")
        self.assertTrue((self.output / "model" / "model.onnx").exists())
        done = max(self.values("train/loss"))
        self.assertLess(done, 60)
        more = {**hyperparameters, "epochs": done + 2}
        self.assertEqual(self.run_job(hyperparameters=more, resume=True), 0)
        resumed = self.values("train/loss")
        self.assertEqual(self.of("result")[-1]["state"], "succeeded")
        self.run_job(name="unbroken", hyperparameters=more)
        self.assertEqual(self.values("train/loss"), resumed)

    def test_stop_before_the_first_batch_skips_the_steps_and_ends_well(self):
        process = self.start()
        while process.poll() is None and not self.started():
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(process), 0, self.text)
        self.assertEqual((self.of("result")[0]["state"], self.of("result")[0]["best_epoch"]), ("stopped", 0))
        skipped = [e["id"] for e in self.of("step") if e["state"] == "skipped"]
        self.assertEqual(skipped[-2:], ["evaluate", "export"])

    def test_second_stop_ends_at_once(self):
        process = self.start(hyperparameters={"epochs": 5000})
        self.wait_for_epoch(process, 1)
        os.kill(process.pid, signal.SIGSTOP)  # so that both signals are there before either is handled
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        os.kill(process.pid, signal.SIGCONT)
        self.assertIn(self.finish(process), (128 + signal.SIGTERM, 128 + signal.SIGINT))
        self.assertEqual(self.of("result"), [])

    def test_early_stopping_ends_after_its_patience(self):
        stopping = {"patience": 2, "metric": "top1", "min_delta": 1}
        self.assertEqual(self.run_job(hyperparameters={"epochs": 50, "early_stopping": stopping}), 0)
        self.assertEqual(max(self.values("train/loss")), 3)
        self.assertEqual((self.of("result")[0]["state"], self.of("result")[0]["best_epoch"]), ("succeeded", 1))

    def test_index_without_test_split_is_evaluated_on_validation(self):
        index = [{**line, "split": "train"} for line in self.index]
        self.assertEqual(self.run_job(index=index, hyperparameters={"epochs": 1}), 0)
        self.assertIn("val/top1", self.of("result")[0]["metrics"])
        self.assertIn("There is no test split", self.text)

    def test_last_batch_of_one_image_does_not_break_batch_normalisation(self):
        index = [line for line in self.index if line["split"] == "train"][:9] + self.index[16:20] + self.index[32:]
        count = sum(line["split"] == "train" for line in index)
        settings = {"epochs": 1, "batch_size": count - 1}
        self.assertEqual(self.run_job(index=index, hyperparameters=settings, split={"validation_fraction": 0}), 0)

    def test_steps_of_one_image_are_refused_in_plain_words_where_they_teach_nothing(self):
        hyperparameters = {"epochs": 1, "batch_size": 1, "image_size": 32}
        error = self.failure(model="resnet18", hyperparameters=hyperparameters)
        self.assertIn("single image", error["message"])
        self.assertIn("batch_size", error["remedy"])

    def test_every_optimizer_schedule_and_augmentation_runs(self):
        settings = {
            "epochs": 1, "optimizer": "sgd", "learning_rate": 0.01, "schedule": "cosine", "gradient_clip": 1,
            "augmentation": {"rotation": 15, "color_jitter": 0.4, "crop": 0.6, "horizontal_flip": 1},
        }
        self.assertEqual(self.run_job(hyperparameters=settings), 0)

    def failure(self, **changes):
        self.assertEqual(self.run_job(**changes), 1)
        [error] = self.of("error")
        return error

    def test_unknown_hyperparameter_fails_with_its_name(self):
        error = self.failure(hyperparameters={"epoch": 3})
        self.assertIn("hyperparameters.epoch is not known", error["message"])
        self.assertEqual(error["remedy"], "Did you mean epochs?")

    def test_unknown_model_fails_with_the_ones_there_are(self):
        self.assertIn("small_cnn", self.failure(model="resnet19")["remedy"])

    def test_loss_that_is_no_number_fails_with_a_remedy(self):
        settings = {"epochs": 30, "optimizer": "sgd", "learning_rate": 10, "schedule": "constant", "warmup_epochs": 0,
                    "momentum": 0.999, "weight_decay": 1}
        error = self.failure(hyperparameters=settings)
        self.assertIn("learning_rate", error["remedy"])

    def test_missing_image_is_named_and_too_many_end_the_job(self):
        gone = [{**line, "path": f"gone/{line['path']}"} if row < 5 else line for row, line in enumerate(self.index)]
        error = self.failure(index=gone)
        self.assertIn("5 of 48 images cannot be read, first gone/blue-0.png", error["message"])
        failed = [e["id"] for e in self.of("step") if e["state"] == "failed"]
        self.assertEqual(failed, ["load"])

    def test_checkpoint_of_another_model_is_refused(self):
        self.assertEqual(self.run_job(hyperparameters={"epochs": 1}), 0)
        (self.output / "events.jsonl").unlink()
        error = self.failure(model="resnet18", hyperparameters={"image_size": 32}, resume=True)
        self.assertIn("does not fit this experiment", error["message"])
