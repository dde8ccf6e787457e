# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The tools' own parts: options, texts, links between cards, files of traces."""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import re
import subprocess
from pathlib import Path

import pytest
from agent import ENV, GPUMAPCTL
from gpumap import DeviceKind, DType, Op, Timeout
from gpumap.facts import TraceJob
from gpumap.tools import command, text, topo, trace
from gpumap.tools.topo_node import Row

# ---- options -------------------------------------------------------------------

COMMON = {"--instance", "--runtime-dir", "--json", "--version", "--help"}


def options_in(words: str) -> set[str]:
    return set(re.findall(r"--[a-z][a-z-]*", words))


@pytest.mark.parametrize(
    "name",
    [
        "calibrate",
        "cluster devices",
        "cluster nodes",
        "cluster run",
        "doctor",
        "top",
        "topo",
        "trace",
    ],
)
def test_a_tool_takes_the_options_that_gpumapctl_lists(name: str) -> None:
    def said(*words: str) -> str:
        ran = [GPUMAPCTL, *words]
        return subprocess.run(
            ran, env=ENV, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    listed = re.search(rf"^  {name}( .*)?$", said("--help"), re.MULTILINE)
    assert listed
    of_tool = options_in(said(*name.split(), "--help").partition("options:")[2])
    assert of_tool - COMMON == options_in(listed[1] or "")


@pytest.mark.parametrize(
    ("words", "rows"),
    [("0", [0]), ("2,0", [2, 0]), ("0-3,7", [0, 1, 2, 3, 7])],
)
def test_a_list_of_rows(words: str, rows: list[int]) -> None:
    assert command.row_list(words) == rows


@pytest.mark.parametrize(
    "words",
    [
        "",
        "1,",
        "1,1",
        "0-2,1",
        "3-1",
        "5-3,1",
        "-1",
        "1-",
        "a",
        "0-999999999",
        "0-99999999999999999999",
        "9" * 5000,
    ],
)
def test_no_list_of_rows(words: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="no list of rows"):
        command.row_list(words)


@pytest.mark.parametrize("word", ["", "-1", "nan", "0.5", "1e9", "5s"])
def test_no_number_of_seconds(word: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        command.seconds(word)


# ---- streams -------------------------------------------------------------------

NODE = Path(__file__).resolve().parents[4] / "tests/nodes/eight-gpu.yaml"


def ran(line: str) -> subprocess.CompletedProcess[str]:
    """A line of a shell, in which topo draws a node of eight cards."""
    words = ["sh", "-c", line, "sh", GPUMAPCTL, "topo", "--node", str(NODE)]
    return subprocess.run(words, env=ENV, capture_output=True, text=True)


@pytest.mark.parametrize(
    "line",
    [
        '"$@" --format svg >/dev/full',
        '"$@" >/dev/full',
        '"$@" >&-',
        '"$@" --help >/dev/full',
    ],
)
def test_output_that_cannot_be_written(line: str) -> None:
    got = ran(line)
    assert got.returncode == command.Exit.FAILED
    assert got.stderr.startswith("gpumapctl: cannot write: ")
    assert got.stderr.count("\n") == 1


def test_messages_stay_out_of_the_output() -> None:
    assert ran('"$@" --json 2>&-').stdout == ran('"$@" --json').stdout
    assert ran('"$@" --format png 2>&-').stdout == ""


def test_a_name_that_is_no_utf8() -> None:
    got = ran("\"$@\" --instance $(printf '\\377')")
    assert got.returncode == command.Exit.USAGE
    assert "is no UTF-8; see gpumapctl topo --help" in got.stderr


# ---- texts ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bytes", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (100 << 20, "100 MiB"),
        ((1 << 30) - 1, "1024 MiB"),
        (3 << 29, "1.5 GiB"),
        (2**64 - 1, "16.0 EiB"),
    ],
)
def test_sizes(bytes: int, words: str) -> None:
    assert text.size(bytes) == words


def test_ranges() -> None:
    assert text.ranges([0, 1, 2, 5, 7, 8]) == ["0-2", "5", "7-8"]
    assert text.ranges([]) == []


@pytest.mark.parametrize(
    ("words", "most", "kept"),
    [("short", 5, "short"), ("longer", 5, "lo..."), ("日本語の行", 8, "日本...")],
)
def test_a_cut_counts_columns(words: str, most: int, kept: str) -> None:
    assert text.cut(words, most) == kept


def test_a_newer_agents_kind_is_shown() -> None:
    kind = DeviceKind(77)
    assert (kind.name, int(kind)) == ("UNKNOWN", 77)
    assert DeviceKind(1) is DeviceKind.HOST


def test_nothing_that_a_terminal_obeys_is_in_json() -> None:
    assert command.to_json("ä\x7f\x9b\x1b") == '"ä\\u007f\\u009b\\u001b"'


def test_nothing_that_a_terminal_obeys_is_printable() -> None:
    assert text.printable("ä\x1b[2J\x9b\n\udcff") == "ä?[2J???"


# ---- links ---------------------------------------------------------------------

# Two switches below one port, a switch of its own, and another socket.
DEVICES = [
    ("0000:19:00.0", "0000:16:02.0/0000:17:00.0/0000:18:00.0/0000:19:00.0", 0),
    ("0000:1a:00.0", "0000:16:02.0/0000:17:00.0/0000:18:01.0/0000:1a:00.0", 0),
    (
        "0000:1d:00.0",
        "0000:16:02.0/0000:17:00.0/0000:18:02.0/0000:1b:00.0/0000:1c:00.0"
        "/0000:1d:00.0",
        0,
    ),
    ("0000:20:00.0", "0000:16:03.0/0000:20:00.0", 0),
    ("0000:40:00.0", "0000:3f:01.0/0000:40:00.0", 0),
    ("0000:90:00.0", "0000:8f:01.0/0000:90:00.0", 1),
]
ROOTS = ["pci0000:16"] * 4 + ["pci0000:3f", "pci0000:8f"]
PATHS = [
    ["PIX", "PXB", "PHB", "NODE", "SYS"],
    ["PXB", "PHB", "NODE", "SYS"],
    ["PHB", "NODE", "SYS"],
    ["NODE", "SYS"],
    ["SYS"],
]


def row_at(pci: str, numa_node: int) -> Row:
    return Row(
        row=0,
        kind="cuda",
        name="",
        state="READY",
        reason="",
        numa_node=numa_node,
        pci=pci,
        mig=None,
        split=False,
        units=0,
        main_memory=False,
        total=0,
        used=0,
        promised=0,
    )


def test_paths_between_cards(tmp_path: Path) -> None:
    links = tmp_path / "sys/bus/pci/devices"
    links.mkdir(parents=True)
    for root, (address, folder, _) in zip(ROOTS, DEVICES):
        (tmp_path / "sys/devices" / root / folder).mkdir(parents=True)
        target = f"../../../devices/{root}/{folder}"
        (links / address).symlink_to(target)
    rows = [row_at(address, node) for address, _, node in DEVICES]
    for a, paths in enumerate(PATHS):
        for b, path in enumerate(paths, a + 1):
            assert topo.path_of(rows[a], rows[b], str(tmp_path)) == path
            assert topo.path_of(rows[b], rows[a], str(tmp_path)) == path
    gone = row_at("0000:77:00.0", 0)
    assert topo.path_of(rows[0], gone, str(tmp_path)) is None
    assert topo.path_of(rows[0], rows[1], "/no/such/root") is None


# ---- traces --------------------------------------------------------------------

SINCE = 1_000_000


def job(started: int, ended: int, **more: int) -> TraceJob:
    facts = {
        "session": 1,
        "read_ns": started,
        "started_ns": started,
        "ended_ns": ended,
        "n": 10,
        "row": 0,
        "uid": 5,
        "status": 0,
        "op": Op.FILL,
        "dtype": DType.F32,
    }
    return TraceJob(**{**facts, **more})  # type: ignore[arg-type]


def events_of(*jobs: TraceJob) -> list[dict[str, object]]:
    to = io.StringIO()
    document = trace.Document(to, SINCE)
    for one in jobs:
        document.job(one)
    document.end(3)
    got = json.loads(to.getvalue())
    assert got["otherData"] == {"jobs": str(len(jobs)), "lost": "3"}
    events: list[dict[str, object]] = got["traceEvents"]
    return events


def test_a_trace_without_jobs_is_whole() -> None:
    assert events_of() == []


def test_times_of_a_trace_are_exact() -> None:
    (event,) = events_of(
        job(
            SINCE + 1234567,
            SINCE + 2234569,
            read_ns=SINCE + 1,
            row=2,
            n=1 << 40,
            status=-5,
            op=Op.LOAD,
            dtype=DType.U8,
        )
    )
    assert (event["ts"], event["dur"]) == (1234.567, 1000.002)
    assert (event["pid"], event["name"]) == (3, "load")
    assert event["args"] == {
        "elements": 1 << 40,
        "dtype": "U8",
        "status": -5,
        "wait_ns": 1234566,
    }


def test_a_job_that_began_before_the_trace_is_cut() -> None:
    cut, gone = events_of(job(2, SINCE + 500), job(2, SINCE - 1))
    assert (cut["ts"], cut["dur"]) == (0, 0.5)
    assert (gone["ts"], gone["dur"]) == (0, 0)


def test_jobs_that_overlap_have_lanes() -> None:
    chance, jobs, ended = random.Random(7), [], [SINCE] * 4
    for _ in range(4000):
        k = chance.randrange(4)
        begin = max(ended[k] - 600, SINCE) + chance.randrange(900)
        ended[k] = max(begin, ended[k]) + 1 + chance.randrange(300)
        jobs.append(job(begin, ended[k], row=k // 2, session=k % 2))
    last: dict[object, object] = {}
    for event in events_of(*jobs):
        begin, length = event["ts"], event["dur"]
        assert isinstance(begin, float) and isinstance(length, float)
        assert begin >= last.get(event["tid"], 0)  # type: ignore[operator]
        last[event["tid"]] = round(begin + length, 3)
    assert len(last) > 4


def test_no_session_has_more_lanes_than_there_are() -> None:
    jobs = [job(SINCE + i, SINCE + 1000 + i) for i in range(trace.LANES + 9)]
    events = events_of(*jobs, job(SINCE, SINCE + 1, row=1))
    threads = [event["tid"] for event in events]
    assert threads[: trace.LANES] == list(range(1, trace.LANES + 1))
    assert set(threads[trace.LANES : -1]) == {trace.LANES}
    assert threads[-1] == trace.LANES + 1


def test_an_agent_that_does_not_answer_leaves_a_trace_whole() -> None:
    class Hung:
        def who(self) -> None:
            raise Timeout()

    assert trace.sessions_of(Hung()) == {}  # type: ignore[arg-type]


def test_an_operation_of_a_newer_agent_is_shown() -> None:
    (event,) = events_of(job(SINCE, SINCE + 1, op=200, dtype=99))
    assert event["name"] == "?"
