# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The nodes of the cluster: what this one tells, and what all have told, which
the agent publishes.

This node's objects, states, shares and its agent are told at once, but for the
100 ms after what was told last; bytes that have merely moved wait for a second,
and longer in a cluster of more than 50 nodes.

What others tell is looked at twenty times a second at most, five times in a
cluster of 1,000 nodes, and the agent is sent at once what such a look has
found.  All nodes are sent to it first, in portions, and again after any
failure: the agent may have begun anew.  Once a second it hears that nothing was
missed, while the watch hears etcd and the lease is held.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass

from .. import Error, Map, errors
from ..enums import ClusterFlags, ClusterState
from ..facts import ClusterNode
from . import sync_summary
from .sync_config import Config, is_name
from .sync_log import log
from .sync_store import AT_ALIVE, AT_NODES, Store
from .sync_summary import Refused, Summary

NEVER = float("inf")
NODES_MAX = 1024
TELL_S = 0.1  # from one summary to the next
PACE_S = 0.05  # from one look at changes to the next
LOOK_S = 1.0  # at figures, and at shares
A_NODE_S = 0.02  # of a cluster, for figures

LOOKING_S = 0.05  # at nodes that have changed, in a turn
LOOKS_S = 0.0002  # from one look at them to the next, for each node

HEARD_S = 1.0
RETRY_S = 1.0
RETRY_MOST_S = 30.0
LIMIT_S = 1.0  # beside the lease's time
PORTION = 256  # nodes
PORTION_BYTES = 96 << 10
NODE_BYTES, DEVICE_BYTES, SHARE_BYTES = 320, 192, 184  # about, in a request

class Own:
    """Tells what this node has: our summary in the store's table."""

    def __init__(
        self, config: Config, store: Store, instance: str, boot: str
    ) -> None:
        self._config = config
        self._store = store
        self._instance = instance
        self._boot = boot
        self._reader = sync_summary.Reader()
        self._told: ClusterNode | None = None
        self._seen = -1  # generation of the map
        self._tell_at = 0.0
        self._look_at = 0.0
        self._shares_at = 0.0
        self._told_at = 0.0

    def agent_changed(self) -> None:
        """Look at once: another agent has come, or it has gone."""
        self._look_at = self._shares_at = 0.0
        self._seen = -1

    def due(self, map: Map | None) -> float:
        """When tick() has something to do."""
        if map is not None and map.generation != self._seen:
            return min(self._tell_at, self._look_at)
        return self._look_at

    def tick(self, map: Map | None, answers: bool, now: float) -> None:
        """Look at the map, and tell what is news."""
        if now < self.due(map):
            return
        try:
            node = self._read(map, answers, now)
        except Error:
            # The agent is just ending: its state is told in the next look.
            self._look_at = now + TELL_S
            return
        self._look_at = now + LOOK_S
        self._tell_at = now + PACE_S
        news: bool | None = True
        if self._told is not None:
            news = sync_summary.has_facts(self._told, node)
        wait = max(self._store.n_there() * A_NODE_S, LOOK_S)
        if news or (news is False and now >= self._told_at + wait):
            self._told, self._told_at = node, now
            self._tell_at = now + TELL_S
            self._store.wanted[AT_NODES + node.name] = sync_summary.encode(
                Summary(node, self._instance, self._boot)
            )

    def _read(
        self, map: Map | None, answers: bool, now: float
    ) -> ClusterNode:
        node = self._told or self._empty()
        if map is not None:
            self._seen = map.generation
            node = self._reader.rows(map, node)
        if map is not None and answers and now >= self._shares_at:
            self._shares_at = now + LOOK_S
            # After a failure those stay that were told.
            with suppress(Error):
                node = sync_summary.with_shares(map, node)
        if not answers:
            node = node._replace(flags=node.flags | ClusterFlags.DRAINING)
        return node

    def _empty(self) -> ClusterNode:
        flags = 0 if self._config.gangs else ClusterFlags.NO_GANGS
        return ClusterNode(
            name=self._config.node,
            address=self._config.address,
            state=ClusterState.LIVE,
            flags=ClusterFlags(flags),
            age_ns=0,
            epoch=0,
            agent_version=0,
            more_devices=0,
            more_shares=0,
        )

# ---- all nodes --------------------------------------------------------------

@dataclass(slots=True)
class Peer:
    """A node as it was heard of last."""

    state: ClusterState
    since: float  # it changed, or it went
    revision: int = 0
    data: bytes = b""
    node: ClusterNode | None = None  # read already, until it is published
    forgotten: bool = False

class Peers:
    """What the nodes have told, this one too.

    A node is LIVE while its counter moves, and GONE from then on, with what it
    told last, until it returns or the time to forget it has passed.  A node
    whose summary is refused is REFUSED, without content.
    """

    def __init__(self, config: Config, store: Store) -> None:
        self.peers: dict[str, Peer] = {}
        self.news: set[str] = set()  # nodes that the agent knows otherwise
        self._config = config
        self._store = store
        self._said_full = False
        self._said_whole = False
        self.settled = False  # all of the first list has been looked at
        self._changed: dict[str, None] = {}  # names
        self._look_at = 0.0

    def changed(self, keys: set[str]) -> None:
        """The watch has heard of some keys: look() looks at them."""
        for key in keys:
            if key.startswith((AT_NODES, AT_ALIVE)):
                self._changed[key.partition("/")[2]] = None

    def due(self) -> float:
        """When look() has something to do."""
        may_look = self._changed and self._store.known
        return self._look_at if may_look else NEVER

    def look(self, now: float) -> None:
        """Look at nodes that have changed, for LOOKING_S at most.

        A node may change as often as it likes, and is read now and then.
        """
        if not self._store.known or now < self._look_at:
            return
        if self._changed:
            wait = max(LOOKS_S * self._store.n_there(), PACE_S)
            self._look_at = now + wait
        until = time.monotonic() + LOOKING_S
        while self._changed and time.monotonic() < until:
            name = next(iter(self._changed))
            del self._changed[name]
            self._look_at_node(name, now)
        self.settled = self.settled or not self._changed
        if self._store.whole and not self._said_whole:
            log.info("store_whole", nodes=len(self.peers))
        self._said_whole = self._store.whole

    def sweep(self, now: float) -> None:
        """Look for nodes that have ended, and forget those that are long gone.
        """
        self._store.forget_dead()
        for name, peer in self.peers.items():
            if peer.state == ClusterState.GONE:
                is_over = now >= peer.since + self._config.forget
                if is_over and not peer.forgotten:
                    log.info("node_forgotten", node=name)
                    peer.forgotten = True
                    self.news.add(name)
            elif self._store.is_dead(name):
                self._go(name, peer, now)

    def _look_at_node(self, name: str, now: float) -> None:
        value = self._store.word(AT_NODES + name)
        peer = self.peers.get(name)
        if value is None:
            if peer is not None and peer.state != ClusterState.GONE:
                self._go(name, peer, now)
        elif peer is not None and peer.revision == value.revision:
            if peer.state == ClusterState.GONE and self._is_live(name):
                self._come(name, peer, value.data, value.revision, now)
        elif self._is_live(name) or _is_of_another_format(value.data):
            peer = peer or self._add(name, now)
            if peer is not None:
                self._come(name, peer, value.data, value.revision, now)

    def _is_live(self, name: str) -> bool:
        return self._store.is_there(name) and not self._store.is_dead(name)

    def _add(self, name: str, now: float) -> Peer | None:
        why = None
        if not is_name(name):
            why, name = (
                "a key below nodes/ is no node's name: remove it from etcd",
                "-",
            )
        elif len(self.peers) >= NODES_MAX:
            why = (
                "the cluster has 1024 nodes already, with those that are gone:"
                " forget them sooner, or make two clusters"
            )
        if why is None:
            self.peers[name] = Peer(ClusterState.GONE, now)
            return self.peers[name]
        if not self._said_full:
            log.warning("node_left_out", node=name, why=why)
        self._said_full = True
        return None

    def _come(
        self, name: str, peer: Peer, data: bytes, revision: int, now: float
    ) -> None:
        before, was_known = peer.state, peer.revision or peer.node
        peer.revision, peer.since = revision, now
        peer.forgotten = False
        self.news.add(name)
        try:
            peer.node = sync_summary.decode(data, name).node
            peer.state, peer.data = ClusterState.LIVE, data
        except Refused as refused:
            peer.node, peer.data = None, b""
            peer.state = ClusterState.REFUSED
            if before != ClusterState.REFUSED:
                log.warning("node_refused", node=name, why=refused)
            return
        if before != ClusterState.LIVE and (was_known or self._said_whole):
            log.info("node_live", node=name)

    def _go(self, name: str, peer: Peer, now: float) -> None:
        log.info("node_gone", node=name)
        peer.state, peer.since = ClusterState.GONE, now
        self.news.add(name)

    def recall(self, map: Map, now: float) -> None:
        """Take the nodes that an earlier gpumap-sync knew from the agent's map.

        Those that are in etcd no more are GONE.
        """
        try:
            nodes = map.cluster().nodes
        except Error:
            return
        for node in nodes:
            if (
                node.state == ClusterState.REFUSED
                or node.flags & ClusterFlags.SELF
                or node.name in self.peers
                or len(self.peers) >= NODES_MAX
            ):
                continue
            age = node.age_ns / 1e9 if node.state == ClusterState.GONE else 0
            self.peers[node.name] = Peer(
                ClusterState.GONE, now - age, node=node
            )
            self.news.add(node.name)

    def published(self, all: bool) -> None:
        """Drop what is forgotten, and the agent knows that.

        all   the agent was told of all others, and knows no more
        """
        forgotten = [n for n, peer in self.peers.items() if peer.forgotten]
        for name in forgotten:
            if all or name not in self.news:
                del self.peers[name]
                self.news.discard(name)
                self._said_full = False

def _is_of_another_format(data: bytes) -> bool:
    """A node of another format may have no counter: it is refused by name."""
    try:
        sync_summary.parse(data)
        return False
    except Refused:
        return True

def node_of(name: str, peer: Peer) -> ClusterNode:
    """The node as it is published, without its age."""
    if peer.node is not None:
        return peer.node._replace(state=peer.state)
    if peer.data:
        node = sync_summary.decode(peer.data, name).node
        return node._replace(state=peer.state)
    return ClusterNode(
        name=name,
        address="",
        state=peer.state,
        flags=ClusterFlags(0),
        age_ns=0,
        epoch=0,
        agent_version=0,
        more_devices=0,
        more_shares=0,
    )

# ---- what the agent publishes -----------------------------------------------

class Feed:
    """Has the agent publish what the nodes have told."""

    def __init__(self, config: Config, store: Store, peers: Peers) -> None:
        self._config = config
        self._store = store
        self._peers = peers
        self._has_recalled = False
        self._said: int | None = None  # errno that was logged
        self.agent_changed()

    def agent_changed(self) -> None:
        """All nodes are sent to an agent that has come."""
        self._begins = True
        self._rest: list[str] | None = None  # of a publication half sent
        self._due = 0.0
        self._heard_at = 0.0
        self._retry = RETRY_S
        self._bytes = PORTION_BYTES

    def _hears(self) -> bool:
        return self._store.held and self._store.joined and self._store.whole

    def due(self) -> float:
        """When tick() has something to do, while there is an agent.

        Nothing is published before the list has been whole: until then readers
        have what an earlier gpumap-sync knew.
        """
        if not self._peers.settled:
            return NEVER
        if self._begins or self._rest or self._peers.news:
            return self._due
        return max(self._heard_at, self._due) if self._hears() else NEVER

    def tick(self, map: Map, now: float) -> None:
        """Publish a portion."""
        if now < self.due():
            return
        if not self._has_recalled:
            self._peers.recall(map, now)
        self._has_recalled = True
        begins = self._begins and self._rest is None
        names = self._rest if self._rest is not None else self._wanted()
        portion, rest = self._portion(names, now)
        hears = not rest and self._hears()
        try:
            map.publish_cluster(
                self._config.cluster,
                self._config.node,
                [node for node, is_forgotten in portion if not is_forgotten],
                remove=[node.name for node, forgotten in portion if forgotten],
                limit_ns=int((self._config.ttl + LIMIT_S) * 1e9),
                begin=begins,
                more=bool(rest),
                heard=hears,
            )
        except Error as error:
            self._fail(error, now)
            return
        for node, _ in portion:
            peer = self._peers.peers[node.name]
            peer.node = None if peer.data else peer.node
            self._peers.news.discard(node.name)
        if hears:
            self._heard_at = now + HEARD_S
        self._rest = rest or None
        if not rest:
            self._finish()
        elif begins:
            self._rest = rest

    def _wanted(self) -> list[str]:
        if not self._begins:
            return sorted(self._peers.news)
        return sorted(
            name
            for name, peer in self._peers.peers.items()
            if not peer.forgotten
        )

    def _portion(
        self, names: list[str], now: float
    ) -> tuple[list[tuple[ClusterNode, bool]], list[str]]:
        """The next nodes to send, and the names of those after them."""
        portion: list[tuple[ClusterNode, bool]] = []
        n_bytes = 0
        for place, name in enumerate(names):
            peer = self._peers.peers.get(name)
            if peer is None:
                continue
            node = node_of(name, peer)
            n_bytes += NODE_BYTES
            n_bytes += DEVICE_BYTES * len(node.devices)
            n_bytes += SHARE_BYTES * len(node.shares)
            is_full = len(portion) == PORTION or n_bytes > self._bytes
            if portion and is_full:
                return portion, names[place:]
            flags = node.flags & ~ClusterFlags.SELF
            if name == self._config.node and not self._store.taken:
                flags |= ClusterFlags.SELF
            age_ns = max(int((now - peer.since) * 1e9), 0)
            node = node._replace(flags=flags, age_ns=age_ns)
            portion.append((node, peer.forgotten))
        return portion, []

    def _fail(self, error: Error, now: float) -> None:
        self._rest = None
        self._begins = True
        if isinstance(error, errors.TooLarge) and self._bytes > 1:
            self._bytes //= 2
            return
        # An agent that has begun anew says nothing else.
        if not isinstance(error, errors.Stale) and error.errno != self._said:
            log.warning(
                "not_published", why=error.refusal or error.strerror
            )
            self._said = error.errno
        self._due = now + self._retry
        self._retry = min(self._retry * 2, RETRY_MOST_S)

    def _finish(self) -> None:
        if self._begins or self._said is not None:
            log.info("published", nodes=len(self._peers.peers))
        was_all = self._begins
        self._begins = False
        self._said = None
        self._retry = RETRY_S
        self._peers.published(was_all)
