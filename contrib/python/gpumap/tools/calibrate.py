# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""gpumapctl calibrate: measure from which size of work each row is worth it.

Jobs are timed on rows beside the same jobs on a host row.  A job's operands are
in the arena, so a card's time includes what it takes to get them there and
back, and the time of every row the way to its worker and back.  gpumapctl
policy shows the thresholds.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import (
    Device,
    DeviceFlags,
    DeviceState,
    Error,
    Gone,
    Job,
    Map,
    NotRunning,
    Op,
    Session,
    Unsupported,
    Work,
)
from ..errors import of_status
from . import command
from .command import Exit, Failed

SIZES = (4096, 16384, 65536, 262144, 1048576)  # elements
BYTES = 4 * SIZES[-1]  # of the largest
# An allocation of the arena may begin at a multiple of 2 MiB.
ARENA = 4 * BYTES + (2 << 20)
ROUNDS = 9
LIMIT_S = 60.0  # of a job
WIN = 0.95  # of the host row's time
NEVER = 2**64 - 1  # the time of what a device cannot do
# The operation that is timed for a kind of work.
TIMED = {
    Work.FILL: Op.FILL,
    Work.COPY: Op.COPY,
    Work.SCALE: Op.SCALE,
    Work.AXPY: Op.AXPY,
    Work.CAST: Op.CAST,
    Work.REDUCE: Op.SUM,
    Work.MASK: Op.MASK_ADD,
}


def threshold(host_ns: Sequence[int], device_ns: Sequence[int]) -> int:
    """The first of SIZES for which the device wins; none: twice the last.

    The rule is the gam runtime's.
    """
    for size, host, device in zip(SIZES, host_ns, device_ns):
        if device <= WIN * host:
            return size
    return 2 * SIZES[-1]


def time_once(session: Session, row: int, job: dict[str, Any]) -> int:
    """The nanoseconds of one job; Session.run() takes longer by itself."""
    since = time.monotonic_ns()
    session._submit(row, [job])
    done = session._wait(1, LIMIT_S)
    ns = time.monotonic_ns() - since
    status = done[0][2] if done else -errno.ETIME
    if status < 0:
        raise of_status(status, "")
    return ns


def time_best(session: Session, row: int, job: Job, rounds: int) -> int:
    """The least nanoseconds of a job."""
    fields = job._fields()
    try:
        return min(time_once(session, row, fields) for _ in range(rounds))
    except Unsupported:
        return NEVER


def time_row(
    session: Session, row: int, rounds: int
) -> dict[Work, list[int]]:
    """The nanoseconds of each kind of work, by SIZES."""
    with failing(f"measure row {row}"):
        dst, src, mask = (session.memory(row, BYTES) for _ in range(3))
        job = Job("nop", 0, "f32", dst, mask=mask, alpha=0.5, to="f16")
        ns: dict[Work, list[int]] = {work: [] for work in TIMED}
        for work, job.op in TIMED.items():
            job.src = None if work == Work.FILL else src
            for n in SIZES:
                job.n = job.mask_n = n
                ns[work].append(time_best(session, row, job, rounds))
        return ns


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Say what failed where the library says why."""
    try:
        yield
    except Error as error:
        gone = isinstance(error, (Gone, NotRunning))
        raise Failed(
            f"{what}: {error.refusal or error.strerror}",
            Exit.NO_AGENT if gone else Exit.FAILED,
        ) from None


def choose(devices: Iterable[Device]) -> tuple[list[int], int]:
    """The rows to measure, and the host row with the fewest CPUs."""
    serving = [
        device
        for device in devices
        if device.state == DeviceState.READY
        and DeviceFlags.SERVES in device.flags
        and not device.flags & DeviceFlags.CORDONED
    ]
    hosts = [one for one in serving if one.is_host]
    if not hosts:
        raise Failed("no host row is READY to compare others with")
    host = min(hosts, key=lambda one: one.units)
    return [one.row for one in serving], host.row


def calibrate(map: Map, rows: list[int] | None, rounds: int) -> None:
    """Set the thresholds of these rows, or of all that serve."""
    serving, host = choose(map.devices)
    others = [row for row in rows or serving if row != host]
    if not others:
        raise Failed(
            f"there is no other row to compare with row {host}, the host row"
            " with the fewest CPUs"
        )
    with failing("open a session"):
        session = map.session(arena=ARENA)
    with session:
        host_ns = time_row(session, host, rounds)
        for row in others:
            policy = map.policy(row)
            ns = time_row(session, row, rounds)
            # Those of work that is not measured here stay.
            least = list(policy.least)
            for work in TIMED:
                least[work] = threshold(host_ns[work], ns[work])
            with failing(f"set row {row}"):
                map.set_policy(row, least, policy.generation)


def main(words: list[str]) -> int:
    """Measure, and become gpumapctl policy."""
    parser = command.Parser(
        "calibrate",
        "Measure from which size of work each device is worth it.",
    )
    parser.add_rows("to measure; by default all that are READY")
    parser.add_argument(
        "--rounds",
        type=command.count,
        default=ROUNDS,
        metavar="N",
        help=f"of each job, whose best time counts; {ROUNDS} by default",
    )
    options = parser.parse_args(words)
    with command.open_map(options) as map:
        rows = command.rows_of(options, map)
        calibrate(map, rows, options.rounds)
    shown = ["policy"] + ["--json"] * options.json
    if rows:
        shown.append("--rows=" + ",".join(str(row) for row in rows))
    command.become([*command.own_words(options), *shown])
