# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""gpumapctl cluster: the nodes that gpumap-sync knows of, and their memory.

    cluster_lists   nodes, devices and models as tables, pictures and JSON
    cluster_run     reserve a plan on all its nodes, and become a command
    cluster_hold    the process that holds the reservation meanwhile

The command plan becomes gpumapctl plan --nodes.
"""

from __future__ import annotations

import argparse

from .. import NotFound
from . import command
from .command import Exit, Failed

COMMANDS = ("nodes", "devices", "models", "topo", "plan", "run", "leave")


def leave(words: list[str]) -> int:
    """Have the agent forget the cluster."""
    parser = command.Parser(
        "cluster leave", "Forget the cluster, after gpumap-sync was stopped."
    )
    with command.open_map(parser.parse_args(words)) as map:
        try:
            told = map.cluster()
        except NotFound:
            raise Failed("cluster: this node is in none") from None
        if not told.stale:
            raise Failed(
                "gpumap-sync tells of the cluster, and would again: stop it"
                " first"
            )
        map.publish_cluster(
            told.name, told.node, limit_ns=told.limit_ns, begin=True
        )
        command.warn_of_age(map)
    return Exit.OK


def main(words: list[str]) -> int:
    """Run one of the commands."""
    parser = command.Parser(
        "cluster", "Show the nodes of the cluster, and use several of them."
    )
    parser.add_argument(
        "command",
        type=command.one_of(COMMANDS),
        metavar="|".join(COMMANDS),
        help="each tells its own options with --help",
    )
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="...",
        help="its options and operands",
    )
    options = parser.parse_args(words)
    at = len(words) - len(options.words) - 1
    before, behind = words[:at], words[at + 1 :]
    if options.command == "plan":
        # A --nodes of the words goes before.
        command.become(
            ["gpumapctl", *before, "plan", "--nodes", "any", *behind]
        )
    if options.command == "leave":
        return leave(before + behind)
    if options.command == "run":
        from . import cluster_run

        return cluster_run.main(before + behind)
    from . import cluster_lists

    return cluster_lists.main(options.command, before + behind)
