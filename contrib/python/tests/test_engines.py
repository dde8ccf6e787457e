# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Loaders of engines, on stand-ins for the engines' interfaces."""

from __future__ import annotations

import importlib
import json
import logging
import sys
import types
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import gpumap
import pytest
from agent import Agent

torch = pytest.importorskip("torch")

import fake_sglang as sglang  # noqa: E402
import fake_vllm as vllm  # noqa: E402
import gpumap.engine  # noqa: E402
import gpumap.torch as gt  # noqa: E402


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.safetensors").write_bytes(b"what engines read")
    return tmp_path


@pytest.fixture(autouse=True)
def leave_shares() -> Iterator[None]:
    """What engines hold as long as they run ends with each test."""
    yield
    for session in gpumap.engine._held:
        session.close()
    gpumap.engine._held.clear()


# ---- vLLM --------------------------------------------------------------------


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, module in vllm.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "gpumap.vllm", raising=False)
    (found,) = [
        one
        for one in entry_points(group="vllm.general_plugins")
        if one.name == "gpumap"
    ]
    found.load()()  # as vLLM's load_general_plugins() does
    vllm.disk_loads.clear()
    vllm.transforms.clear()
    yield importlib.import_module("gpumap.vllm")
    sys.modules.pop("gpumap.vllm", None)


def engine(agent: Agent, folder: Path, draft: bool = False, **more: Any) -> Any:
    """Start an engine: its loader, and the model that it makes."""
    keys = more.pop("keys", {})
    load = vllm.LoadConfig(
        "gpumap",
        model_loader_extra_config={
            "instance": agent.instance,
            "runtime_dir": str(agent.runtime_dir),
            **keys,
        },
    )
    model = vllm.ModelConfig(str(folder), **more)
    what = vllm.vllm_config(load)
    if draft:
        what.speculative_config = type("", (), {"draft_model_config": model})
    loader = vllm.get_model_loader(load)
    assert loader.get_external_weight_memory(what) == 0
    return loader.load_model(vllm_config=what, model_config=model)


def test_vllm_on_the_cpu(plugin: Any, agent: Agent, folder: Path) -> None:
    """Tensors are shared as they are loaded; each engine processes them."""
    first, second = engine(agent, folder), engine(agent, folder)
    assert vllm.disk_loads == [str(folder)]
    assert vllm.transforms == ["turned", "turned"]
    assert gt.differences(first, second) == []
    assert second.lm_head.weight is second.embed.weight
    # One engine's write reaches no other.
    with torch.no_grad():
        second.embed.weight.mul_(0)
    assert first.embed.weight.abs().sum() > 0
    third = engine(agent, folder)
    assert gt.differences(first, third) == []


def test_vllm_keeps_parameters(
    plugin: Any, agent: Agent, folder: Path
) -> None:
    """A parameter stays, with what vLLM has noted on it."""
    load = vllm.LoadConfig(
        "gpumap",
        model_loader_extra_config={
            "instance": agent.instance,
            "runtime_dir": str(agent.runtime_dir),
        },
    )
    config = vllm.ModelConfig(str(folder))
    for _ in range(2):
        loader = vllm.get_model_loader(load)
        loader.tensors.fields = {"of": "this test"}
        model = vllm.Model(True)
        parameter = model.layer.weight
        loader.load_weights(model, config)
        assert model.layer.weight is parameter
        assert parameter.weight_loader == "of this layer"
        # To load again is to read the disk.
        loader.load_weights(model, config)
    assert len(vllm.disk_loads) == 3


def test_vllm_processed(
    plugin: Any,
    agent: Agent,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of what vLLM has made of weights nothing is made again."""
    monkeypatch.setattr(plugin, "_packs", lambda device: False)
    first, second = engine(agent, folder), engine(agent, folder)
    assert vllm.disk_loads == [str(folder)]
    assert vllm.transforms == ["turned"]
    weight = second.layer.weight
    assert weight.shape == (6, 4) and weight.stride() == (1, 6)
    assert second.layer.weight_scale.item() > 0
    assert second.layer.kernel is torch.matmul
    assert second.lm_head.weight is second.embed.weight
    assert gt.without_memory(second) == []
    # A tensor that vLLM dropped has memory, and no content.
    lacking = [one for one in gt.differences(first, second) if one]
    assert lacking == ["layer.raw_scale: in one only"]


def test_vllm_what_is_not_shared(
    plugin: Any,
    agent: Agent,
    map: gpumap.Map,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(plugin, "_packs", lambda device: False)
    with caplog.at_level(logging.WARNING, "vllm.gpumap"):
        for _ in range(2):
            engine(agent, folder, takes_processed=False)
    assert "layer (Turned) takes no processed weights" in caplog.text
    engine(agent, folder, draft=True)
    assert len(vllm.disk_loads) == 3
    assert map.shares() == []


def test_vllm_other_settings(
    plugin: Any, agent: Agent, folder: Path
) -> None:
    """Another dtype, and other files of the same name, are other tensors."""
    engine(agent, folder)
    engine(agent, folder, dtype=torch.float64)
    assert len(vllm.disk_loads) == 2
    (folder / "model.safetensors").write_bytes(b"a new release")
    engine(agent, folder)
    assert len(vllm.disk_loads) == 3


def test_vllm_without_an_agent(
    plugin: Any, agent: Agent, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "vllm.gpumap"):
        engine(agent, folder, keys={"instance": "no-such"})
    assert "this engine loads from disk" in caplog.text
    assert vllm.disk_loads == [str(folder)]
    with pytest.raises(gpumap.NotRunning):
        engine(agent, folder, keys={"instance": "x", "fallback": False})
    with pytest.raises(ValueError, match="has no nothing; it has fallback"):
        engine(agent, folder, keys={"nothing": 1})


def test_vllm_a_load_that_fails(
    plugin: Any, agent: Agent, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim is given back, and the next engine loads."""

    def fail(*unused: object) -> None:
        raise OSError("the disk")

    with monkeypatch.context() as patch:
        patch.setattr(vllm.DefaultModelLoader, "load_weights", fail)
        with pytest.raises(OSError, match="the disk"):
            engine(agent, folder)
    engine(agent, folder, keys={"timeout": 0})
    assert len(vllm.disk_loads) == 1


# ---- SGLang ------------------------------------------------------------------


@pytest.fixture
def hooked(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """SGLang, after its load_plugins()."""
    for name, module in sglang.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    (found,) = [
        one
        for one in entry_points(group="sglang.srt.plugins")
        if one.name == "gpumap"
    ]
    monkeypatch.setattr(sglang.HookRegistry, "_hooks", [])
    monkeypatch.delenv("GPUMAP_SGLANG", raising=False)
    found.load()()
    assert sglang.HookRegistry._hooks == []  # nobody has asked for it
    where = {
        "instance": agent.instance,
        "runtime_dir": str(agent.runtime_dir),
    }
    monkeypatch.setenv("GPUMAP_SGLANG", json.dumps(where))
    found.load()()
    sglang.HookRegistry.apply_hooks(monkeypatch.setattr)
    sglang.disk_loads.clear()


def sglang_engine(folder: Path, kind: str = "", draft: bool = False) -> Any:
    loader = getattr(sglang, kind or "DefaultModelLoader")(
        types.SimpleNamespace(load_format="auto")
    )
    return loader.load_model(
        model_config=sglang.config(str(folder), draft),
        device_config=types.SimpleNamespace(device="cpu"),
    )


def test_sglang(hooked: None, folder: Path) -> None:
    first, second = sglang_engine(folder), sglang_engine(folder)
    assert sglang.disk_loads == [str(folder)]
    assert first.processed == second.processed == 1
    assert gt.differences(first, second) == []
    assert torch.equal(second.folded, second.up.weight.sum(0))
    with torch.no_grad():
        second.up.weight.mul_(0)
    assert first.up.weight.abs().sum() > 0


def test_sglang_what_is_not_shared(
    hooked: None, folder: Path, map: gpumap.Map
) -> None:
    sglang_engine(folder, draft=True)
    sglang_engine(folder, "LayeredModelLoader")
    assert len(sglang.disk_loads) == 2
    assert map.shares() == []


def test_sglang_wrong_settings(
    hooked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gpumap.sglang

    monkeypatch.setenv("GPUMAP_SGLANG", '{"nothing": 1}')
    with pytest.raises(ValueError, match="has no nothing"):
        gpumap.sglang.register()
