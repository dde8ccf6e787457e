# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Bad input to the extension: exceptions, and never a crash."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpumap
import pytest
from gpumap import _core

ODD: list[Any] = [
    None,
    0,
    -1,
    1,
    7,
    255,
    2**31,
    2**32,
    2**63,
    2**64,
    -(2**63),
    1.5,
    float("nan"),
    float("inf"),
    "",
    "name",
    "x" * 64,
    "x" * 5000,
    "a\0b",
    "\udc80",
    b"",
    b"bytes",
    bytes(128),
    (),
    (1, 2),
    [],
    [1],
    [None],
    {},
    {"name": "x"},
    {"n": 2**70},
    {"rows": [2**40]},
    {"layer_bytes": "text"},
    [{"op": 1, "n": 1}],
    [{"op": 1, "dst": 5, "n": 8}],
    [{"waits": [1]}],
    object(),
    ...,
]
SAFE = (
    OSError,
    ValueError,
    TypeError,
    OverflowError,
    BufferError,
    IndexError,
    UnicodeError,
)
# Mapping takes a descriptor over, _share_close() the memory of a model's
# metadata; others would take a row away from the other tests, or wait.
LEFT_OUT = {
    "_device_drain",
    "_device_undrain",
    "_device_cordon",
    "_wait_change",
    "_wait_ready",
    "_mesh_join",
    "_plan_make",
    "_policy_set",
    "_share_claim",
    "_share_close",
    "close",
    "_close",
}


def calls(thing: object) -> list[Any]:
    names = [
        name
        for name in dir(type(thing).__mro__[1])
        if name not in LEFT_OUT
        and (not name.startswith("__") or name.startswith("__dlpack"))
    ]
    return [getattr(thing, name) for name in names]


def try_all(things: list[object], rounds: int, seed: int) -> int:
    dice = random.Random(seed)
    methods: list[Any] = [
        call for thing in things for call in calls(thing) if callable(call)
    ]
    methods += [
        _core._mask_publish,
        _core._mask_info,
        _core.strerror,
        _core.Memory,
        _core.Model,
        _core.Session,
        _core.Tensor,
        _core.View,
        _core.Mask,
        _core.Comm,
        _core.Map,
    ]
    refused = 0
    for _ in range(rounds):
        call = dice.choice(methods)
        n = dice.choice((0, 1, 1, 2, 2, 3, 4, 5))
        args = [dice.choice(ODD + things) for _ in range(n)]
        try:
            call(*args)
        except SAFE:
            refused += 1
    return refused


@pytest.mark.parametrize("seed", range(int(os.environ.get("SEEDS", "3"))))
def test_bad_arguments(
    map: gpumap.Map, session: gpumap.Session, checkpoint: Path, seed: int
) -> None:
    layers = map.publish("bad", "0:4")
    map.publish_mesh("bad", "data", rows=[0, 1])
    map.publish_mask("bad", tgt_len=4)
    model = session.load(checkpoint, name="bad")
    things: list[object] = [
        map,
        session,
        layers,
        model,
        model["scalar"],
        session.memory(0, 64),
        map.mask("bad"),
        session.comm("bad"),
    ]
    refused = try_all(things, 20000, seed)
    assert refused > 15000
    model.close()


def test_bad_constructors(map: gpumap.Map, session: gpumap.Session) -> None:
    with pytest.raises(TypeError):
        _core.Session(object(), {})  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        _core.Session(map, {"no such": 1})
    with pytest.raises(gpumap.Invalid):
        map.session(depth=17)
    with pytest.raises(ValueError):
        _core.Tensor(b"12345678", 4, 8, "U8", (8,))
    with pytest.raises(ValueError):
        _core.Tensor(b"12345678", 2**63, 8, "U8", (8,))
    with pytest.raises(ValueError):
        _core.Tensor(b"", 0, 0, "F32", (2**40, 2**40))
    with pytest.raises(ValueError):
        _core.Tensor(b"", 0, 0, "F32", (-1,))
    # A shape that lies about its bytes is bytes only.
    lying = _core.Tensor(b"12345678", 0, 8, "F32", (9,))
    assert memoryview(lying).format == "B"  # type: ignore[arg-type]
    with pytest.raises(OSError):
        _core.Mapping(-1, 10)
    with pytest.raises(TypeError):
        _core.Replica()
    closed = map.session()
    closed.close()
    for call in (closed.poll, closed.counts, closed.arm):
        with pytest.raises(ValueError):
            call()
    session.close()
    with pytest.raises(ValueError):
        session.comm("x")


def test_exit_in_the_middle_of_everything(
    map: gpumap.Map, checkpoint: Path
) -> None:
    code = (
        "import gpumap, threading\n"
        f"m = gpumap.attach({map.instance!r}, {map.runtime_dir!r})\n"
        "s = m.session()\n"
        "memory = s.memory(0, 1 << 20)\n"
        "view = memoryview(memory)\n"
        f"model = s.load({str(checkpoint)!r}, name='exit-now')\n"
        "m.publish_mesh('exit', 'data', rows=[0, 1])\n"
        "comm = s.comm('exit')\n"
        "for i in range(20):\n"
        "    s.submit(0, gpumap.Job('fill', 1 << 20, 'u8', memory))\n"
        "def wait():\n"
        "    while True: m.wait_change(m.generation)\n"
        "threading.Thread(target=wait, daemon=True).start()\n"
        "loop = [m, s, memory, model, comm]; loop.append(loop)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    assert "Fatal" not in ran.stderr
