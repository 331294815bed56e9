from __future__ import annotations

import dataclasses
import datetime
import enum
import typing
from typing import Any, Literal, Optional

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
    ({"a": b"x"}, "/a"), ({"a": {1, 2}}, "/a"),
])
def test_what_is_no_json_is_refused_with_its_place(value: Any, place: str) -> None:
    with pytest.raises(Fatal) as refused:
        to_json(value)
    assert refused.value.code == "ANSWER_INVALID" and f"`{place}`" in refused.value.message


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
