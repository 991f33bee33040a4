"""The events file: whole lines, appended, thinned."""
import hashlib
import io
import json
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path

from platform_trainer.events import EventWriter
from platform_trainer.faults import Stopped
from platform_trainer.schedule import learning_rate_factor


class Events(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.file = self.folder / "deep" / "events.jsonl"

    def read(self):
        return [json.loads(line) for line in self.file.read_text(encoding="utf-8").splitlines()]

    def test_second_writer_appends_after_ending_a_torn_line(self):
        EventWriter(self.file).emit("progress", percent=1)
        with open(self.file, "a", encoding="utf-8") as file:
            file.write('{"type":"torn')
        EventWriter(self.file).emit("progress", percent=2)
        lines = self.file.read_text(encoding="utf-8").splitlines()
        self.assertEqual(json.loads(lines[0])["percent"], 1)
        self.assertEqual(lines[1], '{"type":"torn')
        self.assertEqual(json.loads(lines[2])["percent"], 2)

    def test_step_tells_running_then_succeeded_or_failed(self):
        events = EventWriter(self.file)
        with events.step("load"):
            pass
        with self.assertRaises(ValueError), events.step("train"):
            raise ValueError("broken\nsecond line")
        told = [(e["id"], e["state"], e["message"]) for e in self.read()]
        self.assertEqual(told[1:], [("load", "succeeded", ""), ("train", "running", ""), ("train", "failed", "broken")])

    def test_stop_with_nothing_to_keep_skips_this_step_and_the_later_ones(self):
        events = EventWriter(self.file)
        with self.assertRaises(Stopped), events.step("train"):
            raise Stopped()
        skipped = [e["id"] for e in self.read() if e["state"] == "skipped"]
        self.assertEqual(skipped, ["train", "evaluate", "export"])

    def test_values_that_json_cannot_hold_are_left_out(self):
        events = EventWriter(self.file)
        events.metrics(1, {"a": float("nan"), "b": 2.5})
        events.metrics(2, {"a": float("inf")})
        self.assertEqual([[p["key"] for p in e["points"]] for e in self.read()], [["b"]])

    def test_a_job_that_goes_on_does_not_tell_again_what_it_told(self):
        EventWriter(self.file).metrics(7, {"a": 1.0})
        with open(self.file, "ab") as file:
            file.write(b'{"ts":1,"type":"metrics","points":[{"key":"a","st')
        events = EventWriter(self.file)
        for step in (6, 7, 8):
            events.metrics(step, {"a": 1.0, "b": 2.0})
        lines = [json.loads(line) for line in self.file.read_text().splitlines() if line.endswith("}")]
        points = [(p["key"], p["step"]) for line in lines for p in line["points"]]
        self.assertEqual(points, [("a", 7), ("b", 6), ("b", 7), ("a", 8), ("b", 8)])

    def test_something_is_due_at_most_twice_a_second(self):
        events = EventWriter(self.file)
        self.assertEqual([events.due("batch"), events.due("batch"), events.due("load")], [True, False, True])

    def test_artifact_tells_size_and_digest_relative_to_the_output(self):
        path = self.folder / "model" / "model.onnx"
        path.parent.mkdir()
        path.write_bytes(b"weights")
        EventWriter(self.file).artifact(self.folder, path, "model")
        [event] = self.read()
        self.assertEqual((event["path"], event["size"]), ("model/model.onnx", 7))
        self.assertEqual(event["sha256"], hashlib.sha256(b"weights").hexdigest())

    def test_log_reaches_people_and_the_platform(self):
        output = io.StringIO()
        with redirect_stdout(output):
            EventWriter(self.file).log("ö", "warning")
        self.assertEqual(output.getvalue(), "warning: ö\n")
        self.assertEqual((self.read()[0]["level"], self.read()[0]["message"]), ("warning", "ö"))


class Schedules(unittest.TestCase):
    def test_one_cycle_rises_from_a_25th_to_the_highest_and_falls_to_nearly_nothing(self):
        factors = [learning_rate_factor("one_cycle", step, 100, 30) for step in range(100)]
        self.assertAlmostEqual(factors[0], 1 / 25)
        self.assertEqual(factors.index(max(factors)), 30)
        self.assertAlmostEqual(factors[30], 1)
        self.assertLess(factors[99], 1e-5)
        self.assertEqual(factors, sorted(factors[:30]) + sorted(factors[30:], reverse=True))

    def test_cosine_is_half_way_in_the_middle(self):
        self.assertAlmostEqual(learning_rate_factor("cosine", 50, 101, 0), 0.5, places=4)

    def test_constant_warms_up_in_equal_parts(self):
        factors = [learning_rate_factor("constant", step, 10, 3) for step in range(5)]
        self.assertEqual(factors, [1 / 4, 2 / 4, 3 / 4, 1, 1])
