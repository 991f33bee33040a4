"""Classification metrics from plain integers, so that they can be checked by hand; no framework takes part."""
from __future__ import annotations

import math
from typing import Any, Dict, List, Sequence

Matrix = List[List[int]]


def confusion_matrix(truths: Sequence[int], predictions: Sequence[int], classes: int) -> Matrix:
    """Counts by true class (row) and predicted class (column)."""
    matrix = [[0] * classes for _ in range(classes)]
    for truth, prediction in zip(truths, predictions):
        matrix[truth][prediction] += 1
    return matrix


def per_class(matrix: Matrix) -> List[Dict[str, float]]:
    """Precision, recall, F1 and support of each class; a ratio over nothing is 0, as scikit-learn has it."""
    columns = [sum(column) for column in zip(*matrix)]
    rows: List[Dict[str, float]] = []
    for index, row in enumerate(matrix):
        hits, support, predicted = row[index], sum(row), columns[index]
        precision, recall = _ratio(hits, predicted), _ratio(hits, support)
        f1 = _ratio(2 * hits, support + predicted)
        counts = {"support": support, "predicted": predicted}
        rows.append({"precision": precision, "recall": recall, "f1": f1, **counts})
    return rows


def report(
    truths: Sequence[int], predictions: Sequence[int], ranks: Sequence[int], loss: float, classes: Sequence[str]
) -> Dict[str, Any]:
    """The evaluation of a split; `ranks` counts the classes scored above the true one, 0 being a hit.

    Macro averages run over the classes that occur among the truths or the predictions.
    Top-5 is there from five classes on, the loss when it is finite: JSON holds no other.
    """
    matrix = confusion_matrix(truths, predictions, len(classes))
    rows = per_class(matrix)
    present = [row for row in rows if row["support"] or row["predicted"]]
    metrics = {"top1": _ratio(sum(matrix[i][i] for i in range(len(classes))), len(truths))}
    if math.isfinite(loss):
        metrics["loss"] = loss
    if len(classes) >= 5:
        metrics["top5"] = _ratio(sum(rank < 5 for rank in ranks), len(ranks))
    for name in ("precision", "recall", "f1"):
        metrics[f"macro_{name}"] = _ratio(sum(row[name] for row in present), len(present))
    return {
        "count": len(truths),
        "metrics": metrics,
        "classes": list(classes),
        "per_class": [{"class": name, **row} for name, row in zip(classes, rows)],
        "confusion_matrix": matrix,
    }


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
