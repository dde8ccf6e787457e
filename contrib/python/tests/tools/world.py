# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""A cluster in a simulated time: the parts of gpumap-sync that decide, on an
etcd and on agents that are objects of this process.

Nothing here sleeps, so a story of an hour takes a second, and the same seed
tells the same story.
"""

from __future__ import annotations

import heapq
import random
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

from gpumap import Holder
from gpumap.tools import sync_gangs
from gpumap.tools.sync_config import Config
from gpumap.tools.sync_etcd import (
    Changed,
    Cut,
    Etcd,
    Heard,
    LeaseLost,
    Listed,
    StoreError,
    Value,
)
from gpumap.tools.sync_gangs import Asked, Fault, Gangs, Parts, Record
from gpumap.tools.sync_store import Store

PREFIX = "/gpumap/v1/test/"
TURN = 0.01  # seconds from one turn of a loop to the next
MIB = 1 << 20


class SimEtcd:
    """The keys, leases and watches that gpumap-sync uses."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.keys: dict[str, Value] = {}
        self.leases: dict[int, list[float]] = {}  # end, time
        self.revision = 1
        self.n_leases = 0
        self.up = True
        self.watchers: list[Sim] = []

    def expire(self) -> None:
        """End the leases whose time has come, each in one revision."""
        for lease, (end, _) in list(self.leases.items()):
            if self.up and self.world.now >= end:
                self.end_lease(lease)

    def end_lease(self, lease: int) -> None:
        del self.leases[lease]
        keys = [k for k, value in self.keys.items() if value.lease == lease]
        self.apply([(key, None) for key in keys])

    def extend(self) -> None:
        """As a leader that has just begun: each lease has its whole time."""
        for lease in self.leases.values():
            lease[0] = self.world.now + lease[1]

    def apply(self, changes: list[tuple[str, Value | None]]) -> int:
        self.revision += 1
        told: list[tuple[str, int, Value | None]] = []
        for key, value in changes:
            if value is None:
                if self.keys.pop(key, None) is not None:
                    told.append((key, self.revision, None))
            else:
                value = Value(value.data, self.revision, value.lease)
                self.keys[key] = value
                told.append((key, self.revision, value))
        if told:
            for watcher in self.watchers:
                watcher.hear(Changed(told))
        return self.revision

    def call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == "/v3/lease/grant":
            self.n_leases += 1
            seconds = int(body["TTL"])
            self.leases[self.n_leases] = [self.world.now + seconds, seconds]
            return {"ID": str(self.n_leases), "TTL": str(seconds)}
        if path == "/v3/lease/keepalive":
            lease = int(body["ID"])
            if lease not in self.leases:
                return {"result": {"ID": body["ID"]}}
            end = self.leases[lease]
            end[0] = self.world.now + end[1]
            return {"result": {"ID": body["ID"], "TTL": str(int(end[1]))}}
        if path == "/v3/lease/revoke":
            if int(body["ID"]) in self.leases:
                self.end_lease(int(body["ID"]))
            return {}
        assert path == "/v3/kv/txn"
        return self._transact(body)

    def _transact(self, body: dict[str, Any]) -> dict[str, Any]:
        for one in body["compare"]:
            has = self.keys.get(_key(one["key"]))
            if one["target"] == "LEASE":
                is_met = has is not None and has.lease == int(one["lease"])
            else:
                revision = has.revision if has is not None else 0
                is_met = revision == int(one["mod_revision"])
            if not is_met:
                return self._found(body)
        changes: list[tuple[str, Value | None]] = []
        for one in body["success"]:
            if "request_put" in one:
                put = one["request_put"]
                lease = int(put["lease"])
                if lease not in self.leases:
                    raise LeaseLost("requested lease not found")
                value = Value(b64decode(put["value"]), 0, lease)
                changes.append((_key(put["key"]), value))
            else:
                key = _key(one["request_delete_range"]["key"])
                changes.append((key, None))
        revision = self.apply(changes)
        return {"header": {"revision": str(revision)}, "succeeded": True}

    def _found(self, body: dict[str, Any]) -> dict[str, Any]:
        responses = []
        for one in body["failure"]:
            has = self.keys.get(_key(one["request_range"]["key"]))
            kvs = []
            if has is not None:
                kvs = [
                    {
                        "value": b64encode(has.data).decode(),
                        "mod_revision": str(has.revision),
                        "lease": str(has.lease),
                    }
                ]
            responses.append({"response_range": {"kvs": kvs}})
        header = {"revision": str(self.revision)}
        return {"header": header, "responses": responses}


def _key(text: str) -> str:
    return b64decode(text).decode().removeprefix(PREFIX)


class Client(Etcd):
    """The connection of a node; calls take no time."""

    def __init__(self, sim: Sim) -> None:
        self.sim = sim
        self.timeout = 1.0

    @property
    def endpoint(self) -> str:
        return "http://simulated:2379"

    def close(self) -> None:
        """There is no connection."""

    def call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        etcd, sim = self.sim.world.etcd, self.sim
        if not etcd.up or sim.cut == "off":
            raise StoreError("no answer")
        chance = sim.world.random
        if path == "/v3/kv/txn" and chance.random() < sim.world.late_writes:
            # The write arrives later, or never, and the node is not told.
            if chance.random() < 0.8:
                delay = chance.uniform(0, 1.5)
                sim.world.later(delay, lambda: self._late(path, body))
            raise StoreError("no answer in time")
        return etcd.call(path, body)

    def _late(self, path: str, body: dict[str, Any]) -> None:
        if self.sim.world.etcd.up:
            try:
                self.sim.world.etcd.call(path, body)
            except StoreError:
                pass


class SimAgent:
    """An agent with one device, which keeps its promises."""

    def __init__(self, world: World, room: int) -> None:
        self.world = world
        self.room = room
        self.maps: dict[str, tuple[int, int, int, str]] = {}
        self.n_versions = 0
        self.up = True
        self.silent = 0.0  # chance that an answer is lost
        self.holder = ""  # instance of the gpumap-sync that holds
        self.n_asked = 0

    def answers(self) -> bool:
        return self.up

    def reserve(self, record: Record, parts: Parts) -> int:
        self.n_asked += 1
        version = self._reserve(record, parts)
        if self.world.random.random() < self.silent:
            raise Fault("ETIMEDOUT", "it was carried out, and not said")
        return version

    def _reserve(self, record: Record, parts: Parts) -> int:
        n_bytes = sum(parts.values())
        if record.name in self.maps:
            raise Fault("EEXIST", "the name is taken")
        if n_bytes > self.free():
            raise Fault("ENOSPC", "there is no room")
        self.n_versions += 1
        version = self.n_versions
        self.maps[record.name] = (version, record.uid, n_bytes, self.holder)
        return version

    def free(self) -> int:
        return self.room - sum(one[2] for one in self.maps.values())

    def holders(self) -> dict[str, Holder]:
        """Maps of no gpumap-sync stay without a process."""
        return {
            name: Holder(name, version, 0, uid, int(bool(holder)), 0)
            for name, (version, uid, _, holder) in self.maps.items()
        }

    def release(self, name: str) -> str | None:
        self.n_asked += 1
        return None if self.maps.pop(name, None) else "ENOENT"


class Sim:
    """A node: its gpumap-sync, while there is one, and its agent."""

    def __init__(self, world: World, name: str, room: int) -> None:
        self.world = world
        self.name = name
        self.agent = SimAgent(world, room)
        self.boot = "b" * 36
        self.n_turns = 0  # with nothing to ask, and another due at once
        self.cut = ""  # "off": from etcd; "deaf": its watch alone
        self.queue: list[Heard] = []
        self.store: Store | None = None
        self.gangs: Gangs
        self.lists: float | None = 0.0  # when the watch begins anew

    def start(self) -> None:
        world = self.world
        config = Config(node=self.name, cluster="test", ttl=world.ttl)
        instance = f"{world.random.getrandbits(64):016x}"
        self.agent.holder = instance
        self.store = Store(
            config, Client(self), instance, self.boot, lambda: world.now
        )
        self.gangs = Gangs(config, self.store, self.agent, instance)
        self.queue = []
        # The lease may be granted before the list comes, or behind it.
        self.lists = world.now + world.random.choice((0, 5 * TURN))
        world.etcd.watchers.append(self)

    def end(self) -> None:
        """End gpumap-sync by SIGTERM."""
        assert self.store is not None
        self.store.leave()
        self.kill()

    def kill(self) -> None:
        """End gpumap-sync.  Its maps end with it, a moment later."""
        self.store = None
        if self in self.world.etcd.watchers:
            self.world.etcd.watchers.remove(self)
        holder = self.agent.holder
        self.world.later(0.05, lambda: self._drop_maps(holder))

    def _drop_maps(self, holder: str) -> None:
        for name, one in list(self.agent.maps.items()):
            if one[3] == holder:
                del self.agent.maps[name]

    def hear(self, heard: Heard) -> None:
        if self.store is None or self.lists is not None or self.cut:
            return
        self.queue.append(heard)

    def turn(self) -> None:
        """One turn of the loop, as tools/sync.py has it."""
        store = self.store
        if store is None:
            return
        self._watch(store)
        while self.queue:
            store.take(self.queue.pop(0))
            self._take_changes(store)
        store.run(self.world.now)
        self._take_changes(store)
        has_asked = self.gangs.tick(self.world.now)
        if not has_asked:
            self.n_turns += self.gangs.due() <= self.world.now

    def _take_changes(self, store: Store) -> None:
        changed, store.changed = store.changed, set()
        if changed:
            self.gangs.changed(changed)

    def sweep(self) -> None:
        if self.store is not None:
            self.store.forget_dead()
            self.gangs.wake_all()
            self._take_changes(self.store)

    def _watch(self, store: Store) -> None:
        etcd, now = self.world.etcd, self.world.now
        is_off = self.cut or not etcd.up
        if is_off and self.lists is None:
            self.lists = now
            self.queue.append(Cut("cut"))
        elif not is_off and self.lists is not None and now >= self.lists:
            self.lists = None
            self.queue = [one for one in self.queue if isinstance(one, Cut)]
            self.queue.append(Listed(dict(etcd.keys), etcd.revision))


class World:
    """Nodes, etcd, and a clock."""

    def __init__(self, *names: str, ttl: float = 2.0, room: int = 64 * MIB,
                 seed: int = 1) -> None:
        self.random = random.Random(seed)
        random.seed(seed)
        sync_gangs.new_id = lambda: f"{self.random.getrandbits(64):016x}"
        self.now = 1000.0
        self.ttl = ttl
        self.late_writes = 0.0
        self.etcd = SimEtcd(self)
        self.nodes = {name: Sim(self, name, room) for name in names}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._n = 0
        self._sweep_at = 0.0
        self.watch: Callable[[], None] = lambda: None
        for node in self.nodes.values():
            node.start()

    def later(self, delay: float, what: Callable[[], None]) -> None:
        self._n += 1
        heapq.heappush(self._events, (self.now + delay, self._n, what))

    def run(self, seconds: float) -> None:
        """Let the time pass."""
        end = self.now + seconds
        while self.now < end:
            self.now += TURN
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            self.etcd.expire()
            nodes = list(self.nodes.values())
            self.random.shuffle(nodes)
            for node in nodes:
                node.turn()
            if self.now >= self._sweep_at:
                self._sweep_at = self.now + min(1.0, self.ttl / 4)
                for node in nodes:
                    node.sweep()
            self.watch()

    def until(self, what: Callable[[], object], limit: float = 60.0) -> float:
        """Let the time pass until it is true.  Returns how long that took."""
        begin = self.now
        while not what():
            assert self.now < begin + limit, "it does not come about"
            self.run(TURN)
        return self.now - begin

    def ask(
        self,
        node: str,
        name: str,
        members: dict[str, int],
        *,
        uid: int = 1000,
        timeout: float = 60.0,
    ) -> Process:
        return Process(self, node, name, members, uid, timeout)

    def held(self, name: str) -> list[str]:
        """The nodes whose agents hold a map."""
        return [n for n, one in self.nodes.items() if name in one.agent.maps]


UUID = "0" * 32


class Process:
    """A process that has asked for a gang."""

    def __init__(
        self,
        world: World,
        node: str,
        name: str,
        members: dict[str, int],
        uid: int,
        timeout: float,
    ) -> None:
        self.sim = world.nodes[node]
        self.world = world
        self.name = name
        self.members = list(members)
        self.answer: str | None = None  # "held", or an error's name
        self.why = ""
        self.lost: str | None = None
        self.released = False  # or dead
        self.was_released = False  # and told so
        record = Record(
            name, uid, {n: {UUID: size} for n, size in members.items()}
        )
        self.asked = Asked(
            record, self._told, self._lost, world.now + timeout
        )
        self.gangs = self.sim.gangs
        try:
            self.gangs.ask(self.asked, world.now)
        except Fault as fault:
            self._told(fault)

    def _told(self, fault: Fault | None) -> None:
        self.answer = "held" if fault is None else fault.name
        self.why = str(fault)

    def _lost(self, why: str) -> None:
        self.lost = why

    @property
    def has(self) -> bool:
        """Does the process take it that all nodes hold?"""
        is_there = self.sim.store is not None and self.gangs is self.sim.gangs
        return (
            is_there
            and self.answer == "held"
            and self.lost is None
            and not self.released
        )

    def release(self) -> None:
        self.released = True
        self.gangs.release(self.asked, self._ended, self.world.now)

    def _ended(self) -> None:
        self.was_released = True

    def end(self) -> None:
        """The process dies."""
        self.released = True
        self.gangs.leave(self.asked)
