"""The catalogue: its file is current, its text is what the trainer takes, its networks are what it says."""
import json
import unittest

from platform_trainer.catalogue import CATALOGUE_FILE, MODELS, catalogue, find_model, hyperparameters_yaml
from platform_trainer.faults import Fault
from platform_trainer.protocol import Hyperparameters
from platform_trainer.records import read

try:
    import torch
    from platform_trainer.networks import build_network
except ImportError:
    torch = None


def plain_yaml(text):
    """The two-level mapping with comments that the catalogue writes, read without a YAML package."""
    root, current = {}, {}
    for line in text.splitlines():
        content = line.split("#")[0].rstrip()
        if not content:
            continue
        key, _, value = content.strip().partition(":")
        if not value:
            current = root[key] = {}
            continue
        try:
            parsed = json.loads(value)
        except ValueError:
            parsed = value.strip()
        (current if content.startswith("  ") else root)[key] = parsed
    return root


class Catalogue(unittest.TestCase):
    def test_committed_file_is_current(self):
        message = "run: PYTHONPATH=trainer python -m platform_trainer.catalogue"
        self.assertEqual(json.loads(CATALOGUE_FILE.read_text(encoding="utf-8")), catalogue(), message)

    def test_default_text_of_every_model_is_accepted_and_fits_the_model(self):
        for model in MODELS:
            with self.subTest(model=model.key):
                values = plain_yaml(hyperparameters_yaml(model))
                parsed = read(Hyperparameters, values, "hyperparameters")
                find_model(model.key, parsed.image_size)
                self.assertEqual(set(values), set(Hyperparameters.__dataclass_fields__))
                for key, value in model.defaults.items():
                    self.assertEqual(getattr(parsed, key), value)

    def test_unknown_model_and_unfit_sizes_are_refused(self):
        for key, size in (("resnet19", 64), ("resnet18", 16), ("vit_b_16", 100)):
            with self.subTest(key=key), self.assertRaises(Fault):
                find_model(key, size)


@unittest.skipIf(torch is None, "torch and torchvision are not installed")
class Networks(unittest.TestCase):
    def test_every_network_has_its_parameters_and_takes_its_smallest_image(self):
        for model in MODELS:
            with self.subTest(model=model.key), torch.no_grad():
                network = build_network(model.key, 1000, model.minimum_image_size).eval()
                if not model.key.startswith("vit_"):  # its position embedding grows with the image
                    millions = sum(parameter.numel() for parameter in network.parameters()) / 1e6
                    self.assertAlmostEqual(millions, model.parameters_millions, places=1)
                images = torch.zeros(2, 3, model.minimum_image_size, model.minimum_image_size)
                self.assertEqual(network(images).shape, (2, 1000))
