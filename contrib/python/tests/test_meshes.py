# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Masks, meshes and collectives."""

from __future__ import annotations

import gc
import struct
import threading

import gpumap
import pytest
from agent import wait_for
from gpumap import Job

# ---- masks -------------------------------------------------------------------


def test_mask_by_rule(map: gpumap.Map) -> None:
    info = map.publish_mask("causal", form="causal", tgt_len=3, past_kv_len=1)
    assert info.kind == gpumap.MaskKind.CUSTOM and info.rows == (0, 1)
    assert info.dtype == gpumap.DType.U8
    assert map.masks() == ["causal"]
    mask = map.mask("causal")
    data, shape = mask.read(0)
    assert len(data) == info.bytes and shape == info.shape
    square = data.cast("B", (3, 4)) if shape[-2:] == (3, 4) else data
    assert square.tolist() == [[0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]]
    with pytest.raises(gpumap.NotFound):
        mask.read(7)
    map.release_mask("causal")
    with pytest.raises(gpumap.NotFound):
        mask.read(0)
    with pytest.raises(gpumap.NotFound):
        map.mask("causal")


def test_mask_of_data(map: gpumap.Map) -> None:
    data = bytearray(struct.pack("<6f", *range(6)))
    info = map.publish_mask("loaded", data=data, shape=(2, 3), dtype="f32")
    assert info.shape == (2, 3) and info.strides == (12, 4)
    pinned = map.mask("loaded", pin=True)
    view = memoryview(pinned.view(1))
    assert view.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert view.readonly
    following = map.mask("loaded")
    version = following.version(0)
    map.publish_mask("loaded", data=bytes(24), shape=(2, 3), dtype="f32")
    assert following.version(0) > version
    assert bytes(following.read(0)[0]) == bytes(24)
    assert view.tolist()[1] == [3.0, 4.0, 5.0]  # the pin keeps it
    del pinned
    gc.collect()
    assert view.tolist()[1] == [3.0, 4.0, 5.0]
    with pytest.raises(ValueError):
        following.view(0)
    with pytest.raises(ValueError):
        map.publish_mask("bad", data=bytes(5), shape=(2, 3), dtype="f32")
    with pytest.raises(ValueError):
        gpumap._core._mask_publish(  # type: ignore[attr-defined]
            map,
            {"name": "x", "kind": 3, "dtype": 3, "rank": 1, "shape": (9,)},
            bytes(5),
        )
    map.release_mask("loaded")


def test_mask_follows_a_map(map: gpumap.Map) -> None:
    map.publish("followed", "1:2")
    info = map.publish_mask(
        "follows", form="causal", tgt_len=4, map="followed"
    )
    assert info.map == "followed" and info.rows == (1,)
    map.publish("followed", "0:2")
    wait_for(lambda: map.mask("follows").info().rows == (0,))
    map.release_mask("follows")
    map.release("followed")


def test_mask_jobs(map: gpumap.Map, session: gpumap.Session) -> None:
    map.publish_mask("job", data=b"\0\1\0\1", shape=(4,), dtype="u8")
    buffer = session.register_mask("job")
    memory = session.memory(0, 16)
    session.run(0, Job("fill", 4, "f32", memory, pattern=0x3F800000))
    job = Job("mask_bool", 4, "f32", memory, memory, mask=buffer, mask_n=4)
    session.run(0, job)
    inf = float("inf")
    assert memoryview(memory).cast("f").tolist() == [1, -inf, 1, -inf]
    buffer.free()
    map.release_mask("job")


# ---- meshes ------------------------------------------------------------------


def test_mesh(map: gpumap.Map) -> None:
    mesh = map.publish_mesh(
        "pair", "tensor", tp=2, rows=[1, 0], groups={"second": [1]}
    )
    assert map.meshes() == ["pair"]
    assert mesh.rows == (1, 0) and len(mesh) == 2
    info = mesh.read()
    assert (info.topology, info.tp, info.n_added) == (
        gpumap.MeshTopology.TENSOR,
        2,
        1,
    )
    world = mesh.group()
    assert (world.name, world.ranks, world.rows) == ("world", (0, 1), (1, 0))
    assert world.whole
    assert mesh.group("second").rows == (0,)
    assert {one.name for one in mesh} == {"world", "tp_0", "second"}
    assert {one.name for one in mesh.groups(0)} == {"world", "tp_0"}
    assert mesh.place(1) == (1, 0, 0)
    assert mesh.stats()["n_host"] == 2
    view = mesh.view()
    assert list(view) == [1, 0] and view[1] == 0
    assert mesh.view("second", ranks=True)[0] == 1
    with pytest.raises(gpumap.OutOfRange):
        mesh.place(2)
    with pytest.raises(gpumap.NotFound):
        mesh.group("nothing")
    map.publish_mesh("pair", "tensor", tp=2, rows=[0, 1])
    assert view[0] == 0
    map.release_mesh("pair")
    with pytest.raises(gpumap.NotFound):
        view[0]
    with pytest.raises(gpumap.NotFound):
        map.mesh("pair")


def test_join(map: gpumap.Map) -> None:
    map.publish_mesh("joined", "tensor", tp=2, rows=[0, 1])
    id = bytes(range(128))
    got: list[bytes] = []

    def second() -> None:
        with gpumap.attach(map.instance, map.runtime_dir) as other:
            joined = other.mesh("joined").join(1, timeout=60)
            got.append(joined.id)
            joined.leave()

    thread = threading.Thread(target=second)
    thread.start()
    with map.mesh("joined").join(0, id=id, timeout=60) as joined:
        assert joined.id == id
    thread.join()
    assert got == [id]
    with pytest.raises(gpumap.Timeout):
        wait_for(lambda: map.mesh("joined").group().whole)
        map.mesh("joined").join(0, id=id, timeout=0.2)
    with pytest.raises(ValueError):
        map.mesh("joined").join(0, id=b"short", timeout=0)
    map.release_mesh("joined")


# ---- collectives -------------------------------------------------------------


def test_all_reduce(map: gpumap.Map, session: gpumap.Session) -> None:
    map.publish_mesh("ranks", "tensor", tp=2, rows=[0, 1])
    with session.comm("ranks") as comm:
        assert comm.rows == (0, 1) and not comm.nccl
        send = [session.memory(row, 4096) for row in (0, 1)]
        recv = [session.memory(row, 4096) for row in (0, 1)]
        for rank, memory in enumerate(send):
            view = memoryview(memory).cast("f")
            for i in range(1024):
                view[i] = i + rank
        cookie = comm.submit("all_reduce", 1024, send=send, recv=recv)
        (done,) = session.wait(60)
        assert done.cookie == cookie
        done.check()
        for memory in recv:
            view = memoryview(memory).cast("f")
            assert view[1000] == 2001.0
        comm.submit("barrier")
        session.wait(60)[0].check()
        comm.submit(
            "all_reduce", 4, dtype="i32", reduce="max", send=send, recv=recv
        )
        session.wait(60)[0].check()
        with pytest.raises(ValueError):
            comm.submit("all_reduce", 4, send=send[:1], recv=recv)
        with pytest.raises(gpumap.Invalid):
            comm.submit("all_reduce", 4, dtype="f32")
        comm.renew()
        assert comm.rows == (0, 1)
    with pytest.raises(ValueError):
        comm.submit("barrier")
    map.release_mesh("ranks")
    with pytest.raises(gpumap.NotFound):
        session.comm("ranks")


def test_comm_ends_with_its_session(map: gpumap.Map) -> None:
    map.publish_mesh("ranks", "data", rows=[0, 1])
    session = map.session()
    comm = session.comm("ranks")
    session.close()
    comm.submit("barrier")
    del comm
    gc.collect()
    wait_for(lambda: map.who() == [])
    map.release_mesh("ranks")
