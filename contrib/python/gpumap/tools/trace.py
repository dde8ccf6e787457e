# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""gpumapctl trace: record jobs in the JSON form of Chrome's traces.

Perfetto and chrome://tracing open it.  A row is a process there, a session a
thread of it.  Viewers want the slices of a thread to be apart or one within the
other, so jobs of a session that overlap otherwise go to further threads, its
lanes.  A job's slice is from when its device began until it ended.
"""

from __future__ import annotations

import json
import signal
import time
from typing import TextIO

from .. import DType, Error, Gone, Map, Op, SessionInfo, Trace
from ..facts import TraceJob
from . import command, text
from .command import Exit, Failed
from .processes import Processes, user

AT_ONCE = 4096  # records
ROOM = 16384  # records of a row, see gpumap/trace.h
LANES = 64  # more of a session overlap in its last lane
OPS: dict[int, str] = {op: op.name.lower() for op in Op}
DTYPES: dict[int, str] = {dtype: dtype.name for dtype in DType}


class Lanes:
    """The threads of a session's jobs on a row."""

    def __init__(self, first: int, uid: int) -> None:
        self.first = first  # thread
        self.uid = uid
        self.ends: list[int] = []  # of the last job of each

    def thread_of(self, job: TraceJob) -> int:
        """The first in which the job begins after the last one's end."""
        for lane, end in enumerate(self.ends):
            if end <= job.started_ns or lane == LANES - 1:
                self.ends[lane] = job.ended_ns
                return self.first + lane
        self.ends.append(job.ended_ns)
        return self.first + len(self.ends) - 1


class Document:
    """The file that is written."""

    def __init__(self, to: TextIO, since_ns: int) -> None:
        self.to = to
        self.since_ns = since_ns
        self.jobs = 0
        self.lanes: dict[tuple[int, int], Lanes] = {}  # by row and session
        self.separator = "\n"
        to.write('{"displayTimeUnit":"ns","traceEvents":[')

    def event(self, text: str) -> None:
        """Write an event."""
        self.to.write(self.separator + text)
        self.separator = ",\n"

    def job(self, job: TraceJob) -> None:
        """Write a job; one that had begun before begins with the recording."""
        key = job.row, job.session
        lanes = self.lanes.get(key)
        if lanes is None:
            lanes = Lanes(1 + len(self.lanes) * LANES, job.uid)
            self.lanes[key] = lanes
        begun = max(job.started_ns, self.since_ns)
        ts, dur = begun - self.since_ns, max(job.ended_ns - begun, 0)
        dtype = DTYPES.get(job.dtype, "unknown")
        self.event(
            f'{{"ph":"X","cat":"job","name":"{OPS.get(job.op, "?")}",'
            f'"pid":{job.row + 1},'
            f'"tid":{lanes.thread_of(job)},'
            f'"ts":{ts // 1000}.{ts % 1000:03},'
            f'"dur":{dur // 1000}.{dur % 1000:03},'
            f'"args":{{"elements":{job.n},"dtype":"{dtype}",'
            f'"status":{job.status},'
            f'"wait_ns":{max(job.started_ns - job.read_ns, 0)}}}}}'
        )
        self.jobs += 1

    def name(self, what: str, row: int, thread: int, name: str) -> None:
        """Name a row or a thread."""
        quoted = json.dumps(text.printable(name))
        self.event(
            f'{{"ph":"M","name":"{what}","pid":{row + 1},"tid":{thread},'
            f'"args":{{"name":{quoted}}}}}'
        )

    def end(self, lost: int) -> None:
        """Write the end."""
        self.to.write(
            f'\n],"otherData":{{"jobs":"{self.jobs}","lost":"{lost}"}}}}\n'
        )


class Until:
    """Until a time is up or a signal comes."""

    def __init__(self, seconds: float) -> None:
        self._time = time.monotonic() + seconds
        for number in signal.SIGINT, signal.SIGTERM:
            signal.signal(number, self._stop)

    def _stop(self, *unused: object) -> None:
        self._time = 0.0

    def over(self) -> bool:
        """Has it come?"""
        return time.monotonic() >= self._time


def record(trace: Trace, document: Document, until: Until, room: int) -> None:
    """Write what comes, and then what the rows have recorded until then.

    room   records of these at most
    """
    over = False
    while not over or room > 0:
        over = over or until.over()
        try:
            jobs = trace.read(AT_ONCE)
        except Gone:
            return
        for job in jobs:
            document.job(job)
        if over:
            room = room - AT_ONCE if len(jobs) == AT_ONCE else 0
        elif not jobs:
            time.sleep(0.001)


def name_all(
    document: Document, map: Map, sessions: dict[int, SessionInfo]
) -> None:
    """Name the rows and the sessions whose jobs were written."""
    processes = Processes(map)
    named = set()
    for (row, id), lanes in sorted(document.lanes.items()):
        if row not in named:
            name = f"row {row}: {map.devices[row].name}"
            document.name("process_name", row, 0, name)
            named.add(row)
        name = f"session {id} of {user(lanes.uid)}"
        if id in sessions:
            pid = sessions[id].pid
            run = processes.command(pid, lanes.uid) or "-"
            name = f"session {id}: {run}, process {pid} of {user(lanes.uid)}"
        for lane in range(len(lanes.ends)):
            more = f" ({lane + 1})" if lane else ""
            thread = lanes.first + lane
            document.name("thread_name", row, thread, name + more)


def sessions_of(map: Map) -> dict[int, SessionInfo]:
    """The sessions by id; none where the agent does not tell them."""
    try:
        return {one.id: one for one in map.who()}
    except Error:
        return {}


def write(
    map: Map, trace: Trace, to: TextIO, until: Until, n_rows: int
) -> int:
    """Record into a file; return how many jobs are in it."""
    sessions = sessions_of(map)
    document = Document(to, time.monotonic_ns())
    record(trace, document, until, ROOM * n_rows)
    sessions |= sessions_of(map)
    name_all(document, map, sessions)
    document.end(trace.lost)
    return document.jobs


def report(path: str, jobs: int, lost: int) -> None:
    """Say to the user what is in the file."""
    command.tell(f"{jobs} jobs in {path}; ui.perfetto.dev opens it")
    if lost:
        command.tell(
            f"{lost} more were lost: they came faster than they were written;"
            " record fewer rows"
        )


def main(words: list[str]) -> int:
    """Record the jobs of rows into a file."""
    parser = command.Parser(
        "trace", "Record jobs for some seconds, as a file for Perfetto."
    )
    parser.add_argument("file", metavar="FILE")
    parser.add_rows("to record; all by default")
    parser.add_argument(
        "--timeout",
        type=command.seconds,
        default=5,
        metavar="S",
        help="how long; 5 by default",
    )
    options = parser.parse_args(words)
    path = options.file
    with command.open_map(options) as map:
        rows = command.rows_of(options, map)
        # A file of that name stays as it is where there is nothing to record.
        with map.trace(rows) as trace:
            until = Until(options.timeout)
            n_rows = len(rows or map.devices)
            try:
                with open(path, "w", encoding="utf-8") as to:
                    jobs = write(map, trace, to, until, n_rows)
            except Error:
                raise
            except OSError as error:
                raise Failed(f"{path}: {error.strerror}") from None
        if options.json:
            got = {"file": path, "jobs": jobs, "lost": trace.lost}
            print(command.to_json(got))
        else:
            report(path, jobs, trace.lost)
        command.warn_of_age(map)
    return Exit.OK
