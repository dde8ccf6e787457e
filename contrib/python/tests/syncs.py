# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Some gpumap-syncs of the tests' own, which meet in a directory."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import gpumap
from agent import BUILD, die_with_parent, wait_for

CONFIG = """
[cluster]
name = test
node = {node}
address = 127.0.0.1
ttl = 1s
[store]
directory = {store}
[socket]
path = {socket}
[agent]
instance = {instance}
runtime-dir = {runtime_dir}
"""


class Syncs:
    """A gpumap-sync for each of the nodes; stop() leaves nothing behind."""

    def __init__(self, *nodes: str, **of_agent: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gpumap-python."))
        store = self.folder / "store"
        store.mkdir()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for node in nodes:
            self.config(node).write_text(
                CONFIG.format(
                    node=node,
                    store=store,
                    socket=self.socket(node),
                    instance=of_agent.get("instance", "no-such"),
                    runtime_dir=of_agent.get("runtime_dir", self.folder),
                )
            )
            self.start(node)

    def config(self, node: str) -> Path:
        return self.folder / f"{node}.conf"

    def socket(self, node: str) -> str:
        return str(self.folder / f"{node}.socket")

    def start(self, node: str) -> None:
        with open(self.folder / f"{node}.log", "a") as log:
            self.processes[node] = subprocess.Popen(
                [
                    os.environ.get(
                        "GPUMAP_SYNC", str(BUILD / "agent/sync/gpumap-sync")
                    ),
                    "--config",
                    str(self.config(node)),
                ],
                stderr=log,
                preexec_fn=die_with_parent,
            )
        wait_for(lambda: self.serves(node))

    def serves(self, node: str) -> bool:
        """Does it hold its lease?"""
        process = self.processes[node]
        assert process.poll() is None, (
            self.folder / f"{node}.log"
        ).read_text()
        try:
            with gpumap.Sync(self.socket(node)) as sync:
                return sync.cas("begin", b"", 0, ephemeral=True)[0]
        except (gpumap.NotRunning, gpumap.Unreachable, gpumap.Gone):
            return False

    def kill(self, node: str) -> None:
        self.processes[node].send_signal(signal.SIGKILL)
        self.processes[node].wait()

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
            process.wait()
        shutil.rmtree(self.folder)
