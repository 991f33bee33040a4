"""Faults a person can act on: what went wrong and what to do about it."""
from __future__ import annotations

import errno
from typing import Tuple


class Fault(Exception):
    """A failure with a plain message and a remedy; it ends the job with one `error` event."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class Stopped(Exception):
    """A stop was asked for before there was anything to keep."""


_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory")


def explain(error: BaseException) -> Tuple[str, str]:
    """Message and remedy for any error, also those that no code of ours raised."""
    if isinstance(error, Fault):
        return error.message, error.remedy
    text = str(error).strip() or type(error).__name__
    if isinstance(error, MemoryError) or any(mark in text.lower() for mark in _OUT_OF_MEMORY):
        return "The memory did not suffice.", "Lower batch_size or image_size, or choose a smaller model."
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "The disk is full.", "Free some space where the platform keeps its data, then retry."
    if "more than 1 value per channel" in text:
        return "Batch normalisation cannot learn from a single image.", "Raise batch_size to 2 or more."
    first_line = text.splitlines()[0]
    return f"{type(error).__name__}: {first_line}", "The log of the experiment holds the traceback."
