"""Export to ONNX, checked against the framework's own output before it counts."""
from __future__ import annotations

import inspect
import os
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any, Dict, Optional

import torch
from torch import Tensor, nn

from .faults import Fault

TOLERANCE = 1e-3
_CHECKED_IMAGES = 2


def export_onnx(network: nn.Module, size: int, opset: int, path: Path) -> None:
    """Write the network with a free batch dimension, input `images`, output `logits`."""
    network.cpu().float().eval()
    unfinished = path.with_name(path.name + ".unfinished")
    # Newer exporters need more packages; the older one writes the same network and is in every version.
    older: Dict[str, Any] = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            (torch.zeros(1, 3, size, size),),
            str(unfinished),
            opset_version=opset,
            input_names=["images"],
            output_names=["logits"],
            dynamic_axes={"images": {0: "batch"}, "logits": {0: "batch"}},
            **older,
        )
    with open(unfinished, "rb") as file:
        os.fsync(file.fileno())
    os.replace(unfinished, path)


def export_check(network: nn.Module, size: int) -> Dict[str, Any]:
    """Two fixed inputs and the framework's outputs, for whoever runs the exported model next."""
    generator = torch.Generator().manual_seed(0)
    shape = (_CHECKED_IMAGES, 3, size, size)
    images = torch.randint(-32, 33, shape, generator=generator).float() / 16  # exact in few decimal digits
    with torch.no_grad():
        logits = network(images)
    return {"input": _listed(images), "output": _listed(logits), "tolerance": TOLERANCE}


def verify_onnx(path: Path, check: Dict[str, Any]) -> Optional[str]:
    """What was verified here, None where neither onnx nor onnxruntime is; raises a Fault on a difference."""
    onnx, runtime = _optional("onnx"), _optional("onnxruntime")
    if onnx is not None:
        try:
            onnx.checker.check_model(str(path))
        except onnx.checker.ValidationError as error:
            raise _failed(f"its structure is not valid: {str(error).splitlines()[0]}") from error
    if runtime is None:
        return "the structure" if onnx is not None else None
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    images = torch.tensor(check["input"]["data"]).reshape(check["input"]["shape"])
    [logits] = session.run(["logits"], {"images": images.numpy()})
    expected = torch.tensor(check["output"]["data"]).reshape(check["output"]["shape"])
    difference = (torch.from_numpy(logits) - expected).abs().max().item()
    if not difference <= TOLERANCE:
        raise _failed(f"its outputs differ from PyTorch's by {difference:.3g}, more than {TOLERANCE:g}")
    return f"the outputs, which differ from PyTorch's by {difference:.2g} at most"


def _failed(why: str) -> Fault:
    return Fault(f"The exported model does not hold: {why}.", "Choose another export.opset or another model.")


def _optional(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


def _listed(tensor: Tensor) -> Dict[str, Any]:
    return {"shape": list(tensor.shape), "data": tensor.flatten().tolist()}
