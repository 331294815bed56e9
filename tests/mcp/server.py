"""An MCP server of the Python package `mcp`: tools that add, now or later, that fail, that bring another tool, and that end the server.

Over standard input and output; with a port, over HTTP for those who send the token `SECRET`."""
import json
import os
import sys
import threading
import urllib.request

import uvicorn
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("test", instructions="Adds numbers.")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def later(a: int, b: int, context: Context) -> dict[str, bool]:
    """Accepts an addition, and reports the sum by the callback of the call."""
    callback = context.request_context.meta["goalmill/callback"]
    body = json.dumps({"outputs": {"result": a + b}}).encode()
    headers = {"content-type": "application/json", "goalmill-callback-token": callback["token"]}
    request = urllib.request.Request(callback["url"], body, headers)
    threading.Timer(0.2, lambda: urllib.request.urlopen(request, timeout=60)).start()
    return {"accepted": True}


def refuse() -> str:
    """Comes later."""
    return "no"


@server.tool()
async def grow(context: Context) -> str:
    """Brings the tool `refuse`."""
    server.add_tool(refuse)
    await context.session.send_tool_list_changed()
    return "grown"


@server.tool()
def fail() -> str:
    """Always fails."""
    raise ValueError("it never works")


@server.tool()
def vanish() -> str:
    """Ends the server in the middle of a call."""
    os._exit(1)


class TokenGuard:
    """Answers 401 to requests without the token."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        wanted = f"Bearer {os.environ['SECRET']}".encode()
        if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != wanted:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await self.app(scope, receive, send)


if sys.argv[1:]:
    uvicorn.run(TokenGuard(server.streamable_http_app()), host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
else:
    server.run(transport="stdio")
