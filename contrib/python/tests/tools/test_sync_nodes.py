# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""What nodes tell each other, in a simulated time: when it is published."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from gpumap import ClusterFlags, ClusterNode, ClusterState
from gpumap.tools.sync_nodes import Feed, Own, Peers
from gpumap.tools.sync_summary import Summary, encode
from test_sync_store import alive, put, store_of
from world import TURN, World


def node_of(name: str, epoch: int = 0) -> ClusterNode:
    """A node without devices."""
    return ClusterNode(
        name=name,
        address="10.0.0.1",
        state=ClusterState.LIVE,
        flags=ClusterFlags(0),
        age_ns=0,
        epoch=epoch,
        agent_version=0,
        more_devices=0,
        more_shares=0,
    )


class Map:
    """An agent's map: its node changes, and it publishes what it is told."""

    def __init__(self, name: str) -> None:
        self.node = node_of(name)
        self.generation = 0
        self.epochs: dict[str, int] = {}  # as published
        self.n_published = 0  # with nodes in it

    def change(self) -> int:
        """Change what all are told at once.  Returns the epoch."""
        self.generation += 1
        self.node = node_of(self.node.name, self.generation)
        return self.generation

    def shares(self) -> list[Any]:
        return []

    def cluster(self) -> Any:
        return SimpleNamespace(nodes=())

    def publish_cluster(
        self, name: str, node: str, nodes: Iterable[ClusterNode], **how: Any
    ) -> None:
        heard = {one.name: one.epoch for one in nodes}
        self.n_published += bool(heard)
        self.epochs |= heard


class Pair:
    """The node a, which tells, and b, whose agent publishes."""

    def __init__(self, n_others: int = 0) -> None:
        self.world = World("a", "b", ttl=5.0)
        for number in range(n_others):
            put(self.world, f"alive/n{number}", alive())
        a, b = store_of(self.world), store_of(self.world, "b")
        self.a, self.b = Map("a"), Map("b")
        self.own = Own(a.config, a, "0" * 16, "b" * 36)
        self.own._reader.rows = lambda map, node: map.node  # type: ignore
        self.peers = Peers(b.config, b)
        self.feed = Feed(b.config, b, self.peers)
        gangs = self.world.nodes["b"].gangs
        gangs.changed = self.peers.changed  # type: ignore[method-assign]
        self.world.watch = self.turn
        self.world.run(2.0)

    def turn(self) -> None:
        """The rest of the loops' turns, as tools/sync.py has it."""
        now = self.world.now
        self.peers.look(now)
        self.feed.tick(self.b, now)  # type: ignore[arg-type]
        self.own.tick(self.a, True, now)  # type: ignore[arg-type]

    def tell_of_another(self) -> int:
        """Write what the node c tells.  Returns its epoch."""
        epoch = self.world.etcd.revision
        summary = Summary(node_of("c", epoch), "0" * 16, "b" * 36)
        put(self.world, "alive/c", alive())
        put(self.world, "nodes/c", encode(summary))
        return epoch


def test_a_second_change_is_seen_soon_after_a_first() -> None:
    pair = Pair()
    chance, longest = pair.world.random, 0.0
    for number in range(60):
        pair.world.run(chance.uniform(0.3, 0.6))
        pair.a.change()
        pair.world.run(0.03)
        epoch = pair.a.change()
        if number % 2:  # and another node tells something just then
            delay = chance.uniform(0, 0.2)
            pair.world.later(delay, pair.tell_of_another)
        took = pair.world.until(lambda e=epoch: pair.b.epochs["a"] == e)
        longest = max(longest, took)
    assert longest <= 0.2 + TURN


@pytest.mark.parametrize(
    ("name", "n_others", "most"), [("a", 0, 10), ("c", 0, 20), ("c", 997, 5)]
)
def test_changes_without_an_end_are_published_now_and_then(
    name: str, n_others: int, most: int
) -> None:
    """Those of a, which tells them, and of c, which is hostile."""
    pair = Pair(n_others)
    epoch = pair.b.n_published = 0

    def change() -> None:
        nonlocal epoch
        epoch = pair.a.change() if name == "a" else pair.tell_of_another()
        pair.turn()

    pair.world.watch = change
    pair.world.run(2.0)
    assert pair.b.n_published <= 2 * most + 1
    pair.world.watch = pair.turn
    pair.world.until(lambda: pair.b.epochs[name] == epoch)
