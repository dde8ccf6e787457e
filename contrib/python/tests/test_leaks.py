# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Nothing grows: descriptors, memory, references.

GPUMAP_ROUNDS sets how often; 100000 in the nightly run.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path

import gpumap
import pytest
from agent import Agent
from test_cluster import node as cluster_node

ROUNDS = int(os.environ.get("GPUMAP_ROUNDS", "1000"))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident() -> int:
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def mappings() -> int:
    with open("/proc/self/maps") as stream:
        return len(stream.readlines())


def stays(work: Callable[[], object], rounds: int) -> None:
    """Does work leave anything behind?"""
    for _ in range(50):
        work()
    gc.collect()
    before = descriptors(), mappings(), resident(), sys.getallocatedblocks()
    for _ in range(rounds):
        work()
    gc.collect()
    after = descriptors(), mappings(), resident(), sys.getallocatedblocks()
    assert after[0] <= before[0] + 1
    assert after[1] <= before[1] + 8
    # A leak of 64 bytes a round would be more, at the nightly run's rounds.
    if not os.environ.get("GPUMAP_SANITIZE"):  # ASan keeps what is freed
        assert after[2] <= before[2] + (2 << 20) + 8 * rounds
    assert after[3] <= before[3] + 200 + rounds // 50


def test_attach(agent: Agent) -> None:
    def work() -> None:
        with gpumap.attach(agent.instance, agent.runtime_dir) as map:
            assert len(map.devices) == 2

    stays(work, ROUNDS)


def test_attach_that_fails() -> None:
    stays(lambda: gpumap.attach("no-such", required=False), ROUNDS)


def test_reads(map: gpumap.Map) -> None:
    map.publish("leaks", "0:3;1:3", layer_bytes=[1] * 6)

    def work() -> None:
        list(map.devices)
        layers = map.layers("leaks")
        layers.read()
        assert (layers[1], list(layers)[5]) == (0, 1)
        map.health()
        map.maps()
        map.choose()
        map.policy(0)
        with pytest.raises(gpumap.NotFound):
            map.layers("nothing")
        with pytest.raises(ValueError):
            map.publish("x", "0:2", n_layers=1, layer_bytes=[1, 2])

    stays(work, ROUNDS)
    map.release("leaks")


def test_requests(map: gpumap.Map) -> None:
    shape = gpumap.Shape(layer_bytes=(10, 20), other_bytes=5)

    def work() -> None:
        map.plan(shape, max_seq_len=16)
        with pytest.raises(gpumap.DoesNotFit):
            map.reserve({0: 1 << 60})
        map.who(), map.usage(), map.shares(), map.reservations()

    stays(work, ROUNDS // 4)


def test_clusters_and_traces(map: gpumap.Map) -> None:
    nodes = [cluster_node("a"), cluster_node("b", 3, 2)]

    def work() -> None:
        map.publish_cluster("test", "a", nodes, limit_ns=1, begin=True)
        assert len(map.cluster().nodes) == 2
        with pytest.raises(TypeError):
            map._cluster_publish({}, [({}, [{"no such": 1}], [], False)])
        with map.trace([0]) as trace:
            trace.read(), map.jobs(0), map.path(0, 1)

    stays(work, ROUNDS // 20)
    map.publish_cluster("test", "a", limit_ns=1, begin=True)


def test_sessions(map: gpumap.Map) -> None:
    def work() -> None:
        with map.session(arena=1 << 20) as session:
            memory = session.memory(0, 64)
            session.run(0, gpumap.Job("fill", 8, "u8", memory))
            view = memoryview(memory)
        assert view[0] == 0

    stays(work, ROUNDS // 20)


def test_jobs(session: gpumap.Session) -> None:
    memory = session.memory(0, 4096)

    def work() -> None:
        session.submit(
            0, [gpumap.Job("fill", 8, "u8", memory, waits=[(0, 0)])] * 4
        )
        while session.in_flight:
            session.wait()
        session.memory(1, 100).free()

    stays(work, ROUNDS)


def test_models(session: gpumap.Session, checkpoint: Path) -> None:
    """Open, read and close a model, with arrays that are dropped."""
    numpy = pytest.importorskip("numpy")
    with session.load(checkpoint, name="leaks"):
        with session.map.session(arena=1 << 20) as other:

            def work() -> None:
                with other.open("leaks") as model:
                    tensor = model["model.layers.0.f32.weight"]
                    tensor.numpy(), numpy.from_dlpack(tensor)
                    tensor.__dlpack__(), memoryview(tensor)
                    model.private("scalar")
                    list(model), model.progress
                    os.close(tensor.fd())

            stays(work, ROUNDS)
