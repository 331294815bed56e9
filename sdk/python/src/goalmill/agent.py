"""Agents: plain functions that become the actions of an agent type."""
from __future__ import annotations

import inspect
import os
import sys
import typing
from collections.abc import Callable
from typing import Any, TypeVar, overload

from .context import AsyncContext, BaseContext, Context
from .errors import Fatal
from .schema import Shape, hoist, is_record, shape_of

F = TypeVar("F", bound=Callable[..., Any])
#: An action of this name takes every action that has no function of its own.
ANY = "*"
#: Return types that say nothing of the outputs.
NO_OUTPUTS = (Any, object, type(None), typing.NoReturn)


class Action:
    """A function with its name, its schemas and its options."""

    def __init__(self, agent: Agent, fn: Callable[..., Any], name: str, options: dict[str, Any], scope: dict[str, Any]) -> None:
        self.agent, self.fn, self.name = agent, fn, name
        self.timeout: float | None = options.get("timeout")
        self.undo: str | None = options.get("undo")
        self.side_effect = bool(options.get("side_effect"))
        self.is_async = inspect.iscoroutinefunction(fn)
        try:
            hints = typing.get_type_hints(fn, localns=scope)
        except NameError as error:
            raise TypeError(f"action `{name}`: {error}; a type of its signature must be defined before it") from error
        parameters = inspect.signature(fn).parameters
        self.context: str | None = None
        self.fields: dict[str, Any] = {}
        self.required: list[str] = []
        for parameter in parameters.values():
            hint = hints.get(parameter.name, Any)
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise TypeError(f"action `{name}`: the parameter `{parameter}` has no name that inputs could have")
            if parameter.name == "ctx" or (isinstance(hint, type) and issubclass(hint, BaseContext)):
                self.context = parameter.name
                continue
            self.fields[parameter.name] = hint
            if parameter.default is parameter.empty:
                self.required.append(parameter.name)
        first = next(iter(self.fields.values()), None)
        # One parameter that has fields itself takes the inputs as a whole; else each parameter is a field of the inputs.
        self.whole = len(self.fields) == 1 and (is_record(first) or first in (Any, dict) or typing.get_origin(first) is dict)
        self.returns = hints.get("return", Any)
        self.shapes = {name: self._shape(f"the parameter `{name}`", hint) for name, hint in self.fields.items()}
        # What a planner gives is checked by the scheduler.
        says_nothing = self.returns in NO_OUTPUTS or agent.plans or hasattr(self.returns, "to_dict")
        self.outputs = None if says_nothing else self._shape("the return type", self.returns).schema

    def _shape(self, what: str, hint: Any) -> Shape:
        try:
            return shape_of(hint)
        except (TypeError, NameError) as error:
            raise TypeError(f"action `{self.name}`: {what}: {error}") from error

    def card(self) -> dict[str, Any]:
        """The action on the card of its agent."""
        schemas = {name: shape.schema for name, shape in self.shapes.items()}
        whole = next(iter(schemas.values()), None) if self.whole else None
        each = {"type": "object", "properties": schemas, "required": self.required, "additionalProperties": False}
        described = {"inputs": whole if self.whole else each, "outputs": self.outputs}
        side_effect = {"side_effect": True} if self.side_effect else {}
        description = (inspect.getdoc(self.fn) or "").split("\n\n")[0]
        return {"name": self.name, "description": description, **side_effect, **{name: hoist(schema) for name, schema in described.items() if schema}}

    def arguments(self, inputs: Any, context: BaseContext | None) -> dict[str, Any]:
        """The arguments of the function; raises `Fatal` if the inputs do not fit."""
        made: dict[str, Any] = {self.context: context} if self.context else {}
        if self.whole:
            name, shape = next(iter(self.shapes.items()))
            return {**made, name: shape.load({} if inputs is None else inputs, "")}
        inputs = {} if inputs is None else inputs
        if not isinstance(inputs, dict):
            raise Fatal(f"the inputs of `{self.name}` must be an object", code="INPUT_INVALID")
        if missing := [name for name in self.required if name not in inputs]:
            raise Fatal(f"`/{missing[0]}` is missing", code="INPUT_INVALID")
        if self.agent.plans:  # asked by a scheduler, which knows more than most planners need
            inputs = {name: value for name, value in inputs.items() if name in self.fields}
        if unknown := sorted(inputs.keys() - self.fields.keys()):
            known = ", ".join(self.fields) or "none"
            raise Fatal(f"`/{unknown[0]}` is unknown: inputs of `{self.name}` are {known}", code="INPUT_INVALID")
        return {**made, **{name: self.shapes[name].load(value, f"/{name}") for name, value in inputs.items()}}


class Agent:
    """An agent type with its actions.

    - `agent_type`: the name that steps ask for. `description`, `capabilities`: what the router and people read.
    - `cost`: US dollars of one step, `success_rate`: 0 to 1, `latency`: seconds; declared, for routing and estimates.
    - `plans`: it plans: `planner.order` may name it as `agent:NAME`. Its actions `plan` and `revise` get the inputs of
      docs/planners.md that they have parameters for, and return a `Plan`, a document, or the text of a model.
    """

    def __init__(self, agent_type: str, *, description: str = "", capabilities: typing.Sequence[str] = (), cost: float | None = None,
                 success_rate: float | None = None, latency: float | None = None, plans: bool = False) -> None:
        self.agent_type, self.plans = agent_type, plans
        self.actions: dict[str, Action] = {}
        card = {"description": description, "capabilities": list(capabilities), "cost": cost, "success_rate": success_rate,
                "latency_ms": None if latency is None else round(latency * 1000), "plans": plans or None}
        self._card = {"agent_type": agent_type, **{name: value for name, value in card.items() if value not in ("", [], None)}}

    @overload
    def action(self, name: F, /) -> F: ...
    @overload
    def action(self, name: str | None = None, /, *, timeout: float | None = None, undo: str | None = None,
               side_effect: bool = False) -> Callable[[F], F]: ...
    def action(self, name: Any = None, /, **options: Any) -> Any:
        """Makes a function an action. `"*"` as name takes all actions without a function.

        - `timeout` (seconds), `undo` (an action of this agent): given to the steps of a `Plan` that name the function.
        - `side_effect`: it changes something outside of the plan.
        """
        scope = sys._getframe(1).f_locals

        def register(fn: F) -> F:
            chosen = name if isinstance(name, str) else fn.__name__
            if chosen in self.actions:
                raise ValueError(f"agent `{self.agent_type}` has two actions `{chosen}`")
            action = self.actions[chosen] = Action(self, fn, chosen, options, scope)
            fn.__goalmill_action__ = action  # type: ignore[attr-defined]
            return fn
        return register(name) if callable(name) else register

    def card(self) -> dict[str, Any]:
        """The registration of the agent type."""
        actions = [action.card() for action in self.actions.values() if action.name != ANY]
        return {**self._card, **({"actions": actions} if actions and ANY not in self.actions else {})}

    def choose(self, name: str | None) -> Action:
        """The action of a task; a task without one gets the only one."""
        found = self.actions.get(name or "") or self.actions.get(ANY)
        if found is None and name is None and len(self.actions) == 1:
            found = next(iter(self.actions.values()))
        if found is None:
            known = ", ".join(self.actions) or "none"
            raise Fatal(f"agent `{self.agent_type}` has no action `{name or ''}`, it has: {known}", code="ACTION_UNKNOWN")
        return found

    def serve(self, *, slots: int = 8, url: str | None = None, **options: Any) -> None:
        """Serves the agent until SIGTERM or SIGINT: see `serve`."""
        serve(self, slots=slots, url=url, **options)


def serve(*agents: Agent, slots: int = 8, url: str | None = None, **options: Any) -> None:
    """Serves agents in this process until SIGTERM or SIGINT, which drain: no new tasks, then the end. A second one releases all.

    - `slots`: attempts at the same time, of all agents together.
    - `url`: Redis; by default `GOALMILL_REDIS_URL`, else `redis://127.0.0.1:6379`.
    - `prefix` (`goalmill`), `drain` (20 s for running attempts after SIGTERM), `name` (of the worker, unique).
    """
    from .worker import Worker
    Worker(*agents, slots=slots, url=url or os.environ.get("GOALMILL_REDIS_URL", "redis://127.0.0.1:6379"), **options).run()


__all__ = ["Action", "Agent", "AsyncContext", "Context", "serve"]
