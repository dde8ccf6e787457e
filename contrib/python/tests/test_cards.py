# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Rows of cards, on the stand-in driver.  No GPU is in any of this."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpumap
import pytest
from agent import BUILD, DRIVER, Agent, agent_of_cards, small_model
from gpumap import Job, export, hf

if not all((BUILD / path).exists() for path in DRIVER):
    pytest.skip("the stand-in was not built", allow_module_level=True)


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    with agent_of_cards() as one:
        yield one


@pytest.fixture
def cards(map: gpumap.Map) -> list[gpumap.Device]:
    return [
        device
        for device in map.devices
        if device.kind == gpumap.DeviceKind.CUDA
    ]


def test_devices(map: gpumap.Map, cards: list[gpumap.Device]) -> None:
    assert cards and len(cards) < len(map.devices)
    for device in cards:
        assert device.uuid.startswith("GPU-") and not device.is_host
        assert device.cc_major > 0 and device.free > 0
        assert map.row(device.uuid) == device.row
        assert map.row(device.uuid[4:]) == device.row
    assert map.choose()[0] == cards[0].row
    assert map.choose(compute_capability=f"{cards[0].cc_major}.0")
    with pytest.raises(gpumap.NoDevice):
        map.choose(compute_capability="99.0")


def test_jobs(session: gpumap.Session, cards: list[gpumap.Device]) -> None:
    row = cards[0].row
    buffer = session.alloc(row, 4096)
    memory = session.memory(row, 4096)
    session.run(row, Job("fill", 1024, "f32", buffer, pattern=0x40000000))
    session.run(row, Job("scale", 1024, "f32", memory, buffer, alpha=1.5))
    assert memoryview(memory).cast("f").tolist() == [3.0] * 1024


def test_tensors(
    map: gpumap.Map,
    session: gpumap.Session,
    cards: list[gpumap.Device],
    tmp_path: Path,
) -> None:
    tensors = small_model(tmp_path)
    row = cards[0].row
    name = "model.layers.0.u8.weight"
    with session.load(tmp_path, name="card", rows=[row]) as model:
        tensor = model[name]
        assert tensor.row == row and tensor.nbytes == 24
        calls: list[Any] = [
            lambda: memoryview(tensor),
            lambda: tensor.__dlpack__(),
            lambda: tensor.__dlpack_device__(),
            lambda: tensor.fd(),
        ]
        for call in calls:
            with pytest.raises(BufferError, match="host row|GPU"):
                call()
        memory = session.memory(row, 24)
        buffer = gpumap.Buffer(session, tensor.buffer, 24, row)
        session.run(
            row, Job("copy", 24, "u8", memory, (buffer, tensor.offset))
        )
        buffer.handle = 0  # the model's
        assert bytes(memory) == tensors[name][2]
        with map.session() as other, other.open("card") as opened:
            assert opened[name].shape == (6, 4)
            with pytest.raises(BufferError):
                opened.private(name).numpy()


def test_settings(
    map: gpumap.Map, cards: list[gpumap.Device], tmp_path: Path
) -> None:
    small_model(tmp_path)
    row = cards[0].row
    layers = map.publish("cards", f"{row}:4")
    settings = export.vllm(layers)
    assert settings.exact and settings.rows == (row,)
    assert settings.env["CUDA_VISIBLE_DEVICES"] == cards[0].uuid
    assert export.llama_cpp(layers).exact
    # This machine has no device nodes: no card is visible to this process.
    if map.ordinal(row) is None:
        with pytest.raises(gpumap.NoDevice) as caught:
            hf.device_map(layers, tmp_path)
        assert "CUDA_VISIBLE_DEVICES" in caught.value.refusal
    map.release("cards")


def test_reserve_takes_a_card(
    map: gpumap.Map, cards: list[gpumap.Device]
) -> None:
    with map.reserve(1 << 20) as kept:
        assert set(kept.by_row) <= {device.row for device in cards}
        assert list(kept.by_row.values()) == [1 << 20]


POOL = """
import ctypes, os, sys
import gpumap
from gpumap import Job, _core

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0
map = gpumap.attach(*sys.argv[1:3])
row = next(d.row for d in map.devices if d.kind == gpumap.DeviceKind.CUDA)
device = map.devices[row].ordinal_pci  # there are no device nodes
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
assert cuda.cuCtxSetCurrent(context) == 0

core = ctypes.CDLL(_core.__file__)
alloc, free = core.gpumap_pool_alloc, core.gpumap_pool_free
alloc.restype = ctypes.c_void_p
alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                 ctypes.c_void_p]
assert alloc(4096, device, None) is None  # it has no pool yet
map._pool_open(row, device)
try:
    map._pool_open(row, device)
    raise AssertionError("two pools")
except gpumap.Exists:
    pass

def used():  # by this process: sessions of others may be ending
    return sum(
        one.bytes
        for one in map.usage()
        if one.row == row and one.pid == os.getpid()
    )

size = 3 << 20
before = used()
one, two = alloc(size, device, None), alloc(size, device, None)
assert one and two and one != two
assert used() - before >= 2 * size
for wrong in (0, -1):
    assert alloc(wrong, device, None) is None
assert alloc(size, 64, None) is None and alloc(size, -1, None) is None
assert alloc(1 << 50, device, None) is None  # more than there is

# Jobs of another session read what this process's kernels write.
text = b"torch wrote this"
assert cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(two + 4096), text, 16) == 0
number, at, nbytes = _core._pool_find(two + 4096)
assert (at, nbytes) == (4096, size)
session = map.session()
buffer = session.import_buffer(number)
memory = session.memory(row, 16)
session.run(row, Job("copy", 16, "u8", memory, (buffer, at)))
assert bytes(memoryview(memory)) == text
buffer.free()

free(two, size, device, None)
free(two, size, device, None)  # nothing
assert _core._pool_find(two) is None and _core._pool_find(one)
assert _core._pool_find(one + size) is None
assert alloc(1 << 20, device, None) not in (one, two)
# A free block is for the next of its size.
assert alloc(size - 4096, device, None) == two
free(one, size, device, None)
print("done")
"""


def test_pool(agent: Agent) -> None:
    """The allocator of gpumap.torch.pool(), called as torch calls it."""
    driver = Path(agent.env["GPUMAP_FAKE_KERNELS"]).parent
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            POOL,
            agent.instance,
            str(agent.runtime_dir),
        ],
        env={
            **agent.env,
            "LD_LIBRARY_PATH": f"{driver}:{os.environ.get('LD_LIBRARY_PATH')}",
        },
        capture_output=True,
        text=True,
    )
    assert ran.stdout == "done\n", ran.stderr
