# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""gpumapctl cluster: what it prints of nodes that these tests publish, and
commands whose memory a stand-in for gpumap-sync reserves."""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gpumap
import pytest
from agent import ENV, Agent, wait_for
from gpumap import ClusterDevice, ClusterFlags, ClusterNode, ClusterShare
from gpumap import ClusterState, DeviceFlags, DeviceKind, DeviceState
from gpumap.tools.command import Exit

GIB = 1 << 30
SECOND = 10**9
HOUR = 3600 * SECOND
Ran = subprocess.CompletedProcess[str]


# ---- the lists ---------------------------------------------------------------


def card(node: str, row: int, gib: int) -> ClusterDevice:
    return ClusterDevice(
        row=row,
        uuid=f"GPU-{ord(node[0]):02x}000000-0000-0000-0000-{row + 1:012x}",
        name="NVIDIA H100",
        kind=DeviceKind.CUDA,
        state=DeviceState.READY,
        flags=DeviceFlags.SERVES | DeviceFlags.CARD,
        numa_node=0,
        cc_major=9,
        cc_minor=0,
        total_bytes=80 * GIB,
        free_bytes=gib * GIB,
        reserved_bytes=0,
        used_by_holders=0,
        links=18,
    )


def share(name: str, mark: int) -> ClusterShare:
    fingerprint = bytes([mark]) * 32 if mark else b""
    return ClusterShare(0, 0, name, 128 * GIB, (0, 1), fingerprint)


def node(name: str, address: str, *parts: Any, **facts: Any) -> ClusterNode:
    one = ClusterNode(
        name=name,
        address=address,
        state=ClusterState.LIVE,
        flags=ClusterFlags(0),
        age_ns=7230 * SECOND,
        epoch=7,
        agent_version=gpumap.version(),
        more_devices=0,
        more_shares=0,
        devices=tuple(p for p in parts if isinstance(p, ClusterDevice)),
        shares=tuple(p for p in parts if isinstance(p, ClusterShare)),
    )
    return one._replace(**facts)


def lab() -> list[ClusterNode]:
    """Node a is this one; b has less room and a cordoned row; c is gone, and d
    was refused."""
    a = [card("a", 0, 70), card("a", 1, 70)]
    a[1] = a[1]._replace(reserved_bytes=30 * GIB, used_by_holders=10 * GIB)
    b = [card("b", 0, 50), card("b", 1, 50)]
    b[1] = b[1]._replace(flags=b[1].flags | DeviceFlags.CORDONED)
    return [
        node(
            "a",
            "10.0.0.1",
            *a,
            share("llama", 0xAA),
            flags=ClusterFlags.SELF,
        ),
        node(
            "b",
            "10.0.0.2",
            *b,
            share("llama", 0xBB),
            share("qwen", 0),
            more_devices=3,
            flags=ClusterFlags.NO_GANGS,
        ),
        node(
            "c",
            "node-c.example",
            card("c", 0, 30),
            card("c", 1, 30),
            share("llama", 0xAA),
            state=ClusterState.GONE,
            age_ns=2550 * SECOND,
        ),
        node("d", "10.0.0.4", state=ClusterState.REFUSED),
    ]


def publish(
    map: gpumap.Map, nodes: list[ClusterNode], limit_ns: int = HOUR
) -> None:
    map.publish_cluster(
        "lab", "a", nodes, limit_ns=limit_ns, begin=True, heard=True
    )


NODES = """\
node                 address                  state       since  rows      \
total       free  shares
a                    10.0.0.1                 live      120 min     2    \
160 GiB    120 GiB       1  this node
b                    10.0.0.2                 live      120 min     5   \
80.0 GiB   50.0 GiB       2  no gangs
c                    node-c.example           gone       42 min     2    \
160 GiB   60.0 GiB       1
d                    10.0.0.4                 refused   120 min     0        \
0 B        0 B       0
"""
HEAD = """\
node                 row  kind  state           total       free   reserved \
links  name
"""
DEVICES_A = """\
a                      0  cuda  READY        80.0 GiB   70.0 GiB        0 B    \
18  NVIDIA H100
a                      1  cuda  READY        80.0 GiB   50.0 GiB   30.0 GiB    \
18  NVIDIA H100
"""
DEVICES = """\
b                      0  cuda  READY        80.0 GiB   50.0 GiB        0 B    \
18  NVIDIA H100
b                      1  cuda  READY        80.0 GiB   50.0 GiB        0 B    \
18  NVIDIA H100, cordoned
c                      0  cuda  READY        80.0 GiB   30.0 GiB        0 B    \
18  NVIDIA H100, node gone
c                      1  cuda  READY        80.0 GiB   30.0 GiB        0 B    \
18  NVIDIA H100, node gone
"""
MODELS = "model                          size  fingerprint   nodes\n"
QWEN = "qwen                        128 GiB  -             b\n"
LLAMA = """\
llama                       128 GiB  aaaaaaaaaaaa  a, c (gone)
llama                       128 GiB  bbbbbbbbbbbb  b
"""
TOPO = """\
lab: 4 nodes, 1 of them gone, 6 rows

node a  10.0.0.1  this node
  row 0  cuda  NVIDIA H100  18 NVLinks
    [#####...................................] 10.0 GiB used, 0 B promised, \
70.0 GiB free of 80.0 GiB
  row 1  cuda  NVIDIA H100  18 NVLinks
    [#####==========.........................] 10.0 GiB used, 20.0 GiB \
promised, 50.0 GiB free of 80.0 GiB
  llama: 128 GiB on row 0,1
"""


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("nodes", NODES),
        ("devices", HEAD + DEVICES_A + DEVICES),
        ("devices --sort free", HEAD + DEVICES_A + DEVICES),
        ("devices --node a --sort name", HEAD + DEVICES_A),
        ("devices --free 60G", HEAD + DEVICES_A.partition("\n")[0] + "\n"),
        ("models", MODELS + LLAMA + QWEN),
        ("models qwen", MODELS + QWEN),
    ],
)
def test_tables(
    agent: Agent, map: gpumap.Map, command: str, text: str
) -> None:
    publish(map, lab())
    got = agent.run("cluster", *command.split())
    assert (got.returncode, got.stdout, got.stderr) == (0, text, "")


def test_a_picture(agent: Agent, map: gpumap.Map) -> None:
    publish(map, lab())
    got = agent.run("cluster", "topo").stdout
    assert got.startswith(TOPO)
    assert "node b  10.0.0.2  it takes no gangs\n" in got
    assert "NVLinks  cordoned\n" in got and "  3 more rows\n" in got
    assert "node c  node-c.example  gone for 42 min\n" in got
    assert "node d  10.0.0.4  its summary was refused" in got


def test_columns_fit_long_names(agent: Agent, map: gpumap.Map) -> None:
    name = "ip-10-0-12-34.eu-west-1.compute.internal"
    model = "a-model-of-a-name-that-is-longer-than-most"
    publish(map, [*lab(), node(name, name, card("e", 0, 70), share(model, 1))])
    for command, heading, word in (
        ("nodes", "state", "refused"),
        ("devices", "kind", "cuda"),
        ("models", "fingerprint", "aaaaaaaaaaaa"),
        ("models", "fingerprint", "010101010101"),
    ):
        lines = agent.run("cluster", command).stdout.splitlines()
        column = lines[0].index(heading)
        assert any(line[column:].startswith(word) for line in lines)


FIELDS = {
    "nodes": "name address state self gangs draining age_ns epoch"
    " agent_version devices more_devices shares more_shares total_bytes"
    " free_bytes",
    "devices": "node node_state row uuid name kind state cordoned split"
    " numa_node compute_capability total_bytes free_bytes reserved_bytes"
    " used_by_holders available_bytes nvlinks",
    "models": "name fingerprint bytes nodes",
    "topo": "name address state rows models",
}


def test_objects(agent: Agent, map: gpumap.Map) -> None:
    publish(map, lab())
    told = {}
    for command, fields in FIELDS.items():
        key = "nodes" if command == "topo" else command
        one = json.loads(agent.run("--json", "cluster", command).stdout)
        head = "cluster node version age_ns limit_ns stale"
        assert list(one) == [*head.split(), key]
        assert (one["cluster"], one["node"]) == ("lab", "a")
        assert not one["stale"]
        assert all(list(item) == fields.split() for item in one[key])
        told[command] = one[key]
    assert told["nodes"][1]["free_bytes"] == 50 * GIB
    assert not told["nodes"][1]["gangs"]
    assert told["nodes"][2]["state"] == "gone"
    device = told["devices"][1]
    assert device["uuid"] == "61000000-0000-0000-0000-000000000002"
    assert device["available_bytes"] == 50 * GIB
    assert told["models"][0]["fingerprint"] == "aa" * 32
    assert told["models"][2]["fingerprint"] is None
    assert told["topo"][0]["rows"][1]["promised_bytes"] == 20 * GIB


def test_a_stale_cluster_is_said_first(agent: Agent, map: gpumap.Map) -> None:
    publish(map, lab(), 1)
    for command in FIELDS:
        got = agent.run("cluster", command, "--json")
        assert got.returncode == Exit.STALE
        assert got.stderr.startswith("gpumapctl: cluster lab is stale: ")
        assert got.stderr.count("\n") == 1 and json.loads(got.stdout)["stale"]


def test_a_stale_cluster_can_be_left(agent: Agent, map: gpumap.Map) -> None:
    publish(map, lab())
    got = agent.run("cluster", "leave")
    assert got.returncode == Exit.FAILED and "stop it first" in got.stderr
    publish(map, lab(), 1)
    assert agent.run("cluster", "leave").returncode == 0
    for command in "nodes", "leave":
        got = agent.run("cluster", command)
        assert got.returncode == Exit.FAILED
        assert "cluster: this node is in none" in got.stderr


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [
        ("models x", 1, 'there is no model "x"; gpumapctl cluster models'),
        ("devices --node x", 1, 'there is no node "x"; gpumapctl cluster '),
        ("devices --sort x", 2, '"x" is none of node, free, total, name'),
        ("devices --free x", 2, '"x" is no size'),
        ("", 2, "nodes|devices|models|topo|plan|run|leave"),
        ("x", 2, '"x" is none of nodes, devices, models'),
        ("nodes x", 2, "x"),
        ("nodes --tp 2", 2, "--tp"),
        ("plan --layers 8 --bytes 8G --rows 0", 2, "for rows of this node"),
        ("run --layers 8 --bytes 8G --", 2, "COMMAND"),
    ],
)
def test_what_is_refused(
    agent: Agent, map: gpumap.Map, command: str, status: int, text: str
) -> None:
    publish(map, lab())
    got = agent.run("cluster", *command.split())
    assert (got.returncode, got.stdout) == (status, "")
    assert got.stderr.startswith("gpumapctl: ") and text in got.stderr


def test_another_programs_words_are_told(agent: Agent) -> None:
    line = agent.words()[1:]
    got = agent.run("complete", "gpumapctl", *line, "cluster", "run", "sl")
    assert got.stdout == "command 5\n"


def test_a_thousand_nodes(agent: Agent, map: gpumap.Map) -> None:
    many = [
        node(f"n{i:04}", "a", *(card("n", row, 70) for row in range(8)))
        for i in range(1024)
    ]
    for i in range(0, 1024, 64):
        map.publish_cluster(
            "lab",
            "n0000",
            many[i : i + 64],
            limit_ns=HOUR,
            begin=i == 0,
            more=i < 960,
            heard=True,
        )
    for command, n in ("nodes", 1025), ("devices", 8193), ("topo", 18433):
        assert len(agent.run("cluster", command).stdout.splitlines()) == n


# ---- run ---------------------------------------------------------------------

class StandIn:
    """gpumap-sync of node a: it reserves there, and forgets the other node."""

    def __init__(self, agent: Agent, folder: Path) -> None:
        self.agent = agent
        self.path = str(folder / "sync")
        self.refusals: list[dict[str, str]] = []
        self.asked: list[dict[str, Any]] = []
        self.streams: list[socket.socket] = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            stream, _ = self.listener.accept()
            self.streams.append(stream)
            threading.Thread(
                target=self.answer, args=(stream,), daemon=True
            ).start()

    def answer(self, stream: socket.socket) -> None:
        held = None
        with gpumap.attach(self.agent.instance, self.agent.runtime_dir) as map:
            rows = {
                one.uuid.replace("-", ""): one.row for one in map.devices
            }
            while record := stream.recv(65536):
                asked = json.loads(record)
                self.asked.append(asked)
                reply: dict[str, Any] = {"ok": True}
                if self.refusals:
                    reply = self.refusals.pop(0)
                elif part := asked["members"].get("a"):
                    sizes = {rows[uuid]: size for uuid, size in part.items()}
                    held = map.reserve(sizes, name=asked["name"])
                stream.send(json.dumps(reply).encode())
            self.streams.remove(stream)
            if held:
                held.release()

    def lose(self) -> None:
        self.streams[0].send(b'{"lost":"node b is gone"}')


class Lab:
    """A cluster of this node and another one, with the stand-in."""

    def __init__(self, agent: Agent, map: gpumap.Map, folder: Path) -> None:
        self.agent = agent
        self.map = map
        self.folder = folder
        self.sync = StandIn(agent, folder)
        self.publish()

    def publish(self, limit_ns: int = HOUR) -> None:
        def host(row: int, uuid: str) -> ClusterDevice:
            one = card("a", row, 70)
            flags = DeviceFlags.SERVES | DeviceFlags.MAIN_MEMORY
            one = one._replace(kind=DeviceKind.HOST, flags=flags)
            return one._replace(uuid=uuid, name="host")

        own = self.map.devices[0].uuid
        other = "62000000-0000-0000-0000-000000000001"
        publish(
            self.map,
            [
                node("a", "10.0.0.1", host(0, own), flags=ClusterFlags.SELF),
                node("b", "10.0.0.2", host(0, other)),
            ],
            limit_ns,
        )

    def words(self, *args: str) -> list[str]:
        return self.agent.words(
            "cluster",
            "run",
            f"--sync={self.sync.path}",
            "--layers=8",
            "--bytes=64M",
            *args,
        )

    def start(
        self, *args: str, before: Callable[[], object] | None = None
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.words(*args),
            env={**ENV, "XDG_RUNTIME_DIR": str(self.folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=before,
            close_fds=before is None,
        )

    def run(
        self, *args: str, before: Callable[[], object] | None = None
    ) -> Ran:
        with self.start(*args, before=before) as process:
            out, err = process.communicate()
            return Ran([], process.returncode, out, err)

    def files(self) -> list[Path]:
        return list(self.folder.glob("gpumap-cluster*"))

    def await_end(self) -> None:
        """Wait until nothing of a command is left."""
        wait_for(
            lambda: not self.sync.streams
            and not self.files()
            and not list(self.map.holders())
        )


@pytest.fixture
def two(agent: Agent, map: gpumap.Map, tmp_path: Path) -> Iterator[Lab]:
    one = Lab(agent, map, tmp_path)
    yield one
    one.await_end()
    shutil.rmtree(CACHE, ignore_errors=True)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline()


CACHE = tempfile.mkdtemp(prefix="gpumap-test.")
TWO = ("--nodes=2", f"--cache-dir={CACHE}")


@pytest.mark.parametrize(
    ("args", "status", "text"),
    [
        ("--sync=/no-such echo ran", 3, "cluster run: "),
        ("--sync=/no-such --wait 0 echo --tp ran", 3, "cluster run: "),
        ("--bytes=300G -- echo ran", 75, "layers fit on nodes a, b"),
        ("--bytes=300G --wait 1 echo ran", 75, "no room for 1 s\n"),
        ("--nodes=3 -- echo ran", 75, "and 3 are wanted"),
        ("-- /no/such/command", 127, "there is no such command"),
        ("-- /etc/passwd", 126, "/etc/passwd: Permission denied"),
        ("--json -- echo ran", 2, "--json is for cluster plan"),
        ("--for=x -- echo ran", 2, "--for"),
        ("--layers=8 -- ", 2, "COMMAND"),
        ("--model=/no/such -- true", 2, "give --model, or --layers"),
        ("--only= -- true", 1, "there is no node"),
        ("--only=x -- true", 1, 'there is no node "x"'),
        ("--only=b --for=vllm -- echo", 1, "this node, a, is not in the plan"),
    ],
)
def test_nothing_runs_without_a_reservation(
    two: Lab, args: str, status: int, text: str
) -> None:
    got = two.run(*args.split())
    assert (got.returncode, got.stdout) == (status, "")
    assert text in got.stderr and not two.files() and not two.sync.asked
    assert not got.stderr.endswith("\n\n")


def test_nothing_runs_where_the_cluster_is_stale(two: Lab) -> None:
    two.publish(1)
    assert two.run("--wait=1", "echo", "ran").returncode == Exit.STALE


SHOW = (
    'cat "$GPUMAP_HOSTS"; test -s "$GPUMAP_RANKS" && echo ranks; echo'
    " $GPUMAP_MAP $GPUMAP_CLUSTER $GPUMAP_NODE $GPUMAP_NODE_RANK $GPUMAP_NODES"
    " $GPUMAP_WORLD_SIZE $GPUMAP_ROWS $CUDA_VISIBLE_DEVICES $GPUMAP_CTL_PATH;"
    " echo up; exec sleep 600"
)
SHOWN = """\
10.0.0.1 slots=1
10.0.0.2 slots=1
ranks
g lab a 0 2 2 0 -1
up
"""


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
def test_the_nodes_hold_while_the_command_lives(
    two: Lab, by: signal.Signals
) -> None:
    with two.start(*TWO, "--name=g", "--", "sh", "-c", SHOW) as process:
        told = [line(process) for _ in SHOWN.splitlines()]
        assert "".join(told) == SHOWN
        assert [one.name for one in two.map.holders()] == ["g"]
        (asked,) = two.sync.asked
        own = two.map.devices[0].uuid.replace("-", "")
        (ranks,) = (json.loads(p.read_text()) for p in two.folder.glob("*/r*"))
        assert set(asked["members"]) == {"a", "b"}
        assert asked["members"]["a"] == {own: 32 << 20}
        assert [rank["node"] for rank in ranks["ranks"]] == ["a", "b"]
        # A command that waits for its children waits for its own alone.
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        assert children.read_text() == ""
        process.send_signal(by)
        out, err = process.communicate()
        assert (process.returncode, out, err) == (-by, "", "")


def test_engines_are_told(two: Lab) -> None:
    assert two.run(*TWO, "--", "sh", "-c", "exit 7").returncode == 7
    got = two.run(*TWO, "--for=vllm", "--", "echo", "--tp", "5")
    assert got.returncode == 0
    assert got.stdout.startswith(
        "--tp 5 --pipeline-parallel-size 2 --nnodes 2 --node-rank 0"
        " --distributed-executor-backend mp --master-addr 10.0.0.1"
    )
    assert "--tp stays as the command has it" in got.stderr
    for engine, names, told in (
        (
            "torchrun",
            "$PET_NNODES $PET_NODE_RANK $PET_NPROC_PER_NODE $PET_RDZV_BACKEND"
            " $PET_RDZV_ID",
            "2 0 1 static g\n",
        ),
        (
            "llama.cpp",
            "$LLAMA_ARG_N_GPU_LAYERS $LLAMA_ARG_FIT $LLAMA_ARG_RPC",
            "5 off 10.0.0.2:50052\n",
        ),
        ("env", "$MASTER_ADDR $MASTER_PORT $WORLD_SIZE", "10.0.0.1 29500 2\n"),
    ):
        args = (*TWO, f"--for={engine}", "--name=g")
        assert two.run(*args, "sh", "-c", f"echo {names}").stdout == told
        two.await_end()


def test_a_launcher_is_put_before_its_program(
    two: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    mpirun = two.folder / "mpirun"
    mpirun.write_text('#!/bin/sh\necho "$@"\n')
    mpirun.chmod(0o755)
    monkeypatch.setitem(ENV, "PATH", f"{two.folder}:{os.environ['PATH']}")
    told = two.run(*TWO, "--for=mpirun", "--name=g", "echo", "x").stdout
    assert told.startswith("-np 1 --host 10.0.0.1:1 -x CUDA_VISIBLE_DEVICES=")
    assert " -x WORLD_SIZE=2 echo x : -np 1 --host 10.0.0.2:1 -x " in told


def test_a_node_outside_the_plan_has_no_device(two: Lab) -> None:
    show = (
        "echo $GPUMAP_MAP $GPUMAP_NODES $GPUMAP_NODE $GPUMAP_WORLD_SIZE"
        " $CUDA_VISIBLE_DEVICES"
    )
    got = two.run("--only=b", "--name=g", "--", "sh", "-c", show)
    assert (got.returncode, got.stdout) == (0, "g 1 1 -1\n")
    assert set(two.sync.asked[0]["members"]) == {"b"}


def test_a_caller_that_ignores_its_children(two: Lab) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    got = two.run(*TWO, "--", "echo", "ran", before=ignore)
    assert (got.returncode, got.stdout) == (0, "ran\n")
    got = two.run("--nodes=3", "--", "echo", "ran", before=ignore)
    assert got.returncode == Exit.NOT_NOW and "3 are wanted" in got.stderr
    # The command has it as the caller had it.
    ignored = ("grep", "SigIgn", "/proc/self/status")
    got = two.run("--only=b", "--", *ignored, before=ignore)
    mask = int(got.stdout.split()[1], 16)
    assert mask >> (signal.SIGCHLD - 1) & 1


def test_the_holder_keeps_no_descriptor(two: Lab) -> None:
    """One above a limit that was lowered is closed, too."""
    inside, outside = os.pipe()

    def lower() -> None:
        os.dup2(outside, 900)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    close = "import os, time; os.close(900); time.sleep(600)"
    command = ("--", sys.executable, "-c", close)
    with two.start(*TWO, *command, before=lower) as process:
        os.close(outside)
        # The command closes the other end, and no other process has it.
        wait_for(lambda: select.select([inside], [], [], 0)[0])
        assert os.read(inside, 1) == b"" and two.files()
        process.kill()
    os.close(inside)


def test_a_refusal_that_stays(two: Lab) -> None:
    why = "node b: there is a map of this name"
    two.sync.refusals.append({"errno": "EEXIST", "why": why})
    got = two.run(*TWO, "--wait=9", "--name=g", "--", "echo", "ran")
    assert (got.returncode, got.stdout) == (Exit.FAILED, "")
    assert got.stderr == f"gpumapctl: cluster run: {why}\n"


def test_a_refusal_that_passes(two: Lab) -> None:
    no_room = {"errno": "ENOSPC", "why": "node b has no room"}
    two.sync.refusals.append(no_room)
    assert two.run(*TWO, "--", "echo", "ran").returncode == Exit.NOT_NOW
    two.sync.refusals += [no_room, no_room]
    got = two.run(*TWO, "--wait=600", "--", "echo", "ran")
    assert (got.returncode, got.stdout) == (0, "ran\n")
    assert got.stderr == "gpumapctl: cluster run: node b has no room\n"
    # One that is interrupted while it waits leaves nothing behind.
    two.sync.refusals += [no_room] * 600
    with two.start(*TWO, "--wait=600", "--", "echo", "ran") as process:
        assert process.stderr and process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait() == -signal.SIGINT


def test_a_node_that_is_late_is_named(two: Lab) -> None:
    why = "node b does not hold in time"
    two.sync.refusals.append({"errno": "ETIMEDOUT", "why": why})
    got = two.run(*TWO, "--", "echo", "ran")
    assert (got.returncode, got.stdout) == (Exit.NOT_NOW, "")
    assert got.stderr == f"gpumapctl: cluster run: {why}\n"
    # The client need not connect again.
    two.sync.refusals.append({"errno": "ETIMEDOUT", "why": why})
    with gpumap.Sync(two.sync.path) as sync:
        with pytest.raises(gpumap.Timeout, match=why):
            sync.reserve("g", {"b": {"00" * 16: 1}})
        assert not sync.closed


@pytest.mark.parametrize("stops", [False, True])
def test_a_lost_reservation_is_said(two: Lab, stops: bool) -> None:
    args = ["--stop-when-lost"] * stops
    with two.start(*TWO, *args, "--", "sh", "-c", SHOW) as process:
        while line(process) != "up\n":
            pass
        two.sync.lose()
        assert process.stderr
        assert process.stderr.readline() == (
            "gpumapctl: cluster: the reservation of sh is lost on all nodes:"
            " node b is gone; "
            + ("it is sent SIGTERM\n" if stops else "it goes on without\n")
        )
        if not stops:
            process.terminate()
        assert process.wait() == -signal.SIGTERM
