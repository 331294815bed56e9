"""Plans in Python. `Plan` and `Step` make JSON and nothing else: the server validates and prices it."""
from __future__ import annotations

import contextvars
import datetime
import json
import re
import secrets
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, Union

from .agent import Action
from .schema import _fields, is_record, schema_of, to_json

#: Seconds, or a `timedelta`.
Duration = Union[int, float, datetime.timedelta]
_current: contextvars.ContextVar[tuple[Plan, ...]] = contextvars.ContextVar("goalmill_plan", default=())
_USED = re.compile(r"steps(?:\.([A-Za-z0-9_]+)|\[['\"]([^'\"\]]+)['\"]\])")
_WORD = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
#: Stands before and after each expression that a `Ref` writes into a text. No text from outside has it, so all other braces are text.
_MARK = f"\ue000{secrets.token_hex(8)}\ue001"


class Ref:
    """An expression: a place in what an earlier step gives, `find.out.cities[0].name`, or any by `ref("…")`. In a text: `f"to {find.out.city}"`.

    Fields are checked against the return type of the action, if it has one.
    """

    def __init__(self, path: str, hint: Any = Any) -> None:
        self._path, self._hint = path, hint

    def __getattr__(self, name: str) -> Ref:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, key: str | int) -> Ref:
        hint: Any = Any
        if isinstance(key, int):
            arguments = typing.get_args(self._hint) if typing.get_origin(self._hint) in (list, Sequence) else ()
            return Ref(f"{self._path}[{key}]", arguments[0] if arguments else Any)
        if is_record(self._hint):
            known = self._hint.model_fields if hasattr(self._hint, "model_fields") else _fields(self._hint)[0]
            if key not in known:
                raise AttributeError(f"`{self._path}` has no field `{key}`, it has: {', '.join(known)}")
            hint = known[key].annotation if hasattr(self._hint, "model_fields") else known[key]
        return Ref(f"{self._path}.{key}" if _WORD.match(key) else f"{self._path}[{key!r}]", hint)

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"`{self._path}` is known only when the plan runs: use for_each")

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError(f"`{self._path}` is known only when the plan runs: write the condition as text, "
                        f"when=\"{self._path} == 'x'\" or when=\"not {self._path}\"")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _refuse
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return "{{ " + self._path + " }}"

    def __str__(self) -> str:
        return f"{_MARK}{self!r}{_MARK}"


def ref(expression: str) -> Ref:
    """Any expression: `ref("steps.find.outputs.cities | first")`."""
    return Ref(expression)


class refs:
    """What expressions see besides steps."""

    #: The inputs of the plan; in the key of a cache those of the step, in an undo step those of the step that it undoes.
    inputs = Ref("inputs")
    #: The outputs of the step that an undo step undoes, and of an iteration in `until`.
    outputs = Ref("outputs")
    goal = Ref("goal")
    #: The item of a step with `for_each`, and its place from 0.
    item, index = Ref("item"), Ref("index")
    #: The number of the iteration, from 1, and the iteration before, of a step with `repeat`.
    iteration, previous = Ref("iteration"), Ref("previous")
    #: Status and failure of the plan, in steps that always run.
    plan = Ref("plan")
    #: The time.
    now = Ref("now")


def as_document(value: Any) -> Any:
    """A value as JSON in which texts with braces are expressions, as in a document."""
    if isinstance(value, Ref):
        return repr(value)
    if isinstance(value, str):
        return value.replace(_MARK, "")
    if isinstance(value, Mapping):
        return {name: as_document(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_document(item) for item in value]
    return to_json(value)


def _literal(text: str) -> str:
    """The expression that gives a text."""
    quoted = json.dumps(text, ensure_ascii=False).replace("{", "\\u007b").replace("}", "\\u007d")
    return "{{ " + quoted + " }}"


def _data(value: Any, read: list[str]) -> Any:
    """A value of the program as JSON: what `Ref`s write are expressions, and added to `read`; all other texts stay as they are."""
    if isinstance(value, Ref):
        read.append(value._path)
        return repr(value)
    if isinstance(value, str):
        parts = value.split(_MARK)
        read.extend(parts[1::2])
        opening = ("{",) if len(parts) > 1 else ("{{", "{%")
        return "".join(_literal(part) if n % 2 == 0 and any(braces in part for braces in opening) else part for n, part in enumerate(parts))
    if isinstance(value, Mapping):
        return {name: _data(item, read) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_data(item, read) for item in value]
    made = to_json(value)
    return _data(made, read) if isinstance(made, (str, dict, list)) else made


def _with_data(fields: Mapping[str, Any], read: list[str], *names: str) -> dict[str, Any]:
    """Fields of which those with the names are values of the program, for expressions to fill."""
    return {name: _data(value, read) if name in names else value for name, value in fields.items()}


def _ms(value: Duration) -> int:
    return round((value.total_seconds() if isinstance(value, datetime.timedelta) else value) * 1000)


def _in_ms(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Renames durations: `timeout` in seconds becomes `timeout_ms`."""
    return {(f"{name}_ms" if name in names else name): (_ms(value) if name in names else as_document(value)) for name, value in fields.items()}


def _bare(expression: Any) -> Any:
    """An expression without braces: fields like `when` have none."""
    return re.sub(r"\{\{\s*(.*?)\s*\}\}", r"\1", str(expression).replace(_MARK, "")) if isinstance(expression, (str, Ref)) else expression


def _schema(value: Any) -> Any:
    return value if isinstance(value, (dict, bool)) else schema_of(value)


def _approval(value: bool | Mapping[str, Any]) -> Any:
    return value if isinstance(value, bool) else _in_ms(value, "limit")


def _retry(value: int | Mapping[str, Any]) -> Any:
    if isinstance(value, int):
        return value
    fields = _in_ms(value, "initial", "max_wait")
    return {"max_ms" if name == "max_wait_ms" else name: item for name, item in fields.items()}


def _undo(name: str, action: Action | None, agent: str | None = None) -> dict[str, Any]:
    """An undo step: it gets the inputs and the outputs of what it undoes, as far as it has parameters for them."""
    given = {"inputs": refs.inputs, "outputs": refs.outputs}
    if action is not None and not action.whole:
        given = {field: value for field, value in given.items() if field in action.fields}
    return {**({"agent_type": agent} if agent else {}), "action": name, **({"inputs": given} if given else {})}


def action_of(run: Any) -> Action | None:
    """The action that a function was made into."""
    found = getattr(run, "__goalmill_action__", None)
    return found if isinstance(found, Action) else None


class Plan:
    """A plan. Steps that are made inside `with Plan(…)` belong to it.

    - `budget`: `{"tokens", "cost", "seconds"}`. `strategy`: `parallel`, `sequential`, `adaptive`.
    - `approve`: True, or `{"limit": seconds, "default": "approve"}`. `revision`: policy, as in the schema of plans.
    - `undo_on`: outcomes after which steps are undone. `failures_max`, `collect`, `confidence`, `estimates`, `metadata`.
    - `start_at` (a time; a local one with `tz="Europe/Berlin"`), `start_in` (seconds): delay the start. `input_schema`: a type or a JSON Schema of what it takes.
    """

    def __init__(self, name: str = "", *, strategy: str | None = None, max_parallel: int | None = None,
                 budget: Mapping[str, Any] | None = None, approve: bool | Mapping[str, Any] | None = None,
                 revision: Mapping[str, Any] | None = None, continue_on_failure: bool | None = None,
                 failures_max: int | None = None, undo_on: Sequence[str] | None = None, collect: str | None = None,
                 confidence: float | None = None, estimates: Mapping[str, Any] | None = None,
                 metadata: Mapping[str, Any] | None = None, start_at: str | datetime.datetime | None = None,
                 tz: str | None = None, start_in: Duration | None = None, input_schema: Any = None) -> None:
        given: dict[str, Any] = {
            "name": name or None, "strategy": strategy, "max_parallel": max_parallel, "budget": budget,
            "approve": None if approve is None else _approval(approve), "revision": revision,
            "continue_on_failure": continue_on_failure, "failures_max": failures_max, "undo_on": undo_on, "collect": collect,
            "confidence": confidence, "estimates": estimates, "metadata": metadata, "start_at": start_at, "tz": tz,
            "input_schema": None if input_schema is None else _schema(input_schema),
            "start_in": None if start_in is None else f"{_ms(start_in)}ms",
        }
        self._fields = {key: as_document(value) for key, value in given.items() if value is not None}
        self.steps: dict[str, Step] = {}
        self._phases: list[dict[str, Any]] = []
        self._phase: str | None = None
        self._always = False

    def __enter__(self) -> Plan:
        _current.set((*_current.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _current.set(_current.get()[:-1])

    @contextmanager
    def phase(self, id: str, description: str = "", *, checkpoint: bool = False) -> Iterator[None]:
        """Steps made inside belong to this phase, which begins when the one before it has ended."""
        self._phases.append({"id": id, "description": description, "checkpoint": checkpoint})
        self._phase = id
        try:
            yield
        finally:
            self._phase = None

    @contextmanager
    def always(self) -> Iterator[None]:
        """Steps made inside run at the end, whatever the outcome is."""
        self._always = True
        try:
            yield
        finally:
            self._always = False

    def add(self, step: Step) -> None:
        if step.id in self.steps:
            raise ValueError(f"the plan has two steps `{step.id}`")
        self.steps[step.id] = step
        step.phase, step.always = self._phase, self._always

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON, docs/schemas/plan.json."""
        made = dict(self._fields)
        if self._phases:
            made["phases"] = self._phases
        made["steps"] = [step.to_dict(self) for step in self.steps.values() if not step.always]
        if always := [step.to_dict(self) for step in self.steps.values() if step.always]:
            made["always"] = always
        return made

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)


class Step:
    """A step of the plan that is being made.

    - `run`: an action (a function of an `Agent`), the name of an agent type, or a `Plan` that runs inside the step; or
      `use`, a stored plan: `trip@3`. Without it
      the step is one of the engine: `kind="finish"`, `"message"`, or a wait.
    - `inputs`: values with `Ref`s; braces in other texts are text. Steps that it reads come before it by themselves; `after` names others: steps, ids, `step.ended("failed")`.
    - `for_each`: a list or a `Ref` to one, with `item` (name of the item), `batch`, `items_max`, `on_item_failure`, `max_parallel`.
    - `repeat`: `{"until", "max", "delay", "on_max"}`. `wait`: seconds, or `{"for"}`, `{"until", "tz"}`,
      `{"event", "key", "schema", "timeout", "on_timeout"}`.
    - `undo`: an action of the same agent, which gets `{inputs, outputs}` of this step (those that it has parameters for), or `{"action", "inputs", "agent_type", "timeout", "retry"}`.
    - `retry`: attempts after the first, or `{"max", "initial", "max_wait", "factor", "jitter"}`.
    - `fallback`: `{"agent_type", "action"}`, or an action. All durations are seconds.
    """

    def __init__(self, id: str, run: str | Plan | Callable[..., Any] | None = None, *, action: str | None = None,
                 kind: str | None = None, description: str | None = None, inputs: Any = None,
                 after: Sequence[Step | str | Mapping[str, Any]] = (), join: str | Mapping[str, int] | None = None, when: str | Ref | None = None,
                 timeout: Duration | None = None, retry: int | Mapping[str, Any] | None = None,
                 fallback: Mapping[str, Any] | Callable[..., Any] | None = None, on_failure: str | None = None, on_partial: str | None = None,
                 approve: bool | Mapping[str, Any] | None = None, ask: Mapping[str, Any] | None = None,
                 expected_outputs: Sequence[str] | None = None, expected_output: str | None = None, output_schema: Any = None,
                 priority: int | None = None, resource: str | None = None, estimates: Mapping[str, Any] | None = None,
                 cache: bool | Mapping[str, Any] | None = None, judges: Sequence[str] | None = None,
                 for_each: Sequence[Any] | Ref | str | None = None, item: str | None = None, batch: int | None = None,
                 max_parallel: int | None = None, items_max: int | None = None, on_item_failure: str | Mapping[str, int] | None = None,
                 repeat: Mapping[str, Any] | None = None, wait: Duration | Mapping[str, Any] | None = None,
                 undo: str | Mapping[str, Any] | Callable[..., Any] | None = None, use: str | None = None, callback: bool | None = None) -> None:
        plans = _current.get()
        if not plans:
            raise RuntimeError(f"step `{id}` belongs to no plan: make it inside `with Plan(…)`")
        self.id = id
        self.phase: str | None = None
        self.always = False
        made: dict[str, Any] = {"kind": kind, "description": description, "action": action, "use": use, "callback": callback}
        found = action_of(run)
        if found is not None:
            made |= {"agent_type": found.agent.agent_type, "action": action or (found.name if found.name != "*" else None)}
            timeout = found.timeout if timeout is None else timeout
            undo = found.undo if undo is None else undo
            self._check_inputs(found, inputs)
        elif isinstance(run, Plan):
            made |= {"kind": "plan", "plan": run.to_dict()}
        elif callable(run):
            raise TypeError(f"step `{id}`: {getattr(run, '__name__', run)} is no action: decorate it with @agent.action")
        else:
            made["agent_type"] = run
        self._hint = found.returns if found is not None else Any
        if isinstance(wait, (int, float, datetime.timedelta)):
            wait = {"for": wait}
        read: list[str] = []
        if wait is not None:
            typed = {"schema": _schema(wait["schema"])} if "schema" in wait else {}
            made["kind"], made["wait"] = "wait", _in_ms(_with_data({**wait, **typed}, read, "until", "key"), "for", "timeout")
        if for_each is not None:
            made["for_each"] = as_document(for_each) if isinstance(for_each, str) else _data(for_each, read)
            made |= {"as": item, "batch": batch, "max_parallel": max_parallel, "items_max": items_max, "on_item_failure": on_item_failure}
        if (backup := action_of(fallback)) is not None:
            fallback = {"agent_type": backup.agent.agent_type, "action": backup.name}
        if (taken_back := action_of(undo)) is not None:
            undo = _undo(taken_back.name, taken_back, taken_back.agent.agent_type)
        elif isinstance(undo, str):
            undo = _undo(undo, found.agent.actions.get(undo) if found is not None else None)
        if isinstance(undo, Mapping):
            undo = _with_data(undo, [], "inputs")
            undo |= {"retry": _retry(undo["retry"])} if "retry" in undo else {}
        made |= {
            "inputs": None if inputs is None else _data(inputs, read), "join": join, "when": None if when is None else _bare(when),
            "timeout_ms": None if timeout is None else _ms(timeout), "retry": None if retry is None else _retry(retry),
            "fallback": fallback, "on_failure": on_failure, "on_partial": on_partial,
            "approve": None if approve is None else _approval(approve), "ask": None if ask is None else _in_ms(_with_data(ask, read, "question"), "limit"),
            "expected_outputs": expected_outputs, "expected_output": expected_output,
            "output_schema": None if output_schema is None else _schema(output_schema), "priority": priority, "resource": resource,
            "estimates": estimates, "cache": _in_ms(_with_data(cache, read, "key"), "ttl") if isinstance(cache, Mapping) else cache, "judges": judges,
            "repeat": None if repeat is None else {**_in_ms(repeat, "delay"), "until": _bare(repeat.get("until"))},
            "undo": None if undo is None else _in_ms(undo, "timeout"),  # type: ignore[arg-type]
        }
        self._fields = {name: as_document(value) for name, value in made.items() if value is not None}
        conditions = [self._fields.get("when"), self._fields.get("repeat", {}).get("until"), for_each]
        self._read = [*read, *(text for text in conditions if isinstance(text, str))]
        self._after = [step.id if isinstance(step, Step) else step for step in after]
        plans[-1].add(self)

    @property
    def _path(self) -> str:
        return f"steps.{self.id}" if _WORD.match(self.id) else f"steps[{self.id!r}]"

    @property
    def out(self) -> Ref:
        """What the step gives; of a map, the list of what its items give."""
        hint = list[self._hint] if "for_each" in self._fields and self._hint is not Any else self._hint  # type: ignore[name-defined]
        return Ref(f"{self._path}.outputs", hint)

    @property
    def failure(self) -> Ref:
        """Why the step failed: `code`, `message`, `class`."""
        return Ref(f"{self._path}.failure")

    def ended(self, *statuses: str) -> dict[str, Any]:
        """For `after`: only if the step ended with one of `completed`, `failed`, `skipped`."""
        return {"step": self.id, "is": list(statuses)}

    def _check_inputs(self, action: Action, inputs: Any) -> None:
        if isinstance(inputs, Mapping) and not action.whole:
            if unknown := sorted(inputs.keys() - action.fields.keys()):
                raise TypeError(f"step `{self.id}`: `{action.name}` has no input `{unknown[0]}`, it has: {', '.join(action.fields) or 'none'}")

    def to_dict(self, plan: Plan) -> dict[str, Any]:
        """The step as JSON. The steps of the plan that it reads come before it."""
        used = {a or b for text in self._read for a, b in _USED.findall(text)} - {self.id}
        named = {str(one["step"]) if isinstance(one, Mapping) else one for one in self._after}
        read = [id for id in plan.steps if id in used and id not in named and plan.steps[id].always == self.always]
        after = [*self._after, *read]
        where: dict[str, Any] = {"phase": self.phase} if self.phase else {}
        return {"id": self.id, **where, **self._fields, **({"depends_on": after} if after else {})}
