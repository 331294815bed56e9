"""Types of Python, JSON Schema and JSON: dataclasses, TypedDict, pydantic models, enums, literals, unions, containers."""
from __future__ import annotations

import dataclasses
import datetime
import enum
import math
import sys
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from .errors import Fatal

NESTING_MAX = 64
_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"}, bool: {"type": "boolean"}, int: {"type": "integer"}, float: {"type": "number"},
    type(None): {"type": "null"}, datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
}


def _container(hint: Any) -> Literal["list", "tuple", "dict"] | None:
    kind = get_origin(hint) or hint
    if not isinstance(kind, type) or kind in (str, bytes):
        return None
    if issubclass(kind, Mapping):
        return "dict"
    if issubclass(kind, tuple):
        return "tuple"
    return "list" if issubclass(kind, Sequence) or kind is Iterable else None


def is_record(hint: Any) -> bool:
    """Whether the type has named fields: a dataclass, a TypedDict, a pydantic model."""
    return isinstance(hint, type) and (dataclasses.is_dataclass(hint) or typing.is_typeddict(hint) or _is_model(hint))


def _is_model(hint: Any) -> bool:
    pydantic = sys.modules.get("pydantic")  # a model can only exist if its module was loaded
    return bool(pydantic) and isinstance(hint, type) and issubclass(hint, pydantic.BaseModel)  # type: ignore[union-attr]


def _fields(hint: Any) -> tuple[dict[str, Any], set[str]]:
    """The types of the fields of a dataclass or TypedDict, and the names of those that must be given."""
    hints = typing.get_type_hints(hint)
    if typing.is_typeddict(hint):
        return hints, set(hint.__required_keys__)
    required = {f.name for f in dataclasses.fields(hint)
                if f.init and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING}
    return {f.name: hints[f.name] for f in dataclasses.fields(hint) if f.init}, required


def schema_of(hint: Any) -> dict[str, Any]:
    """The JSON Schema of a type; `{}` for `Any` and for types that are not known here."""
    return hoist(_schema_of(hint))


def hoist(schema: dict[str, Any]) -> dict[str, Any]:
    """Moves the definitions of models inside a schema to its root, where their `$ref` point. A definition that has the name of
    another one gets a name of its own."""
    found: dict[str, Any] = {}

    def free(name: str, definition: Any) -> str:
        while found.get(name, definition) != definition:
            name += "_"
        return name

    def move(value: Any) -> Any:
        if isinstance(value, list):
            return [move(item) for item in value]
        if not isinstance(value, dict):
            return value
        own, rest = value.get("$defs"), {name: item for name, item in value.items() if name != "$defs"}
        if isinstance(own, dict):
            names = {name: free(name, item) for name, item in own.items()}
            found.update((names[name], _renamed(item, names)) for name, item in own.items())
            rest = _renamed(rest, names)
        return {name: move(item) for name, item in rest.items()}

    moved: dict[str, Any] = move(schema)
    return {**moved, "$defs": found} if found else moved


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """A schema whose references name the definitions by their new names."""
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    made = {name: _renamed(item, names) for name, item in value.items()}
    target = value.get("$ref")
    if isinstance(target, str) and target.startswith("#/$defs/"):
        made["$ref"] = f"#/$defs/{names.get(target[8:], target[8:])}"
    return made


def _schema_of(hint: Any, _above: tuple[Any, ...] = ()) -> dict[str, Any]:
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    if _is_model(hint):
        schema: dict[str, Any] = hint.model_json_schema()
        return schema
    if is_record(hint):
        if hint in _above:  # a type that contains itself: its fields stand above
            return {"type": "object"}
        hints, required = _fields(hint)
        properties = {name: _schema_of(item, (*_above, hint)) for name, item in hints.items()}
        made: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        return {**made, "required": sorted(required)} if required else made
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is typing.Annotated:
        return _schema_of(arguments[0], _above)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema_of(item, _above) for item in arguments]}
    kind = _container(hint)
    if kind == "dict":
        plain: dict[str, Any] = {"type": "object"}
        return {**plain, "additionalProperties": _schema_of(arguments[1], _above)} if arguments else plain
    if kind == "tuple" and arguments and arguments[-1] is not Ellipsis:
        items = [_schema_of(item, _above) for item in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if kind:
        return {"type": "array", "items": _schema_of(arguments[0], _above)} if arguments else {"type": "array"}
    return {}


def convert(value: Any, hint: Any, at: str = "") -> Any:
    """Makes a value of a type from JSON; raises `Fatal` (`INPUT_INVALID`) that names the place.

    - `at`: the JSON Pointer of the value.
    """
    def wrong(expected: str) -> Fatal:
        return Fatal(f"`{at or '/'}` must be {expected}, it is {_name(value)}", code="INPUT_INVALID")

    if hint is Any or hint is object or isinstance(hint, typing.TypeVar):
        return value
    if _is_model(hint):
        try:
            return hint.model_validate(value)
        except ValueError as error:
            raise Fatal(f"`{at or '/'}`: {error}", code="INPUT_INVALID") from error
    if hint is type(None):
        if value is not None:
            raise wrong("null")
        return None
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint in (str, bool, int, float):
        if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
            raise wrong({str: "a text", bool: "true or false", int: "an integer", float: "a number"}[hint])
        return value
    if hint in (datetime.datetime, datetime.date):
        try:
            return hint.fromisoformat(value.replace("Z", "+00:00"))
        except (ValueError, AttributeError):
            raise wrong("a date in the form of RFC 3339") from None
    if is_record(hint):
        if not isinstance(value, dict):
            raise wrong("an object")
        hints, required = _fields(hint)
        if missing := sorted(required - value.keys()):
            raise Fatal(f"`{at}/{missing[0]}` is missing", code="INPUT_INVALID")
        if unknown := sorted(value.keys() - hints.keys()):
            raise Fatal(f"`{at}/{unknown[0]}` is unknown: known are {', '.join(sorted(hints))}", code="INPUT_INVALID")
        made = {name: convert(item, hints[name], f"{at}/{name}") for name, item in value.items()}
        return made if typing.is_typeddict(hint) else hint(**made)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        try:
            return hint(value)
        except ValueError:
            raise wrong("one of " + ", ".join(repr(member.value) for member in hint)) from None
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        if not any(value == item and type(value) is type(item) for item in arguments):
            raise wrong("one of " + ", ".join(map(repr, arguments)))
        return value
    if origin in (Union, types.UnionType):
        for item in arguments:
            try:
                return convert(value, item, at)
            except Fatal:
                continue
        raise wrong("a " + " or ".join(getattr(item, "__name__", str(item)) for item in arguments))
    if origin is typing.Annotated:
        return convert(value, arguments[0], at)
    kind = _container(hint)
    if kind == "dict":
        if not isinstance(value, dict):
            raise wrong("an object")
        return {name: convert(item, arguments[1] if arguments else Any, f"{at}/{name}") for name, item in value.items()}
    if kind:
        if not isinstance(value, list):
            raise wrong("a list")
        fixed = kind == "tuple" and bool(arguments) and arguments[-1] is not Ellipsis
        if fixed and len(arguments) != len(value):
            raise wrong(f"a list of {len(arguments)}")
        types_of_items = arguments if fixed else (arguments[0] if arguments else Any,) * len(value)
        items = [convert(item, one, f"{at}/{n}") for n, (item, one) in enumerate(zip(value, types_of_items))]
        return tuple(items) if kind == "tuple" else items
    return value


def _name(value: Any) -> str:
    return {dict: "an object", list: "a list", str: "a text", type(None): "null"}.get(type(value), repr(value))


def to_json(value: Any, at: str = "", _depth: int = 0, *, nesting_max: int = NESTING_MAX) -> Any:
    """Makes JSON of a value; raises `Fatal` (`ANSWER_INVALID`) that names the place of what is no JSON for Goalmill."""
    def wrong(reason: str) -> Fatal:
        return Fatal(f"`{at or '/'}` {reason}", code="ANSWER_INVALID")

    if _depth > nesting_max:
        raise wrong(f"is nested deeper than {nesting_max} levels (`limits.nesting_max`)")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return to_json(value.value, at, _depth, nesting_max=nesting_max)
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise wrong("has an unpaired surrogate") from None
        return value
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise wrong("has more than 64 bits")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise wrong("is no finite number")
        return value
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    elif hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    elif hasattr(value, "to_dict"):  # a plan
        value = value.to_dict()
    if isinstance(value, Mapping):
        if bad := next((name for name in value if not isinstance(name, str)), None):
            raise wrong(f"has the field name {bad!r}, which is no text")
        return {to_json(name, at): to_json(item, f"{at}/{name}", _depth + 1, nesting_max=nesting_max) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item, f"{at}/{n}", _depth + 1, nesting_max=nesting_max) for n, item in enumerate(value)]
    raise wrong(f"is a {type(value).__name__}, which is no JSON: convert it first")
