# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""gpumapctl cluster run: reserve a plan on all its nodes or none, and become a
command.

gpumapctl plan --nodes makes the plan, and says what the command is told.  On a
node of the plan the command starts as gpumapctl run --map starts it.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NoReturn

from .. import NotRunning
from . import command
from .cluster_hold import Hold, reason
from .command import Exit, Failed

# The options that gpumapctl plan --nodes takes.
PLACING = {
    "model": ("DIR", "the model, a directory or a GGUF file"),
    "layers": ("N", "a model of so many equal layers"),
    "bytes": ("SIZE", "of which together the weights have so much"),
    "nodes": ("N|any", "take so many nodes"),
    "share": ("MODEL", "prefer nodes that have a share of this name"),
    "fingerprint": ("HEX", "prefer nodes that have a share with this one"),
    "only": ("NODES", "plan on these nodes alone"),
    "devices-per-node": ("N", "take so many devices of each node"),
    "tp": ("N", "divide each layer among so many devices"),
    "pp": ("N", "divide the layers into so many stages"),
    "dtype": ("DTYPE", "of activations and KV cache"),
    "isq": ("TYPE", "what the weights are quantised to"),
    "max-seq-len": ("N", "tokens of a sequence"),
    "max-batch": ("N", "sequences of a batch"),
    "kv-elements": ("N", "of a token, where the model does not say"),
    "for": ("LAUNCHER", "torchrun, mpirun, vllm, sglang, llama.cpp or env"),
    "port": ("PORT", "at which the first node is met"),
}

# Could it be otherwise at another time?
MAY_PASS = (
    errno.ENOSPC,
    errno.ENODEV,
    errno.EHOSTUNREACH,
    errno.ETIMEDOUT,
    errno.ENOLINK,
)

Plan = dict[str, Any]  # as the page has it


class NotNow(Exception):
    """There is no room, or a node is away."""

    def __init__(self, why: str, status: Exit = Exit.NOT_NOW) -> None:
        super().__init__(why)
        self.status = status


# ---- the command line --------------------------------------------------------


def parse(words: list[str]) -> argparse.Namespace:
    """The options, and the command."""
    parser = command.Parser(
        "cluster run", "Reserve a plan on all its nodes, and become COMMAND."
    )
    # Words of the command are not to be taken for beginnings of options.
    parser.allow_abbrev = False
    for name, (value, help) in PLACING.items():
        parser.add_argument(f"--{name}", metavar=value, help=help)
    for name, value, help in (
        ("name", "NAME", "of the layer map that each node has of the plan"),
        ("cache-dir", "DIR", "as of gpumapctl run"),
        ("sync", "SOCKET", "of gpumap-sync"),
    ):
        parser.add_argument(f"--{name}", metavar=value, help=help)
    parser.add_argument(
        "--wait",
        type=command.seconds,
        default=0,
        metavar="S",
        help="plan and ask again for so many seconds at most",
    )
    for name, help in (
        ("stop-when-lost", "send SIGTERM when the reservation is lost"),
        ("no-bind", "leave CPUs and memory policy as they are"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=help)
    parser.add_argument("file", metavar="COMMAND", help="what to become")
    parser.add_argument(
        "operands", nargs=argparse.REMAINDER, metavar="...", help="its words"
    )
    options = parser.parse_args(words)
    if options.json:
        parser.error("--json is for cluster plan")
    if options.name is None:
        options.name = make_name(options.file)
    elif not 1 <= len(os.fsencode(options.name)) <= 63:
        parser.error("--name has 1 to 63 bytes")
    return options


def make_name(file: str) -> str:
    """ "run.COMMAND.1a2b3c4d", which no other run has."""
    name = f"run.{os.path.basename(file)[:50]}.{os.urandom(4).hex()}"
    return re.sub(r"[^A-Za-z0-9_+.-]", "_", name)


def find_command(file: str) -> None:
    """Look the command up in PATH before anything is reserved."""
    folders = [""] if "/" in file else os.get_exec_path()
    paths = [os.path.join(folder, file) for folder in folders]
    files = filter(os.path.isfile, paths)
    if any(os.access(path, os.X_OK) for path in files):
        return
    is_there = any(map(os.path.exists, paths))
    raise no_command(file, errno.EACCES if is_there else errno.ENOENT)


def no_command(file: str, error: int) -> Failed:
    """The end of a run whose command cannot be executed."""
    if error in (errno.ENOENT, errno.ENOTDIR):
        return Failed(f"run: {file}: there is no such command", Exit.NOT_FOUND)
    return Failed(f"run: {file}: {os.strerror(error)}", Exit.NOT_EXECUTABLE)


# ---- the plan, and its reservation -------------------------------------------


def make_plan(options: argparse.Namespace, quiet: bool) -> Plan:
    """Ask gpumapctl for the plan; quiet: a refusal was said already."""
    chosen = vars(options)
    given = {name: chosen[name.replace("-", "_")] for name in PLACING}
    given = {"nodes": "any", "for": "env", "name": options.name} | {
        name: text for name, text in given.items() if text is not None
    }
    words = [f"--{name}={text}" for name, text in given.items()]
    got = subprocess.run(
        [*command.own_words(options), "plan", "--json", *words],
        executable=command.gpumapctl(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if quiet else None,
    )
    plan: Plan = json.loads(got.stdout) if got.stdout else {}
    if got.returncode == Exit.OK:
        return plan
    if got.returncode == Exit.STALE:
        raise NotNow("", Exit.STALE)
    if "errno" in plan:
        raise NotNow("")
    if quiet:
        command.tell(os.fsdecode(got.stderr).rstrip())
    sys.exit(got.returncode if got.returncode > 0 else Exit.FAILED)


def own_node(plan: Plan) -> int | None:
    """The place of this node in the plan, if it has one."""
    places = [node["node_rank"] for node in plan["nodes"] if node["self"]]
    return places[0] if places else None


def has_head(plan: Plan) -> bool:
    """Does a command start the others from a node outside the plan?"""
    return len(plan["commands"]) > len(plan["nodes"])


def check_self(options: argparse.Namespace, plan: Plan) -> None:
    """Refuse a command that a node outside the plan cannot run."""
    engine = getattr(options, "for")
    if engine is None or has_head(plan) or own_node(plan) is not None:
        return
    raise Failed(
        f"cluster run: this node, {plan['node']}, is not in the plan, and"
        f" {engine} runs on nodes that are: run it on"
        f" {plan['nodes'][0]['name']}, or give --only"
    )


def hold(options: argparse.Namespace, plan: Plan) -> str:
    """Reserve the plan for this process.  Returns the folder of its files."""
    members: dict[str, dict[str, int]] = {}
    # The order of the ranks becomes that of CUDA_VISIBLE_DEVICES.
    for rank in plan["ranks"]:
        members.setdefault(rank["node"], {})[rank["uuid"]] = sum(
            rank[f"{part}_bytes"]
            for part in ("weight", "kv", "activation", "reserve")
        )
    try:
        return Hold(
            socket=options.sync,
            name=options.name,
            members=members,
            command=options.file,
            stops=options.stop_when_lost,
        ).start()
    except OSError as error:
        why = f"cluster run: {reason(error)}"
        if error.errno in MAY_PASS:
            raise NotNow(why) from None
        gone = isinstance(error, NotRunning)
        raise Failed(why, Exit.NO_AGENT if gone else Exit.FAILED) from None


def reserve(options: argparse.Namespace) -> tuple[Plan, str]:
    """Plan and reserve, again and again until --wait is over: what is free
    changes, and so do nodes."""
    until = time.monotonic() + options.wait
    quiet = False
    while True:
        try:
            plan = make_plan(options, quiet)
            check_self(options, plan)
            return plan, hold(options, plan)
        except NotNow as refused:
            if str(refused) and not quiet:
                command.tell(f"gpumapctl: {refused}")
            if time.monotonic() >= until:
                if options.wait:
                    command.tell(
                        "gpumapctl: cluster run: there was no room for"
                        f" {options.wait} s"
                    )
                sys.exit(refused.status)
        quiet = True
        time.sleep(1)


# ---- what the command is told ------------------------------------------------

ALIASES = {
    "--tensor-parallel-size": ("-tp", "--tp-size", "--tp"),
    "--pipeline-parallel-size": ("-pp", "--pp-size", "--pp"),
}


def variable(prefix: str, option: str) -> str:
    """ "PET_NNODES" of "--nnodes"."""
    return prefix + option.removeprefix("--").replace("-", "_").upper()


def pairs(words: list[str]) -> Iterator[tuple[str, str | None]]:
    """Options with their values."""
    for i, word in enumerate(words):
        if word.startswith("--"):
            value = words[i + 1] if i + 1 < len(words) else "--"
            yield word, None if value.startswith("--") else value


def find_option(words: list[str], option: str) -> str | None:
    """The word that is the option already; engines of Python take "_" for "-".
    """
    names = (option, *ALIASES.get(option, ()))
    for word in words:
        if word.partition("=")[0].replace("_", "-") in names:
            return word
    return None


class Told:
    """The words and the variables of the command."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.engine = getattr(options, "for")
        self.words = [options.file, *options.operands]
        self.variables: dict[str, str] = {}

    def take(self, words: Plan) -> None:
        """Take what the plan says of a node, as the engine reads it."""
        self.variables |= words["env"]
        argv: list[str] = words["argv"]
        if self.engine == "mpirun" and argv:
            given = self.words
            self.words = []
            for word in argv:
                self.words += given if word == "$@" else [word]
        elif self.engine == "torchrun":
            for word in argv:
                option, _, value = word.partition("=")
                if option.startswith("--"):
                    self.variables[variable("PET_", option)] = value
        elif self.engine == "llama.cpp":
            for option, text in pairs(argv):
                self.variables[variable("LLAMA_ARG_", option)] = text or ""
        elif self.engine in ("vllm", "sglang"):
            self.append(argv[argv.index("$@") + 1 :])

    def append(self, words: list[str]) -> None:
        """Append options, but for those that the command has."""
        given = self.words[1:]
        for option, value in pairs(words):
            added = [option] if value is None else [option, value]
            if word := find_option(given, option):
                command.tell(
                    f"gpumapctl: run: {word} stays as the command has it;"
                    f" without it, it would be {' '.join(added)}"
                )
            else:
                self.words += added


def tell_all(options: argparse.Namespace, plan: Plan, folder: str) -> Told:
    """Tell the command of the plan, and write its files."""
    told = Told(options)
    told.variables |= {
        "GPUMAP_RANKS": f"{folder}/ranks.json",
        "GPUMAP_HOSTS": f"{folder}/hosts",
    }
    place = own_node(plan)
    if place is not None:
        told.take(plan["commands"][place])
    else:
        # A command on a node outside the plan has no device.
        told.variables |= {
            "CUDA_VISIBLE_DEVICES": "-1",
            "GPUMAP_INSTANCE": options.instance,
            "GPUMAP_RUNTIME_DIR": options.runtime_dir,
            "GPUMAP_CLUSTER": plan["cluster"],
            "GPUMAP_MAP": options.name,
            "GPUMAP_NODES": str(len(plan["nodes"])),
            "GPUMAP_WORLD_SIZE": str(len(plan["ranks"])),
        }
    for words in plan["commands"][len(plan["nodes"]) :]:
        told.take(words)
    try:
        with open(f"{folder}/ranks.json", "w", encoding="utf-8") as file:
            json.dump(plan, file, indent=2)
        with open(f"{folder}/hosts", "w", encoding="utf-8") as file:
            for node in plan["nodes"]:
                file.write(f"{node['address']} slots={node['ranks']}\n")
    except OSError as error:
        raise Failed(
            f"cluster run: cannot write to {folder}: {error.strerror}"
        ) from None
    return told


# ---- the command -------------------------------------------------------------


def is_pending() -> bool:
    """Does a SIGCHLD wait?"""
    return signal.SIGCHLD in signal.sigpending()


class Children:
    """SIGCHLD as the caller had it: children of ours are waited for, also where
    the caller ignores them.
    """

    def __init__(self) -> None:
        self.was_pending = is_pending()
        self.handler = signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def become(
    options: argparse.Namespace, told: Told, here: bool, children: Children
) -> NoReturn:
    """Become the command; here: this node is in the plan."""
    environment = dict(os.environ)
    environment.pop("GPUMAP_CTL_PATH", None)
    if command.is_coerced():
        environment.pop("LC_CTYPE")
    environment |= told.variables
    words = told.words
    path = words[0]
    if here:
        path = command.gpumapctl()
        words = [*command.own_words(options), "run"]
        words.append(f"--map={options.name}")
        words += ["--no-bind"] * options.no_bind
        if options.cache_dir is not None:
            words.append(f"--cache-dir={options.cache_dir}")
        words += ["--", *told.words]
    # The command gets no SIGCHLD that is not its own.
    if not children.was_pending and is_pending():
        signal.sigtimedwait({signal.SIGCHLD}, 0)
    signal.signal(signal.SIGCHLD, children.handler)
    # Python ignores them.
    for one in signal.SIGPIPE, signal.SIGXFSZ:
        signal.signal(one, signal.SIG_DFL)
    try:
        os.execvpe(path, words, environment)
    except OSError as error:
        raise no_command(path, error.errno or 0) from None


def main(words: list[str]) -> int:
    """Reserve, and become the command."""
    options = parse(words)
    find_command(options.file)
    children = Children()
    plan, folder = reserve(options)
    told = tell_all(options, plan, folder)
    become(options, told, own_node(plan) is not None, children)
