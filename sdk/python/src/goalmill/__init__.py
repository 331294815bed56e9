"""Durable agents and plans in Python, run by Goalmill."""
from .agent import Agent, serve
from .client import AsyncGoalmill, AsyncRun, Event, Goalmill, Run
from .context import AsyncContext, Budget, Context, Decision, Outcome, PlanOutcome
from .errors import (ApiError, ConstraintViolation, Failure, Fatal, Partial, PlanFailed, Retry, RunFailed, Stopped, Suspended,
                     Undecided)
from .plan import Plan, Ref, Step
from .worker import Worker

__all__ = ["Agent", "ApiError", "AsyncContext", "AsyncGoalmill", "AsyncRun", "Budget", "ConstraintViolation", "Context", "Decision",
           "Event", "Failure", "Fatal", "Goalmill", "Outcome", "Partial", "Plan", "PlanFailed", "PlanOutcome", "Ref", "Retry", "Run",
           "RunFailed", "Step", "Stopped", "Suspended", "Undecided", "Worker", "serve"]
