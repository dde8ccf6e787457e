# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Reservations on several nodes, all or none: gangs.

The node of the asking process puts the gang's record, each member reserves and
puts its hold.  tests/model/gang.pml is a model of it.

  - The process is told when all members hold.  A gang of which it was told is
    lost when a hold goes, or its node is dead.
  - A member holds while the record is there, the asking node is not dead, and
    the holds of all others have been there since it has seen them.  A member
    that does not see them within half the lease's time gives up.
  - Where two gangs hold, each on one node, what the other wants there, the
    lower one (asking node, ID) waits, and the higher one lets go and comes back
    after a random time.  So none waits for one that waits.
  - A member that does not hear etcd keeps what it holds: it cannot know.
  - One request is made to the agent in a turn, of asking nodes and users in
    turn, and ends and beginnings in turn.
"""

from __future__ import annotations

import json
import os
import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

from ..facts import Holder
from .sync_config import Config, is_name
from .sync_etcd import VALUE_BYTES
from .sync_log import log
from .sync_store import AT_GANGS, AT_HOLDS, Store
from .sync_summary import (
    FORMAT,
    U32,
    U64,
    Refused,
    is_object_name,
    parse,
    plain,
)

NEVER = float("inf")
MEMBERS_MAX = 64
PARTS_MAX = 64  # of a member
PART_LEAST = 1 << 20  # bytes
OF_NODE = 64  # gangs of an asking node
OF_USER = 16  # of one of its users
HOLDERS = 1024  # of an agent
LOCAL = 64  # of these, for processes of this node
LEFT_OUT = 128  # records of a node that are known to wait for a place
WHY_CHARS = 200

RETRY_S = 0.2  # of what has failed
LOOK_S = 1.0  # at the maps that are held
YOUNG_S = 1.0  # after the start, while a predecessor's maps end
ERRORS = (
    "ENOSPC",
    "EBUSY",
    "EEXIST",
    "ENODEV",
    "EPERM",
    "EINVAL",
    "EHOSTUNREACH",
    "ENOMEM",
    "ETIMEDOUT",
    "EPROTO",
    "ENOLINK",
    "ECANCELED",
)

Parts = dict[str, int]  # bytes by uuid, 32 hexadecimal digits


class Fault(Exception):
    """A refusal, for the process that asks: the error's name, and why."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(why)
        self.name = name


class Record(NamedTuple):
    """What a gang asks for."""

    name: str  # of the map on each node
    uid: int
    members: dict[str, Parts]  # by node


class Answer(NamedTuple):
    """What a member says of a gang."""

    error: str | None  # None: held
    why: str = ""


TOO_LATE = Answer("ETIMEDOUT", "its agent does not answer")
NO_ROOM = Answer("ENOSPC", "another gang was being made there")


class Agent(Protocol):
    """The requests to this node's agent that gangs need."""

    def answers(self) -> bool:
        """Is there an agent that serves?"""

    def reserve(self, record: Record, parts: Parts) -> int:
        """Hold the map of a record for its user.  Returns its version.

        Fault: the error is of ERRORS; EAGAIN: the agent has gone.
        """

    def holders(self) -> dict[str, Holder]:
        """The committed maps of this node."""

    def release(self, name: str) -> str | None:
        """End a map.  Returns an error's name, None where it has ended."""


# ---- records ----------------------------------------------------------------


def encode_record(record: Record) -> bytes:
    """The value of a gang's key."""
    members = [
        {
            "node": node,
            "parts": [
                {"uuid": uuid, "bytes": size} for uuid, size in parts.items()
            ],
        }
        for node, parts in record.members.items()
    ]
    return _dump(
        {"name": record.name, "uid": record.uid, "members": members}
    )


def decode_record(data: bytes) -> Record:
    """Read the value of a gang's key.  Refused: the text says why."""
    fields = parse(data)
    members: dict[str, Parts] = {}
    for member in fields.items("members", MEMBERS_MAX):
        node = member.text("node", is_name)
        items = member.items("parts", PARTS_MAX)
        parts = {
            one.hex("uuid", 16): one.number("bytes", U64) for one in items
        }
        if len(parts) < len(items) or node in members:
            raise fields.refuse("members", "has a node or a device twice")
        members[node] = parts
    record = Record(
        fields.text("name", is_object_name),
        fields.number("uid", U32),
        members,
    )
    check_record(record)
    return record


def check_record(record: Record) -> None:
    """Check what may come from any process.  Refused: the text says why."""
    if not 0 < len(record.members) <= MEMBERS_MAX:
        raise Refused(f"a gang has 1 to {MEMBERS_MAX} nodes")
    for node, parts in record.members.items():
        if not is_name(node):
            raise Refused("a node's name is 1 to 63 of A-Z a-z 0-9 . _ -")
        if not 0 < len(parts) <= PARTS_MAX:
            raise Refused(
                f"node {node}: 1 to {PARTS_MAX} devices can be reserved"
            )
        if min(parts.values()) < PART_LEAST:
            raise Refused(
                f"node {node}: at least {PART_LEAST} bytes of a device can be"
                " reserved"
            )


def encode_answer(answer: Answer, instance: str) -> bytes:
    """The value of a member's key."""
    value: dict[str, object] = {"instance": instance}
    if answer.error is None:
        value["status"] = "held"
    else:
        value |= {
            "status": "refused",
            "errno": answer.error,
            "why": plain(answer.why[:WHY_CHARS]),
        }
    return _dump(value)


@lru_cache(4096)
def decode_answer(data: bytes) -> Answer:
    """Read the value of a member's key; a damaged one is a refusal."""
    try:
        fields = parse(data)
        status = fields.text("status", ("held", "refused").__contains__)
        if status == "held":
            return Answer(None)
        return Answer(
            fields.text("errno", ERRORS.__contains__),
            plain(fields.text("why", bool)[:WHY_CHARS]),
        )
    except Refused as refused:
        return Answer("EPROTO", f"its answer is damaged: {refused}")


def _dump(value: dict[str, object]) -> bytes:
    return json.dumps(
        {"format": FORMAT} | value, separators=(",", ":"), ensure_ascii=False
    ).encode()


# ---- state ------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Asked:
    """A gang that a process of this node has asked for.

    tell   is called with None when all hold, else with the fault
    lose   is called with the reason when it is lost
    done   is called when the record is gone, after release()
    """

    record: Record
    tell: Callable[[Fault | None], None]
    lose: Callable[[str], None]
    deadline: float
    id: str = ""
    told: bool = False
    done: Callable[[], None] | None = None
    again_at: float = 0.0  # when to ask with another ID
    due: float = 0.0

    def key(self, node: str) -> str:
        """The key of its record."""
        return f"{AT_GANGS}{node}/{self.id}"


@dataclass(slots=True, eq=False)
class Hold:
    """A gang in which this node takes part."""

    asker: str
    id: str
    data: bytes  # of the record
    record: Record
    answer: Answer | None = None  # None: the agent has not been asked
    complete: bool = False  # all others hold
    over: bool = False
    reserved: bool = False  # the agent has the map, or may have
    version: int = 0  # of the map; 0: not known
    since: float = 0.0  # it is seen, then held
    agent_at: float = 0.0  # when to ask the agent again
    due: float = 0.0
    late: Answer = TOO_LATE  # where the agent has not answered in time

    @property
    def held(self) -> bool:
        """Does this node hold it, and is to?"""
        is_held = self.answer is not None and self.answer.error is None
        return is_held and not self.over

    @property
    def waits(self) -> bool:
        """Is the agent to be asked?"""
        return self.answer is None and not self.over

    @property
    def ends(self) -> bool:
        """Is the agent to end its map?"""
        return self.reserved and not self.held


class Gangs:
    """The gangs of this node's processes, and those of which it is a member."""

    def __init__(
        self,
        config: Config,
        store: Store,
        agent: Agent,
        instance: str,
    ) -> None:
        self.asked: list[Asked] = []
        self.holds: dict[str, Hold] = {}  # by "ASKER/ID"
        self._config = config
        self._store = store
        self._agent = agent
        self._instance = instance
        self._look_at = 0.0
        self._turns: dict[tuple[str, int], float] = {}
        self._has_ended = False  # a map, in the last request to the agent
        # Paths of records, by asking node, in the order in which they came.
        self._left_out: dict[str, dict[str, None]] = {}

    # ---- what processes ask --------------------------------------------------

    def ask(self, asked: Asked, now: float) -> None:
        """Begin a gang.  Fault: it cannot be."""
        try:
            check_record(asked.record)
        except Refused as refused:
            raise Fault("EINVAL", str(refused)) from None
        if not is_object_name(asked.record.name):
            raise Fault(
                "EINVAL",
                "a name has 1 to 63 bytes of UTF-8, without blanks",
            )
        if len(encode_record(asked.record)) > VALUE_BYTES:
            raise Fault(
                "E2BIG",
                f"the gang has more than the {VALUE_BYTES} bytes that a"
                " record may have, some 240 devices: make two of it",
            )
        of_user = [
            one for one in self.asked if one.record.uid == asked.record.uid
        ]
        if len(self.asked) >= OF_NODE or len(of_user) >= OF_USER:
            raise Fault(
                "EDQUOT",
                f"a node has {OF_NODE} gangs at most, and a user of it"
                f" {OF_USER}: end some",
            )
        why = self._missing(asked.record)
        if why is not None:
            raise Fault("EHOSTUNREACH", why)
        # No node holds for longer while others do not.
        asked.deadline = min(asked.deadline, now + self._config.ttl)
        self.asked.append(asked)

    def release(
        self, asked: Asked, done: Callable[[], None], now: float
    ) -> None:
        """End a gang; done is called when the members can see that."""
        asked.done = done
        asked.due = 0.0
        asked.deadline = now + self._config.ttl
        self._unwant(asked)

    def leave(self, asked: Asked) -> None:
        """The process is gone, or has been told the end."""
        self._unwant(asked)
        if asked in self.asked:
            self.asked.remove(asked)

    def _unwant(self, asked: Asked) -> None:
        if asked.id:
            self._store.wanted.pop(asked.key(self._store.node), None)

    def _missing(self, record: Record) -> str | None:
        """Why a member cannot answer, as far as nodes have told."""
        store = self._store
        if not store.whole:
            return None
        for node in record.members:
            if not store.is_there(node) and node not in store.kept:
                return (
                    f"node {node} is gone, or in no cluster of this name:"
                    " gpumapctl cluster nodes lists them"
                )
            if store.is_dead(node):
                return f"node {node} is gone: it is cut off, or has died"
        return None

    # ---- the tick ------------------------------------------------------------

    def changed(self, keys: set[str]) -> None:
        """Keys have changed: look at their gangs."""
        for key in sorted(keys):
            if key.startswith(AT_GANGS):
                path = key[len(AT_GANGS) :]
                self._see_record(path)
            elif key.startswith(AT_HOLDS):
                _, _, gang = key[len(AT_HOLDS) :].partition("/")
                asker, _, id = gang.rpartition(".")
                self._wake(f"{asker}/{id}")
        self._pend()

    def wake_all(self) -> None:
        """Nodes have died or come back, or the agent has: look at all."""
        for asked in self.asked:
            asked.due = 0.0
        for path, hold in list(self.holds.items()):
            hold.due = 0.0
            if not hold.over:
                self._see_record(path)

    def due(self) -> float:
        """When tick() has something to do."""
        due = min((one.due for one in self.asked), default=NEVER)
        if self.holds:
            due = min(due, min(one.due for one in self.holds.values()))
        return due

    def tick(self, now: float, may_ask: bool = True) -> bool:
        """Do what is due.  One request at most is made to the agent.

        Returns whether one was made.
        """
        for asked in [one for one in self.asked if one.due <= now]:
            self._look_at_asked(asked, now)
        if now >= self._look_at and self._agent.answers():
            self._look_at = now + LOOK_S
            self._look_at_maps()
        for hold in [one for one in self.holds.values() if one.due <= now]:
            self._look_at_hold(hold, now)
        has_asked = may_ask and self._ask_agent(now)
        self._pend()
        return has_asked

    def _wake(self, path: str) -> None:
        hold = self.holds.get(path)
        if hold is not None:
            hold.due = 0.0
        node, _, id = path.partition("/")
        if node == self._store.node:
            for asked in self.asked:
                if asked.id == id:
                    asked.due = 0.0

    # ---- this node's processes -----------------------------------------------

    def _look_at_asked(self, asked: Asked, now: float) -> None:
        if asked.done is not None:
            self._look_at_released(asked, now)
        elif self._store.taken and asked.told:
            self._lost(asked, "another machine has this node's name")
        elif asked.told:
            asked.due = NEVER
            fault = self._fault_of(asked)
            if fault is not None:
                self._lost(asked, str(fault))
        elif not asked.id:
            self._begin(asked, now)
        else:
            self._look_at_answers(asked, now)

    def _begin(self, asked: Asked, now: float) -> None:
        """Put the record, at once or when this node is in the cluster."""
        out = self._store.is_in()
        if now >= asked.deadline:
            if asked.again_at:
                fault = Fault(
                    "ENOSPC", "other gangs took the room at the same time"
                )
            else:
                fault = Fault(
                    "EHOSTUNREACH",
                    f"this node is cut off from the store: {out}",
                )
            self._fail(asked, fault)
        elif out is None and now >= asked.again_at:
            asked.id = new_id()
            key = asked.key(self._store.node)
            self._store.wanted[key] = encode_record(asked.record)
            asked.due = asked.deadline
        else:
            wait = asked.again_at if asked.again_at > now else now + RETRY_S
            asked.due = min(asked.deadline, wait)

    def _look_at_answers(self, asked: Asked, now: float) -> None:
        asked.due = asked.deadline
        fault = self._fault_of(asked)
        if fault is None and self._store.whole:
            asked.told = True
            asked.due = NEVER
            asked.tell(None)
        elif fault is None:
            asked.due = min(asked.deadline, now + RETRY_S)
        elif fault.name == "EBUSY":
            # Let the other gang go first, and come back when it has asked
            # again.
            self._unwant(asked)
            asked.id = ""
            wait = random.uniform(0, self._config.ttl / 4)
            asked.again_at = now + 2 * RETRY_S + wait
            asked.due = min(asked.again_at, asked.deadline)
        elif fault.name != "EAGAIN":
            self._fail(asked, fault)
        elif now >= asked.deadline:
            self._fail(asked, self._too_late(asked, str(fault)))

    def _fault_of(self, asked: Asked) -> Fault | None:
        """Why not all members hold; EAGAIN: one has not answered yet.

        Of several reasons one that is not another member's comes first.
        """
        store, late, refused = self._store, None, None
        for node in asked.record.members:
            key = f"{AT_HOLDS}{node}/{store.node}.{asked.id}"
            value = store.word(key)
            if node != store.node and store.is_dead(node):
                return Fault("ENOLINK", f"node {node} is gone, or cut off")
            if value is None:
                name = "ENOLINK" if asked.told else "EAGAIN"
                late = Fault(name, f"node {node} does not hold")
                continue
            answer = decode_answer(value.data)
            if answer.error is None:
                continue
            name = answer.error
            if name == "EPROTO":
                name = "EHOSTUNREACH"
            elif name == "ECANCELED":
                name = "ENOLINK"
            fault = Fault(name, f"node {node}: {answer.why}")
            if answer.error not in ("ECANCELED", "EBUSY"):
                return fault
            if refused is None or answer.error == "EBUSY":
                refused = fault
        return refused or late

    def _too_late(self, asked: Asked, why: str) -> Fault:
        store = self._store
        if store.keys.get(asked.key(store.node)) is None:
            return Fault("EHOSTUNREACH", "the store does not answer")
        missing = self._missing(asked.record)
        if missing is not None:
            return Fault("EHOSTUNREACH", missing)
        return Fault(
            "ETIMEDOUT", f"{why} in time: see the log of its gpumap-sync"
        )

    def _fail(self, asked: Asked, fault: Fault) -> None:
        self.leave(asked)
        asked.tell(fault)

    def _lost(self, asked: Asked, why: str) -> None:
        record = asked.record
        log.warning_of(
            record.uid, "gang_lost", name=record.name, uid=record.uid, why=why
        )
        self.leave(asked)
        asked.lose(why)

    def _look_at_released(self, asked: Asked, now: float) -> None:
        store = self._store
        is_there = asked.key(store.node) in store.keys
        may_go = store.whole and not store.taken
        if is_there and now < asked.deadline and may_go:
            asked.due = min(now + RETRY_S, asked.deadline)
            return
        done, asked.done = asked.done, None
        self.leave(asked)
        if done is not None:
            done()

    # ---- records of others, and ours -----------------------------------------

    def _see_record(self, path: str) -> None:
        """Look at the record of a gang: it has come, has gone, or stands."""
        asker, _, id = path.partition("/")
        value = self._store.word(AT_GANGS + path)
        hold = self.holds.get(path)
        self._wake(path)
        if hold is not None:
            # A record does not change, nor return: this one is gone.
            if value is None or value.data != hold.data:
                hold.over = True
            return
        if value is None:
            return
        try:
            if not is_name(asker) or not _is_id(id):
                raise Refused("its key is none of a gang")
            record = decode_record(value.data)
        except Refused as refused:
            log.warning("gang_refused", gang=path, why=refused)
            return
        if self._store.node not in record.members:
            return
        why = self._excess(asker, record.uid)
        if why is not None:
            if asker not in self._left_out:
                log.warning_of(
                    record.uid, "gang_left_out", gang=path, why=why
                )
            paths = self._left_out.setdefault(asker, {})
            if len(paths) < LEFT_OUT:
                paths[path] = None
            return
        self.holds[path] = Hold(asker, id, value.data, record)

    def _excess(self, asker: str, uid: int) -> str | None:
        """Why no more gangs of a node are taken."""
        of_node = [one for one in self.holds.values() if one.asker == asker]
        of_user = [one for one in of_node if one.record.uid == uid]
        if len(of_node) >= OF_NODE:
            return f"its node has {OF_NODE} gangs here already"
        if len(of_user) >= OF_USER:
            return f"its user has {OF_USER} gangs of that node here already"
        if len(self.holds) >= HOLDERS - LOCAL:
            return f"this node takes part in {len(self.holds)} gangs already"
        return None

    # ---- members -------------------------------------------------------------

    def _key_of(self, hold: Hold) -> str:
        return f"{AT_HOLDS}{self._store.node}/{hold.asker}.{hold.id}"

    def _answer(self, hold: Hold, answer: Answer) -> None:
        hold.answer = answer
        hold.due = 0.0
        self._store.wanted[self._key_of(hold)] = encode_answer(
            answer, self._instance
        )

    def _refuse(self, hold: Hold, error: str, why: str) -> None:
        hold.complete = False
        self._answer(hold, Answer(error, why))

    def _look_at_hold(self, hold: Hold, now: float) -> None:
        hold.due = NEVER
        store = self._store
        if store.taken or (
            hold.asker != store.node and store.is_dead(hold.asker)
        ):
            hold.over = True
        if hold.over:
            self._end(hold)
            return
        if not store.whole:
            return
        if not hold.since:
            hold.since = now
        if hold.waits or hold.held:
            self._look_at_others(hold, now)
        if hold.waits:
            wait = now + RETRY_S
            if self._agent.answers() and store.joined:
                wait = max(hold.agent_at, now)
            hold.due = min(hold.due, wait)

    def _look_at_others(self, hold: Hold, now: float) -> None:
        store, everyone = self._store, hold.held
        for node in hold.record.members:
            if node == store.node:
                continue
            key = f"{AT_HOLDS}{node}/{hold.asker}.{hold.id}"
            value = None if store.is_dead(node) else store.word(key)
            everyone = everyone and value is not None
            if value is None:
                if hold.complete:
                    self._refuse(hold, "ECANCELED", f"node {node} is gone")
                    return
            elif decode_answer(value.data).error is not None:
                self._refuse(hold, "ECANCELED", f"node {node} does not hold")
                return
        hold.complete = hold.complete or everyone
        if hold.complete:
            return
        # Time in which etcd is not heard does not count.
        since = max(hold.since, store.streak_from)
        limit = self._config.ttl / 2
        if store.heard_at - since >= limit:
            if hold.waits:
                self._refuse(hold, hold.late.error or "", hold.late.why)
            else:
                self._refuse(
                    hold,
                    "ETIMEDOUT",
                    "not all nodes of the gang have held it in time",
                )
        else:
            hold.due = min(hold.due, max(since + limit, now + RETRY_S))

    def _end(self, hold: Hold) -> None:
        """The gang is over; it stays until its map has ended."""
        self._store.wanted.pop(self._key_of(hold), None)
        if not hold.reserved:
            self.holds.pop(f"{hold.asker}/{hold.id}", None)
            self._wake_waiting()
            self._let_in(hold.asker)

    def _let_in(self, asker: str) -> None:
        """There is a place for a gang that was left out, if its record is still
        there.
        """
        for one in [asker, *self._left_out][: 1 + OF_NODE]:
            paths = self._left_out.get(one, {})
            path = next(iter(paths), None)
            if path is None:
                continue
            del paths[path]
            if not paths:
                del self._left_out[one]
            self._see_record(path)
            if path in self.holds:
                return

    def _pend(self) -> None:
        """A predecessor's answers stay until this process has its own."""
        self._store.pending = {
            self._key_of(one) for one in self.holds.values() if one.waits
        }

    # ---- the agent -----------------------------------------------------------

    def _look_at_maps(self) -> None:
        """Are the maps that are held still there?"""
        held = [one for one in self.holds.values() if one.held]
        if not held:
            return
        maps = self._agent.holders()
        for hold in held:
            there = maps.get(hold.record.name)
            if there is None or there.version != hold.version:
                hold.reserved = False
                self._refuse(
                    hold,
                    "ENOLINK",
                    "the map was released there, or its agent has lost it",
                )

    def _ask_agent(self, now: float) -> bool:
        """Make one request, for the user whose turn it is."""
        ready = [
            one
            for one in self.holds.values()
            if now >= one.agent_at
            and (
                one.ends
                or one.waits
                and self._store.whole
                and self._store.joined
            )
        ]
        if not ready or not self._agent.answers():
            return False
        hold = min(
            ready,
            key=lambda one: (
                one.ends == self._has_ended,
                self._turns.get((one.asker, one.record.uid), 0.0),
                one.late is not NO_ROOM,
            ),
        )
        turn = hold.asker, hold.record.uid
        self._turns.pop(turn, None)
        self._turns[turn] = now
        if len(self._turns) > 4096:
            self._turns.pop(next(iter(self._turns)))
        hold.agent_at = now + RETRY_S
        hold.due = hold.agent_at
        self._has_ended = hold.ends
        if hold.ends:
            self._release(hold)
        else:
            self._reserve(hold, now)
        return True

    def _reserve(self, hold: Hold, now: float) -> None:
        namesake = next(
            (
                one
                for one in self.holds.values()
                if one is not hold
                and one.reserved
                and one.record.name == hold.record.name
            ),
            None,
        )
        if not self._config.gangs:
            self._refuse(
                hold,
                "EPERM",
                "it takes no gangs: see [cluster] gangs of its"
                " gpumap-sync.conf",
            )
            return
        if namesake is not None and namesake.held:
            self._refuse(
                hold,
                "EEXIST",
                "another gang has a map of this name there: choose another"
                " name",
            )
            return
        if namesake is not None:
            return
        if len(self._agent.holders()) >= HOLDERS - LOCAL:
            self._refuse(
                hold,
                "ENOSPC",
                f"its last {LOCAL} maps are for processes of its own",
            )
            return
        parts = hold.record.members[self._store.node]
        try:
            hold.version = self._agent.reserve(hold.record, parts)
        except Fault as fault:
            self._not_reserved(hold, fault, now)
            return
        hold.reserved = True
        hold.since = now
        hold.agent_at = 0.0  # its end has nothing to wait for
        self._answer(hold, Answer(None))

    def _not_reserved(self, hold: Hold, fault: Fault, now: float) -> None:
        # A request without an answer may have been carried out.
        hold.reserved = fault.name in ("EAGAIN", "ETIMEDOUT")
        hold.version = 0
        is_young = now < self._store.joined_at + YOUNG_S
        if fault.name == "EAGAIN" or (fault.name == "EEXIST" and is_young):
            return
        if fault.name == "ENOSPC":
            me, node = (hold.asker, hold.id), self._store.node
            others = [
                one
                for one in self.holds.values()
                if one is not hold
                and one.reserved
                and not (one.held and one.complete)
                and one.record.members[node].keys()
                & hold.record.members[node].keys()
            ]
            if any(
                not one.held or (one.asker, one.id) > me for one in others
            ):
                hold.late = NO_ROOM  # they end soon, or let go
                return
            if others:
                self._refuse(
                    hold, "EBUSY", "another gang is being made there"
                )
                return
        self._refuse(hold, fault.name, str(fault))

    def _release(self, hold: Hold) -> None:
        """End a reservation that is not wanted."""
        name = hold.record.name
        there = self._agent.holders().get(name)
        is_ours = there is not None and (
            there.version == hold.version
            if hold.version
            # The request had no answer: no other user's map is ended, and
            # none that stays without a process.
            else there.pid != 0
            and there.uid in (hold.record.uid, os.geteuid())
        )
        error = self._agent.release(name) if is_ours else None
        # Where the version is not known, it may be the user's own map.
        if error in (None, "ENOENT") or (
            error == "EPERM" and hold.version == 0
        ):
            hold.reserved = False
            hold.due = 0.0
            self._wake_waiting()
        else:
            log.warning("not_released", name=name, why=error)

    def _wake_waiting(self) -> None:
        """A name and memory are free: those that wait for them need not wait
        longer.
        """
        for hold in self.holds.values():
            if hold.waits:
                hold.agent_at = hold.due = 0.0


def new_id() -> str:
    """The ID of a gang, which no other has."""
    return secrets.token_hex(8)


def _is_id(id: str) -> bool:
    return len(id) == 16 and all(c in "0123456789abcdef" for c in id)
