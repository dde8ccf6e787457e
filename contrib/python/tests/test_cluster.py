# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The nodes of a cluster, their devices and shares."""

from __future__ import annotations

import os

import gpumap
import pytest
from gpumap import ClusterDevice, ClusterFlags, ClusterNode, ClusterShare

LIMIT_NS = 60_000_000_000


def node(name: str, devices: int = 2, shares: int = 1) -> ClusterNode:
    return ClusterNode(
        name=name,
        address="192.0.2.1",
        state=gpumap.ClusterState.LIVE,
        flags=ClusterFlags.SELF if name == "a" else ClusterFlags.NO_GANGS,
        age_ns=0,
        epoch=3,
        agent_version=gpumap.version(),
        more_devices=0,
        more_shares=7,
        devices=tuple(
            ClusterDevice(
                row=row,
                uuid=f"GPU-8932f937-d72c-4106-c12f-{row:012x}",
                name="a card",
                kind=gpumap.DeviceKind.CUDA,
                state=gpumap.DeviceState.READY,
                flags=gpumap.DeviceFlags.BF16 | gpumap.DeviceFlags.CARD,
                numa_node=-1,
                cc_major=9,
                cc_minor=0,
                total_bytes=80 << 30,
                free_bytes=70 << 30,
                reserved_bytes=9 << 30,
                used_by_holders=8 << 30,
                links=18,
            )
            for row in range(devices)
        ),
        shares=tuple(
            ClusterShare(
                uid=os.getuid(),
                flags=0,
                name=f"share-{i}",
                bytes=1 << 30,
                rows=(0, 65),
                fingerprint=bytes(range(32)) if i == 0 else b"",
            )
            for i in range(shares)
        ),
    )


def leave(map: gpumap.Map) -> None:
    map.publish_cluster("test", "a", limit_ns=LIMIT_NS, begin=True)
    with pytest.raises(gpumap.NotFound):
        map.cluster()


def test_a_node_alone_is_in_no_cluster(map: gpumap.Map) -> None:
    with pytest.raises(gpumap.NotFound):
        map.cluster()
    with pytest.raises(gpumap.Stale):
        map.publish_cluster("test", "a", limit_ns=LIMIT_NS, heard=True)


def test_nodes_are_what_was_sent(map: gpumap.Map) -> None:
    sent = [node("a"), node("b", 0, 0), node("c", 64, 2)]
    map.publish_cluster("test", "a", sent, limit_ns=LIMIT_NS, begin=True)
    cluster = map.cluster()
    assert (cluster.name, cluster.node) == ("test", "a")
    assert cluster.limit_ns == LIMIT_NS
    assert cluster.stale and cluster.age_ns == 2**64 - 1
    assert (cluster.n_nodes, cluster.n_devices, cluster.n_shares) == (3, 66, 3)
    assert (cluster.n_gone, cluster.n_refused) == (0, 0)
    assert [one._replace(age_ns=0) for one in cluster.nodes] == sent
    assert cluster.nodes[0].devices[0].unclaimed == 69 << 30
    # Changes only, and all that the others have said.
    map.publish_cluster(
        "test",
        "a",
        [node("b", 1, 0)],
        remove=["c"],
        limit_ns=LIMIT_NS,
        heard=True,
    )
    later = map.cluster()
    assert later.version > cluster.version and not later.stale
    assert [one.name for one in later.nodes] == ["a", "b"]
    assert len(later.nodes[1].devices) == 1
    leave(map)


def test_what_is_refused(map: gpumap.Map) -> None:
    def publish(*nodes: ClusterNode) -> None:
        map.publish_cluster("test", "a", nodes, limit_ns=LIMIT_NS, begin=True)

    one = node("a")
    with pytest.raises(gpumap.Invalid) as caught:
        publish(node(""))
    assert caught.value.refusal
    with pytest.raises(gpumap.Invalid):
        publish(one, one)
    with pytest.raises(ValueError, match="name is too long"):
        publish(node("n" * 64))
    with pytest.raises(ValueError, match="64 devices"):
        publish(node("a", 65))
    share = one.shares[0]._replace(fingerprint=b"short")
    with pytest.raises(ValueError, match="fingerprint"):
        publish(one._replace(shares=(share,)))
    for entry in (None, ({}, [], []), ({}, [None], [], False), (0, [], [], 0)):
        with pytest.raises(TypeError):
            map._cluster_publish(
                {"name": "test"},
                [entry],  # type: ignore[list-item]
            )
    with pytest.raises(gpumap.NotFound):
        map.cluster()
