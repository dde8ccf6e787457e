# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""gpumapctl calibrate: how times become thresholds, and what it sets."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, cast

import gpumap
import pytest
from agent import BUILD, DRIVER, Agent, agent_of_cards
from gpumap import Device, DeviceFlags, DeviceState, Op, Work
from gpumap.errors import of_status
from gpumap.tools import calibrate
from gpumap.tools.calibrate import NEVER, SIZES
from gpumap.tools.command import Exit, Failed

MATRIX = Work.GEMM, Work.POTRF, Work.XTWX
BEYOND = 2 * SIZES[-1]
# The operation that is timed for a kind of work, and from where it shall win.
WINS = {
    Work.FILL: (Op.FILL, SIZES[0]),
    Work.COPY: (Op.COPY, SIZES[1]),
    Work.SCALE: (Op.SCALE, SIZES[2]),
    Work.AXPY: (Op.AXPY, SIZES[3]),
    Work.CAST: (Op.CAST, SIZES[4]),
    Work.REDUCE: (Op.SUM, BEYOND),
    Work.MASK: (Op.MASK_ADD, BEYOND),
}
DEFAULT = 50000
UNSUPPORTED, OWNERDEAD = 95, 130


# ---- times -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "device", "least"),
    [
        # 95 % of the host's time are a win, and a little more none.
        ([100] * 5, [95] * 5, SIZES[0]),
        ([100] * 5, [96, 95, 95, 95, 95], SIZES[1]),
        ([100] * 5, [96] * 4 + [95], SIZES[4]),
        # A later loss does not count.
        ([100] * 5, [100, 100, 50, 900, 900], SIZES[2]),
        ([100] * 5, [96] * 5, BEYOND),
        ([0] * 5, [0] * 5, SIZES[0]),
        # Both lack the operation, or one of them.
        ([NEVER] * 5, [NEVER] * 5, BEYOND),
        ([1] * 5, [NEVER] * 5, BEYOND),
        ([NEVER] * 5, [1] * 5, SIZES[0]),
    ],
)
def test_the_first_size_that_wins_is_the_threshold(
    host: list[int], device: list[int], least: int
) -> None:
    assert calibrate.threshold(host, device) == least


class Times:
    """Jobs that end at once, and are said to have taken some time."""

    def __init__(self, host: int) -> None:
        self.host = host
        self.wins = dict(WINS.values())
        self.jobs: list[tuple[int, Op, int]] = []

    def once(self, session: gpumap.Session, row: int, job: Any) -> int:
        op, n = Op(job["op"]), job["n"]
        self.jobs.append((row, op, n))
        if row != self.host and op == Op.MASK_ADD:
            raise of_status(-UNSUPPORTED, "")
        wins = row != self.host and n >= self.wins[op]
        # The second of three rounds counts.
        return (50 if wins else 100, 40 if wins else 60, 900)[
            (self.jobs.count((row, op, n)) - 1) % 3
        ]


@pytest.fixture
def times(map: gpumap.Map, monkeypatch: pytest.MonkeyPatch) -> Times:
    times = Times(calibrate.choose(map.devices)[1])
    monkeypatch.setattr(calibrate, "time_once", times.once)
    return times


def test_the_best_of_rounds_counts(map: gpumap.Map, times: Times) -> None:
    other = 1 - times.host
    calibrate.calibrate(map, None, 3)
    # The other row cannot do one of seven.
    assert len(times.jobs) == len(SIZES) * (3 * 7 + 3 * 6 + 1)
    got = map.policy(other)
    assert got.calibrated_ns > 0
    for work, (_, least) in WINS.items():
        assert got.least[work] == least
    assert map.policy(times.host).calibrated_ns == 0
    map.set_policy(other, [0] * 13)


def test_other_thresholds_stay(map: gpumap.Map, times: Times) -> None:
    other = 1 - times.host
    had = map.policy(other).least
    map.set_policy(other, [7] + [0] * 12)
    with pytest.raises(Failed, match="no other row to compare with row"):
        calibrate.calibrate(map, [times.host], 1)
    calibrate.calibrate(map, [other], 1)
    got = map.policy(other).least
    assert [got[work] for work in MATRIX] == [7, *had[1:3]]
    assert got[Work.FILL] == SIZES[0]
    map.set_policy(other, [0] * 13)
    assert map.policy(other).least == had


def test_a_device_that_goes_meanwhile(
    map: gpumap.Map, times: Times, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = map.policy(1 - times.host)._replace(generation=77)
    monkeypatch.setattr(gpumap.Map, "policy", lambda *unused: earlier)
    with pytest.raises(Failed, match="^set row .* another device: measure "):
        calibrate.calibrate(map, None, 1)


def test_a_job_that_fails(
    map: gpumap.Map, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*unused: object) -> int:
        raise of_status(-OWNERDEAD, "")

    monkeypatch.setattr(calibrate, "time_once", fails)
    with pytest.raises(Failed, match="^measure row [01]: "):
        calibrate.calibrate(map, None, 1)


@pytest.mark.parametrize(
    ("done", "error"),
    [([], gpumap.Timeout), ([(1, 0, -OWNERDEAD)], gpumap.Forked)],
)
def test_a_job_without_success_has_no_time(
    done: list[tuple[int, int, int]], error: type[gpumap.Error]
) -> None:
    class Session:
        def _submit(self, row: int, jobs: list[Any]) -> int:
            return 0

        def _wait(self, most: int, timeout: float) -> list[Any]:
            return done

    with pytest.raises(error):
        calibrate.time_once(cast(gpumap.Session, Session()), 0, {})


# ---- rows --------------------------------------------------------------------


CARD = DeviceFlags.SERVES | DeviceFlags.CARD
HOST = DeviceFlags.SERVES | DeviceFlags.MAPPED


def device(row: int, flags: DeviceFlags, units: int, **other: Any) -> Device:
    facts: dict[str, Any] = dict.fromkeys(Device._fields, 0) | {
        "row": row,
        "flags": flags,
        "units": units,
        "state": DeviceState.READY,
    }
    return Device(**facts | other)


def test_the_host_row_with_the_fewest_cpus_is_chosen() -> None:
    rows = [
        device(0, CARD, 2),
        device(1, HOST, 8),
        device(2, HOST, 4),
        device(3, HOST, 4),
        device(4, DeviceFlags(0), 1),
        device(5, HOST, 1, state=DeviceState.RESTARTING),
        device(6, HOST | DeviceFlags.CORDONED, 1),
    ]
    assert calibrate.choose(rows) == ([0, 1, 2, 3], 2)
    with pytest.raises(Failed, match="no host row is READY"):
        calibrate.choose(rows[:1] + rows[4:])


# ---- the command -------------------------------------------------------------


def test_rows_are_measured_and_shown(agent: Agent, map: gpumap.Map) -> None:
    """Which is the faster depends on the machine; what is possible does not."""
    host = calibrate.choose(map.devices)[1]
    got = agent.run("calibrate", "--rounds", "1", "--json")
    assert (got.returncode, got.stderr) == (Exit.OK, "")
    assert got.stdout == agent.run("policy", "--json").stdout
    told = json.loads(got.stdout)["policies"]
    assert [one["row"] for one in told] == [0, 1]
    assert told[host]["calibrated_ns"] is None
    assert told[1 - host]["calibrated_ns"] > 0
    for work in WINS:
        name = work.name.lower()
        assert told[1 - host]["least"][name] in (*SIZES, BEYOND)
        assert told[host]["least"][name] == DEFAULT
    row = str(1 - host)
    got = agent.run("calibrate", "--rounds=1", f"--rows={row}")
    assert got.stdout == agent.run("policy", "--rows", row).stdout
    assert f"\n  {row}  yes " in got.stdout
    agent.run("policy", "--reset")


def test_what_cannot_be_measured(agent: Agent, map: gpumap.Map) -> None:
    host = calibrate.choose(map.devices)[1]
    alone = f"no other row to compare with row {host}, the host row with the"
    agent.run("cordon", str(1 - host))
    for words, status, text in [
        ([], Exit.FAILED, alone),
        ([f"--rows={host}"], Exit.FAILED, alone),
        (["--rows=77"], Exit.FAILED, "there is no row 77"),
        (["--rounds=0"], Exit.USAGE, "less than one"),
        (["--reset"], Exit.USAGE, "see gpumapctl calibrate --help"),
    ]:
        got = agent.run("calibrate", *words)
        assert (got.returncode, got.stdout) == (status, "")
        assert text in got.stderr
    agent.run("uncordon", str(1 - host))
    assert map.policy(1 - host).calibrated_ns == 0


@pytest.mark.skipif(
    not all((BUILD / path).exists() for path in DRIVER),
    reason="the stand-in for a driver was not built",
)
def test_cards_are_measured() -> None:
    with agent_of_cards("mixed.yaml") as agent:
        got = agent.run("calibrate", "--rounds", "1", "--json")
        told = json.loads(got.stdout)["policies"]
        # The host row behind the cards is not.
        assert [one["calibrated_ns"] is None for one in told] == [
            False,
            False,
            False,
            False,
            True,
        ]
        got = agent.run("calibrate", "--rounds", "1", "--rows", "1")
        assert "\n  1  yes " in got.stdout
