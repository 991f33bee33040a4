"""The spec and the index: what is read, and how a fault names its place."""
import copy
import json
import tempfile
import unittest
from pathlib import Path

from platform_trainer.faults import Fault, explain
from platform_trainer.protocol import parse_spec, read_index

SMALLEST = {
    "protocol": 1,
    "task": "image_classification",
    "framework": "torchvision",
    "model": "resnet18",
    "data": {"root": "/data", "index": "/data/index.jsonl", "classes": ["daisy", "rose"]},
    "output": "/out",
    "events": "/out/events.jsonl",
}


def spec_with(**changes):
    return {**copy.deepcopy(SMALLEST), **changes}


class Spec(unittest.TestCase):
    def fault(self, **changes):
        with self.assertRaises(Fault) as caught:
            parse_spec(spec_with(**changes))
        return caught.exception

    def test_smallest_spec_takes_every_default(self):
        spec = parse_spec(SMALLEST)
        self.assertEqual(spec.hyperparameters.epochs, 15)
        self.assertEqual(spec.hyperparameters.augmentation.horizontal_flip, 0.5)
        self.assertEqual((spec.evaluation.split, spec.export.opset, spec.resume), ("test", 17, False))

    def test_given_values_replace_defaults_and_leave_their_neighbours(self):
        spec = parse_spec(spec_with(hyperparameters={"epochs": 3.0, "augmentation": {"crop": 1}}))
        self.assertEqual((spec.hyperparameters.epochs, spec.hyperparameters.batch_size), (3, 24))
        self.assertEqual((spec.hyperparameters.augmentation.crop, spec.hyperparameters.augmentation.rotation), (1, 0))

    def test_unknown_hyperparameter_is_named_with_the_nearest_key(self):
        fault = self.fault(hyperparameters={"learning_rat": 1})
        self.assertIn("hyperparameters.learning_rat is not known", fault.message)
        self.assertEqual(fault.remedy, "Did you mean learning_rate?")

    def test_nested_fault_names_the_whole_path(self):
        fault = self.fault(hyperparameters={"augmentation": {"crop": 1.5}})
        self.assertIn("hyperparameters.augmentation.crop must lie between 0.05 and 1; it is 1.5", fault.message)

    def test_wrong_kinds_are_refused(self):
        for key, value in (
            ("epochs", "ten"), ("epochs", 1.5), ("epochs", True), ("epochs", 0), ("optimizer", "adam"),
            ("learning_rate", float("nan")), ("augmentation", 3),
        ):
            with self.subTest(key=key, value=value):
                self.assertIn(f"hyperparameters.{key}", self.fault(hyperparameters={key: value}).message)

    def test_missing_key_another_protocol_and_doubled_class_are_named(self):
        self.assertIn("data.classes is missing", self.fault(data={"root": "/a", "index": "/b"}).message)
        self.assertIn("protocol must lie between 1 and 1", self.fault(protocol=2).message)
        doubled = {**SMALLEST["data"], "classes": ["rose", "rose"]}
        self.assertIn("data.classes must not name anything twice", self.fault(data=doubled).message)


class Index(unittest.TestCase):
    def read(self, *lines):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "index.jsonl")
            path.write_text("\n".join(lines), encoding="utf-8")
            return list(read_index(path))

    def line(self, **changes):
        return json.dumps({"path": "a/b.jpg", "label": "rose", "split": "train", **changes})

    def test_samples_keep_their_order(self):
        samples = self.read(self.line(), "", self.line(path="ü.png", split="val"))
        self.assertEqual([(s.path, s.split) for s in samples], [("a/b.jpg", "train"), ("ü.png", "val")])

    def test_fault_names_the_line(self):
        for second, word in ((self.line(split="dev"), "'dev'"), ("{}", "not a sample"), ("[1]", "not a sample")):
            with self.assertRaisesRegex(Fault, "Line 2.*" + word):
                self.read(self.line(), second)

    def test_path_that_leaves_the_data_folder_is_refused(self):
        for path in ("/etc/passwd", "a/../../b.jpg"):
            with self.assertRaisesRegex(Fault, "leaves the data folder"):
                self.read(self.line(path=path))


class Explanations(unittest.TestCase):
    def test_out_of_memory_says_to_lower_the_batch_size(self):
        for error in (
            MemoryError(),
            RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
            RuntimeError("[enforce fail at alloc_cpu.cpp:75] . DefaultCPUAllocator: can't allocate memory"),
        ):
            self.assertIn("batch_size", explain(error)[1])

    def test_full_disk_says_so(self):
        self.assertEqual(explain(OSError(28, "No space left on device"))[0], "The disk is full.")
