"""Each framework adapter: `kill -9` after each answer of the model repeats at most the call in flight."""
from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from goalmill import Agent, AsyncContext, Context, Goalmill, Plan, Step, testing

from conftest import BINARY, ROOT, Installation, Model
from test_end_to_end import kill_after_each_answer

TOOLS = 2
HEAD = '''
import os
from goalmill import Agent, AsyncContext
os.environ["OPENAI_API_KEY"] = "none"

framework = Agent("NAME_agent")

def note(n: int) -> str:
    with open(os.environ["EFFECTS"], "a") as effects:
        effects.write(f"look {n}\\n")
    return f"saw {n}"
'''
AGENTS = {
    "pydantic_ai": '''
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from goalmill.integrations.pydantic_ai import run

agent = PydanticAgent(OpenAIChatModel("m", provider=OpenAIProvider(base_url=os.environ["MODEL"], api_key="none")))

@agent.tool_plain
async def look(n: int) -> str:
    """Looks."""
    return note(n)

@framework.action
async def work(question: str, ctx: AsyncContext) -> str:
    return (await run(agent, ctx, question)).output
''',
    "langgraph": '''
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from goalmill.integrations.langgraph import durable_model, durable_tools

@tool
async def look(n: int) -> str:
    """Looks."""
    return note(n)

@framework.action
async def work(question: str, ctx: AsyncContext) -> str:
    tools = durable_tools([look], ctx)
    model = durable_model(ChatOpenAI(model="m", base_url=os.environ["MODEL"]), ctx).bind_tools(tools)

    async def ask(state: MessagesState):
        return {"messages": [await model.ainvoke(state["messages"])]}
    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", tools_condition)
    graph.add_edge("tools", "ask")
    state = await graph.compile().ainvoke({"messages": [("user", question)]})
    return state["messages"][-1].content
''',
    "openai_agents": '''
from agents import Agent as OpenAIAgent, OpenAIChatCompletionsModel, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from goalmill.integrations.openai_agents import run

set_tracing_disabled(True)

@function_tool
async def look(n: int) -> str:
    """Looks."""
    return note(n)

model = OpenAIChatCompletionsModel("m", AsyncOpenAI(base_url=os.environ["MODEL"], api_key="none"))
agent = OpenAIAgent("looker", model=model, tools=[look])

@framework.action
async def work(question: str, ctx: AsyncContext) -> str:
    return (await run(agent, ctx, question)).final_output
''',
}


def scripted(request: dict[str, Any]) -> dict[str, Any]:
    seen = [message["content"] for message in request["messages"] if message["role"] == "tool"]
    if len(seen) < TOOLS:
        arguments = json.dumps({"n": len(seen)})
        return {"tool_calls": [{"id": f"call_{len(seen)}", "type": "function", "function": {"name": "look", "arguments": arguments}}]}
    return {"content": ", ".join(seen)}


@pytest.mark.parametrize("name", AGENTS)
def test_kill_9_after_each_model_call(name: str, installation: Installation, server: Goalmill, model: Model, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    model.script = scripted
    source = HEAD.replace("NAME", name) + AGENTS[name] + "\nframework.serve(slots=1)\n"
    end = kill_after_each_answer(installation, model, source, TOOLS + 1, EFFECTS=str(effects))
    with Plan(name) as plan:
        Step("t", f"{name}_agent", action="work", inputs={"question": "what is there?"}, timeout=600)
    run = server.submit(plan)
    assert run.result(180) == "saw 0, saw 1"
    assert len(model.keys) == TOOLS + 1 and max(model.keys.values()) <= 2, model.keys
    looks = Counter(effects.read_text().splitlines())
    assert set(looks) == {f"look {n}" for n in range(TOOLS)} and max(looks.values()) <= 2
    assert run.results()["usage"]["tokens"] == (TOOLS + 1) * 42, "each model call counts once"
    end()


def asks_twice(request: dict[str, Any]) -> dict[str, Any]:
    seen = [message["content"] for message in request["messages"] if message["role"] == "tool"]
    if len(seen) < TOOLS:
        arguments = json.dumps({"city": ["Rome", "Oslo"][len(seen)]})
        return {"tool_calls": [{"id": f"call_{len(seen)}", "type": "function", "function": {"name": "forecast", "arguments": arguments}}]}
    return {"content": ", ".join(seen)}


@pytest.mark.parametrize("name", ["AsyncOpenAI", "StateGraph"])
def test_an_example_of_the_page_runs_as_printed_after_kills(name: str, installation: Installation, server: Goalmill, model: Model) -> None:
    model.script = asks_twice
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "sdk/python/README.md").read_text(), re.S)
    source, = (block for block in blocks if name in block)
    address = 'import os\nos.environ |= {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": os.environ["MODEL"]}\n'
    end = kill_after_each_answer(installation, model, address + source, TOOLS + 1)
    with Plan(name) as plan:
        Step("t", "weather_agent", action="answer", inputs={"question": "How is the weather?"}, timeout=600)
    run = server.submit(plan)
    assert run.result(180) == "sun in Rome, sun in Oslo"
    assert len(model.keys) == TOOLS + 1 and max(model.keys.values()) <= 2, model.keys
    assert run.results()["usage"]["tokens"] == (TOOLS + 1) * 42
    end()


def test_a_chat_model_may_keep_its_tools_and_a_sync_action_says_what_to_do() -> None:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    from goalmill.integrations.langgraph import durable_model

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

        def _generate(self, *_: Any, **options: Any) -> ChatResult:
            return ChatResult(generations=[ChatGeneration(message=AIMessage("hello"))])
    chat = Agent("chat")

    @chat.action
    async def greet(ctx: AsyncContext) -> str:
        return str((await durable_model(Scripted(), ctx).bind_tools([]).ainvoke("hi")).content)

    @chat.action
    def sync(ctx: Context) -> None:
        durable_model(Scripted(), ctx)  # type: ignore[arg-type]
    steps = [{"id": action, "agent_type": "chat", "action": action, "on_failure": "skip"} for action in ("greet", "sync")]
    result = testing.run({"steps": steps}, [chat], program=BINARY)
    assert result.outputs["greet"] == "hello"
    assert "write `async def`" in str(result.events) and result.attempts("sync") == 1
