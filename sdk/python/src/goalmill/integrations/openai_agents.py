"""OpenAI Agents SDK: `result = await run(agent, ctx, "…")` in place of `await Runner.run(agent, "…")`."""
from __future__ import annotations

import dataclasses
import json
from typing import Any

import pydantic
from agents import Agent, FunctionTool, Model, ModelProvider, ModelResponse, MultiProvider, RunConfig, Runner
from agents.model_settings import ModelSettings

from ..context import AsyncContext
from ..outcome import Outcome
from . import stable

_RESPONSE = pydantic.TypeAdapter(ModelResponse)
_ANY: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(Any)


class DurableModel(Model):
    """A model whose requests are durable calls, with the key of the call as `Idempotency-Key`."""

    def __init__(self, model: Model, ctx: AsyncContext) -> None:
        self.wrapped, self.ctx = model, ctx

    async def get_response(self, system_instructions: Any, input: Any, model_settings: ModelSettings, *arguments: Any,
                           **options: Any) -> ModelResponse:
        async def make(_: Any, idempotency_key: str = "") -> Any:
            headers = {**(model_settings.extra_headers or {}), "Idempotency-Key": idempotency_key}
            settings = dataclasses.replace(model_settings, extra_headers=headers)
            response = await self.wrapped.get_response(system_instructions, input, settings, *arguments, **options)
            return Outcome(_RESPONSE.dump_python(response, mode="json"), prompt_tokens=response.usage.input_tokens,
                           completion_tokens=response.usage.output_tokens)
        asked = stable(_ANY.dump_python([system_instructions, input], mode="json"))
        return _RESPONSE.validate_python(await self.ctx.call("model", make, asked))

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("a stream of a model cannot be recorded: use `run`")


class DurableProvider(ModelProvider):
    """Finds models as another provider does, and makes their requests durable calls."""

    def __init__(self, provider: ModelProvider, ctx: AsyncContext) -> None:
        self.wrapped, self.ctx = provider, ctx

    def get_model(self, model_name: str | None) -> Model:
        return DurableModel(self.wrapped.get_model(model_name), self.ctx)


def durable_agent(agent: Agent[Any], ctx: AsyncContext) -> Agent[Any]:
    """The same agent, and those that it hands off to, with durable model and tool calls."""
    def durable(tool: Any) -> Any:
        if not isinstance(tool, FunctionTool):
            return tool
        invoke = tool.on_invoke_tool

        async def on_invoke_tool(context: Any, arguments: str) -> Any:
            async def make(_: Any) -> Any:
                return _ANY.dump_python(await invoke(context, arguments), mode="json")
            return await ctx.call(f"tool {tool.name}", make, json.loads(arguments or "{}"))
        return dataclasses.replace(tool, on_invoke_tool=on_invoke_tool)
    model = DurableModel(agent.model, ctx) if isinstance(agent.model, Model) else agent.model
    handoffs: list[Any] = [durable_agent(one, ctx) if isinstance(one, Agent) else one for one in agent.handoffs]
    return agent.clone(model=model, tools=[durable(tool) for tool in agent.tools], handoffs=handoffs)


async def run(agent: Agent[Any], ctx: AsyncContext, input: Any, *, run_config: RunConfig | None = None, **options: Any) -> Any:
    """Runs an agent with durable model and tool calls; options are those of `Runner.run`."""
    config = run_config or RunConfig()
    model = DurableModel(config.model, ctx) if isinstance(config.model, Model) else config.model
    provider = DurableProvider(config.model_provider or MultiProvider(), ctx)
    config = dataclasses.replace(config, model=model, model_provider=provider)
    return await Runner.run(durable_agent(agent, ctx), input, run_config=config, **options)
