# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Values, gangs and cohorts of several nodes, by way of gpumap-sync."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Iterator

import gpumap
import pytest
from agent import Agent, wait_for
from syncs import Syncs


@pytest.fixture(scope="module")
def syncs(agent: Agent) -> Iterator[Syncs]:
    all_ = Syncs(
        "a",
        "b",
        instance=agent.instance,
        runtime_dir=str(agent.runtime_dir),
    )
    yield all_
    all_.stop()


@pytest.fixture
def a(syncs: Syncs) -> Iterator[gpumap.Sync]:
    with gpumap.Sync(syncs.socket("a")) as sync:
        yield sync


@pytest.fixture
def b(syncs: Syncs) -> Iterator[gpumap.Sync]:
    with gpumap.Sync(syncs.socket("b")) as sync:
        yield sync


def test_values(a: gpumap.Sync, b: gpumap.Sync) -> None:
    assert a.get("v/x") is None
    written, first = a.cas("v/x", b"one")
    assert written and first
    assert b.get("v/x") == (b"one", first)
    assert b.cas("v/x", b"two") == (False, first)
    written, second = b.cas("v/x", b"\0two", first)
    assert written and second != first
    assert a.get("v/x") == (b"\0two", second)
    assert a.list("v/") == ["x"] and a.list("v/y") == []
    assert a.cas("v/x", None, second) == (True, 0)
    assert b.get("v/x") is None


def test_waits(a: gpumap.Sync, b: gpumap.Sync) -> None:
    seen = a.wait("w/")
    with pytest.raises(gpumap.Timeout):
        a.wait("w/", seen, 0.25)
    writer = threading.Timer(0.1, b.cas, ("w/x", b"", 0))
    writer.start()
    assert a.wait("w/", seen, 60) > seen
    writer.join()
    got = a.get("w/x")
    assert got is not None
    a.cas("w/x", None, got[1])


def test_ephemeral(syncs: Syncs, a: gpumap.Sync) -> None:
    with gpumap.Sync(syncs.socket("b")) as mine:
        assert mine.cas("e/x", b"here", ephemeral=True)[0]
        assert a.get("e/x") is not None
    wait_for(lambda: a.get("e/x") is None)


def test_what_is_refused(syncs: Syncs, a: gpumap.Sync) -> None:
    with pytest.raises(gpumap.NotRunning, match="gpumap-sync"):
        gpumap.Sync(str(syncs.folder / "no-such"))
    with pytest.raises(gpumap.Invalid):
        a.get("a//b")
    with pytest.raises(gpumap.TooLarge):
        a.cas("large", bytes(16385))
    with pytest.raises(ValueError, match="128 bytes"):
        a.join_cohort("c", 1, 0, id=b"short")
    with pytest.raises(gpumap.Invalid):
        a.join_cohort("c", 1, 1)
    with pytest.raises(gpumap.NotFound):
        a.release()
    with pytest.raises(ValueError, match="UUID"):
        a.reserve("g", {"a": {"GPU-short": 1}})
    closed = gpumap.Sync(syncs.socket("a"))
    closed.close()
    assert closed.closed
    with pytest.raises(ValueError, match="closed"):
        closed.get("x")


def test_a_child_opens_its_own(a: gpumap.Sync) -> None:
    for call in (lambda: a.get("x"), a.check):
        pid = os.fork()
        if pid == 0:
            try:
                call()
            except gpumap.Forked:
                os._exit(0)
            except BaseException:
                os._exit(1)
            os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0
    a.check()


def test_a_gang(a: gpumap.Sync, map: gpumap.Map) -> None:
    device = map.devices[0]
    a.reserve("gang", {"a": {device.uuid: 4096}}, timeout=60)
    assert "gang" in map.maps()
    a.check()
    with pytest.raises(gpumap.Busy):
        a.reserve("other", {"a": {device.uuid: 4096}}, timeout=60)
    a.release()
    wait_for(lambda: "gang" not in map.maps())
    with pytest.raises(gpumap.DoesNotFit):
        a.reserve("gang", {"a": {device.uuid: 1 << 60}}, timeout=60)
    with pytest.raises(gpumap.Unreachable):
        a.reserve("gang", {"c": {device.uuid: 4096}}, timeout=60)


def test_a_cohort(a: gpumap.Sync, b: gpumap.Sync) -> None:
    id = bytes(range(128))
    members: list[gpumap.Member] = []

    def join() -> None:
        members.append(b.join_cohort("c", 2, 1, timeout=60))

    other = threading.Thread(target=join)
    other.start()
    one = a.join_cohort("c", 2, 0, id=id, timeout=60)
    other.join()
    (two,) = members
    assert one.id == two.id == id and one.epoch == two.epoch
    a.check()
    with pytest.raises(gpumap.Busy):
        a.join_cohort("c", 2, 0, id=id, timeout=60)
    two.leave(broken=True)
    assert select.select([a], [], [], 60)[0] == [a]

    def told() -> bool:
        try:
            a.check()
        except gpumap.Stale:
            return True
        return False

    wait_for(told)
    one.leave()
    one.leave()
    since = time.monotonic()
    with pytest.raises(gpumap.Timeout, match="in time: 0"):
        b.join_cohort("c", 2, 1, timeout=0.2)
    assert time.monotonic() - since < 10


def test_its_end_is_told(syncs: Syncs, a: gpumap.Sync) -> None:
    with gpumap.Sync(syncs.socket("b")) as mine:
        syncs.kill("b")
        assert select.select([mine], [], [], 60)[0] == [mine]
        with pytest.raises(gpumap.Gone):
            mine.check()
    syncs.start("b")
