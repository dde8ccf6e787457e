# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""torchrun's agents meet over a mesh, and their workers compute together."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import gpumap
import pytest
from agent import Agent, wait_for

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("torch has no torch.distributed", allow_module_level=True)

from torch.distributed.elastic.rendezvous import api  # noqa: E402

from gpumap.torchrun import handler  # noqa: E402

# Arguments: the instance and its runtime directory.
LAUNCH = """
import os, sys
import torch, torch.distributed as dist
from torch.distributed.elastic.rendezvous.api import (
    rendezvous_handler_registry as registry)
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from gpumap.torchrun import handler

def worker():
    dist.init_process_group("gloo")
    sum = torch.tensor([float(2 ** dist.get_rank())])
    dist.all_reduce(sum)
    told = dist.get_rank(), dist.get_world_size(), sum.item()
    dist.destroy_process_group()
    return told

if __name__ == "__main__":
    try:
        registry.register("gpumap", handler())
    except ValueError:
        pass  # from torch 2.5 on the entry point has done it
    config = LaunchConfig(
        min_nodes=2, max_nodes=2, nproc_per_node=2, run_id="job",
        rdzv_backend="gpumap", rdzv_endpoint="trained", monitor_interval=0.1,
        rdzv_configs={"instance": sys.argv[1], "runtime_dir": sys.argv[2],
                      "timeout": 60})
    for told in sorted(elastic_launch(config, worker)().values()):
        print(*told)
"""


@pytest.fixture(autouse=True)
def mesh(map: gpumap.Map) -> Iterator[None]:
    map.publish_mesh("trained", "data", rows=[0, 1])
    yield
    map.release_mesh("trained")


def one(agent: Agent, endpoint: str = "trained", **conf: Any) -> Any:
    conf = {
        "instance": agent.instance,
        "runtime_dir": str(agent.runtime_dir),
        "timeout": 60,
        **conf,
    }
    nodes = conf.pop("nodes", 2)
    params = api.RendezvousParameters(
        "gpumap", endpoint, conf.pop("run", "job"), nodes, nodes, **conf
    )
    return handler()(params)


def meet(*handlers: Any) -> list[Any]:
    """Have them meet; (store, rank, world) of each."""
    answers: list[Any] = [None] * len(handlers)

    def enter(i: int) -> None:
        info = handlers[i].next_rendezvous()
        if not isinstance(info, tuple):
            info = info.store, info.rank, info.world_size
        answers[i] = info

    threads = [
        threading.Thread(target=enter, args=(i,)) for i in range(len(handlers))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_entry_point() -> None:
    (found,) = [
        one
        for one in entry_points(group="torchrun.handlers")
        if one.name == "gpumap"
    ]
    assert found.load() is handler


def test_ranks_meet(agent: Agent) -> None:
    one_, two = one(agent), one(agent)
    assert one_.get_backend() == "gpumap" and two.get_run_id() == "job"
    (store, rank, world), (other, rank2, _) = meet(one_, two)
    assert {rank, rank2} == {0, 1} and world == 2
    store.set("key", "value")
    assert other.get("key") == b"value"
    assert one_.num_nodes_waiting() == two.num_nodes_waiting() == 0
    assert not one_.is_closed()
    two.set_closed()
    assert one_.is_closed()
    with pytest.raises(api.RendezvousClosedError):
        one_.next_rendezvous()
    assert one_.shutdown() and two.shutdown()


def test_one_that_dies(agent: Agent) -> None:
    """The others are told, and meet its successor."""
    one_, two = one(agent), one(agent)
    ((_, rank, _), (_, lost, _)) = meet(one_, two)
    assert {rank, lost} == {0, 1}
    two._map.close()  # as when its process ends
    wait_for(lambda: one_.num_nodes_waiting() == 1)
    three = one(agent)
    ((store, again, _), (other, taken, _)) = meet(one_, three)
    # The successor may have been the first to take a rank.
    assert {again, taken} == {0, 1}
    store.set("round", "two")
    assert other.get("round") == b"two"
    assert one_.num_nodes_waiting() == 0
    one_.shutdown()
    three.shutdown()


def test_what_is_refused(agent: Agent) -> None:
    with pytest.raises(ValueError, match="name a mesh"):
        one(agent, " ")
    with pytest.raises(ValueError, match="say --nnodes 2"):
        one(agent, nodes=3).next_rendezvous()
    with pytest.raises(api.RendezvousTimeoutError):
        one(agent, timeout=0.1, rank="1").next_rendezvous()
    for wrong in ({"instance": "no-such"}, {"group": "no-such"}):
        with pytest.raises(api.RendezvousConnectionError):
            one(agent, **wrong).next_rendezvous()


def test_another_job(agent: Agent) -> None:
    """A torchrun of another --rdzv-id does not come in between."""
    ours = [one(agent, rank=0), one(agent, rank=1)]
    first = threading.Thread(target=meet, args=ours[:1])
    first.start()

    def is_refused() -> bool:
        other = one(agent, run="other", rank=1, timeout=0.1)
        try:
            other.next_rendezvous()
        except api.RendezvousTimeoutError as error:
            # Or it came before the rank of ours.
            return "another job" in str(error)
        raise AssertionError("they have met")

    wait_for(is_refused)
    meet(ours[1])
    first.join()
    for each in ours:
        each.shutdown()


def test_workers_compute(agent: Agent, tmp_path: Path) -> None:
    """Two launches of two workers each: torch's own agents and gloo."""
    program = tmp_path / "launch.py"
    program.write_text(LAUNCH)
    launches = [
        subprocess.Popen(
            [
                sys.executable,
                str(program),
                agent.instance,
                str(agent.runtime_dir),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for _ in range(2)
    ]
    told = []
    for launch in launches:
        out, _ = launch.communicate()
        assert launch.returncode == 0
        told += out.splitlines()
    assert sorted(told) == [f"{rank} 4 15.0" for rank in range(4)]
