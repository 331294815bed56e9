from __future__ import annotations

import dataclasses
import datetime
import inspect
import json
import re
from typing import Any

import pytest

from goalmill import Agent, Goalmill, Plan, Step, ref, refs, testing

from conftest import ROOT

agent = Agent("hotel_agent")


@dataclasses.dataclass
class Hotel:
    name: str
    price: float


@dataclasses.dataclass
class Cities:
    list: list[str]


@agent.action(timeout=60, undo="cancel")
def search(city: str) -> Hotel:
    return Hotel(city, 1.0)


@agent.action
def find() -> Cities:
    return Cities(["Rome"])


@agent.action
def cancel(order: str) -> None:
    return None


def whole() -> Plan:
    """Every word of the vocabulary."""
    with Plan("inner", collect="list") as inner:
        Step("one", kind="message", inputs={"x": refs.inputs})
    with Plan("trip", strategy="adaptive", max_parallel=4, budget={"cost": 5, "tokens": 1000, "seconds": 600}, approve={"limit": 60, "default": "approve"},
              revision={"max": 1}, continue_on_failure=True, failures_max=3, undo_on=["failed"], confidence=0.9, estimates={"cost": 1},
              metadata={"order": "7"}, start_in=0.001) as plan:
        with plan.phase("look", "Looks around.", checkpoint=True):
            cities = Step("find", find, description="finds cities", priority=7, cache={"key": "cities", "ttl": 60})
            hotels = Step("hotels", search, inputs={"city": refs.item}, for_each=cities.out.list, batch=None, max_parallel=2,
                          items_max=50, on_item_failure={"at_most": 1}, retry={"max": 2, "initial": 0.1, "max_wait": 1, "factor": 2.0, "jitter": "none"},
                          fallback={"agent_type": "echo", "action": "search"}, on_failure="continue", on_partial="continue",
                          estimates={"seconds": 1, "cost": 0.01})
        with plan.phase("book"):
            Step("draft", "echo", action="write", inputs={"n": refs.iteration}, repeat={"until": "iteration > 1", "max": 3, "delay": 0.01, "on_max": "continue"},
                 resource="printer", expected_outputs=["n"], expected_output="a number", output_schema={"type": "object"}, timeout=5)
            Step("nap", wait=0.01)
            Step("paid", wait={"event": "payment", "key": refs.goal.metadata.order, "timeout": 3600, "schema": dict[str, Any],
                               "on_timeout": {"default": {"paid": False}}}, after=["nap"])
            Step("until", wait={"until": "2027-01-01", "tz": "Europe/Berlin"}, when=f"{hotels.out} | length > 99")
            Step("inner", inner, inputs={"city": cities.out.list[0]})
            Step("order", "echo", action="book", inputs={"of": hotels.out[0].name}, undo={"action": "cancel", "inputs": {"o": refs.outputs.of}, "timeout": 5, "retry": 1},
                 approve=True, after=[hotels], join={"at_least": 1})
            paying = Step("pay", "echo", action="pay")
            Step("notice", "echo", action="send", after=[paying.ended("failed")], inputs={"why": paying.failure.message})
            Step("which", ask={"question": "which?", "limit": 60, "default": "any"})
            Step("best", kind="finish", inputs={"best": hotels.out, "text": f"in {cities.out.list[0]}"})
        with plan.always():
            Step("report", "echo", action="write", inputs={"status": refs.plan.status})
    return plan


def test_the_json_of_a_plan() -> None:
    document = whole().to_dict()
    steps = {step["id"]: step for step in document["steps"]}
    assert steps["hotels"] == {
        "id": "hotels", "phase": "look", "agent_type": "hotel_agent", "action": "search", "inputs": {"city": "{{ item }}"},
        "for_each": "{{ steps.find.outputs.list }}", "max_parallel": 2, "items_max": 50, "on_item_failure": {"at_most": 1},
        "retry": {"max": 2, "initial_ms": 100, "max_ms": 1000, "factor": 2.0, "jitter": "none"}, "timeout_ms": 60000,
        "fallback": {"agent_type": "echo", "action": "search"}, "on_failure": "continue", "on_partial": "continue",
        "estimates": {"seconds": 1, "cost": 0.01}, "undo": {"action": "cancel"}, "depends_on": ["find"],
    }
    assert steps["until"]["when"] == "steps.hotels.outputs | length > 99"
    assert steps["paid"]["wait"]["timeout_ms"] == 3_600_000 and steps["nap"]["wait"] == {"for_ms": 10}
    assert steps["best"]["depends_on"] == ["find", "hotels"] and steps["best"]["inputs"]["text"] == "in {{ steps.find.outputs.list[0] }}"
    assert steps["notice"]["depends_on"] == [{"step": "pay", "is": ["failed"]}]
    assert document["always"][0]["id"] == "report" and [phase["id"] for phase in document["phases"]] == ["look", "book"]
    json.dumps(document)


def test_the_server_takes_the_whole_vocabulary(server: Goalmill) -> None:
    server.request("POST", "/v1/agents", agent.card())
    server.validate(whole())


def test_every_field_of_the_schema_can_be_written() -> None:
    schema = json.loads((ROOT / "docs/schemas/plan.json").read_text())
    of_plan, of_step = inspect.signature(Plan).parameters, inspect.signature(Step).parameters
    elsewhere = {"phases": "plan.phase()", "steps": "Step"}
    assert not schema["properties"].keys() - of_plan.keys() - elsewhere.keys()
    elsewhere = {"dependencies": "after", "phase": "plan.phase()", "timeout_ms": "timeout", "plan": "run", "always": "plan.always()",
                 "undoes": "undo", "agent_type": "run", "dependency_status": "after"}
    assert not schema["$defs"]["Step"]["properties"].keys() - of_step.keys() - elsewhere.keys()
    of_map = {"items": "for_each", "as": "item"}
    assert not schema["$defs"]["ForEach"]["properties"].keys() - of_step.keys() - of_map.keys()


def test_local_times_have_a_zone_beside_them() -> None:
    start = datetime.datetime(2027, 3, 28, 2, 30)
    with Plan(start_at=start, tz="Europe/Berlin") as plan:
        Step("pause", wait={"until": refs.goal.metadata.at, "tz": "Europe/Berlin"})
    made = plan.to_dict()
    assert (made["start_at"], made["tz"]) == ("2027-03-28T02:30:00", "Europe/Berlin")
    assert made["steps"][0]["wait"] == {"until": "{{ goal.metadata.at }}", "tz": "Europe/Berlin"}


def test_references_know_the_types_of_the_outputs() -> None:
    with Plan() as plan:
        found = Step("find", find)
        with pytest.raises(AttributeError, match="has no field `cities`, it has: list"):
            found.out.cities
        hotels = Step("hotels", search, for_each=found.out.list, inputs={"city": refs.item})
        assert repr(hotels.out[0].price) == "{{ steps.hotels.outputs[0].price }}"
        with pytest.raises(AttributeError, match="has no field `prise`"):
            hotels.out[0].prise
        odd = Step("a-b", "echo")
        assert repr(odd.out["c d"]) == "{{ steps['a-b'].outputs['c d'] }}"
        Step("z", "echo", inputs=[odd.out])
    assert plan.to_dict()["steps"][-1]["depends_on"] == ["a-b"]


def test_mistakes_are_refused_where_they_are_made() -> None:
    with pytest.raises(RuntimeError, match="belongs to no plan"):
        Step("a", "echo")
    with Plan():
        step = Step("a", "echo")
        with pytest.raises(ValueError, match="two steps `a`"):
            Step("a", "echo")
        with pytest.raises(TypeError, match="no input `town`"):
            Step("b", search, inputs={"town": "Rome"})
        with pytest.raises(TypeError, match="is no action"):
            Step("c", test_mistakes_are_refused_where_they_are_made)
        with pytest.raises(TypeError, match="known only when the plan runs"):
            list(step.out.items)


@agent.action
def take_back(outputs: dict[str, Any], reason: str = "") -> None:
    return None


def test_an_undo_step_gets_the_inputs_and_the_outputs() -> None:
    with Plan("undo") as plan:
        Step("named", "hotel_agent", action="search", undo="some_action")
        Step("function", search, undo=take_back, inputs={"city": "Rome"})
        Step("given", search, undo={"action": "cancel", "inputs": {"order": 1}}, inputs={"city": "Rome"})
    undo = [step["undo"] for step in plan.to_dict()["steps"]]
    both = {"inputs": "{{ inputs }}", "outputs": "{{ outputs }}"}
    assert undo == [
        {"action": "some_action", "inputs": both},
        {"agent_type": "hotel_agent", "action": "take_back", "inputs": {"outputs": both["outputs"]}},
        {"action": "cancel", "inputs": {"order": 1}},
    ]


def test_a_text_of_the_program_is_text() -> None:
    evil = '{{ goal.description }} {% raw %} "\\" {# ß \U0001f600 steps.found'
    with Plan("text") as plan:
        found = Step("found", kind="message", inputs={"said": evil, "one": "{x}", "{{ key }}": 1})
        Step("map", kind="message", for_each=[evil, Hotel(evil, 1)], inputs={"item": refs.item})
        Step("end", kind="finish", inputs={
            "both": f"{evil}{found.out.said}}}", "same": found.out, "first": ref("steps.map.outputs | first"), "given": refs.inputs.text,
            "nested": [{"x": Hotel(evil, 2)}]})
        with plan.always():
            Step("alone", kind="message", inputs={"said": "steps.found"})
    document = plan.to_dict()
    assert [step.get("depends_on") for step in document["steps"]] == [None, None, ["found", "map"]]
    assert "depends_on" not in document["always"][0] and "\ue000" not in json.dumps(document, ensure_ascii=False)
    assert document["steps"][0]["inputs"]["one"] == "{x}"
    ended = testing.run(plan, [], inputs={"text": evil})
    assert ended.output == {"both": f"{evil}{evil}}}", "same": {"said": evil, "one": "{x}", "{{ key }}": 1}, "first": {"item": evil},
                            "given": evil, "nested": [{"x": {"name": evil, "price": 2}}]}
    assert ended.outputs["map"][1]["item"]["name"] == evil


def test_references_have_no_value_before_the_plan_runs() -> None:
    with Plan("refund"):
        kind = Step("kind", "echo").out.kind
    for condition in (lambda: kind == "refund", lambda: kind != "refund", lambda: not kind, lambda: kind > 1, lambda: kind and 1):
        with pytest.raises(TypeError, match="write the condition as text"):
            condition()
    assert len({kind, kind}) == 1
    with Plan("text") as plan:
        Step("pay", "echo", when=f"{kind} == 'refund'")
    assert plan.to_dict()["steps"][0]["when"] == "steps.kind.outputs.kind == 'refund'"


def test_the_module_of_the_page_on_migrating_runs_as_printed() -> None:
    module, = re.findall(r"```python\n(.*?)```", (ROOT / "docs/migrating.md").read_text(), re.S)

    def run(source: str) -> testing.Result:
        scope: dict[str, Any] = {"__name__": "shop"}
        exec(source, scope)
        return testing.run(scope["order"], [scope["shop"]], inputs={"order": "A-1", "amount": 20})
    assert run(module).outputs["ship"] == {"parcel": "A-1, payment of 20.0 for A-1"}
    failed = run(module.replace('    return {"parcel"', '    raise ValueError("no parcels")\n    return {"parcel"'))
    assert (failed.status, [step["status"] for step in failed.steps if step["id"] == "charge:undo"]) == ("failed", ["completed"])
