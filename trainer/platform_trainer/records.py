"""Typed records from JSON: a dataclass declares kinds, ranges and defaults; `read` names a fault by its key."""
from __future__ import annotations

import dataclasses
import difflib
import math
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Type, TypeVar

from .faults import Fault

Record = TypeVar("Record")
Check = Callable[[Any], Any]


def _field(check: Check, default: Any, about: str, **rule: Any) -> Any:
    return dataclasses.field(default=default, metadata={"check": check, "about": about, "rule": rule})


def number(default: Any, low: float, high: float, about: str = "", whole: bool = False) -> Any:
    """A number within low..high, both included; a default of `dataclasses.MISSING` makes the key required."""
    kind = "a whole number" if whole else "a number"

    def check(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(f"must be {kind}")
        if whole and value != int(value):
            raise ValueError(f"must be {kind}")
        if not low <= value <= high:
            raise ValueError(f"must lie between {low:g} and {high:g}")
        return int(value) if whole else float(value)

    said = f"{about} ({low:g} to {high:g})" if about else ""
    return _field(check, default, said, type="integer" if whole else "number", minimum=low, maximum=high)


def choice(default: Any, allowed: Sequence[str], about: str = "") -> Any:
    """One of the allowed words."""

    def check(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return str(value)

    return _field(check, default, about, type="string", enum=list(allowed))


def flag(default: bool, about: str = "") -> Any:
    """True or false."""

    def check(value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError("must be true or false")
        return value

    return _field(check, default, about)


def text(default: Any = dataclasses.MISSING, about: str = "") -> Any:
    """A text that is not empty."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise ValueError("must be a text that is not empty")
        return value

    return _field(check, default, about)


def texts(about: str = "") -> Any:
    """A list of different texts with at least one entry."""

    def check(value: Any) -> List[str]:
        if not isinstance(value, list) or not value or not all(isinstance(item, str) and item for item in value):
            raise ValueError("must be a list of texts that is not empty")
        if len(set(value)) != len(value):
            raise ValueError("must not name anything twice")
        return list(value)

    return _field(check, dataclasses.MISSING, about)


def nested(record: Type[Any]) -> Any:
    """A record in the record; left out, it takes its own defaults."""
    missing = any(f.default is dataclasses.MISSING and not f.metadata.get("record") for f in dataclasses.fields(record))
    factory: Dict[str, Any] = {} if missing else {"default_factory": record}
    return dataclasses.field(metadata={"record": record}, **factory)


def rules(record: Type[Any]) -> Dict[str, Any]:
    """The kinds and ranges of a record as JSON Schema, so that others can check before they ask."""
    properties = {
        field.name: rules(field.metadata["record"]) if "record" in field.metadata else field.metadata["rule"]
        for field in dataclasses.fields(record)
    }
    return {"type": "object", "properties": properties}


def read(record: Type[Record], values: Any, where: str) -> Record:
    """Build the record from plain JSON; raises a Fault that names the key, `where` being the path that leads to it."""
    if values is None:
        values = {}
    if not isinstance(values, Mapping):
        raise Fault(f"{where} must be a mapping of keys to values.", f"Write {where} as keys with values.")
    fields = {field.name: field for field in dataclasses.fields(record)}  # type: ignore[arg-type]
    for key in values:
        if key not in fields:
            raise Fault(f"{_path(where, key)} is not known.", _suggestion(str(key), list(fields)))
    return record(**{key: _value(fields[key], value, where) for key, value in _given(fields, values, where).items()})


def _given(fields: Mapping[str, Any], values: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    for key, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and key not in values:
            raise Fault(f"{_path(where, key)} is missing.", f"Give a value to {_path(where, key)}.")
    return values


def _value(field: Any, value: Any, where: str) -> Any:
    path = _path(where, field.name)
    inner: Optional[Type[Any]] = field.metadata.get("record")
    if inner is not None:
        return read(inner, value, path)
    try:
        return field.metadata["check"](value)
    except ValueError as error:
        raise Fault(f"{path} {error}; it is {value!r}.", f"Correct {path}.") from None


def _path(where: str, key: Any) -> str:
    return f"{where}.{key}" if where else str(key)


def _suggestion(key: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    return f"Did you mean {close[0]}?" if close else f"Known keys: {', '.join(known)}."
