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
import re
import signal
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
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
    NOT_NOW = 75  # there is no room, or a node is away
    NOT_EXECUTABLE = 126
    NOT_FOUND = 127  # the command to run


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
            "--instance",
            type=utf8,
            default="node",
            metavar="NAME",
            help="of the agent",
        )
        self.add_argument(
            "--runtime-dir",
            type=utf8,
            default="/run/gpumap",
            metavar="DIR",
            help="of the agent's control socket",
        )
        self.add_argument(
            "--version", action=Version, nargs=0, help="print it, and end"
        )

    def error(self, message: str) -> NoReturn:
        """End with a message that names the remedy."""
        tell(f"{self.program}: {message}; see {self.prog} --help")
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


def utf8(word: str) -> str:
    """A word that is UTF-8, as names and folders are."""
    try:
        word.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{word!r} is no UTF-8") from None
    return word


def row_list(words: str) -> list[int]:
    """The rows of "0,2-4"."""
    rows: list[int] = []
    for word in words.split(","):
        first, dash, last = word.partition("-")
        is_range = first.isdecimal() and (last.isdecimal() or not dash)
        if not is_range or len(word) > 20:
            break
        least, most = int(first), int(last or first)
        if not least <= most < least + ROWS_MAX:
            break
        rows += range(least, most + 1)
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


def seconds(word: str) -> int:
    """A time, "5"."""
    if word.isascii() and word.isdecimal() and len(word) < 10:
        return int(word)
    raise argparse.ArgumentTypeError(f'"{word}" is no number of seconds')


def size(word: str) -> int:
    """Bytes, "512", "16G"."""
    unit = "KMGT".find(word[-1:].upper()) + 1 if word else 0
    digits = word[:-1] if unit else word
    if digits.isascii() and digits.isdecimal():
        bytes = int(digits) << 10 * unit
        if bytes < 1 << 64:
            return bytes
    raise argparse.ArgumentTypeError(
        f'"{word}" is no size: bytes, or K, M, G or T of them'
    )


def one_of(words: Collection[str]) -> Callable[[str], str]:
    """One of these words."""

    def check(word: str) -> str:
        if word in words:
            return word
        raise argparse.ArgumentTypeError(
            f'"{word}" is none of {", ".join(words)}'
        )

    return check


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


def gpumapctl() -> str:
    """The gpumapctl that runs this program."""
    return os.environ.get("GPUMAP_CTL_PATH", "gpumapctl")


def own_words(options: argparse.Namespace) -> list[str]:
    """The words that begin a call of gpumapctl for the same agent."""
    return [
        "gpumapctl",
        f"--instance={options.instance}",
        f"--runtime-dir={options.runtime_dir}",
    ]


def become(words: list[str]) -> NoReturn:
    """Become gpumapctl with these words."""
    path = gpumapctl()
    try:
        os.execvp(path, words)
    except OSError as error:
        raise Failed(f"cannot run {path}: {error.strerror}") from None


def warn_of_age(node: Map) -> None:
    """Say so where the map's agent has not been seen for two seconds."""
    health = node.health()
    if health.stale:
        tell(
            "gpumapctl: the agent has not been seen for"
            f" {health.age_ns / 1e9:.1f} s: this is what it said last; is"
            " gpumapd running?"
        )


def is_coerced() -> bool:
    """Has Python set LC_CTYPE, to take UTF-8 where the locale is C?"""
    try:
        with open("/proc/self/environ", "rb") as file:
            given = os.fsdecode(file.read()).split("\0")
    except OSError:
        given = []
    set_now = f"LC_CTYPE={os.environ.get('LC_CTYPE')}"
    return "LC_CTYPE" in os.environ and set_now not in given


def tell(message: str) -> None:
    """Say something on standard error, if somebody reads that."""
    with suppress(OSError):
        print(message, file=sys.stderr, flush=True)


def to_json(value: Any) -> str:
    """One line of JSON, in which nothing controls a terminal."""
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub(
        "[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", line
    )


def run(
    main: Callable[[list[str]], int], program: str = "gpumapctl"
) -> NoReturn:
    """Run a command with the words behind its name, and end the process."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Names are bytes; most are UTF-8.
    for stream in sys.stdout, sys.stderr:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        try:
            status = main(sys.argv[1:])
        except SystemExit as end:  # argparse's
            status = end.code if isinstance(end.code, int) else Exit.OK
        sys.stdout.flush()
    except Failed as failed:
        tell(f"{program}: {failed}")
        status = failed.status
    except OSError as error:
        # Those of the package have a refusal; others are of the output.
        if hasattr(error, "refusal"):
            tell(f"{program}: {error.refusal or error.strerror}")
        else:
            tell(f"{program}: cannot write: {error.strerror}")
        gone = error.errno in (errno.ECONNREFUSED, errno.ECONNRESET)
        status = Exit.NO_AGENT if gone else Exit.FAILED
    os._exit(status)
