"""Durable agents and plans in Python, run by Goalmill."""
from .agent import Agent, serve
from .client import AsyncGoalmill, AsyncRun, Event, Goalmill, Run
from .context import AsyncContext, Context, Decision, PlanOutcome
from .errors import (ApiError, ConstraintViolation, Failure, Fatal, Partial, PlanFailed, RateLimited, Retry, RunFailed, Stopped, Suspended,
                     Undecided)
from .outcome import Budget, Outcome
from .plan import Plan, Ref, Step, ref, refs
from .worker import Worker, WorkerEnded

__all__ = ["Agent", "ApiError", "AsyncContext", "AsyncGoalmill", "AsyncRun", "Budget", "ConstraintViolation", "Context", "Decision",
           "Event", "Failure", "Fatal", "Goalmill", "Outcome", "Partial", "Plan", "PlanFailed", "PlanOutcome", "RateLimited", "Ref", "Retry", "Run",
           "RunFailed", "Step", "Stopped", "Suspended", "Undecided", "Worker", "WorkerEnded", "ref", "refs", "serve"]
