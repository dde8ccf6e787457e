# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The keys, in a simulated time: who is dead, and what is written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from gpumap.tools import sync_store
from gpumap.tools.sync_etcd import Changed, Listed, StoreError, Value
from gpumap.tools.sync_store import Store
from world import TURN, World

NODE = "nodes/a"


def alive(
    instance: str = "x", boot: str = "y", period_ms: int = 600000
) -> bytes:
    """The counter of another node, or of another machine of our name."""
    return json.dumps(
        {"instance": instance, "boot": boot, "period_ms": period_ms}
    ).encode()


def put(world: World, key: str, data: bytes | None) -> int:
    """Write what another writes."""
    value = None if data is None else Value(data, 0, 0)
    return world.etcd.apply([(key, value)])


def store_of(world: World, node: str = "a") -> Store:
    store = world.nodes[node].store
    assert store is not None
    return store


def count(world: World) -> int:
    """The number of a's last count."""
    return int(json.loads(world.etcd.keys["alive/a"].data)["count"])


def mute(store: Store, lost: list[Any] | None = None) -> None:
    """Let etcd not answer; what is asked arrives never, or later."""

    def call(path: str, body: dict[str, Any]) -> dict[str, Any]:
        if lost is not None and path == "/v3/kv/txn":
            lost.append(body)
        raise StoreError("no answer")

    store._etcd.call = call  # type: ignore[method-assign]


def unmute(store: Store) -> None:
    del store._etcd.call  # type: ignore[method-assign]


@pytest.fixture
def world() -> Iterator[World]:
    one = World("a", "b")
    one.run(2 * one.ttl)
    before = count(one)
    one.until(lambda: count(one) > before)  # the next one is not due soon
    one.run(2 * TURN)
    yield one


# ---- who writes -------------------------------------------------------------


def test_what_a_predecessor_wrote_late_does_not_arrive(world: World) -> None:
    lost: list[Any] = []
    store = store_of(world)
    mute(store, lost)
    store.wanted[NODE] = b"{}"
    world.run(2 * TURN)
    unmute(store)
    assert lost
    world.nodes["a"].kill()
    world.nodes["a"].start()
    world.until(lambda: store_of(world).joined)
    assert not world.etcd.call("/v3/kv/txn", lost[0]).get("succeeded")
    assert NODE not in world.etcd.keys


def test_another_machine_of_the_name_is_seen_in_writing(
    world: World,
) -> None:
    """The watch has not told of it: the transaction does."""
    store = store_of(world)
    world.nodes["a"].cut = "deaf"
    ours = world.etcd.keys["alive/a"]
    revision = put(world, "alive/a", alive())
    store.wanted[NODE] = b"{}"
    world.run(2 * TURN)
    assert NODE not in world.etcd.keys
    assert store.taken and not store.joined
    # An earlier change does not undo it.
    store.take(Changed([("alive/a", revision - 1, ours)]))
    assert store.taken


def test_a_late_write_undoes_no_later_one(world: World) -> None:
    lost: list[Any] = []
    store = store_of(world)
    mute(store, lost)
    store.wanted[NODE] = b"1"
    world.run(2 * TURN)
    unmute(store)
    store.wanted[NODE] = b"2"
    world.run(0.3)
    assert world.etcd.keys[NODE].data == b"2"
    assert not world.etcd.call("/v3/kv/txn", lost[0]).get("succeeded")


def test_what_the_watch_tells_late_undoes_no_write(world: World) -> None:
    store = store_of(world)
    for data in (b"1", b"2"):
        store.wanted[NODE] = data
        store.run(world.now)
        assert world.etcd.keys[NODE].data == data
    old = world.etcd.revision - 1
    store.take(Changed([(NODE, old, Value(b"1", old, store._lease))]))
    assert store.keys[NODE].data == b"2"
    store.take(Changed([(NODE, old, None)]))
    assert store.keys[NODE].data == b"2"


def test_the_end_of_a_predecessors_counter_is_not_ours(world: World) -> None:
    world.nodes["a"].kill()
    world.nodes["a"].start()
    store, etcd = store_of(world), world.etcd
    store.take(Listed(dict(etcd.keys), etcd.revision))
    for _ in range(2):
        store.run(world.now)
    assert store.joined
    store.take(Changed([("alive/a", etcd.revision - 1, None)]))
    assert store.joined


def test_keys_come_under_the_lease_of_the_day(world: World) -> None:
    store_of(world).wanted[NODE] = b"{}"
    world.run(0.1)
    world.nodes["a"].kill()
    world.nodes["a"].start()
    store_of(world).wanted[NODE] = b"{}"
    world.run(0.5)
    keys = world.etcd.keys
    assert keys[NODE].lease == keys["alive/a"].lease == world.etcd.n_leases


def test_a_second_sync_of_the_same_boot_takes_the_name(world: World) -> None:
    store = store_of(world)
    put(world, "alive/a", alive(boot=world.nodes["a"].boot))
    world.run(2 * TURN)
    assert store.taken and store.is_in() == "another machine has its name"
    # Before the start it was a predecessor.
    world.nodes["a"].kill()
    world.nodes["a"].start()
    world.run(0.5)
    assert store_of(world).joined


# ---- our lease and counter --------------------------------------------------


def test_the_lease_ends_by_our_own_clock(world: World) -> None:
    store = store_of(world)
    world.nodes["a"].cut = "off"
    world.run(world.ttl / 2)
    assert store.held
    world.run(world.ttl / 2 + 3 * TURN)
    assert not store.held
    world.nodes["a"].cut = ""
    world.run(world.ttl)
    assert store.is_in() is None


def test_who_hears_that_its_counter_is_gone_comes_again(
    world: World,
) -> None:
    store = store_of(world)
    mute(store)
    world.etcd.end_lease(store._lease)
    world.run(TURN)
    assert not store.joined
    unmute(store)
    world.run(world.ttl)
    assert store.joined


def test_a_watch_that_hears_nothing_of_us_is_deaf(world: World) -> None:
    store = store_of(world)
    assert store.deaf_at is None
    world.nodes["a"].cut = "deaf"
    world.until(lambda: store.deaf_at is not None, world.ttl)
    at = store.deaf_at
    assert at is not None and at <= world.now + 1.0
    world.run(2 * world.ttl)
    assert store.deaf_at == at  # later counts do not put it off
    store.take(Changed([("alive/b", 1, Value(alive(), 1, 0))]))
    assert store.deaf_at == at  # nor does what was before it
    world.nodes["a"].cut = ""
    world.run(2 * TURN)
    assert store.deaf_at is None


def test_the_counter_moves_before_the_lease(world: World) -> None:
    store = store_of(world)
    paths: list[str] = []

    def call(path: str, body: dict[str, Any]) -> dict[str, Any]:
        paths.append(path)
        if path == "/v3/kv/txn":
            raise StoreError("no answer")
        return world.etcd.call(path, body)

    store._etcd.call = call  # type: ignore[method-assign]
    store._renew_at = store._counted = 0.0
    store.run(world.now)
    assert paths == ["/v3/kv/txn"]
    # Where it does not move, the lease is renewed all the same.
    world.run(sync_store.PAUSES[0] + TURN)
    assert paths[:2] == ["/v3/kv/txn", "/v3/lease/keepalive"]


def test_a_turn_has_one_call_of_etcd(world: World) -> None:
    """The loop waits for a call: two would keep its clients waiting twice."""
    store, paths = store_of(world), Counter[str]()
    in_turn = most = 0

    def call(path: str, body: dict[str, Any]) -> dict[str, Any]:
        nonlocal in_turn
        paths[path] += 1
        in_turn += 1
        raise StoreError("no answer")

    def look() -> None:
        nonlocal in_turn, most
        most, in_turn = max(most, in_turn), 0

    store._etcd.call = call  # type: ignore[method-assign]
    world.watch, world.etcd.up = look, False
    world.run(3 * world.ttl)
    assert most == 1
    assert min(paths["/v3/kv/txn"], paths["/v3/lease/keepalive"]) >= 2


def test_in_a_large_cluster_counters_move_seldom(world: World) -> None:
    before, at = count(world), world.now
    for number in range(98):
        put(world, f"alive/n{number}", alive())
    world.until(lambda: count(world) > before)
    # The earlier promise stands.
    assert world.now <= at + world.ttl / 2
    counter = json.loads(world.etcd.keys["alive/a"].data)
    assert counter["period_ms"] == 5000
    before = count(world)
    world.run(16)
    assert count(world) - before == 3


# ---- what others say --------------------------------------------------------


def tell(world: World) -> None:
    """Let a's watch hear something that matters to nobody."""
    revision = put(world, "alive/other", alive())
    value = world.etcd.keys["alive/other"]
    store_of(world).take(Changed([("alive/other", revision, value)]))


@pytest.mark.parametrize("is_gone", [False, True])
def test_time_in_which_nothing_is_heard_kills_nobody(
    world: World, is_gone: bool
) -> None:
    store, ttl = store_of(world), world.ttl
    b = world.etcd.keys["alive/b"]
    if is_gone:
        store.take(Changed([("alive/b", world.etcd.revision + 1, None)]))
        assert not store.is_there("b")
    # Nothing turns from here on, and the clock alone goes on.
    world.now += 3 * ttl
    tell(world)
    assert b.lease and not store.is_dead("b") and not store.is_dead("z")
    world.now += ttl / 2
    tell(world)
    assert not store.is_dead("b") and not store.is_dead("z")
    world.now += ttl / 2
    tell(world)
    assert store.is_dead("b") and store.is_dead("z")


def test_the_last_words_of_the_dead_are_forgotten(world: World) -> None:
    b, a = store_of(world, "b"), store_of(world)
    b.wanted["nodes/b"] = b"{}"
    world.run(0.1)
    lease = b._lease
    world.nodes["b"].kill()
    world.etcd.end_lease(lease)
    world.run(world.ttl / 2)
    assert "nodes/b" not in a.keys and a.word("nodes/b") is not None
    world.run(world.ttl)
    assert a.word("nodes/b") is None and not a.kept
    assert "b" not in a.counters


def test_of_another_node_some_keys_are_known(world: World) -> None:
    store = store_of(world)
    for kind, most in (("gangs", 128), ("holds", 1024)):
        keys = [f"{kind}/z/{number}" for number in range(most + 5)]
        for _ in range(2):
            world.etcd.apply([(key, Value(b"", 0, 0)) for key in keys])
            world.run(TURN)
            known = [key for key in store.keys if key.startswith(kind)]
            assert len(known) == most
        world.etcd.apply([(key, None) for key in keys])
        world.run(TURN)
        put(world, f"{kind}/z/new", b"")
        put(world, f"{kind}/y/new", b"")
        put(world, "other/z", b"")
        world.run(TURN)
        assert {f"{kind}/z/new", f"{kind}/y/new"} <= store.keys.keys()
        assert "other/z" not in store.keys
