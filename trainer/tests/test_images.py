"""Decoding, splitting, augmenting and scoring."""
import tempfile
import unittest
from collections import Counter
from pathlib import Path

try:
    import numpy
    import torch
    from PIL import Image

    from platform_trainer import images
    from platform_trainer.augmentation import augment
    from platform_trainer.faults import Fault
    from platform_trainer.protocol import Augmentation, Sample
    from platform_trainer.scoring import ranks_of, score
except ImportError:
    torch = None


@unittest.skipIf(torch is None, "torch and torchvision are not installed")
class Images(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def load(self, samples, classes=("a", "b")):
        self.told = []
        spill = self.folder / "spill"
        return images.load_images(self.folder, samples, classes, 16, spill, lambda done: None, self.told.append)

    def solid(self, name, colour):
        Image.new("RGB", (20, 30), colour).save(self.folder / name)

    def many(self, count, broken=()):
        for row in range(count):
            self.solid(f"{row}.png", (row, 0, 0))
        for row in broken:
            (self.folder / f"{row}.png").write_bytes(b"not an image")
        return [Sample(f"{row}.png", "ab"[row % 2], "train") for row in range(count)]

    def test_orientation_of_exif_is_honoured(self):
        picture = Image.new("RGB", (32, 16), "black")
        picture.paste("white", (0, 0, 16, 16))
        exif = Image.Exif()
        exif[0x0112] = 6  # the camera was held upright: turn a quarter clockwise to see it so
        picture.save(self.folder / "turned.png", exif=exif)
        pixels = images.decode(self.folder / "turned.png", 16)
        self.assertEqual((int(pixels[0, 0, 8]), int(pixels[0, 15, 8])), (255, 0))

    def test_orientation_of_a_tiff_is_honoured_once(self):
        picture = Image.new("RGB", (32, 16), "black")
        picture.paste("white", (0, 0, 16, 16))
        picture.save(self.folder / "turned.tif", tiffinfo={0x0112: 6})
        pixels = images.decode(self.folder / "turned.tif", 16)
        self.assertEqual((int(pixels[0, 0, 8]), int(pixels[0, 15, 8])), (255, 0))

    def test_only_pixel_formats_are_decoded(self):
        Image.new("RGB", (5, 5)).save(self.folder / "program.eps")
        with self.assertRaises(Exception) as caught:
            images.decode(self.folder / "program.eps", 16)
        self.assertIn("of a format that Pillow", images._reason(caught.exception))

    def test_too_many_pixels_are_refused_before_they_are_decoded(self):
        Image.new("1", (50_000, 20_000)).save(self.folder / "huge.png")
        with self.assertRaisesRegex(ValueError, "more than 500000000 pixels"):
            images.decode(self.folder / "huge.png", 16)

    def test_grey_palette_and_transparent_images_become_rgb(self):
        for mode, colour, expected in (("L", 77, [77] * 3), ("RGBA", (9, 8, 7, 0), [9, 8, 7]), ("P", 0, None)):
            Image.new(mode, (5, 5), colour).save(self.folder / f"{mode}.png")
            pixels = images.decode(self.folder / f"{mode}.png", 16)
            self.assertEqual(pixels.shape, (3, 16, 16))
            if expected:
                self.assertEqual(pixels[:, 3, 3].tolist(), expected)

    def test_sixteen_bits_are_scaled_not_clipped(self):
        Image.fromarray(numpy.full((9, 9), 200 * 256 + 255, dtype=numpy.uint16)).save(self.folder / "deep.png")
        self.assertEqual(images.decode(self.folder / "deep.png", 16)[:, 4, 4].tolist(), [200] * 3)

    def test_unreadable_image_is_named_and_left_out(self):
        found = self.load(self.many(40, broken=[7]))
        self.assertEqual(len(found.rows["train"]), 39)
        self.assertNotIn(7, found.rows["train"].tolist())
        self.assertRegex(self.told[0], "^7.png: ")
        self.assertEqual(found.pixels[8, 0, 0, 0], 8)

    def test_more_than_one_in_twenty_unreadable_ends_the_job(self):
        with self.assertRaisesRegex(Fault, "3 of 40 images cannot be read, first 1.png"):
            self.load(self.many(40, broken=[1, 2, 3]))

    def test_class_that_loses_its_last_training_image_ends_the_job(self):
        samples = self.many(40, broken=[3])
        only = [s if s.path == "3.png" else Sample(s.path, "a", "train") for s in samples]
        with self.assertRaisesRegex(Fault, "No training image of b"):
            self.load(only)

    def test_images_beyond_a_quarter_of_the_memory_go_to_a_file_that_leaves_nothing_behind(self):
        samples = self.many(4)
        limit = images.memory_bytes
        self.addCleanup(setattr, images, "memory_bytes", limit)
        inside = self.load(samples).pixels.clone()
        images.memory_bytes = lambda: 1024
        self.assertTrue(torch.equal(self.load(samples).pixels, inside))
        self.assertFalse((self.folder / "spill").exists())

    def test_validation_is_carved_from_each_class_by_seed_and_never_empties_one(self):
        samples = [Sample(str(row), "a" if row < 20 else "b", "train") for row in range(22)]
        carved = images.carve_validation(samples, 0.5, seed=1)
        self.assertEqual(Counter(s.label for s in carved if s.split == "val"), {"a": 10, "b": 1})
        self.assertEqual(carved, images.carve_validation(samples, 0.5, seed=1))
        self.assertNotEqual(carved, images.carve_validation(samples, 0.5, seed=2))

    def test_validation_of_the_index_is_kept(self):
        samples = [Sample("1", "a", "train"), Sample("2", "a", "train"), Sample("3", "a", "val")]
        self.assertEqual(images.carve_validation(samples, 0.5, seed=0), samples)


@unittest.skipIf(torch is None, "torch and torchvision are not installed")
class Augmenting(unittest.TestCase):
    def setUp(self):
        self.images = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0))

    def augment(self, seed=0, **settings):
        plain = {"horizontal_flip": 0, "crop": 1, "rotation": 0, "color_jitter": 0, **settings}
        return augment(self.images, Augmentation(**plain), torch.Generator().manual_seed(seed))

    def test_everything_off_changes_nothing(self):
        self.assertTrue(torch.equal(self.augment(), self.images))

    def test_certain_flip_mirrors_also_as_part_of_a_resampling(self):
        mirrored = self.images.flip(3)
        self.assertTrue(torch.equal(self.augment(horizontal_flip=1), mirrored))
        almost = self.augment(horizontal_flip=1, rotation=1e-6)
        self.assertLess((almost - mirrored).abs().max(), 1e-3)

    def test_half_a_chance_flips_some(self):
        mirrored = self.augment(horizontal_flip=0.5).eq(self.images.flip(3)).flatten(1).all(1)
        self.assertTrue(0 < int(mirrored.sum()) < 8)

    def test_crop_shows_a_part_that_lies_inside(self):
        ramp = torch.linspace(0, 1, 16).expand(8, 3, 16, 16)
        self.images = ramp.contiguous()
        cropped = self.augment(crop=0.25)
        spread = cropped.amax((1, 2, 3)) - cropped.amin((1, 2, 3))
        self.assertTrue(bool((spread < 1).any()) and bool((spread > 0.3).all()))
        self.assertTrue(bool((cropped.diff(dim=3) >= -1e-6).all()), "a crop that reached outside would turn back")

    def test_quarter_turn_keeps_the_centre(self):
        self.images = torch.zeros(8, 3, 15, 15)
        self.images[:, :, 7, 7] = 1
        self.assertGreater(float(self.augment(rotation=90)[:, :, 7, 7].min()), 0.99)

    def test_same_seed_draws_the_same_and_values_stay_in_range(self):
        settings = {"horizontal_flip": 0.5, "crop": 0.5, "rotation": 20, "color_jitter": 0.8}
        first = self.augment(**settings)
        self.assertTrue(torch.equal(first, self.augment(**settings)))
        self.assertFalse(torch.equal(first, self.augment(seed=1, **settings)))
        self.assertTrue(bool((first >= 0).all() and (first <= 1).all()))


@unittest.skipIf(torch is None, "torch and torchvision are not installed")
class Scoring(unittest.TestCase):
    def test_rank_counts_the_classes_above_and_equal_scores_go_to_the_lower_index(self):
        logits = torch.tensor([[3.0, 1, 2], [3, 1, 2], [0, 0, 0], [0, 0, 0]])
        self.assertEqual(ranks_of(logits, torch.tensor([0, 1, 0, 2])).tolist(), [0, 2, 0, 2])

    def test_loss_that_is_no_number_is_infinite_so_that_any_other_is_better(self):
        found = score(torch.arange(2), torch.tensor([0, 1]), lambda rows: torch.full((len(rows), 2), float("nan")))
        self.assertEqual(found.loss, float("inf"))

    def test_loss_is_the_mean_over_images_also_across_batches(self):
        labels = torch.arange(300) % 3
        found = score(torch.arange(300), labels, lambda rows: torch.zeros(len(rows), 3))
        self.assertAlmostEqual(found.loss, 1.0986, places=4)
        self.assertEqual((found.top1, len(found.truths)), (1 / 3, 300))
