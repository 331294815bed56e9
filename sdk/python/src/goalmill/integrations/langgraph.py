"""LangGraph and LangChain: build the graph with `durable_model(model, ctx)` and `durable_tools(tools, ctx)`."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pydantic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool

from ..context import AsyncContext
from ..errors import Fatal
from ..outcome import Outcome
from . import stable

_ANY: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(Any)


class DurableChatModel(BaseChatModel):
    """A chat model whose requests are durable calls. For async graphs (`ainvoke`)."""

    wrapped: BaseChatModel
    _ctx: AsyncContext = pydantic.PrivateAttr()

    @property
    def _llm_type(self) -> str:
        return self.wrapped._llm_type

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        bound: Any = self.wrapped.bind_tools(tools, **options)
        # A model may keep the tools itself, and give no binding with arguments.
        return durable_model(bound, self._ctx) if isinstance(bound, BaseChatModel) else self.bind(**bound.kwargs)

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        raise Fatal("the graph calls its model without `await`: use `ainvoke`, in an async action", code="ASYNC_NEEDED")

    async def _agenerate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        async def make(_: Any, idempotency_key: str = "") -> Any:
            given = dict(options)
            if self.wrapped._llm_type.startswith("openai"):
                given["extra_headers"] = {**(given.get("extra_headers") or {}), "Idempotency-Key": idempotency_key}
            result = await self.wrapped._agenerate(messages, stop=stop, **given)
            message: Any = result.generations[0].message
            usage = message.usage_metadata or {}
            return Outcome(_ANY.dump_python(message_to_dict(message), mode="json"), prompt_tokens=usage.get("input_tokens", 0),
                           completion_tokens=usage.get("output_tokens", 0))
        asked = stable(_ANY.dump_python([message_to_dict(message) for message in messages], mode="json"))
        answer = await self._ctx.call("model", make, asked)
        return ChatResult(generations=[ChatGeneration(message=messages_from_dict([answer])[0])])


def _check(ctx: Any) -> None:
    if not isinstance(ctx, AsyncContext):
        raise Fatal("durable models and tools need an async action: write `async def`", code="ASYNC_NEEDED")


def durable_model(model: BaseChatModel, ctx: AsyncContext) -> DurableChatModel:
    """The same model with durable calls, for the attempt of `ctx`."""
    _check(ctx)
    made = DurableChatModel(wrapped=model)
    made._ctx = ctx
    return made


def durable_tools(tools: Sequence[BaseTool], ctx: AsyncContext) -> list[BaseTool]:
    """The same tools with durable calls."""
    _check(ctx)

    def durable(tool: BaseTool) -> BaseTool:
        async def call(**arguments: Any) -> Any:
            async def make(_: Any) -> Any:
                return _ANY.dump_python(await tool.ainvoke(arguments), mode="json")
            return await ctx.call(f"tool {tool.name}", make, _ANY.dump_python(arguments, mode="json"))
        return StructuredTool.from_function(coroutine=call, name=tool.name, description=tool.description, args_schema=tool.args_schema)
    return [durable(tool) for tool in tools]
