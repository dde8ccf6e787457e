# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Completions in asyncio: one reader for each session, no thread.

The session must have been opened with pollable=True.  Jobs gives each job a
future:

    async with gpumap.aio.Jobs(session) as jobs:
        await asyncio.gather(*(jobs.run(row, job) for job in work))
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from . import errors
from .facts import Done

if TYPE_CHECKING:
    from .map import Map
    from .session import Job, Session

__all__ = ["Jobs", "changes", "done"]

# The descriptor does not tell of the agent's end: look that often.
_WAKE_S = 1.0


async def _readable(session: Session) -> None:
    """Sleep until a completion is there, a second at most."""
    if not session.arm():
        await _sleep_on(session.fileno())


async def changes(map: Map, seen: int | None = None) -> AsyncIterator[int]:
    """The generation, each time that the map has changed.

    seen   the generation that the program has read; None: that of now

    Stale: the map was retired, attach again.  An agent that ends is waited for.
    """
    if seen is None:
        seen = map.generation
    while True:
        try:
            changed = map.arm(seen)
        except (errors.NotRunning, errors.Gone):
            await asyncio.sleep(_WAKE_S)
            changed = map.generation != seen
        else:
            if not changed:
                await _sleep_on(map.fileno())
        if map.generation != seen:
            seen = map.generation
            yield seen


async def _sleep_on(fd: int) -> None:
    """Sleep until a descriptor is readable, a second at most."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await asyncio.wait_for(ready.wait(), _WAKE_S)
    except TimeoutError:
        pass
    finally:
        loop.remove_reader(fd)


async def done(session: Session) -> list[Done]:
    """Take completions, waiting for the first; of one task at a time.

    NothingInFlight: there is nothing to wait for.  Gone: the agent went away.
    """
    while True:
        found = session.poll()
        if found:
            return found
        if not session.in_flight:
            raise errors.make(
                "aio.done", 61, "nothing is in flight to wait for", ""
            )
        await _readable(session)


class Jobs:
    """Futures for the jobs of one session, in one event loop."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._futures: dict[int, asyncio.Future[Done]] = {}
        self._task: asyncio.Task[None] | None = None
        self._taken = asyncio.Event()

    async def __aenter__(self) -> Jobs:
        return self

    async def __aexit__(self, *unused: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def run(self, row: int, job: Job) -> Done:
        """Submit a job and wait until it has ended.

        Waits for room in the queue, too.  Raises what the job ended with.
        """
        while True:
            try:
                self.session.submit(row, job)
                break
            except errors.Again:
                if not self._futures:
                    raise
                self._taken.clear()
                await self._taken.wait()
        future: asyncio.Future[Done] = (
            asyncio.get_running_loop().create_future()
        )
        self._futures[job.cookie] = future
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._take())
        result = await future
        result.check()
        return result

    async def _take(self) -> None:
        """Take completions while there are futures."""
        try:
            while self._futures:
                for one in await done(self.session):
                    future = self._futures.pop(one.cookie, None)
                    if future is not None and not future.done():
                        future.set_result(one)
                self._taken.set()
        except errors.Error as error:
            for future in self._futures.values():
                if not future.done():
                    future.set_exception(error)
            self._futures.clear()
            self._taken.set()
