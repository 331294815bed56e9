"""Types of Python and their JSON: what a type looks like in JSON Schema, and how a value is made from JSON and becomes JSON."""
from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import json
import math
import sys
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal, Union, get_args, get_origin

from .errors import Fatal

NESTING_MAX = 64
#: Makes a value of a type from JSON. The second argument is the JSON Pointer of the value.
Load = Callable[[Any, str], Any]


@dataclasses.dataclass(frozen=True)
class Shape:
    """A type: its JSON Schema, and how its values are made from JSON; `Fatal` (`INPUT_INVALID`) names the place of what does not fit."""

    schema: dict[str, Any]
    load: Load


def _wrong(value: Any, at: str, expected: str) -> Fatal:
    found = {dict: "an object", list: "a list", str: "a text", type(None): "null"}.get(type(value), repr(value))
    return Fatal(f"`{at or '/'}` must be {expected}, it is {found}", code="INPUT_INVALID")


def _scalar(schema: dict[str, Any], expected: str, kinds: tuple[type, ...], make: Callable[[Any], Any]) -> Shape:
    """A type whose JSON has one of some types."""
    def load(value: Any, at: str) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise _wrong(value, at, expected)
        try:
            return make(value)
        except (ValueError, ArithmeticError):
            raise _wrong(value, at, expected) from None
    return Shape(schema, load)


def _decimal(value: Any) -> decimal.Decimal:
    made = decimal.Decimal(str(value))
    if not made.is_finite():
        raise ValueError
    return made


def _date(kind: Any) -> Callable[[str], Any]:
    return lambda value: kind.fromisoformat(value.replace("Z", "+00:00"))


def _same(value: Any) -> Any:
    return value


_ANY = Shape({}, lambda value, at: value)
_SCALARS: dict[Any, Shape] = {
    str: _scalar({"type": "string"}, "a text", (str,), _same),
    bool: _scalar({"type": "boolean"}, "true or false", (bool,), _same),
    int: _scalar({"type": "integer"}, "an integer", (int,), _same),
    float: _scalar({"type": "number"}, "a number", (int, float), float),
    type(None): _scalar({"type": "null"}, "null", (type(None),), _same),
    datetime.datetime: _scalar({"type": "string", "format": "date-time"}, "a time in the form of RFC 3339", (str,), _date(datetime.datetime)),
    datetime.date: _scalar({"type": "string", "format": "date"}, "a date in the form of RFC 3339", (str,), _date(datetime.date)),
    decimal.Decimal: _scalar({"type": ["string", "number"]}, "a decimal number", (str, int, float), _decimal),
    uuid.UUID: _scalar({"type": "string", "format": "uuid"}, "a UUID", (str,), uuid.UUID),
    bytes: _scalar({"type": "string", "contentEncoding": "base64"}, "bytes in base64", (str,), lambda value: base64.b64decode(value, validate=True)),
}


def is_record(hint: Any) -> bool:
    """Whether the type has named fields: a dataclass, a TypedDict, a NamedTuple, a pydantic model."""
    return isinstance(hint, type) and (dataclasses.is_dataclass(hint) or typing.is_typeddict(hint) or _is_named_tuple(hint) or _is_model(hint))


def _is_named_tuple(hint: type) -> bool:
    return issubclass(hint, tuple) and hasattr(hint, "_fields")


def _is_model(hint: Any) -> bool:
    pydantic = sys.modules.get("pydantic")  # a model can only exist if its module was loaded
    return bool(pydantic) and isinstance(hint, type) and issubclass(hint, pydantic.BaseModel)  # type: ignore[union-attr]


def _fields(hint: Any) -> tuple[dict[str, Any], set[str]]:
    """The types of the fields of a dataclass, NamedTuple or TypedDict, and the names of those that must be given."""
    hints = typing.get_type_hints(hint)
    if typing.is_typeddict(hint):
        return hints, set(hint.__required_keys__)
    if _is_named_tuple(hint):
        return {name: hints.get(name, Any) for name in hint._fields}, set(hint._fields) - set(hint._field_defaults)
    fields = [f for f in dataclasses.fields(hint) if f.init]
    required = {f.name for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING}
    return {f.name: hints[f.name] for f in fields}, required


def shape_of(hint: Any, _above: tuple[Any, ...] = ()) -> Shape:
    """The shape of a type; `TypeError` if it has no form in JSON.

    - `_above`: the records around it.
    """
    hint = _resolved(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any or hint is object or isinstance(hint, typing.TypeVar):
        return _ANY
    if origin is Literal:
        return _one_of([(item, item) for item in arguments])
    if origin in (Union, types.UnionType):
        return _union([shape_of(item, _above) for item in arguments], arguments)
    kind = origin or hint
    if not isinstance(kind, type):
        raise TypeError(f"the type {hint!r} has no form in JSON")
    if kind in _SCALARS:
        return _SCALARS[kind]
    if _is_model(kind):
        return _model(kind)
    if is_record(kind):
        return _record(kind, _above)
    if issubclass(kind, enum.Enum):
        return _one_of([(to_json(member.value), member) for member in kind])
    if issubclass(kind, Mapping):
        return _mapping(arguments, _above)
    if issubclass(kind, tuple) and arguments and arguments[-1] is not Ellipsis:
        return _fixed_list([shape_of(item, _above) for item in arguments])
    if kind is Iterable or (issubclass(kind, (Sequence, AbstractSet)) and not issubclass(kind, (str, bytes))):
        return _list(kind, shape_of(arguments[0], _above) if arguments else _ANY)
    raise TypeError(f"the type `{kind.__qualname__}` has no form in JSON: convert it to a dataclass, or to types of JSON")


def _resolved(hint: Any) -> Any:
    """The type behind `Annotated`, `NewType` and aliases."""
    while True:
        if get_origin(hint) is typing.Annotated:
            hint = get_args(hint)[0]
        elif (behind := getattr(hint, "__supertype__", None) or getattr(hint, "__value__", None)) is not None and not isinstance(hint, type):
            hint = behind
        else:
            return hint


def _one_of(values: list[tuple[Any, Any]]) -> Shape:
    """One of some values, each with its JSON."""
    def load(value: Any, at: str) -> Any:
        for text, member in values:
            if type(value) is type(text) and value == text:
                return member
        raise _wrong(value, at, "one of " + ", ".join(repr(text) for text, _ in values))
    if any(not isinstance(text, (str, int, float, type(None))) for text, _ in values):
        raise TypeError(f"the values {[text for text, _ in values]} are no texts or numbers")
    return Shape({"enum": [text for text, _ in values]}, load)


def _union(shapes: list[Shape], hints: tuple[Any, ...]) -> Shape:
    """The first type that fits."""
    def load(value: Any, at: str) -> Any:
        for shape in shapes:
            try:
                return shape.load(value, at)
            except Fatal:
                continue
        raise _wrong(value, at, "a " + " or ".join(getattr(hint, "__name__", str(hint)) for hint in hints))
    return Shape({"anyOf": [shape.schema for shape in shapes]}, load)


def _model(hint: Any) -> Shape:
    def load(value: Any, at: str) -> Any:
        try:
            return hint.model_validate(value)
        except ValueError as error:
            raise Fatal(f"`{at or '/'}`: {error}", code="INPUT_INVALID") from error
    try:
        return Shape(hint.model_json_schema(), load)
    except Exception as error:
        raise TypeError(f"the model `{hint.__qualname__}` has no JSON Schema: {error}") from error


def _record(hint: Any, above: tuple[Any, ...]) -> Shape:
    if hint in above:  # a type that contains itself: its fields stand above
        return Shape({"type": "object"}, lambda value, at: shape_of(hint).load(value, at))
    hints, required = _fields(hint)
    shapes = {name: shape_of(item, (*above, hint)) for name, item in hints.items()}

    def load(value: Any, at: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(value, at, "an object")
        if missing := sorted(required - value.keys()):
            raise Fatal(f"`{at}/{missing[0]}` is missing", code="INPUT_INVALID")
        if unknown := sorted(value.keys() - shapes.keys()):
            raise Fatal(f"`{at}/{unknown[0]}` is unknown: known are {', '.join(sorted(shapes))}", code="INPUT_INVALID")
        made = {name: shapes[name].load(item, f"{at}/{name}") for name, item in value.items()}
        return made if typing.is_typeddict(hint) else hint(**made)
    properties = {name: shape.schema for name, shape in shapes.items()}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return Shape({**schema, "required": sorted(required)} if required else schema, load)


def _mapping(arguments: tuple[Any, ...], above: tuple[Any, ...]) -> Shape:
    if arguments and _resolved(arguments[0]) not in (str, Any) and get_origin(arguments[0]) is not Literal:
        raise TypeError(f"the keys of an object in JSON are texts, and not {arguments[0]!r}")
    values = shape_of(arguments[1], above) if arguments else None

    def load(value: Any, at: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(value, at, "an object")
        return {name: (values or _ANY).load(item, f"{at}/{name}") for name, item in value.items()}
    return Shape({"type": "object", **({"additionalProperties": values.schema} if values else {})}, load)


def _list(kind: type, items: Shape) -> Shape:
    make: type = next((one for one in (tuple, frozenset) if issubclass(kind, one)), set if issubclass(kind, AbstractSet) else list)

    def load(value: Any, at: str) -> Any:
        if not isinstance(value, list):
            raise _wrong(value, at, "a list")
        return make(items.load(item, f"{at}/{n}") for n, item in enumerate(value))
    unique = {"uniqueItems": True} if issubclass(kind, AbstractSet) else {}
    return Shape({"type": "array", **({"items": items.schema} if items.schema else {}), **unique}, load)


def _fixed_list(items: list[Shape]) -> Shape:
    def load(value: Any, at: str) -> Any:
        if not isinstance(value, list):
            raise _wrong(value, at, "a list")
        if len(items) != len(value):
            raise _wrong(value, at, f"a list of {len(items)}")
        return tuple(shape.load(item, f"{at}/{n}") for n, (item, shape) in enumerate(zip(value, items, strict=True)))
    schemas = [shape.schema for shape in items]
    return Shape({"type": "array", "prefixItems": schemas, "minItems": len(schemas), "maxItems": len(schemas)}, load)


def schema_of(hint: Any) -> dict[str, Any]:
    """The JSON Schema of a type, with definitions at its root; `TypeError` if it has no form in JSON."""
    return hoist(shape_of(hint).schema)


def convert(value: Any, hint: Any) -> Any:
    """Makes a value of a type from JSON. A value of a type that has no form in JSON stays as it is."""
    try:
        shape = shape_of(hint)
    except (TypeError, NameError):
        return value
    return shape.load(value, "")


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


def to_json(value: Any, at: str = "", _depth: int = 0) -> Any:
    """Makes JSON of a value; raises `Fatal` (`ANSWER_INVALID`) that names the place of what is no JSON for Goalmill."""
    def wrong(reason: str) -> Fatal:
        return Fatal(f"`{at or '/'}` {reason}", code="ANSWER_INVALID")

    if _depth > NESTING_MAX:
        raise wrong(f"is nested deeper than {NESTING_MAX} levels (`limits.nesting_max`)")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return to_json(value.value, at, _depth)
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
    if isinstance(value, (float, decimal.Decimal)):
        if not math.isfinite(value):
            raise wrong("is no finite number")
        return value if isinstance(value, float) else str(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    elif hasattr(value, "model_dump"):
        value = value.model_dump(mode="json", by_alias=True)
    elif hasattr(value, "to_dict"):  # a plan
        value = value.to_dict()
    if isinstance(value, Mapping):
        if bad := next((name for name in value if not isinstance(name, str)), None):
            raise wrong(f"has the field name {bad!r}, which is no text")
        return {to_json(name, at): to_json(item, f"{at}/{name}", _depth + 1) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item, f"{at}/{n}", _depth + 1) for n, item in enumerate(value)]
    if isinstance(value, AbstractSet):  # in an order that is the same in each process
        return sorted((to_json(item, at, _depth + 1) for item in value), key=json.dumps)
    raise wrong(f"is a {type(value).__name__}, which is no JSON: convert it first")
