"""Profile of the compiled network: the time of each of its calls."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CallTime:
    """Calls of one function in a run of the compiled network."""

    name: str
    """Name of the function. It is a function that runs a task, another compiled function, or a builtin of
    TVM's virtual machine (`vm.builtin.*`), which allocates memory, checks shapes or creates views."""
    calls: int
    """Number of calls in one run."""
    seconds: float
    """Total seconds of these calls, in the run where this total was shortest."""
    task: str = ""
    """Name of the task that the function runs; empty for other functions."""


@dataclass(frozen=True)
class NetworkProfile:
    """Calls in a run of the network; prints as a table."""

    run_s: float
    """Seconds of the shortest run."""
    calls: list[CallTime]
    """Calls in descending order of time."""

    @property
    def rest_s(self) -> float:
        """Seconds of a run outside all calls, spent on interpreting bytecode; noise can make it negative."""
        return self.run_s - sum(call.seconds for call in self.calls)

    def __str__(self) -> str:
        rows = [(call.name, str(call.calls), call.seconds) for call in self.calls]
        rows += [("between calls", "", self.rest_s), ("one run", "", self.run_s)]
        width = max(len(name) for name, _, _ in rows)
        return "\n".join(
            f"{name:<{width}}  {calls:>5}  {seconds * 1e3:9.4f} ms  {seconds / self.run_s:6.1%}"
            for name, calls, seconds in rows
        )
