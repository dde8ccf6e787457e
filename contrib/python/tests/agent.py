# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""An agent of the tests' own, on host rows, and checkpoints to load."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BUILD = Path(os.environ.get("GPUMAP_BUILD", "."))
# The program behind libtool's script, whose shell may catch signals that the
# caller ignores.
LIBTOOL = BUILD / "agent/ctl/.libs/gpumapctl"
GPUMAPCTL = str(LIBTOOL if LIBTOOL.exists() else BUILD / "agent/ctl/gpumapctl")
ENV = {
    **os.environ,
    "GPUMAP_EXEC_PATH": str(BUILD / "contrib/python/built"),
    "LD_LIBRARY_PATH": str(BUILD / "lib/.libs"),
}
CONFIG = """
[host]
rows = 2
[cuda]
enabled = off
"""


def die_with_parent() -> None:
    """Have SIGTERM where a test crashes the interpreter."""
    prctl = ctypes.CDLL(None).prctl
    prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


class Agent:
    """gpumapd with an instance of its own; stop() leaves nothing behind."""

    def __init__(self, config: str = CONFIG, **env: str) -> None:
        self.env = {**ENV, **env}
        self.folder = Path(tempfile.mkdtemp(prefix="gpumap-python."))
        self.folder.chmod(0o711)  # workers, which are another user, have folders
        self.instance = f"python.{os.getpid()}.{self.folder.suffix[1:]}"
        self.runtime_dir = self.folder / "run"
        self.runtime_dir.mkdir(mode=0o700)
        (self.folder / "gpumapd.conf").write_text(config)
        self.log = open(self.folder / "log", "w")
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def command(self) -> list[str]:
        return [
            str(BUILD / "agent/daemon/gpumapd"),
            "--instance",
            self.instance,
            "--runtime-dir",
            str(self.runtime_dir),
            "--state-dir",
            str(self.folder / "state"),
            "--config",
            str(self.folder / "gpumapd.conf"),
        ]

    def start(self) -> None:
        self.begins = (self.folder / "log").stat().st_size
        self.process = subprocess.Popen(
            [
                *self.command(),
                "--worker",
                str(BUILD / "agent/worker/gpumap-worker"),
                "--probe",
                str(BUILD / "agent/probe/gpumap-probe"),
                "--loader",
                str(BUILD / "agent/ctl/gpumapctl"),
            ],
            stdout=self.log,
            stderr=self.log,
            env=self.env,
            preexec_fn=die_with_parent,
        )
        deadline = time.monotonic() + 60
        while not self.ready():
            if self.process.poll() is not None:
                raise RuntimeError((self.folder / "log").read_text())
            if time.monotonic() > deadline:
                raise RuntimeError("the agent does not become ready")
            time.sleep(0.02)

    def ready(self) -> bool:
        """Rows are ready, and listed maps are published."""
        return "event=ready " in (self.folder / "log").read_text()[self.begins :]

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def words(self, *args: str) -> list[str]:
        """The command line of gpumapctl with these words."""
        return [
            GPUMAPCTL,
            f"--instance={self.instance}",
            f"--runtime-dir={self.runtime_dir}",
            *args,
        ]

    def run(self, *args: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """gpumapctl's end, whatever it is; more: of subprocess.run()."""
        said: dict[str, Any] = {"capture_output": True, "text": True}
        said |= {"env": self.env, **more}
        return subprocess.run(self.words(*args), **said)

    def ctl(self, *args: str) -> str:
        """What gpumapctl prints."""
        return self.run(*args, check=True).stdout

    def ctl_json(self, *args: str) -> Any:
        """The object that gpumapctl prints, on one line."""
        ran = self.run("--json", *args, check=True)
        assert ran.stderr == "" and ran.stdout.count("\n") == 1
        return json.loads(ran.stdout)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        subprocess.run(
            [*self.command(), "--remove"], stdout=self.log, stderr=self.log
        )
        self.log.close()
        for path in Path("/dev/shm").glob(
            f"gpumap.*.uid{os.getuid()}/{self.instance}"
        ):
            shutil.rmtree(path)
        shutil.rmtree(self.folder)


# The stand-in for a driver.
DRIVER = [
    "tests/fake/.libs/libcuda.so.1",
    "tests/fake/.libs/libnvidia-ml.so.1",
    "tests/fake/.libs/libnvidia-ptxjitcompiler.so.1",
    "tests/.libs/operators_kernels.so",
]
NODES = Path(__file__).resolve().parents[3] / "tests/nodes"


@contextmanager
def agent_of_dummies(node: str, config: str = "") -> Iterator[Agent]:
    """An agent with one host row, and behind it the rows of a node file, whose
    text this is, as dummies."""
    folder = Path(tempfile.mkdtemp(prefix="gpumap-dummies."))
    (folder / "node.yaml").write_text(node)
    agent = Agent(
        f"{config}[host]\nrows = 1\n[cuda]\nenabled = off\n"
        f"[dummy]\nfile = {folder}/node.yaml\n"
    )
    try:
        yield agent
    finally:
        agent.stop()
        shutil.rmtree(folder)


@contextmanager
def machine_of_cards(
    node: str, *faults: str
) -> Iterator[tuple[Path, dict[str, str]]]:
    """The cards of a node file, which the stand-in plays: a folder that has its
    libraries in "driver", and the environment of who uses them.

    faults   lines of the stand-in's plan, "row 0: link to 1"
    """
    folder = Path(tempfile.mkdtemp(prefix="gpumap-cards."))
    folder.chmod(0o755)
    (folder / "driver").mkdir()
    for path in DRIVER:
        shutil.copy(BUILD / path, folder / "driver")
    # Workers of programs write below /dev alone.
    machine = Path(tempfile.mkdtemp(prefix="gpumap-cards.", dir="/dev/shm"))
    machine.chmod(0o755)
    (machine / "dev").mkdir()
    hardware = machine / "hardware"
    words = ["make", "-n", str(NODES / node), "-d", str(machine / "dev")]
    words += ["-p", "\n".join(faults), str(hardware)]
    subprocess.run([str(BUILD / "tests/fake/stand-in"), *words], check=True)
    for one in (hardware, *(machine / "dev").rglob("*")):
        one.chmod(0o777 if one.is_dir() else 0o666)
    try:
        yield folder, {
            "GPUMAP_FAKE_HARDWARE": str(hardware),
            "GPUMAP_FAKE_KERNELS": str(folder / "driver/operators_kernels.so"),
        }
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(machine)


@contextmanager
def agent_of_cards(
    node: str = "small.yaml", *faults: str
) -> Iterator[Agent]:
    """An agent with the cards of machine_of_cards(), and one host row behind
    them."""
    with machine_of_cards(node, *faults) as (folder, env):
        agent = Agent(
            "[host]\nrows = 1\n[cuda]\nenabled = required\n"
            f"list-limit = 20s\nlibrary = {folder}/driver\n"
            f"pass-environment = {' '.join(env)}\n",
            **env,
        )
        try:
            yield agent
        finally:
            agent.stop()


def wait_for(
    what: Callable[[], object], seen: Callable[[], object] | None = None
) -> None:
    """Wait until it is true; where it never is, the test fails, and shows what
    is seen then."""
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline, seen and seen()
        time.sleep(0.005)


def write_safetensors(
    path: Path, tensors: dict[str, tuple[str, tuple[int, ...], bytes]]
) -> None:
    """Write a checkpoint of {name: (type, shape, bytes)}."""
    header = {}
    at = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {
            "dtype": dtype,
            "shape": list(shape),
            "data_offsets": [at, at + len(data)],
        }
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            stream.write(data)


def small_model(folder: Path, layers: int = 4) -> dict[
    str, tuple[str, tuple[int, ...], bytes]
]:
    """Write a model that has a tensor of each type, and return them."""
    folder.mkdir(parents=True, exist_ok=True)
    types = {
        "F64": 8,
        "F32": 4,
        "F16": 2,
        "BF16": 2,
        "I64": 8,
        "I32": 4,
        "I16": 2,
        "I8": 1,
        "U8": 1,
        "BOOL": 1,
        "F8_E4M3": 1,
    }
    tensors: dict[str, tuple[str, tuple[int, ...], bytes]] = {
        "model.embed_tokens.weight": (
            "BF16",
            (16, 8),
            bytes(i % 256 for i in range(256)),
        )
    }
    for layer in range(layers):
        for number, (dtype, size) in enumerate(types.items()):
            n = 6 * 4 * size
            seed = 17 * layer + number
            data = bytes((seed + i) % 60 for i in range(n))
            if dtype == "BOOL":
                data = bytes((seed + i) % 2 for i in range(n))
            name = f"model.layers.{layer}.{dtype.lower()}.weight"
            tensors[name] = (dtype, (6, 4), data)
        tensors[f"model.layers.{layer}.mlp.up_proj.weight"] = (
            "F32",
            (3, 5),
            struct.pack("<15f", *range(15 * layer, 15 * layer + 15)),
        )
    tensors["scalar"] = ("F32", (), struct.pack("<f", 2.5))
    tensors["empty"] = ("F16", (0, 4), b"")
    write_safetensors(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(
        json.dumps(
            {
                "model_type": "llama",
                "hidden_size": 8,
                "num_attention_heads": 2,
                "num_key_value_heads": 1,
                "num_hidden_layers": layers,
            }
        )
    )
    return tensors
