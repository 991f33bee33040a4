"""Metrics against cases computed by hand."""
import unittest

from platform_trainer.evaluation import confusion_matrix, per_class, report

#          cat cat cat dog dog hen
TRUTHS = [0, 0, 0, 1, 1, 2]
PREDICTIONS = [0, 0, 1, 1, 0, 1]


class Classification(unittest.TestCase):
    def test_confusion_matrix_has_truths_in_rows(self):
        self.assertEqual(confusion_matrix(TRUTHS, PREDICTIONS, 3), [[2, 1, 0], [1, 1, 0], [0, 1, 0]])

    def test_per_class_values(self):
        cat, dog, hen = per_class(confusion_matrix(TRUTHS, PREDICTIONS, 3))
        self.assertAlmostEqual(cat["precision"], 2 / 3)
        self.assertAlmostEqual(cat["recall"], 2 / 3)
        self.assertAlmostEqual(cat["f1"], 2 / 3)
        self.assertAlmostEqual(dog["precision"], 1 / 3)
        self.assertAlmostEqual(dog["recall"], 1 / 2)
        self.assertAlmostEqual(dog["f1"], 0.4)
        self.assertEqual((hen["precision"], hen["recall"], hen["f1"], hen["support"]), (0, 0, 0, 1))

    def test_report_averages_over_classes_not_images(self):
        found = report(TRUTHS, PREDICTIONS, [0, 0, 1, 0, 1, 2], 0.7, ["cat", "dog", "hen"])
        self.assertAlmostEqual(found["metrics"]["top1"], 3 / 6)
        self.assertAlmostEqual(found["metrics"]["macro_precision"], (2 / 3 + 1 / 3 + 0) / 3)
        self.assertAlmostEqual(found["metrics"]["macro_recall"], (2 / 3 + 1 / 2 + 0) / 3)
        self.assertAlmostEqual(found["metrics"]["macro_f1"], (2 / 3 + 0.4 + 0) / 3)
        self.assertNotIn("top5", found["metrics"])
        self.assertEqual([row["class"] for row in found["per_class"]], ["cat", "dog", "hen"])

    def test_class_that_never_occurs_is_left_out_of_the_averages(self):
        found = report([0, 1], [0, 1], [0, 0], 0.0, ["cat", "dog", "unseen"])
        self.assertEqual(found["metrics"]["macro_f1"], 1)
        self.assertEqual(found["per_class"][2]["support"], 0)

    def test_top5_counts_the_first_five_ranks(self):
        found = report([0, 0, 0, 0], [0, 1, 2, 3], [0, 4, 5, 1], 0.0, list("abcdef"))
        self.assertEqual((found["metrics"]["top1"], found["metrics"]["top5"]), (1 / 4, 3 / 4))

    def test_loss_that_json_cannot_hold_is_left_out(self):
        self.assertNotIn("loss", report([0], [0], [0], float("inf"), ["cat", "dog"])["metrics"])

    def test_nothing_to_evaluate_is_zero_not_a_division_by_zero(self):
        self.assertEqual(report([], [], [], 0.0, list("abcde"))["metrics"]["top5"], 0)
