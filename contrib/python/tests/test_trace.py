# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Records of the jobs of rows, and how many a row has done."""

from __future__ import annotations

import os
import time

import gpumap
import pytest
from agent import Agent, wait_for
from gpumap import Job


def test_records(map: gpumap.Map, session: gpumap.Session) -> None:
    memory = session.memory(0, 4096)
    with map.trace() as trace:
        since = time.monotonic_ns()
        session.run(0, Job("fill", 1024, "f32", memory, pattern=0))
        session.run(0, Job("scale", 512, "f32", memory, memory, alpha=2.0))
        got: list[gpumap.TraceJob] = []
        wait_for(lambda: got.extend(trace.read()) or len(got) >= 2)
        assert [(job.op, job.n, job.row) for job in got] == [
            (gpumap.Op.FILL, 1024, 0),
            (gpumap.Op.SCALE, 512, 0),
        ]
        for job in got:
            assert job.dtype == gpumap.DType.F32 and job.status == 0
            assert job.uid == os.getuid()
            assert job.session in [one.id for one in map.who()]
            assert since < job.read_ns <= job.started_ns <= job.ended_ns
        assert trace.read() == [] and trace.lost == 0
        with pytest.raises(gpumap.Busy):
            map.trace([0])
    assert trace.closed
    trace.close()
    with pytest.raises(ValueError, match="closed"):
        trace.read()


def test_rows(map: gpumap.Map, session: gpumap.Session) -> None:
    memories = [session.memory(row, 64) for row in (0, 1)]
    with gpumap.Trace(map, [1]) as trace:
        for row in (0, 1):
            session.run(row, Job("fill", 64, "u8", memories[row], pattern=1))
        got: list[gpumap.TraceJob] = []
        wait_for(lambda: got.extend(trace.read(1)) or got)
        assert [job.row for job in got] == [1]
    for rows in ([7], [2**32 - 1]):
        with pytest.raises(gpumap.NoDevice):
            map.trace(rows)
    with pytest.raises(gpumap.Invalid):
        map.trace([])
    with pytest.raises(ValueError):
        map.trace([2**32])
    with pytest.raises(TypeError):
        map.trace(["0"])  # type: ignore[list-item]


def test_the_map_may_be_closed_first(agent: Agent) -> None:
    map = gpumap.attach(agent.instance, agent.runtime_dir)
    trace = map.trace([0])
    map.close()
    assert trace.read() == []
    trace.close()
    with pytest.raises(ValueError, match="closed"):
        gpumap.Trace(map)


def test_its_end_is_told() -> None:
    one = Agent()
    try:
        with gpumap.attach(one.instance, one.runtime_dir) as map:
            with map.trace() as trace:
                one.kill()
                with pytest.raises(gpumap.Gone):
                    trace.read()
    finally:
        one.stop()


def test_counts(map: gpumap.Map, session: gpumap.Session) -> None:
    before = map.jobs(0)
    assert before.row == 0 and len(before.times) == len(gpumap.JOB_TIME_ENDS)
    memory = session.memory(0, 64)
    for _ in range(100):
        session.run(0, Job("fill", 64, "u8", memory, pattern=1))
    wait_for(lambda: map.jobs(0).ended >= before.ended + 100)
    after = map.jobs(0)
    assert after.failed == before.failed
    assert after.generation == map.devices[0].generation
    for row in (2, 2**32 - 1, 2**40):
        with pytest.raises(gpumap.NoDevice):
            map.jobs(row)
    with pytest.raises(OverflowError):
        map.jobs(-1)


def test_spans() -> None:
    ends = gpumap.JOB_TIME_ENDS
    assert ends[:3] == (1000, 4000, 16000) and ends[-1] == 2**64 - 1
    assert list(ends) == sorted(ends) and len(ends) == 13
