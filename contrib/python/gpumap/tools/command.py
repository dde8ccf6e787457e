# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""How each command reads its options, attaches to the map, prints and ends."""

from __future__ import annotations

import argparse
import enum
import errno
import io
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from . import text

# doctor runs without the package's C half: what needs it imports it when it is
# called.
if TYPE_CHECKING:
    from .. import Map

ROWS_MAX = 256

sysconfdir = "/etc"  # as gpumapctl-NAME, which sets it, was built


class Exit(enum.IntEnum):
    """The exit statuses of gpumapctl(1)."""

    OK = 0
    FAILED = 1  # refused, or failed
    USAGE = 2  # the command line is wrong
    NO_AGENT = 3  # no map is published, or no agent answers
    UNWELL = 4  # the map is not READY, or stale
    STALE = 5  # other nodes may have changed


class Failed(Exception):
    """Ends the command with a message and an exit status."""

    def __init__(self, message: str, status: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.status = status


class Options(argparse.ArgumentParser):
    """The options of a program, with those that every program has.

    program   its name, in messages
    command   its name and that of its command
    """

    def __init__(self, program: str, command: str, summary: str) -> None:
        super().__init__(prog=command, description=summary)
        self.program = program
        self.add_argument(
            "--instance", default="node", metavar="NAME", help="of the agent"
        )
        self.add_argument(
            "--runtime-dir",
            default="/run/gpumap",
            metavar="DIR",
            help="of the agent's control socket",
        )
        self.add_argument(
            "--version", action=Version, nargs=0, help="print it, and end"
        )

    def error(self, message: str) -> NoReturn:
        """End with a message that names the remedy."""
        print(
            f"{self.program}: {message}; see {self.prog} --help",
            file=sys.stderr,
        )
        sys.exit(Exit.USAGE)


class Parser(Options):
    """The options of gpumapctl NAME."""

    def __init__(self, name: str, summary: str) -> None:
        super().__init__("gpumapctl", f"gpumapctl {name}", summary)
        self.add_argument("--json", action="store_true", help="print JSON")
        # For commands that load: these show none.
        self.add_argument(
            "--progress", action="store_true", help=argparse.SUPPRESS
        )

    def add_rows(self, help: str) -> None:
        """Add --rows, which rows_of() reads."""
        self.add_argument("--rows", type=row_list, metavar="LIST", help=help)


class Version(argparse.Action):
    """Prints the version."""

    def __call__(
        self, parser: argparse.ArgumentParser, *unused: object
    ) -> NoReturn:
        assert isinstance(parser, Options)
        from .. import version

        print(f"{parser.program} {text.release(version())}")
        parser.exit()


def row_list(words: str) -> list[int]:
    """The rows of "0,2-4"."""
    rows: list[int] = []
    for word in words.split(","):
        first, dash, last = word.partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash)):
            break
        numbers = range(int(first), int(last or first) + 1)
        if len(numbers) > ROWS_MAX:
            break
        rows += numbers
    else:
        if rows and len(set(rows)) == len(rows) <= ROWS_MAX:
            return rows
    raise argparse.ArgumentTypeError(
        f'"{words}" is no list of rows: give each once, such as 0,2 or 0-3'
    )


def rows_of(options: argparse.Namespace, map: Map) -> list[int] | None:
    """The rows that --rows names, if it was given."""
    rows: list[int] | None = options.rows
    for row in rows or []:
        if row >= len(map.devices):
            raise Failed(
                f"there is no row {row}: gpumapctl devices lists them"
            )
    return rows


def count(word: str) -> int:
    """A whole number, from 1."""
    if not word.isdecimal() or int(word) >= 1 << 64:
        raise argparse.ArgumentTypeError(f'"{word}" is not a number that fits')
    if int(word) == 0:
        raise argparse.ArgumentTypeError(f'"{word}" is less than one')
    return int(word)


def seconds(word: str) -> float:
    """A time, "0.5"."""
    try:
        value = float(word)
        if 0 <= value < 1e9:
            return value
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f'"{word}" is no number of seconds')


def open_map(options: argparse.Namespace) -> Map:
    """Attach to the agent that the options name."""
    from .. import Error, attach

    try:
        return attach(options.instance, options.runtime_dir)
    except Error as error:
        status = {errno.ENOENT: Exit.NO_AGENT, errno.EINVAL: Exit.USAGE}
        raise Failed(
            error.refusal or str(error.strerror),
            status.get(error.errno or 0, Exit.FAILED),
        ) from None


def warn_of_age(node: Map) -> None:
    """Say so where the map's agent has not been seen for two seconds."""
    health = node.health()
    if health.stale:
        print(
            "gpumapctl: the agent has not been seen for"
            f" {health.age_ns / 1e9:.1f} s: this is what it said last; is"
            " gpumapd running?",
            file=sys.stderr,
        )


def to_json(value: Any, spaced: bool = False) -> str:
    """One line of JSON."""
    separators = (", ", ": ") if spaced else (",", ":")
    return json.dumps(value, ensure_ascii=False, separators=separators)


def run(
    main: Callable[[list[str]], int], program: str = "gpumapctl"
) -> NoReturn:
    """Run a command with the words behind its name, and end the process."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Names are bytes; most are UTF-8.
    for stream in sys.stdout, sys.stderr:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        status = main(sys.argv[1:])
    except Failed as failed:
        print(f"{program}: {failed}", file=sys.stderr)
        status = failed.status
    except OSError as error:
        if not hasattr(error, "refusal"):  # it is none of the package's
            raise
        print(
            f"{program}: {error.refusal or error.strerror}", file=sys.stderr
        )
        gone = error.errno in (errno.ECONNREFUSED, errno.ECONNRESET)
        status = Exit.NO_AGENT if gone else Exit.FAILED
    try:
        sys.stdout.flush()
    except OSError as error:
        print(f"{program}: cannot write: {error.strerror}", file=sys.stderr)
        status = status or Exit.FAILED
    sys.stderr.flush()
    os._exit(status)
