# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""gpumapctl trace: the file is a trace as viewers of Chrome's JSON take it, has
each job of the rows that it is asked for, by its session's name, and is whole
also where a signal ended the recording.
"""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gpumap
import pytest
from agent import Agent, die_with_parent, wait_for
from gpumap.tools.command import Exit

BEHIND = 10000  # records fit into the memory of a row
ENOUGH = 8  # jobs, so that some are of each row

# Runs a job on each row, all the time.
CLIENT = """
import sys
import gpumap

with gpumap.attach(*sys.argv[1:3]) as map, map.session() as session:
    n = 1000000
    memory = session.memory(0, 4 * n)
    job = gpumap.Job("scale", n, "f32", memory, memory, alpha=1.0)
    for i in range(1 << 40):
        session.run(i % 2, job)
        if i == 200:
            print(flush=True)
"""


class Slice(NamedTuple):
    process: int
    thread: int
    begin: float
    end: float
    event: dict[str, Any]


class Trace:
    """A file that is right by the rules of the format.

    Each event has a phase, a process and a thread; a complete one, "X", has a
    name, and a time stamp and a duration of at least 0; slices of a thread are
    apart, or one is within the other; and each process and thread that has
    slices has one name.
    """

    def __init__(self, path: Path) -> None:
        events = json.loads(path.read_text())["traceEvents"]
        self.slices: list[Slice] = []
        self.names: dict[tuple[str, int, int], str] = {}
        for event in events:
            process, thread = event["pid"], event["tid"]
            assert process >= 1 and thread >= 0
            assert isinstance(event["name"], str) and event["ph"] in "XM"
            if event["ph"] == "M":
                key = (event["name"], process, thread)
                assert key not in self.names
                self.names[key] = event["args"]["name"]
                continue
            begin, length = event["ts"], event["dur"]
            assert begin >= 0 and length >= 0
            end = begin + length
            self.slices.append(Slice(process, thread, begin, end, event))
        self.slices.sort(key=lambda one: (*one[:3], -one.end))
        for a, b in itertools.pairwise(self.slices):
            # A millionth of a microsecond is what doubles lose.
            is_apart = b.begin >= a.end - 1e-6
            is_within = b.end <= a.end + 1e-6
            assert a[:2] != b[:2] or is_apart or is_within
        for one in self.slices:
            assert ("process_name", one.process, 0) in self.names
            assert ("thread_name", one.process, one.thread) in self.names


@pytest.fixture(scope="module")
def client(agent: Agent) -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, "-c", CLIENT, agent.instance, agent.runtime_dir]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, preexec_fn=die_with_parent
    ) as process:
        assert process.stdout and process.stdout.readline()
        yield process
        process.kill()


def seconds() -> Iterator[str]:
    """For longer where the machine is slow."""
    return (str(1 << n) for n in range(6))


def test_jobs(
    agent: Agent, client: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    for timeout in seconds():
        told = agent.ctl_json("trace", str(path), "--timeout", timeout)
        if told["jobs"] >= ENOUGH:
            break
    assert told == {"file": str(path), "jobs": told["jobs"], "lost": 0}
    trace = Trace(path)
    assert len(trace.slices) == told["jobs"] >= ENOUGH
    assert {one.process for one in trace.slices} == {1, 2}
    assert trace.names["process_name", 2, 0].startswith("row 1: ")
    thread = trace.names["thread_name", 1, trace.slices[0].thread]
    assert f"process {client.pid} of" in thread
    for one in trace.slices:
        assert one.event["name"] == "scale"
        assert one.event["args"]["elements"] == 1000000


def test_other_rows_are_left_out(
    agent: Agent, client: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    for timeout in seconds():
        words = ("trace", str(path), "--rows", "1", "--timeout", timeout)
        ran = agent.run(*words, check=True)
        assert ran.stdout == "" and " jobs in " in ran.stderr
        trace = Trace(path)
        if trace.slices:
            break
    assert {one.process for one in trace.slices} == {2}


@pytest.fixture
def recording(agent: Agent, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """gpumapctl, which records into trace.json until it is told to stop."""
    path = tmp_path / "trace.json"
    words = agent.words("trace", str(path), "--timeout", "600")
    with subprocess.Popen(words, env=agent.env, text=True) as process:
        wait_for(path.exists)
        yield process
        process.kill()


def test_a_signal_ends_it(
    agent: Agent,
    map: gpumap.Map,
    recording: subprocess.Popen[str],
    tmp_path: Path,
) -> None:
    # No other process has the rows meanwhile.
    with pytest.raises(gpumap.Busy):
        map.trace()
    ran = agent.run("trace", "/dev/null")
    assert ran.returncode == Exit.FAILED
    assert "has a trace of row 0: wait until it ends" in ran.stderr
    recording.send_signal(signal.SIGINT)
    assert recording.wait() == 0
    Trace(tmp_path / "trace.json")


def test_what_came_before_the_end_is_written(
    session: gpumap.Session,
    recording: subprocess.Popen[str],
    tmp_path: Path,
) -> None:
    recording.send_signal(signal.SIGSTOP)
    for _ in range(BEHIND):
        session.run(0, gpumap.Job("nop"))
    recording.send_signal(signal.SIGINT)
    recording.send_signal(signal.SIGCONT)
    assert recording.wait() == 0
    trace = Trace(tmp_path / "trace.json")
    names = [one.event["name"] for one in trace.slices]
    assert names.count("nop") == BEHIND


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        ([], Exit.USAGE, "FILE"),
        (["/no/such/folder/file"], Exit.FAILED,
         "/no/such/folder/file: No such file or directory"),
        (["/dev/null", "--rows", "9"], Exit.FAILED, "there is no row 9"),
        (["/dev/full", "--timeout", "0"], Exit.FAILED,
         "/dev/full: No space left on device"),
    ],
)  # fmt: skip
def test_bad_calls(
    agent: Agent, words: list[str], status: Exit, says: str
) -> None:
    ran = agent.run("trace", *words)
    assert (ran.returncode, ran.stdout) == (status, "")
    assert ran.stderr.startswith("gpumapctl: ") and says in ran.stderr
