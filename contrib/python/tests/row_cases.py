# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""What rows of every driver do, beside a host row that says what is right."""

from __future__ import annotations

import os
import signal

import gpumap
from agent import wait_for
from gpumap import Job


def jobs_are_right(session: gpumap.Session, row: int, host: int) -> None:
    n = 3000
    for dtype, size in (("f32", 4), ("bf16", 2), ("f16", 2), ("f64", 8)):
        source = session.memory(host, n * size)
        memoryview(source)[:] = bytes(
            (37 * i + 11 * (i >> 3)) % 60 for i in range(n * size)
        )
        results = []
        for one in (host, row):
            buffer = session.alloc(one, n * size)
            result = session.memory(one, n * size)
            total = session.memory(one, 64)
            session.run(one, Job("copy", n, dtype, buffer, source))
            session.run(
                one, Job("axpy", n, dtype, buffer, source, alpha=1.25)
            )
            session.run(
                one, Job("scale", n, dtype, result, buffer, alpha=0.5)
            )
            session.run(one, Job("sum", n, dtype, total, buffer))
            results.append((bytes(result), bytes(total)[:4]))
        assert results[0] == results[1]


def copies_are_right(session: gpumap.Session, row: int, host: int) -> None:
    """There, to a buffer of the host row, and back."""
    n = 3 << 20
    memory = session.memory(host, n)
    memoryview(memory)[:] = (b"0123456789abcde" * (n // 15 + 1))[:n]
    there = session.alloc(row, n)
    back = session.alloc(host, n)
    result = session.memory(host, n)
    session.run(row, Job("copy", n, "u8", there, memory))
    session.run(host, Job("copy", n, "u8", back, there))
    session.run(host, Job("copy", n, "u8", result, back))
    assert bytes(result) == bytes(memory)


def one_job_goes_over(session: gpumap.Session, rows: list[int]) -> None:
    n = len(rows) << 20
    memory = session.memory(rows[-1], n)
    other = session.memory(rows[-1], n)
    memoryview(memory)[:] = bytes(i * 7 % 251 for i in range(n))
    tiles = session.scatter(
        Job("copy", n, "u8", other, memory), rows=rows, weights=[1] * len(rows)
    )
    assert {tile.row for tile in tiles} == set(rows)
    assert bytes(other) == bytes(memory)


def square_is_right(map: gpumap.Map, row: int) -> None:
    """The program of this name, alpha * src * src."""
    with map.session(programs=True) as session:
        program = session.program(row, "square")
        source = session.memory(row, 4000)
        result = session.memory(row, 4000)
        params = session.memory(row, 4)
        for i in range(1000):
            memoryview(source).cast("f")[i] = float(i)
        memoryview(params).cast("f")[0] = 3.0
        job = Job(
            "run", 1000, "f32", result, source, program=program,
            src_item_bytes=4, dst_item_bytes=4, params=params,
        )
        for _ in range(3):
            session.run(row, job)
        assert memoryview(result).cast("f").tolist() == [
            3.0 * i * i for i in range(1000)
        ]


def another_worker_serves(map: gpumap.Map, row: int) -> None:
    """After the death of the row's."""
    with map.session() as session:
        memory = session.memory(row, 4096)
        other = session.memory(row, 4096)
        session.run(row, Job("copy", 4096, "u8", other, memory))
        pid = map.devices[row].worker_pid
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: map.devices[row].worker_pid not in (0, pid))
        map.wait_ready(60)
        memoryview(memory)[:] = b"\2" * 4096
        session.run(row, Job("copy", 4096, "u8", other, memory))
        assert bytes(other) == b"\2" * 4096
