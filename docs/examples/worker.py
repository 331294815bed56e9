"""A durable agent: `pip install ./sdk/python`, then `python docs/examples/worker.py` (GOALMILL_REDIS_URL names the server)."""
from goalmill import Agent, Context

agent = Agent("shout", description="Says it louder.")


@agent.action
def shout(text: str, ctx: Context) -> dict[str, str]:
    """Makes a text louder."""
    louder = ctx.call("louder", str.upper, text)  # recorded: the next attempt gets it instead of paying again
    return {"shout": louder}


if __name__ == "__main__":
    agent.serve(slots=8)
