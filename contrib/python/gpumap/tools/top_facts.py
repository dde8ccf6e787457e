# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The facts that gpumapctl top shows.

Rows, reservations and layer maps come from the map, without a system call; each
list that is shown comes from the agent.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

from .. import Error, Map
from ..enums import DeviceState, State
from ..facts import (
    Charge,
    Device,
    Health,
    Holder,
    LayersInfo,
    SessionInfo,
    ShareInfo,
    Usage,
    Waiting,
)
from .processes import Processes, user

SECOND = 1_000_000_000  # nanoseconds
SAMPLES = 512  # of a row
NAMES_READS = 10  # then a pid may be another process


class Panel(IntEnum):
    """The parts of the screen."""

    ROWS = 0
    SESSIONS = 1
    MODELS = 2
    WAITS = 3


class Process(NamedTuple):
    """A process of a user."""

    pid: int  # 0: none
    uid: int
    user: str
    command: str | None  # None: not known


Info = TypeVar("Info")
Listed = TypeVar("Listed", Holder, SessionInfo, ShareInfo, Usage, Waiting)


class Owned(NamedTuple, Generic[Info]):
    """A fact with its process."""

    info: Info
    process: Process
    charges: tuple[Charge, ...] = ()  # of a reservation and a layer map

    @property
    def bytes(self) -> int:
        """Of all charges."""
        return sum(charge.bytes for charge in self.charges)

    @property
    def rows(self) -> list[int]:
        """With a charge."""
        return sorted({charge.row for charge in self.charges})


@dataclass(slots=True)
class Row:
    """A row with its jobs."""

    device: Device
    jobs: int = 0  # that have ended, ever
    failed: int = 0  # of these
    ours: int = 0  # bytes of sessions and shares
    rate: float = 0.0  # jobs in a second, since the last facts


@dataclass
class Facts:
    """All of them.  A list that was not asked for, or not given, is None."""

    instance: str
    health: Health
    taken_ns: int
    time_s: float  # since 1970
    up_s: int  # of the agent's process; 0: not known
    rows: list[Row] = field(default_factory=list)
    holders: list[Owned[Holder]] = field(default_factory=list)
    maps: list[Owned[LayersInfo]] = field(default_factory=list)
    usages: list[Owned[Usage]] | None = None
    sessions: list[Owned[SessionInfo]] | None = None
    shares: list[Owned[ShareInfo]] | None = None
    waits: list[Owned[Waiting]] | None = None
    refusal: str = ""  # why a list is not known

    @property
    def is_gone(self) -> bool:
        """Is the agent gone, as far as these tell?"""
        return is_gone(self.health)

    def is_drained(self, row: int) -> bool:
        """Is the row's device taken out of service?"""
        return (
            row < len(self.rows)
            and self.rows[row].device.state == DeviceState.DRAINING
        )

    def usage_of(self, session: int) -> list[Usage]:
        """The memory of a session; 0: of those that have ended."""
        all = [usage.info for usage in self.usages or []]
        return [usage for usage in all if usage.session == session]

    def count_ours(self) -> None:
        """Set the bytes of sessions and shares of each row."""
        for row in self.rows:
            row.ours = 0
        for usage in self.usages or []:
            if usage.info.row < len(self.rows):
                self.rows[usage.info.row].ours += usage.info.bytes
        for row in self.rows:
            row.ours = min(row.ours, row.device.used)

    def keep(self, old: Facts) -> None:
        """Take lists of old: an agent that is gone, or going, gives none."""
        if not self.is_gone and not self.refusal:
            return
        for name in ("sessions", "shares", "waits", "usages"):
            if getattr(self, name) is None:
                setattr(self, name, getattr(old, name))
        self.count_ours()

    def wait_for(self, i: int) -> tuple[Owned[Holder] | None, int]:
        """For whom the request waits that is i in the line.

        The reservation that has most of its rows, or is in its start window
        there; and how many requests before it keep one of its rows from it.
        """
        waits = [wait.info for wait in self.waits or []]
        rows = set(waits[i].rows)
        found, most = None, 0
        for holder in self.holders:
            got = sum(c.bytes for c in holder.charges if c.row in rows)
            if waits[i].for_start and holder.info.start_ns == 0:
                continue
            if got > most:
                found, most = holder, got
        return found, waits[i].n_before


def is_gone(health: Health) -> bool:
    """Is there no agent that answers?"""
    return health.stale or health.state == State.RETIRED


class Reader:
    """Reads the facts of a map, again and again."""

    def __init__(self, map: Map) -> None:
        self.map = map
        self._processes = Processes(map)
        self._names: dict[tuple[int, int], Process] = {}
        self._epoch = self._reads = 0

    def read(self, panels: Collection[Panel]) -> Facts:
        """Read those for some panels; ask only an agent that is there."""
        map, health = self.map, self.map.health()
        self._reads += 1
        if self._reads % NAMES_READS == 0 or self._epoch != health.epoch:
            self._processes, self._names = Processes(map), {}
            self._epoch = health.epoch
        facts = Facts(
            map.instance,
            health,
            time.monotonic_ns(),
            time.time(),
            self._processes.agent_seconds(),
        )

        def ask(
            panel: Panel, call: Callable[[], list[Listed]]
        ) -> list[Owned[Listed]] | None:
            if panel not in panels or facts.refusal or is_gone(map.health()):
                return None
            try:
                return [self._owned(info) for info in call()]
            except Error as error:
                facts.refusal = error.refusal or str(error.strerror)
                return None

        facts.usages = ask(Panel.ROWS, map.usage)
        facts.sessions = ask(Panel.SESSIONS, map.sessions)
        facts.shares = ask(Panel.MODELS, map.shares)
        facts.waits = ask(Panel.WAITS, map.waiting)
        facts.rows = [self._row(device) for device in map.devices]
        facts.count_ours()
        holders = map.holders()
        charges: dict[tuple[str, int], tuple[Charge, ...]] = {}
        for name in map.maps():
            try:
                layers = map.layers(name).read()
            except Error:  # it was released meanwhile
                continue
            charges[name, layers.version] = layers.charges
            process = self._process(0, layers.owner_uid)
            facts.maps.append(Owned(layers, process, layers.charges))
        for holder in holders:
            of = charges.get((holder.name, holder.version))
            if of is not None:
                facts.holders.append(self._owned(holder, of))
        return facts

    def _owned(
        self, info: Listed, charges: tuple[Charge, ...] = ()
    ) -> Owned[Listed]:
        return Owned(info, self._process(info.pid, info.uid), charges)

    def _process(self, pid: int, uid: int) -> Process:
        found = self._names.get((pid, uid))
        if found is None:
            command = self._processes.command(pid, uid)
            found = Process(pid, uid, user(uid), command)
            self._names[pid, uid] = found
        return found

    def _row(self, device: Device) -> Row:
        try:
            jobs = self.map.jobs(device.row)
        except Error:
            return Row(device)
        return Row(device, jobs.ended, jobs.failed)


class History:
    """Samples of each row, the newest last."""

    def __init__(self) -> None:
        self.used: list[deque[int]] = []  # per mille
        self.busy: list[deque[int]] = []
        self._jobs: list[int] = []
        self._taken_ns = 0

    def add(self, facts: Facts) -> None:
        """Add a sample of each row, and set the rates of the facts."""
        for i in range(len(self.used), len(facts.rows)):
            self.used.append(deque(maxlen=SAMPLES))
            self.busy.append(deque(maxlen=SAMPLES))
            self._jobs.append(facts.rows[i].jobs)
        ns = facts.taken_ns - self._taken_ns
        for i, row in enumerate(facts.rows):
            device = row.device
            self.used[i].append(1000 * device.used // (device.total_bytes or 1))
            self.busy[i].append(device.utilisation)
            # A row that was given to another device begins anew.
            if row.jobs >= self._jobs[i] and ns > 0:
                row.rate = (row.jobs - self._jobs[i]) * 1e9 / ns
            self._jobs[i] = row.jobs
        self._taken_ns = facts.taken_ns
