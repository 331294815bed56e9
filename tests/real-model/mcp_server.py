"""An MCP server with three tools of an office. Each call that runs is a line of the file in the first argument."""
import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("office")


def note(call):
    with open(sys.argv[1], "a") as log:
        log.write(call + "\n")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    note("add")
    return a + b


@server.tool()
def stock(article: str) -> int:
    """Tells how many pieces of an article are in stock."""
    note("stock")
    return len(article)


@server.tool()
def opening_hours(branch: str) -> str:
    """Tells when a branch is open."""
    note("opening_hours")
    return f"{branch} is open from 9 to 17"


server.run(transport="stdio")
