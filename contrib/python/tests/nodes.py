# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""etcd of the tests' own, and nodes that meet in it: an agent and a gpumap-sync
each."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import gpumap
from agent import BUILD, Agent, die_with_parent, wait_for

PROGRAM = str(BUILD / "contrib/python/built/gpumap-sync")
ETCD = shutil.which("etcd")
TTL = 3.0  # seconds of a lease

AGENT = """
[host]
rows = 2
[cuda]
enabled = off
"""

CONFIG = """
[cluster]
name = {cluster}
node = {name}
address = 127.0.0.1
ttl = {ttl_ms}ms
{more}
[store]
etcd = {endpoints}
{store}
[socket]
path = {socket}
[agent]
instance = {instance}
runtime-dir = {runtime_dir}
"""


def free_port() -> int:
    """A port of this machine that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
    return port


class EtcdServer:
    """One member, or some of one cluster; stop() leaves nothing behind."""

    def __init__(
        self, members: int = 1, *options: str, tls: Path | None = None
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gpumap-etcd."))
        self.options = list(options)
        self.env = {**os.environ, "ETCDCTL_API": "3"}
        self.tls: list[str] = []
        scheme = "http"
        if tls is not None:
            scheme = "https"
            self.options += [
                f"--cert-file={tls}/server.pem",
                f"--key-file={tls}/server.key",
                f"--trusted-ca-file={tls}/ca.pem",
                "--client-cert-auth",
            ]
            self.tls = [
                f"--cacert={tls}/ca.pem",
                f"--cert={tls}/node.pem",
                f"--key={tls}/node.key",
            ]
        self.clients = [
            f"{scheme}://127.0.0.1:{free_port()}" for _ in range(members)
        ]
        self.peers = [
            f"http://127.0.0.1:{free_port()}" for _ in range(members)
        ]
        self.processes: list[subprocess.Popen[bytes] | None] = [None] * members
        for member in range(members):
            self.start(member)
        wait_for(lambda: all(map(self.is_well, range(members))))

    @property
    def endpoints(self) -> str:
        return ",".join(self.clients)

    def start(self, member: int = 0) -> None:
        assert ETCD is not None
        everyone = ",".join(
            f"m{i}={peer}" for i, peer in enumerate(self.peers)
        )
        with open(self.folder / "log", "a") as log:
            self.processes[member] = subprocess.Popen(
                [
                    ETCD,
                    f"--name=m{member}",
                    f"--data-dir={self.folder}/m{member}",
                    f"--listen-client-urls={self.clients[member]}",
                    f"--advertise-client-urls={self.clients[member]}",
                    f"--listen-peer-urls={self.peers[member]}",
                    f"--initial-advertise-peer-urls={self.peers[member]}",
                    f"--initial-cluster={everyone}",
                    "--log-level=error",
                    *self.options,
                ],
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )

    def is_well(self, member: int) -> bool:
        try:
            self.ctl("endpoint", "health", at=member)
            return True
        except subprocess.CalledProcessError:
            return False

    def ctl(
        self, *words: str, at: int | None = None, user: str | None = None
    ) -> str:
        """Run etcdctl, with the first member that runs."""
        if at is None:
            running = [p and p.poll() is None for p in self.processes]
            at = running.index(True)
        env = {**self.env, "ETCDCTL_USER": user} if user else self.env
        return subprocess.run(
            [
                "etcdctl",
                f"--endpoints={self.clients[at]}",
                "--command-timeout=60s",  # 5 are few under load
                "--dial-timeout=60s",  # in which a user has a token, too
                *self.tls,
                *words,
            ],
            check=True,
            capture_output=True,
            text=True,
            env=env,
        ).stdout

    def keys(self, cluster: str = "test") -> dict[str, str]:
        """The cluster's keys and values."""
        prefix = f"/gpumap/v1/{cluster}/"
        text = self.ctl("get", "--prefix", prefix, "-w", "json")
        return {
            base64.b64decode(one["key"])
            .decode()
            .removeprefix(prefix): base64.b64decode(
                one.get("value", "")
            ).decode()
            for one in json.loads(text).get("kvs", ())
        }

    def lease(self, key: str, cluster: str = "test") -> int:
        """The lease that a key of the cluster is under."""
        path = f"/gpumap/v1/{cluster}/{key}"
        (one,) = json.loads(self.ctl("get", path, "-w", "json"))["kvs"]
        lease: int = one["lease"]
        return lease

    def signal(self, number: int, member: int = 0) -> None:
        process = self.processes[member]
        assert process is not None
        process.send_signal(number)
        if number == signal.SIGKILL:
            process.wait()

    def stop(self) -> None:
        for process in self.processes:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder)


class Node:
    """An agent and its gpumap-sync; stop() leaves nothing behind."""

    def __init__(
        self,
        name: str,
        endpoints: str,
        *,
        cluster: str = "test",
        agent: Agent | None = None,
        ttl: float = TTL,
        more: str = "",
        store: str = "",
    ) -> None:
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix=f"gpumap-{name}."))
        self.own_agent = agent is None
        self.agent = agent or Agent(AGENT)
        self.ttl = ttl
        self.socket = str(self.folder / "socket")
        self.process: subprocess.Popen[bytes] | None = None
        self.n_starts = 0
        self.config = self.folder / "gpumap-sync.conf"
        self.config.write_text(
            CONFIG.format(
                cluster=cluster,
                name=name,
                ttl_ms=int(ttl * 1000),
                endpoints=endpoints,
                socket=self.socket,
                instance=self.agent.instance,
                runtime_dir=self.agent.runtime_dir,
                more=more,
                store=store,
            )
        )

    def start(self) -> None:
        self.n_starts += 1
        with open(self.folder / "log", "a") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "--config", str(self.config)],
                stderr=log,
                preexec_fn=die_with_parent,
            )

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def events(self, event: str) -> list[str]:
        """The lines of the log for an event."""
        word = re.compile(rf"\bevent={event}\b")
        return [line for line in self.log().splitlines() if word.search(line)]

    def nodes(self) -> dict[str, gpumap.ClusterState]:
        """The nodes that this node's agent publishes, by name."""
        with gpumap.attach(
            self.agent.instance, self.agent.runtime_dir
        ) as map:
            try:
                return {one.name: one.state for one in map.cluster().nodes}
            except (gpumap.NotFound, gpumap.Again):
                return {}

    def node(self, name: str) -> gpumap.ClusterNode | None:
        """What this node's agent publishes of a node."""
        with gpumap.attach(
            self.agent.instance, self.agent.runtime_dir
        ) as map:
            try:
                nodes = map.cluster().nodes
            except (gpumap.NotFound, gpumap.Again):
                return None
            return next((one for one in nodes if one.name == name), None)

    def uuid(self, row: int = 0) -> str:
        with gpumap.attach(
            self.agent.instance, self.agent.runtime_dir
        ) as map:
            return map.devices[row].uuid

    def held(self) -> list[str]:
        """The maps that processes hold here."""
        with gpumap.attach(
            self.agent.instance, self.agent.runtime_dir
        ) as map:
            return [one.name for one in map.holders()]

    def sync(self) -> gpumap.Sync:
        return gpumap.Sync(self.socket)

    def kill(self, number: int = signal.SIGKILL) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait()
        self.process = None

    def stop(self) -> None:
        if self.process is not None:
            self.kill(signal.SIGTERM)
        print(self.log())  # pytest shows it where a test fails
        if self.own_agent:
            self.agent.stop()
        shutil.rmtree(self.folder)


class Cluster:
    """Nodes that have met."""

    def __init__(
        self, etcd: EtcdServer, *names: str, ttl: float = TTL, more: str = ""
    ) -> None:
        self.etcd = etcd
        self.nodes = {
            name: Node(name, etcd.endpoints, ttl=ttl, more=more)
            for name in names
        }
        for node in self.nodes.values():
            node.start()
        self.wait()

    def wait(self) -> None:
        """Wait until each node has joined, and sees all as live."""
        live = dict.fromkeys(self.nodes, gpumap.ClusterState.LIVE)
        wait_for(self.have_joined)
        wait_for(
            lambda: all(
                node.nodes() == live for node in self.nodes.values()
            )
        )

    def have_joined(self) -> bool:
        keys = self.etcd.keys()
        for name, node in self.nodes.items():
            ready = node.events("ready")
            if len(ready) < node.n_starts:
                return False
            instance = ready[-1].partition("instance=")[2][:16]
            if instance not in keys.get(f"alive/{name}", ""):
                return False
        return True

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    def parts(self, n_bytes: int, *names: str) -> dict[str, dict[str, int]]:
        """The members of a gang, of each node's first row."""
        return {
            name: {self.nodes[name].uuid(): n_bytes}
            for name in names or self.nodes
        }

    def stop(self) -> None:
        for node in self.nodes.values():
            node.stop()
