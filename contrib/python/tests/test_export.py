# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Settings of other engines, and what transformers and accelerate want."""

from __future__ import annotations

from pathlib import Path

import gpumap
import pytest
from gpumap import export, hf


def test_export(map: gpumap.Map, checkpoint: Path) -> None:
    layers = map.publish("export", "0:4")
    assert export.llama_cpp(layers).argv[:2] == ("--device", "none")
    by_env = export.llama_cpp(layers, by_env=True)
    assert not by_env.argv and by_env.env["LLAMA_ARG_N_GPU_LAYERS"] == "0"
    assert export.environment(layers).env["CUDA_VISIBLE_DEVICES"] == "-1"
    assert export.ollama(layers).env
    settings = export.accelerate(layers, model=checkpoint)
    assert settings.file is not None and '"cpu"' in settings.file
    assert export.mistralrs(layers, file_name="x.yaml").notes is not None
    for engine in (export.vllm, export.sglang):
        with pytest.raises(gpumap.Unsupported) as caught:
            engine(layers)
        assert isinstance(caught.value, NotImplementedError)
        assert "layer" in caught.value.refusal
    map.release("export")


def test_device_map(map: gpumap.Map, checkpoint: Path) -> None:
    layers = map.publish("hf", "0:4")
    got = hf.device_map(layers, checkpoint)
    assert set(got.values()) == {"cpu"}
    assert "model.layers.3" in got
    memory = hf.max_memory(map, keep=1 << 20)
    assert set(memory) == {"cpu"}
    assert 0 < memory["cpu"] < map.devices[0].total_bytes
    map.release("hf")


def test_engines_of_an_unknown_name(map: gpumap.Map) -> None:
    with pytest.raises(KeyError):
        map.export("no engine", "x")
    with pytest.raises(gpumap.NotFound):
        map.export("env", "no such map")
