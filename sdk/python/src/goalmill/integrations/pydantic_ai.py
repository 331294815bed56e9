"""pydantic-ai: `result = await run(agent, ctx, "…")` in place of `await agent.run("…")`."""
from __future__ import annotations

from typing import Any

import pydantic
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.toolsets import AbstractToolset, WrapperToolset

from ..context import AsyncContext
from ..outcome import Outcome
from . import stable

_RESPONSE = pydantic.TypeAdapter(ModelResponse)
_ANY: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(Any)


class DurableModel(WrapperModel):
    """A model whose requests are durable calls, with the key of the call as `Idempotency-Key`."""

    def __init__(self, model: Any, ctx: AsyncContext) -> None:
        super().__init__(model)
        self._ctx = ctx

    async def request(self, messages: Any, model_settings: Any, model_request_parameters: Any) -> ModelResponse:
        async def make(_: Any, idempotency_key: str = "") -> Any:
            settings: Any = dict(model_settings or {})
            settings["extra_headers"] = {**(settings.get("extra_headers") or {}), "Idempotency-Key": idempotency_key}
            response = await self.wrapped.request(messages, settings, model_request_parameters)
            usage = response.usage
            return Outcome(_RESPONSE.dump_python(response, mode="json"), prompt_tokens=usage.input_tokens or 0,
                           completion_tokens=usage.output_tokens or 0)
        asked = stable(ModelMessagesTypeAdapter.dump_python(messages, mode="json"))
        return _RESPONSE.validate_python(await self._ctx.call("model", make, asked))

    def request_stream(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("a stream of a model cannot be recorded: use `run` without an event stream handler")


class DurableToolset(WrapperToolset[Any]):
    """Tools whose calls are durable calls."""

    _ctx: AsyncContext

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        async def make(_: Any) -> Any:
            return _ANY.dump_python(await self.wrapped.call_tool(name, tool_args, ctx, tool), mode="json")
        return await self._ctx.call(f"tool {name}", make, _ANY.dump_python(tool_args, mode="json"))


def _durable(toolset: AbstractToolset[Any], ctx: AsyncContext) -> AbstractToolset[Any]:
    # A class for the attempt: the framework makes copies of toolsets from their declared fields.
    made: AbstractToolset[Any] = type("DurableToolset", (DurableToolset,), {"_ctx": ctx})(toolset)
    return made


async def run(agent: Agent[Any, Any], ctx: AsyncContext, prompt: Any = None, **options: Any) -> Any:
    """Runs an agent with durable model and tool calls; options are those of `Agent.run`."""
    model = options.pop("model", None) or agent.model
    if model is None:
        raise ValueError("the agent has no model: pass `model=`")
    toolsets = [_durable(toolset, ctx) for toolset in agent.toolsets]
    with agent.override(model=DurableModel(model, ctx), toolsets=toolsets, tools=[]):
        return await agent.run(prompt, **options)
