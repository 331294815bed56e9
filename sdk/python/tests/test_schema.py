from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import typing
import uuid
from typing import Any, Literal, Optional

import jsonschema
import pydantic
import pytest

from goalmill import Agent, Fatal
from goalmill.schema import convert, schema_of, to_json


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Hotel:
    name: str
    price: float
    stars: int | None = None
    tags: list[str] = dataclasses.field(default_factory=list)
    colour: Colour = Colour.RED


class Query(typing.TypedDict):
    city: str
    hotel: Hotel


class Model(pydantic.BaseModel):
    nights: int = pydantic.Field(gt=0)


@pytest.mark.parametrize("hint, schema", [
    (str, {"type": "string"}),
    (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    (dict[str, list[float]], {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "number"}}}),
    (tuple[int, str], {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2}),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
    (Literal["a", 1], {"enum": ["a", 1]}),
    (Colour, {"enum": ["red", "blue"]}),
    (typing.Annotated[int, "nights"], {"type": "integer"}),
    (Any, {}),
])
def test_a_type_becomes_a_schema(hint: Any, schema: dict[str, Any]) -> None:
    assert schema_of(hint) == schema


def test_records_become_objects() -> None:
    hotel = schema_of(Hotel)
    assert hotel["required"] == ["name", "price"] and hotel["additionalProperties"] is False
    assert hotel["properties"]["colour"] == {"enum": ["red", "blue"]}
    assert schema_of(Query)["properties"]["hotel"] == hotel
    assert schema_of(Model)["properties"]["nights"]["exclusiveMinimum"] == 0


def test_values_are_made_of_json_and_back() -> None:
    given = {"city": "Rome", "hotel": {"name": "Lux", "price": 90, "tags": ["old"], "colour": "blue"}}
    made = convert(given, Query)
    assert made["hotel"] == Hotel("Lux", 90.0, None, ["old"], Colour.BLUE)
    assert to_json(made) == {"city": "Rome", "hotel": {"name": "Lux", "price": 90.0, "stars": None, "tags": ["old"], "colour": "blue"}}
    assert convert({"nights": 3}, Model).nights == 3 and to_json(Model(nights=3)) == {"nights": 3}
    assert convert("2027-05-03T10:00:00Z", datetime.datetime).year == 2027
    assert convert([1, 2], tuple[int, ...]) == (1, 2)


@pytest.mark.parametrize("value, hint, place", [
    ({"name": 1, "price": 2}, Hotel, "/name"), ({"name": "x"}, Hotel, "/price"),
    ({"name": "x", "price": 1, "prise": 2}, Hotel, "/prise"), ({"name": "x", "price": 1, "tags": [1]}, Hotel, "/tags/0"),
    ({"name": "x", "price": 1, "colour": "green"}, Hotel, "/colour"), (True, int, "/"), ("x", Literal["a"], "/"), (1.5, int | str, "/"),
    ({"nights": 0}, Model, "nights"), ([1], tuple[int, int], "/"), ("x", list[int], "/"), ("soon", datetime.date, "/"),
])
def test_what_does_not_fit_is_refused_with_its_place(value: Any, hint: Any, place: str) -> None:
    with pytest.raises(Fatal) as refused:
        convert(value, hint)
    assert refused.value.code == "INPUT_INVALID" and place in refused.value.message


@pytest.mark.parametrize("value, place", [
    ({"a": [1, float("nan")]}, "/a/1"), ({"a": 1 << 64}, "/a"), ({"a": "\ud800"}, "/a"), ({1: 2}, "/"), ({"a": object()}, "/a"),
    ({"a": decimal.Decimal("NaN")}, "/a"), ({"a": {object()}}, "/a"),
])
def test_what_is_no_json_is_refused_with_its_place(value: Any, place: str) -> None:
    with pytest.raises(Fatal) as refused:
        to_json(value)
    assert refused.value.code == "ANSWER_INVALID" and f"`{place}`" in refused.value.message


class Level(enum.IntEnum):
    LOW = 1


class Point(typing.NamedTuple):
    x: int
    y: int = 0


@dataclasses.dataclass
class Tree:
    name: str
    parts: list[Tree] = dataclasses.field(default_factory=list)
    size: int = dataclasses.field(init=False, default=1)


class Address(pydantic.BaseModel):
    street: str


class Order(pydantic.BaseModel):
    id: uuid.UUID
    total: decimal.Decimal = pydantic.Field(alias="sum")
    address: Address
    before: Optional["Order"] = None


Night = typing.NewType("Night", int)
ID = uuid.UUID("8f14e45f-ceea-467f-a830-9b1c1b2c3d4e")
DAY = datetime.date(2027, 5, 3)


@pytest.mark.parametrize("hint, value, text", [
    (None, None, None),
    (decimal.Decimal, decimal.Decimal("1.10"), "1.10"),
    (uuid.UUID, ID, str(ID)),
    (datetime.datetime, datetime.datetime(2027, 5, 3, 10, tzinfo=datetime.timezone.utc), "2027-05-03T10:00:00+00:00"),
    (datetime.date, DAY, "2027-05-03"),
    (Colour, Colour.BLUE, "blue"),
    (Level, Level.LOW, 1),
    (Hotel, Hotel("Lux", 90.0), {"name": "Lux", "price": 90.0, "stars": None, "tags": [], "colour": "red"}),
    (Tree, Tree("a", [Tree("b")]), {"name": "a", "parts": [{"name": "b", "parts": []}]}),
    (Point, Point(1), {"x": 1, "y": 0}),
    (set[str], {"a", "b"}, ["a", "b"]),
    (frozenset[int], frozenset({2, 1}), [1, 2]),
    (bytes, b"\x00\xff", base64.b64encode(b"\x00\xff").decode()),
    (Order, Order(id=ID, sum=decimal.Decimal("1.5"), address=Address(street="x"), before=Order(id=ID, sum=1, address=Address(street="y"))),
     {"id": str(ID), "sum": "1.5", "address": {"street": "x"},
      "before": {"id": str(ID), "sum": "1", "address": {"street": "y"}, "before": None}}),
    (dict[str, list[Point]], {"a": [Point(1, 2)]}, {"a": [{"x": 1, "y": 2}]}),
    (tuple[uuid.UUID, Optional[bytes]], (ID, None), [str(ID), None]),
    (typing.Annotated[Night, "nights"], 3, 3),
])
def test_a_type_is_an_input_and_an_output(hint: Any, value: Any, text: Any) -> None:
    agent = Agent("a")

    def act(one: Any, other: int = 0) -> Any:
        return one
    act.__annotations__.update({"one": hint, "return": hint})
    agent.action(act)
    action = agent.actions["act"]
    assert to_json(value) == text
    assert action.arguments({"one": text}, None)["one"] == value and type(convert(text, hint)) is type(value)
    card = agent.card()["actions"][0]
    inputs = {"$defs": card["inputs"].get("$defs", {}), **card["inputs"]["properties"]["one"]}
    jsonschema.validate(text, inputs)
    if hint is not None:
        jsonschema.validate(text, card["outputs"])


@pytest.mark.parametrize("text, hint", [
    ("1.x", decimal.Decimal), ("NaN", decimal.Decimal), (True, decimal.Decimal), ("x", uuid.UUID), (1, uuid.UUID), ("?", bytes), ("é", bytes),
    ([1], Point), ({"x": 1, "z": 1}, Point), ("ab", set[str]), (1, type(None)), (True, Level), ({"id": str(ID), "address": {"street": "x"}}, Order),
])
def test_json_of_another_type_is_refused(text: Any, hint: Any) -> None:
    with pytest.raises(Fatal) as refused:
        convert(text, hint)
    assert refused.value.code == "INPUT_INVALID"


def test_nesting_is_bounded() -> None:
    deep: Any = 1
    for _ in range(64):
        deep = [deep]
    assert to_json(deep) == deep
    with pytest.raises(Fatal):
        to_json([deep])


def test_references_of_nested_models_point_to_their_definitions() -> None:
    class Address(pydantic.BaseModel):
        street: str

    class Order(pydantic.BaseModel):
        id: int
        address: Address
        before: Optional["Order"] = None

    first, agent = Order, Agent("shop")

    class Address(pydantic.BaseModel):  # type: ignore[no-redef]  # another one of the same name
        zip: int

    class Bill(pydantic.BaseModel):
        address: Address

    @agent.action
    def act(order: first, bills: list[Bill], again: list[first]) -> dict[str, Bill]:  # type: ignore[valid-type]
        return {}
    schema = agent.card()["actions"][0]["inputs"]
    definitions, properties = schema["$defs"], schema["properties"]

    def target(at: dict[str, Any]) -> Any:
        return definitions[at["$ref"].removeprefix("#/$defs/")]
    assert all("$defs" not in str(value) or "#/$defs/" in str(value) for value in properties.values())
    order = properties["order"]
    order = target(order) if "$ref" in order else order
    assert list(target(order["properties"]["address"])["properties"]) == ["street"]
    assert list(target(properties["bills"]["items"]["properties"]["address"])["properties"]) == ["zip"]
    assert "$defs" not in str(properties).replace("#/$defs/", "")
    assert list(agent.card()["actions"][0]["outputs"]["$defs"]) == ["Address"]
