"""An MCP server of the Python package `mcp`: tools that add, that fail, that bring another tool, and that end the server."""
import os

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("test", instructions="Adds numbers.")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


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


server.run(transport="stdio")
