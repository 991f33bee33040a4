"""What lies beside the network in the model folder: model.json for the model server, MLmodel for MLflow."""
from __future__ import annotations

import json
import os
import time
import uuid
from pathlib import Path
from typing import Any, Dict, Mapping, Sequence

ONNX_FILE = "model.onnx"


def model_description(
    architecture: str,
    framework_version: str,
    size: int,
    classes: Sequence[str],
    mean: Sequence[float],
    std: Sequence[float],
    metrics: Mapping[str, float],
) -> Dict[str, Any]:
    """The content of model.json, format 1: how to make the input tensor of an image and what the outputs mean."""
    return {
        "format": 1,
        "task": "image_classification",
        "framework": "torchvision",
        "framework_version": framework_version,
        "architecture": architecture,
        "input": {"name": "images", "datatype": "FP32", "shape": [-1, 3, size, size]},
        "preprocessing": {
            "resize": {"width": size, "height": size, "interpolation": "bilinear"},
            "color": "RGB",
            "mean": list(mean),
            "std": list(std),
        },
        "output": {"name": "logits", "datatype": "FP32", "shape": [-1, len(classes)], "activation": "softmax"},
        "classes": list(classes),
        "metrics": dict(metrics),
    }


def mlmodel_text(description: Mapping[str, Any], onnx_size_bytes: int) -> str:
    """The MLmodel file, which MLflow reads as YAML, with the onnx flavor and the signature.

    @source https://mlflow.org/docs/latest/ml/model/#mlmodel-file
    """
    lines = [
        "flavors:",
        "  onnx:",
        "    code: null",
        f"    data: {ONNX_FILE}",
        "    onnx_version: null",
        "    providers:",
        "    - CPUExecutionProvider",
        "  python_function:",
        f"    data: {ONNX_FILE}",
        "    loader_module: mlflow.onnx",
        f"model_size_bytes: {onnx_size_bytes}",
        f"model_uuid: {uuid.uuid4().hex}",
        "signature:",
        f"  inputs: {_quoted(_signature(description['input']))}",
        f"  outputs: {_quoted(_signature(description['output']))}",
        "  params: null",
        f"utc_time_created: {_quoted(time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime()))}",
    ]
    return "\n".join(lines) + "\n"


def write_whole(path: Path, content: str) -> None:
    """Write a text file so that it is there whole or not at all, also after a power cut."""
    unfinished = path.with_name(path.name + ".unfinished")
    with open(unfinished, "w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file whole."""
    write_whole(path, json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")


def _signature(tensor: Mapping[str, Any]) -> str:
    spec = {"dtype": "float32", "shape": tensor["shape"]}
    return json.dumps([{"name": tensor["name"], "type": "tensor", "tensor-spec": spec}])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
