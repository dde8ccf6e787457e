# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""gpumapctl doctor: say what is wrong with a node, and what helps.

Without an agent, or without the package's C half, the checks of the machine are
made all the same.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from . import command, doctor_bundle, text
from .command import Exit, Failed
from .doctor_agent import Agent
from .doctor_cards import Cards
from .doctor_machine import Container, Kernel, Memory, Time
from .doctor_node import Finding, Node, fail
from .doctor_rows import Cluster, Rows

SUBJECTS = (Kernel, Memory, Time, Container, Agent, Rows, Cards, Cluster)


def agent_of(pid: int) -> int:
    """The pid, if it is that of an agent in this pid namespace; else 0."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace")
    except OSError:
        return 0
    return pid if "gpumapd" in name else 0


def read_map(node: Node, options: argparse.Namespace) -> None:
    """Add what the map says, or why there is none."""
    try:
        node.map = map = command.open_map(options)
    except ImportError as error:
        node.no_map = fail(
            f"no map can be read: the Python package gpumap is broken: {error}",
            "install gpumap anew, with libgpumap of the same release (Debian,"
            " Fedora: python3-gpumap)",
        )
        return
    except Failed as failed:
        node.no_map = fail(
            str(failed),
            "systemctl start gpumapd, or gpumapd; --instance and --runtime-dir"
            " name another",
        )
        return
    node.health = map.health()
    if not node.health.stale:
        node.agent = agent_of(node.health.agent_pid)
    for row in range(len(map.devices)):
        try:
            node.rows.append(map.devices[row])
        except (OSError, ValueError):  # ValueError: of a newer agent
            continue
    try:
        node.cluster = map.cluster()
    except (OSError, ValueError):
        pass


def look(node: Node) -> Iterator[tuple[str, Finding]]:
    """Make all checks."""
    for subject in SUBJECTS:
        yield from subject(node)


def main(words: list[str]) -> int:
    """Print what each check finds."""
    parser = command.Parser(
        "doctor", "Say what is wrong with this node, and what helps."
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="show faults only"
    )
    parser.add_argument(
        "--bundle", metavar="FILE", help="a .tar.gz to give to others"
    )
    parser.add_argument(
        "--root", default="", metavar="DIR", help="where the files are"
    )
    options = parser.parse_args(words)
    node = Node(options.root, options.instance, options.runtime_dir)
    read_map(node, options)
    checks = []
    count: Counter[str] = Counter()
    for id, found in look(node):
        count[found.state] += 1
        checks.append({"id": id, **found._asdict()})
        if options.json or (options.quiet and not found.remedy):
            continue
        print(f"{found.state}  {id:24}  {text.printable(found.text)}")
        if found.remedy:
            print(f"{'':32}remedy: {text.printable(found.remedy)}")
    if options.bundle:
        doctor_bundle.write(options.bundle, node, checks)
    if options.json:
        print(command.to_json({"checks": checks}))
    elif not options.quiet:
        print(
            f"{count['PASS']} passed, {count['WARN']} warnings,"
            f" {count['FAIL']} failed, {count['SKIP']} skipped;"
            " -q shows warnings and failures only"
        )
    return Exit.FAILED if count["FAIL"] else Exit.OK
