# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""torch's elastic agents meet over two gpumap-syncs."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import gpumap
import pytest
from agent import wait_for
from syncs import Syncs

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("torch has no torch.distributed", allow_module_level=True)

from torch.distributed.elastic.rendezvous import api  # noqa: E402

from gpumap.torchrun_sync import (  # noqa: E402
    SyncBackend,
    SyncStore,
    _Run,
    handler,
)

# Arguments: the socket, and the workers' limit of restarts.  The first worker
# of the first round of node "b" kills its agent.
LAUNCH = """
import os, signal, sys, time
import torch, torch.distributed as dist
from torch.distributed.elastic.rendezvous.api import (
    rendezvous_handler_registry as registry)
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from gpumap.torchrun_sync import handler

def worker(die):
    dist.init_process_group("gloo")
    sum = torch.tensor([float(2 ** dist.get_rank())])
    dist.all_reduce(sum)
    told = dist.get_rank(), dist.get_world_size(), sum.item()
    if die:
        os.kill(os.getppid(), signal.SIGKILL)
        os._exit(1)
    if dist.get_world_size() == 2 and int(os.environ["DIE"]):
        while True:  # until the agent has seen that the other is gone
            dist.all_reduce(sum)
            time.sleep(0.05)
    dist.destroy_process_group()
    return told

if __name__ == "__main__":
    try:
        registry.register("gpumap-sync", handler())
    except ValueError:
        pass  # from torch 2.5 on the entry point has done it
    least = int(sys.argv[2])
    config = LaunchConfig(
        min_nodes=least, max_nodes=2, nproc_per_node=1,
        run_id=f"job {least}",
        rdzv_backend="gpumap-sync", rdzv_endpoint=sys.argv[1],
        monitor_interval=0.1, max_restarts=3,
        rdzv_configs={"join_timeout": 120, "last_call_timeout": 5})
    for told in sorted(elastic_launch(config, worker)(
            int(sys.argv[3])).values()):
        print(*told)
"""


@pytest.fixture(scope="module")
def syncs() -> Iterator[Syncs]:
    all_ = Syncs("a", "b")
    yield all_
    all_.stop()


@pytest.fixture(autouse=True)
def nothing_is_left(syncs: Syncs) -> Iterator[None]:
    yield
    with gpumap.Sync(syncs.socket("a")) as sync:
        wait_for(lambda: sync.list("torchrun/") == [])


def run_of(syncs: Syncs, node: str, run_id: str) -> _Run:
    run = _Run(syncs.socket(node), run_id)
    run.begin()
    return run


def test_a_lost_lease(syncs: Syncs) -> None:
    """A node whose values have ended takes part again with its next call."""
    run = run_of(syncs, "a", "job")
    nodes = f"{run.root}nodes/"
    with gpumap.Sync(syncs.socket("b")) as other:
        syncs.processes["a"].send_signal(signal.SIGSTOP)
        wait_for(lambda: other.list(nodes) == [])
        syncs.processes["a"].send_signal(signal.SIGCONT)
        wait_for(lambda: run.call(lambda sync: sync.list(nodes)) == [run.me])
    run.end()


def test_threads_share_a_connection(
    syncs: Syncs, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def slow(path: str | None) -> gpumap.Sync:
        time.sleep(0.1)
        made.append(gpumap.Sync(path))
        return made[-1]

    monkeypatch.setattr("gpumap.torchrun_sync.Sync", slow)
    run = _Run(syncs.socket("a"), "job")
    threads = [threading.Thread(target=run.begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    run.end()


def test_entry_point() -> None:
    (found,) = [
        one
        for one in entry_points(group="torchrun.handlers")
        if one.name == "gpumap-sync"
    ]
    assert found.load() is handler


def test_state(syncs: Syncs) -> None:
    runs = run_of(syncs, "a", "job"), run_of(syncs, "b", "job")
    one, two = (SyncBackend(run) for run in runs)
    assert one.name == "gpumap-sync" and one.get_state() is None
    written = one.set_state(b"one")
    assert written is not None and written[2]
    token = written[1]
    assert two.get_state() == (b"one", token)
    assert two.set_state(b"two") == (b"one", token, False)
    assert two.set_state(b"two", "no token") == (b"one", token, False)
    again = two.set_state(b"two", token)
    assert again is not None and again[0] == b"two" and again[2]
    assert one.set_state(b"three", token) == (b"two", again[1], False)
    with gpumap.Sync(syncs.socket("a")) as sync:
        sync.cas(runs[0].root + "state", b"no state", again[1])
    with pytest.raises(api.RendezvousStateError):
        one.get_state()
    for run in runs:
        run.end()


def test_store(syncs: Syncs) -> None:
    runs = run_of(syncs, "a", "stored"), run_of(syncs, "b", "stored")
    stores = [SyncStore(run) for run in runs]
    one, two = (
        torch.distributed.PrefixStore("round", store) for store in stores
    )
    one.set("key", "value")
    assert two.get("key") == b"value"
    assert two.add("n", 2) == 2 and one.add("n", 3) == 5
    assert one.compare_set("key", "other", "new") == b"value"
    assert one.compare_set("key", "value", "new") == b"new"
    assert two.compare_set("first", "", "made") == b"made"
    late = threading.Timer(0.2, one.set, ("late", "here"))
    late.start()
    assert two.get("late") == b"here"
    late.join()
    with pytest.raises(RuntimeError):
        two.wait(["never"], datetime.timedelta(seconds=0.2))
    plain = stores[0]
    plain.set("gone", b"1")
    assert plain.check(["gone"]) and plain.num_keys() == 5
    assert plain.delete_key("gone") and not plain.delete_key("gone")
    runs[0].end()
    assert two.get("key") == b"new"  # as long as a node takes part
    runs[1].end()


def test_gpumap_sync_starts_anew(syncs: Syncs) -> None:
    run = run_of(syncs, "b", "anew")
    backend = SyncBackend(run)
    assert backend.set_state(b"one") is not None
    syncs.kill("b")
    syncs.start("b")
    got = backend.get_state()
    assert got is not None and got[0] == b"one"
    run.end()


def launch(
    program: Path, socket: str, least: int, die: int
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(program), socket, str(least), str(die)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "DIE": str(least % 2)},
    )


def end(*launches: subprocess.Popen[str]) -> list[str]:
    told: list[str] = []
    for one in launches:
        out, _ = one.communicate(timeout=300)
        assert one.returncode == 0
        told += out.splitlines()
    return sorted(told)


def test_workers_compute(syncs: Syncs, tmp_path: Path) -> None:
    """Two of torch's own agents, of two nodes, and gloo."""
    program = tmp_path / "launch.py"
    program.write_text(LAUNCH)
    launches = [
        launch(program, syncs.socket(node), 2, 0) for node in ("a", "b")
    ]
    assert end(*launches) == ["0 2 3.0", "1 2 3.0"]


def test_one_dies(syncs: Syncs, tmp_path: Path) -> None:
    """The round moves on without the agent that was killed."""
    program = tmp_path / "launch.py"
    program.write_text(LAUNCH)
    stays = launch(program, syncs.socket("a"), 1, 0)
    dies = launch(program, syncs.socket("b"), 1, 1)
    dies.communicate(timeout=300)
    assert dies.returncode == -9
    assert end(stays) == ["0 1 1.0"]
