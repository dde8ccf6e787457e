# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The caches that are planned for the models of tests/caches: as counted there.

Each model is a file with a header and a hole, so that the test needs no weights.
"""

from __future__ import annotations

import json
import runpy
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import gpumap
import pytest
from agent import agent_of_dummies

CACHES = Path(__file__).parents[3] / "tests/caches"
TABLE = runpy.run_path(str(CACHES / "table.py"))
MODELS = TABLE["load"](CACHES / "models.json")
GGUF = TABLE["load"](CACHES / "gguf.json")
VLLM = TABLE["load"](CACHES / "vllm.json")
NODE = """
name: wide
rows:
  - name: card
    kind: cuda
    count: 1
    memory: 8192G
    free: 8192G
    compute-capability: 9.0
"""


def wanted(model: Any) -> Sequence[int]:
    """The bytes of a plan, with those of the encoder's tokens."""
    if "planned" in model:
        planned: Sequence[int] = model["planned"]
        return planned
    cross = [
        TABLE["count"](model.get("cross", {}), model.get("cross_tokens", n))
        for n in TABLE["LENGTHS"]
    ]
    return [a + b for a, b in zip(model["bytes"], cross, strict=True)]


MODEL_OF = {model["name"]: model for model in MODELS}
WANTED = {model["name"]: wanted(model) for model in MODELS}


def write_safetensors(folder: Path, model: Any) -> None:
    (folder / "config.json").write_text(json.dumps(model["config"]))
    header: dict[str, Any] = {}
    end = 0
    for name, shape in TABLE["unfold"](model["tensors"]).items():
        start, end = end, end + 2 * prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def gguf_string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def gguf_value(value: Any) -> bytes:
    """A type and a value; whole numbers have 32 bits, as converters write them."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_string(value)
    items = [gguf_value(item) for item in value]
    kind = items[0][:4]
    return (
        struct.pack("<I", 9)
        + kind
        + struct.pack("<Q", len(items))
        + b"".join(item[4:] for item in items)
    )


def write_gguf(path: Path, model: Any, kind: tuple[int, int, int] = (30, 1, 2)) -> None:
    """Tensors of a type of GGUF, with so many elements and bytes in a block; or BF16."""
    number, elements, size = kind
    keys = model["keys"]
    tensors = TABLE["unfold"](model["tensors"])
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for key, value in keys.items():
        head += gguf_string(key) + gguf_value(value)
    end = 0
    for name, shape in tensors.items():
        head += gguf_string(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *shape)
        head += struct.pack("<IQ", number, end)
        end += prod(shape) // elements * size
        end += -end % 32
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % 32))
        file.truncate(len(head) + -len(head) % 32 + end)


@pytest.fixture(scope="module")
def wide() -> Iterator[gpumap.Map]:
    with (
        agent_of_dummies(NODE) as agent,
        gpumap.attach(agent.instance, agent.runtime_dir) as map,
    ):
        yield map


def planned(map: gpumap.Map, model: Path, engine: str | None = None) -> Sequence[int]:
    """The bytes of the caches of all layers, for each length of the table."""
    shape = gpumap.Shape.of(model)
    plans = [
        map.plan(shape, rows=[1], dtype="bf16", max_seq_len=n, engine=engine)
        for n in TABLE["LENGTHS"]
    ]
    return [sum(charge.kv_bytes for charge in plan.charges) for plan in plans]


@pytest.mark.parametrize("model", MODELS, ids=[model["name"] for model in MODELS])
def test_safetensors(model: Any, tmp_path: Path, wide: gpumap.Map) -> None:
    write_safetensors(tmp_path, model)
    assert planned(wide, tmp_path) == wanted(model)


@pytest.mark.parametrize("model", GGUF, ids=[model["name"] for model in GGUF])
def test_gguf(model: Any, tmp_path: Path, wide: gpumap.Map) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(path, model)
    own = "bytes" in model or "planned" in model
    want = wanted(model) if own else WANTED[model["name"]]
    assert planned(wide, path) == want


PAIRS = [(MODEL_OF[m["name"]], m) for m in GGUF if m["name"] in MODEL_OF and "bytes" not in m]


def layers(model: Path) -> list[gpumap.LayerCache]:
    """What each layer keeps, with no window where the model has no longer sequences."""
    out = []
    for cache in gpumap.Shape.of(model).caches:
        longest = cache.window >= TABLE["LENGTHS"][-1]
        one = replace(cache, n_layers=1, window=0 if longest else cache.window)
        out += [one] * cache.n_layers
    return out


@pytest.mark.parametrize("pair", PAIRS, ids=[pair[0]["name"] for pair in PAIRS])
def test_both_files_of_a_model(pair: tuple[Any, Any], tmp_path: Path) -> None:
    write_safetensors(tmp_path, pair[0])
    write_gguf(tmp_path / "model.gguf", pair[1])
    assert layers(tmp_path) == layers(tmp_path / "model.gguf")


@pytest.mark.parametrize("model", MODELS, ids=[model["name"] for model in MODELS])
def test_sums(model: Any) -> None:
    counted = [TABLE["count"](model["layers"], n) for n in TABLE["LENGTHS"]]
    assert counted == model["bytes"]


@pytest.mark.parametrize("name", VLLM)
def test_vllm(name: str, tmp_path: Path, wide: gpumap.Map) -> None:
    model = next(model for model in MODELS if model["name"] == name)
    write_safetensors(tmp_path, model)
    assert planned(wide, tmp_path, "vllm") == VLLM[name]
