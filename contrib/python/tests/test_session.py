# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Sessions: memory, jobs, buffers, shares, asyncio."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import struct
import threading
import time
from typing import Any

import gpumap
import pytest
from agent import Agent, wait_for
from gpumap import Job, aio


def test_fill_and_copy(session: gpumap.Session) -> None:
    memory = session.memory(0, 4096)
    session.run(0, Job("fill", 1024, "f32", memory, pattern=0x3F800000))
    assert memoryview(memory).cast("f").tolist() == [1.0] * 1024
    other = session.memory(1, 4096)
    job = Job("scale", 512, "f32", (other, 2048), memory, alpha=2.5)
    session.run(1, job)
    view = memoryview(other).cast("f")
    assert view[511] == 0 and view[512] == 2.5
    memoryview(memory)[:4] = struct.pack("<f", 7)
    session.run(0, Job("sum", 1024, "f32", other, memory))
    assert memoryview(other).cast("f")[0] == 1023 + 7


def test_many_jobs(session: gpumap.Session) -> None:
    memory = session.memory(0, 256 * 8)
    jobs = [
        Job("fill", 1, "u64", (memory, 8 * i), pattern=i) for i in range(256)
    ]
    row, value = session.submit(0, jobs[:100])
    session.submit(0, jobs[100:200])
    later = Job("nop", waits=[(row, value)])
    session.submit(1, later)
    left = {job.cookie for job in jobs[:200]} | {later.cookie}
    assert session.in_flight == 201
    while left:
        for done in session.wait():
            assert done.ok
            done.check()
            left.remove(done.cookie)
    assert session.in_flight == 0
    assert memoryview(memory).cast("Q").tolist()[:200] == list(range(200))
    with pytest.raises(gpumap.NothingInFlight):
        session.wait()
    assert session.poll() == []
    assert session.counts()["completed"] >= 201
    assert session.credit(0) == 256


def test_job_that_fails(session: gpumap.Session) -> None:
    memory = session.memory(0, 64)
    with pytest.raises(gpumap.OutOfRange):
        session.run(0, Job("fill", 1 << 40, "u8", memory))
    with pytest.raises(gpumap.Invalid):
        session.submit(0, Job(gpumap.Op.BARRIER, 1, "u8", memory))
    assert session.in_flight == 0
    session.submit(0, Job("copy", 32, "u8", (memory, 16), memory))
    (done,) = session.wait(30)
    assert done.status == -errno.EINVAL
    with pytest.raises(gpumap.Invalid):
        done.check()
    with pytest.raises(gpumap.Invalid):
        session.run(0, Job("copy", 32, "u8", (memory, 16), memory))
    with pytest.raises(gpumap.NoDevice):
        session.memory(99, 10)
    with pytest.raises(gpumap.NoMemory) as caught:
        session.memory(0, 1 << 50)
    assert caught.value.refusal
    with pytest.raises(TypeError):
        dst: Any = b"bytes"
        session.submit(0, Job("fill", 1, "u8", dst))
    with pytest.raises(ValueError):
        session.submit(0, Job("nop", waits=[(0, 0)] * 5))


def test_submit_until_full(session: gpumap.Session) -> None:
    memory = session.memory(0, 8 << 20)
    slow = Job("fill", 8 << 20, "u8", memory)
    with pytest.raises(gpumap.Again) as caught:
        for _ in range(100000):
            session.submit(0, slow)
    assert isinstance(caught.value, BlockingIOError)
    session.cancel(0)
    while session.in_flight:
        session.wait()


def test_deadlines(session: gpumap.Session) -> None:
    memory = session.memory(0, 8)
    session.submit(0, Job("fill", 8, "u8", memory, timeout=-1))
    (done,) = session.wait(30)
    with pytest.raises(gpumap.Timeout):
        done.check()
    buffer = session.alloc(0, 1 << 20, timeout=30)
    assert buffer.nbytes == 1 << 20
    session.submit(0, Job("nop"))
    session.wait(30)


def test_memory_outlives_its_handle(map: gpumap.Map) -> None:
    session = map.session()
    memory = session.memory(0, 4096)
    view = memoryview(memory)
    memory.free()
    with pytest.raises(BufferError):
        memoryview(memory)
    with pytest.raises(ValueError):
        memory.address
    view[0] = 1
    session.close()
    view[1] = 2
    del memory
    gc.collect()
    assert bytes(view[:3]) == b"\1\2\0"
    assert len(map.who()) == 1
    del view
    gc.collect()
    wait_for(lambda: map.who() == [])
    # The range is given back when the session is used next.
    session = map.session(arena=1 << 20)
    for _ in range(64):
        session.memory(0, 1 << 19)
    session.close()


def test_threads_take_turns(session: gpumap.Session) -> None:
    memory = session.memory(0, 1 << 20)
    errors: list[BaseException] = []
    waited = threading.Event()

    def wait() -> None:
        try:
            done = []
            while len(done) < 50:
                try:
                    done += session.wait(0.5)
                except gpumap.NothingInFlight:
                    time.sleep(0.001)
        except BaseException as error:
            errors.append(error)
        waited.set()

    thread = threading.Thread(target=wait)
    thread.start()
    for i in range(50):
        session.submit(i % 2, Job("fill", 1 << 20, "u8", memory))
    assert waited.wait(60)
    thread.join()
    assert not errors


def test_scatter(session: gpumap.Session) -> None:
    memory = session.memory(0, 1 << 20)
    tiles = session.scatter(
        Job("fill", 1 << 20, "u8", memory, pattern=3), weights=[1, 3],
        rows=[0, 1],
    )
    assert [(one.row, one.n) for one in tiles] == [
        (0, 1 << 18),
        (1, 3 << 18),
    ]
    result = session.memory(0, 64)
    assert (
        session.reduce(
            Job("sum", 1 << 20, "u8", result, memory), rows=[0, 1]
        )
        == 3 << 20
    )
    with pytest.raises(ValueError):
        session.scatter(
            Job("fill", 8, "u8", memory), rows=[0], weights=[1.0, 2.0]
        )


@pytest.mark.parametrize(
    ("dtype", "form", "values"),
    [
        ("u8", "B", [7, 255, 3, 3]),
        ("u16", "H", [7, 65535, 3, 3]),
        ("u32", "I", [7, 1 << 31, 3, 3]),
        ("u64", "Q", [7, 1 << 63, 3, 3]),
        ("i32", "i", [7, -(1 << 31), 3, 3]),
        ("i64", "q", [7, -(1 << 62), 3, 3]),
        ("f16", "e", [7.5, -2.0, 3.0, 3.0]),
        ("f32", "f", [7.5, -2.0, 3.0, 3.0]),
        ("f64", "d", [7.5, -2.0, 3.0, 3.0]),
        ("bf16", None, [7.5, -2.0, 3.0, 3.0]),
    ],
)
def test_reductions_are_numbers(
    session: gpumap.Session,
    dtype: str,
    form: str | None,
    values: list[int] | list[float],
) -> None:
    data = session.memory(0, 64)
    if form is None:  # the upper halves of f32
        parts = [struct.pack("<f", value)[2:] for value in values]
        memoryview(data)[:8] = b"".join(parts)
    else:
        struct.pack_into(f"<4{form}", memoryview(data), 0, *values)
    result = session.memory(0, 64)
    for op, want in (("sum", sum(values)), ("min", min(values)),
                     ("max", max(values))):
        got = session.reduce(Job(op, 4, dtype, result, data), rows=[0, 1])
        assert got == want and type(got) is type(values[0]), op


def test_buffers(session: gpumap.Session, map: gpumap.Map) -> None:
    with session.alloc(0, 1 << 16, exportable=True) as buffer:
        session.run(0, Job("fill", 1 << 16, "u8", buffer, pattern=9))
        view = buffer.view()
        assert view[5] == 9 and not view.readonly
        view[5] = 10
        memory = session.memory(0, 16)
        session.run(0, Job("copy", 16, "u8", memory, buffer))
        assert memoryview(memory)[5] == 10
        number = buffer.export()
        assert os.fstat(fd := buffer.fd()).st_size >= 1 << 16
        os.close(fd)
        with map.session() as other:
            borrowed = other.import_buffer(number, read_only=True)
            assert borrowed.nbytes == 1 << 16 and borrowed.row == 0
            with pytest.raises(gpumap.Denied):
                other.submit(0, Job("fill", 1, "u8", borrowed))
    view[6] = 11  # the mapping is the view's own
    with pytest.raises(gpumap.NotFound):
        session.import_buffer(number)


def test_buffer_is_collected(
    session: gpumap.Session, map: gpumap.Map
) -> None:
    buffer = session.alloc(1, 4096)
    with pytest.raises(gpumap.Invalid):
        buffer.export()
    assert [one.bytes for one in map.usage() if one.row == 1] == [4096]
    del buffer
    gc.collect()
    session.poll()  # gives it back
    wait_for(lambda: not any(one.bytes for one in map.usage()))


def test_register(session: gpumap.Session) -> None:
    import fcntl

    fd = os.memfd_create("python", os.MFD_ALLOW_SEALING)
    os.truncate(fd, 8192)
    with pytest.raises(gpumap.Invalid) as caught:
        session.register(fd, 8192)
    assert "shrink" in caught.value.refusal.lower()
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    buffer = session.register(fd, 8192)
    session.run(1, Job("fill", 8192, "u8", buffer, pattern=1))
    assert os.pread(fd, 3, 8000) == b"\1\1\1"
    buffer.free()
    os.close(fd)


def test_load_job(session: gpumap.Session, tmp_path: object) -> None:
    path = f"{tmp_path}/file"
    with open(path, "wb") as stream:
        stream.write(bytes(range(256)) * 64)
    fd = os.open(path, os.O_RDONLY)
    file = session.register_file(fd)
    os.close(fd)
    memory = session.memory(0, 1000)
    session.run(0, Job("load", 1000, "u8", memory, (file, 5)))
    assert bytes(memory)[:4] == b"\5\6\7\10"
    with pytest.raises(gpumap.NothingInFlight):  # past the file's end
        session.run(0, Job("load", 1000, "u8", memory, (file, 16000)))
    file.free()


def test_shares(session: gpumap.Session, map: gpumap.Map) -> None:
    buffer = session.alloc(0, 4096, exportable=True)
    session.run(0, Job("fill", 4096, "u8", buffer, pattern=5))
    share = session.share("bytes", [buffer], about=b"what it is")
    with pytest.raises(gpumap.Exists):
        session.share("bytes", [session.alloc(0, 64, exportable=True)])
    assert [one.name for one in map.shares()] == ["bytes"]
    assert map.shares()[0].read_only and map.shares()[0].rows == (0,)
    with map.session() as other:
        with pytest.raises(gpumap.Denied):
            other.open_share("bytes", read_only=False)
        with other.open_share("bytes") as opened:
            assert opened.about == b"what it is" and opened.n_buffers == 1
            view = opened.mapping(0)
            assert view.readonly and view[4095] == 5
            private = opened.mapping(0, private=True)
            private[0] = 77
            assert view[0] == 5
            memory = other.memory(0, 4096)
            other.run(0, Job("copy", 4096, "u8", memory, opened.buffer(0)))
            assert bytes(memory) == bytes(view)
        assert private[0] == 77
    share.close()
    assert map.shares() == []
    with pytest.raises(gpumap.NotFound):
        session.open_share("bytes")
    with pytest.raises(gpumap.NotFound):
        map.release_share("bytes")


def test_kept_shares(map: gpumap.Map) -> None:
    with map.session() as owner:
        buffer = owner.alloc(0, 4096, exportable=True)
        owner.run(0, Job("fill", 4096, "u8", buffer, pattern=5))
        assert owner.claim("kept", keep=True)
        owner.share("kept", [buffer], keep=True)
    # The owner is gone, and a reader comes and goes.
    for _ in range(2):
        with map.session() as other, other.open_share("kept") as opened:
            assert bytes(opened.mapping(0)) == bytes([5]) * 4096
    (info,) = map.shares()
    assert info.kept and info.uid == os.geteuid()
    map.release_share("kept")
    assert map.shares() == []


def test_fingerprints(session: gpumap.Session, map: gpumap.Map) -> None:
    buffer = session.alloc(0, 4096, exportable=True)
    right = {"engine": "one", "dtype": "bf16", "rank": 0}
    wrong = {**right, "dtype": "f16"}
    share = session.share("print", [buffer], fingerprint=right)
    hash = gpumap.Fingerprint.of(right).hash
    assert share.fingerprint == hash == map.shares()[0].fingerprint
    with map.session() as other:
        with pytest.raises(gpumap.Mismatch) as caught:
            other.open_share("print", fingerprint=wrong)
        assert "dtype" in caught.value.refusal
        bare = gpumap.Fingerprint(bytes(range(32)))
        with pytest.raises(gpumap.Mismatch):
            other.open_share("print", fingerprint=bare)
        with other.open_share("print", fingerprint=right) as opened:
            assert opened.fingerprint == hash
    share.close()
    with pytest.raises(ValueError):
        gpumap.Fingerprint.of({"a": "1\nb=2"})
    with pytest.raises(ValueError):
        session.claim("x", fingerprint=gpumap.Fingerprint(b"short"))


def test_claims(session: gpumap.Session, map: gpumap.Map) -> None:
    assert session.claim("made", fingerprint={"a": 1})
    with pytest.raises(gpumap.Busy):
        session.claim("made")
    other = map.session()
    with pytest.raises(gpumap.Timeout) as caught:
        other.claim("made", timeout=0)
    assert str(os.getpid()) in caught.value.refusal
    with pytest.raises(gpumap.Mismatch):
        other.claim("made", fingerprint={"a": 2}, timeout=0)
    results: list[bool] = []
    waiter = threading.Thread(
        target=lambda: results.append(other.claim("made"))
    )
    waiter.start()
    buffer = session.alloc(0, 64, exportable=True)
    with session.share("made", [buffer], fingerprint={"a": 1}):
        waiter.join()
        assert results == [False]
        other.open_share("made").close()
    assert session.claim("again")
    session.unclaim("again")
    assert other.claim("again", timeout=0)
    other.close()
    assert session.claim("again")  # a session that ends gives it back


# ---- asyncio -----------------------------------------------------------------


def test_asyncio(session: gpumap.Session) -> None:
    memory = session.memory(0, 8 * 1000)

    async def main() -> None:
        async with aio.Jobs(session) as jobs:
            await asyncio.gather(
                *(
                    jobs.run(
                        i % 2,
                        Job("fill", 1, "u64", (memory, 8 * i), pattern=i),
                    )
                    for i in range(1000)
                )
            )
            with pytest.raises(gpumap.Invalid):
                await jobs.run(
                    0, Job("copy", 32, "u8", (memory, 16), memory)
                )

    asyncio.run(main())
    assert memoryview(memory).cast("Q").tolist() == list(range(1000))


def test_asyncio_done(session: gpumap.Session) -> None:
    async def main() -> None:
        session.submit(0, Job("nop"))
        (done,) = await session.done()
        assert done.ok
        with pytest.raises(gpumap.NothingInFlight):
            await session.done()

    asyncio.run(main())


def test_asyncio_changes(map: gpumap.Map) -> None:
    async def main() -> None:
        seen = map.generation
        changes = aio.changes(map, seen)
        map.publish("changed", "0:1")
        assert await anext(changes) == map.generation != seen
        later = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        map.release("changed")
        assert await later == map.generation

    asyncio.run(main())


def test_asyncio_needs_a_descriptor(map: gpumap.Map) -> None:
    with map.session() as session, pytest.raises(gpumap.Unsupported):
        session.fileno()


def test_asyncio_agent_dies() -> None:
    agent = Agent()
    try:
        map = gpumap.attach(agent.instance, agent.runtime_dir)
        session = map.session(pollable=True)
        memory = session.memory(0, 32 << 20)

        async def main() -> None:
            async with aio.Jobs(session) as jobs:
                work = [
                    asyncio.ensure_future(
                        jobs.run(0, Job("fill", 32 << 20, "u8", memory))
                    )
                    for _ in range(100)
                ]
                await work[0]
                agent.kill()
                ended = await asyncio.wait_for(
                    asyncio.gather(*work, return_exceptions=True), 60
                )
            assert any(isinstance(one, gpumap.Gone) for one in ended)

        asyncio.run(main())
        session.close()
        map.close()
    finally:
        agent.stop()
