"""Checkpoints on a disk that has room, and on one that has not."""
import resource
import tempfile
import unittest
from pathlib import Path

try:
    import torch

    from platform_trainer.checkpoints import load_checkpoint, save_checkpoint
    from platform_trainer.faults import Fault
except ImportError:
    torch = None


@unittest.skipIf(torch is None, "torch is not installed")
class Checkpoints(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_what_was_saved_is_loaded(self):
        state = {"network": {"weight": torch.arange(5.0)}, "progress": "{}"}
        save_checkpoint(self.folder / "sub" / "last.pt", state)
        loaded = load_checkpoint(self.folder / "sub" / "last.pt")
        self.assertEqual(loaded["network"]["weight"].tolist(), [0, 1, 2, 3, 4])

    def test_one_that_does_not_fit_is_an_error_not_the_end_of_the_process_and_the_one_before_stays(self):
        path = self.folder / "last.pt"
        save_checkpoint(path, {"x": torch.zeros(1)})
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # as a full disk: writing stops in the middle
        try:
            with self.assertRaises(OSError):
                save_checkpoint(path, {"x": torch.zeros(1_000_000)})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        self.assertEqual([entry.name for entry in self.folder.iterdir()], ["last.pt"])
        self.assertEqual(load_checkpoint(path)["x"].tolist(), [0])

    def test_a_damaged_one_is_named(self):
        (self.folder / "last.pt").write_bytes(b"PK\x03\x04 nothing")
        with self.assertRaisesRegex(Fault, "last.pt cannot be read"):
            load_checkpoint(self.folder / "last.pt")
