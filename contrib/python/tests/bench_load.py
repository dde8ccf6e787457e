# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Times and memory of loaders, by hand: python bench_load.py MODEL...

MODEL is a directory of a safetensors checkpoint, or a GGUF file, whose tensors
the other loaders get as bytes in a safetensors file.  The interpreter needs
this package, torch, safetensors and tinygrad; GPUMAP_BUILD is a build tree.

Each round measures every loader once, one after the other, so that what else
the machine does falls on all; a row of the table has the medians.

first     seconds until a process has all tensors and has read a byte of each
          of their pages, with the file not in the page cache (cold) or there
          (warm)
second    until another process has all tensors, while the first one does
read      until that one has read a byte of each page as well
memory    PSS of four processes that have read all, over the models' size; for
          gpumap with the agent's processes
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LOADERS = ["gpumap", "load_file", "mmap", "tinygrad", "torch"]
ROUNDS = int(os.environ.get("ROUNDS", "3"))
PAGE = 4096


# ---- in a process of its own -------------------------------------------------


class Child:
    """A loader; tensors as objects with a buffer or memory to read."""

    def __init__(self, how: str, paths: list[str], where: list[str]) -> None:
        self.how, self.paths, self.where = how, paths, where
        getattr(self, f"prepare_{how}")()

    def prepare_gpumap(self) -> None:
        import gpumap

        self.gpumap = gpumap

    def load_gpumap(self) -> list[Any]:
        if not self.paths:
            return []
        session = self.gpumap.attach(*self.where[:2]).session()
        if self.where[2] == "open":
            self.kept = session.open("bench")
        else:
            self.kept = session.load(self.paths[0], name="bench")
        return [memoryview(one) for one in self.kept.values()]

    def prepare_load_file(self) -> None:
        from safetensors.torch import load_file

        self.file = load_file

    def load_load_file(self) -> list[Any]:
        return [
            one for path in self.paths for one in self.file(path).values()
        ]

    def prepare_mmap(self) -> None:
        import torch
        from safetensors import safe_open

        assert torch
        self.file = safe_open

    def load_mmap(self) -> list[Any]:
        found = []
        for path in self.paths:
            with self.file(path, framework="pt") as file:
                found += [file.get_tensor(name) for name in file.keys()]
        return found

    def prepare_torch(self) -> None:
        import torch

        self.file = torch.load

    def load_torch(self) -> list[Any]:
        return [
            one for path in self.paths for one in self.file(path).values()
        ]

    def prepare_tinygrad(self) -> None:
        from tinygrad.nn.state import safe_load

        self.file = safe_load

    def load_tinygrad(self) -> list[Any]:
        disk = [
            one for path in self.paths for one in self.file(path).values()
        ]
        found = [one.to("CPU") for one in disk]
        if found:
            found[0].realize(*found[1:])
        self.kept = found
        return [
            one.uop.buffer.as_memoryview(force_zero_copy=True)
            for one in found
        ]

    def run(self) -> None:
        start = time.perf_counter()
        tensors = getattr(self, f"load_{self.how}")()
        tell(time.perf_counter() - start)
        for line in sys.stdin:
            if line != "read\n":
                return
            start = time.perf_counter()
            for one in tensors:
                read(one)
            tell(time.perf_counter() - start)


def tell(seconds: float) -> None:
    print(json.dumps(seconds), flush=True)


def read(tensor: Any) -> None:
    """Read a byte of each page."""
    if hasattr(tensor, "untyped_storage"):
        flat = tensor.detach().reshape(-1)
        tensor = flat.view(sys.modules["torch"].uint8).numpy()
    view = memoryview(tensor)
    if view.nbytes:
        bytes(view.cast("B")[::PAGE])


# ---- the measurements --------------------------------------------------------


class Process:
    def __init__(self, how: str, paths: list[str], where: list[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--child", how, *where, *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "DEV": "CPU"},
        )
        self.loaded = self.answer()

    def answer(self) -> float:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"it ended with {self.process.wait()}")
        return float(json.loads(line))

    def read(self) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write("read\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self) -> None:
        self.process.communicate("")


def pss(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no Pss")


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(one) for one in text.split()]


def forget(paths: list[str]) -> None:
    """Take files out of the page cache."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


class Bench:
    def __init__(self, agent: Any, model: Path, folder: Path) -> None:
        self.agent = agent
        self.model = model
        plain = (
            sorted(model.glob("*.safetensors"))
            if model.is_dir()
            else [plain_of(agent, model, folder)]
        )
        self.size = sum(one.stat().st_size for one in plain)
        self.files = {how: [str(one) for one in plain] for how in LOADERS}
        self.files["gpumap"] = [str(model)]
        self.files["torch"] = pickled(plain, folder, self.size)
        self.on_disk = {**self.files}
        if model.is_dir():
            self.on_disk["gpumap"] = self.files["mmap"]

    def where(self, how: str) -> list[str]:
        return [self.agent.instance, str(self.agent.runtime_dir), how]

    def start(self, loader: str, how: str = "open") -> Process:
        return Process(loader, self.files[loader], self.where(how))

    def round(self, loader: str) -> dict[str, float]:
        found = {}
        forget(self.on_disk[loader])
        first = self.start(loader, "load")
        found["first, cold"] = first.loaded + first.read()
        first.end()
        first = self.start(loader, "load")
        found["first, warm"] = first.loaded + first.read()
        second = self.start(loader)
        found["second"] = second.loaded
        found["read"] = second.loaded + second.read()
        second.end()
        first.end()
        return found

    def memory(self, loader: str) -> float | None:
        copies = 4 if loader in ("tinygrad", "torch") else 1
        free = int(os.sysconf("SC_AVPHYS_PAGES")) * PAGE
        if copies * self.size > free:
            return None
        agents = [self.agent.process.pid]
        agents += children(agents[0])
        before = sum(pss(pid) for pid in agents)
        four = [Process(loader, [], self.where("none")) for _ in range(4)]
        base = sum(pss(one.process.pid) for one in four)
        for one in four:
            one.end()
        how = ["load", "open", "open", "open"]
        four = [self.start(loader, one) for one in how]
        for one in four:
            one.read()
        total = sum(pss(one.process.pid) for one in four) - base
        if loader == "gpumap":
            # Its workers map the memory, too.
            total += sum(pss(pid) for pid in agents) - before
        for one in reversed(four):
            one.end()
        return total / self.size


def plain_of(agent: Any, gguf: Path, folder: Path) -> Path:
    """The tensors of a GGUF file as bytes in a safetensors file."""
    import gpumap
    from agent import write_safetensors

    with gpumap.attach(agent.instance, agent.runtime_dir) as map:
        with map.session() as session, session.load(gguf) as model:
            path = folder / "plain.safetensors"
            write_safetensors(
                path,
                {
                    name: ("U8", (one.nbytes,), bytes(raw(one)))
                    for name, one in model.items()
                },
            )
    return path


def raw(tensor: Any) -> memoryview:
    return memoryview(tensor).cast("B")


def pickled(plain: list[Path], folder: Path, size: int) -> list[str]:
    """The same tensors as torch saves them."""
    if size > 4 << 30:
        return []  # it would be on the disk in full, not sparse
    import torch
    from safetensors.torch import load_file

    paths = []
    for i, file in enumerate(plain):
        paths.append(str(folder / f"{i}.pt"))
        torch.save(load_file(file), paths[-1])
    return paths


def main(models: list[str]) -> None:
    from agent import Agent

    # One row has all of the memory.
    agent = Agent("[host]\nrows = 1\n[cuda]\nenabled = off\n")
    try:
        for model in models:
            with tempfile.TemporaryDirectory(prefix="bench-load.") as folder:
                table(Bench(agent, Path(model), Path(folder)))
    finally:
        agent.stop()


def table(bench: Bench) -> None:
    loaders = [one for one in LOADERS if bench.files[one]]
    rounds: dict[str, list[dict[str, float]]] = {one: [] for one in loaders}
    for _ in range(ROUNDS):
        for loader in loaders:
            rounds[loader].append(bench.round(loader))
    print(f"{bench.model.name}, {bench.size / 1e6:.0f} MB")
    for loader in loaders:
        row: dict[str, object] = {"loader": loader}
        for what in rounds[loader][0]:
            seconds = [one[what] for one in rounds[loader]]
            # Over gpumap's of the same round.
            times = [
                one[what] / ours[what]
                for one, ours in zip(
                    rounds[loader], rounds["gpumap"], strict=True
                )
            ]
            row[what] = round(statistics.median(seconds), 5)
            row[f"{what}, times gpumap's"] = round(
                statistics.median(times), 2
            )
        memory = bench.memory(loader)
        row["memory"] = None if memory is None else round(memory, 2)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        Child(sys.argv[2], sys.argv[6:], sys.argv[3:6]).run()
    else:
        main(sys.argv[1:])
