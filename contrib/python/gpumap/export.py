# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""A layer map in the settings of other inference engines, for their argv.

Each is Map.export() with the engine's name: the arguments, the variables, and
whether the engine then places every layer as the map does.
"""

from __future__ import annotations

from .enums import Engine
from .facts import Settings
from .map import Layers, Path

__all__ = [
    "accelerate",
    "environment",
    "llama_cpp",
    "mistralrs",
    "ollama",
    "sglang",
    "vllm",
]


def llama_cpp(
    layers: Layers, *, model: Path | None = None, by_env: bool = False
) -> Settings:
    """For llama-server and the other programs of llama.cpp.

    model    the GGUF file, whose layers are counted
    by_env   LLAMA_ARG_* in the place of arguments
    """
    return layers.map.export(
        Engine.LLAMA_CPP, layers, model=model, by_env=by_env
    )


def ollama(layers: Layers, *, model: Path | None = None) -> Settings:
    """For ollama, which hands variables on to llama.cpp."""
    return layers.map.export(Engine.OLLAMA, layers, model=model)


def vllm(layers: Layers) -> Settings:
    """For vLLM: a pipeline of contiguous layers on GPUs."""
    return layers.map.export(Engine.VLLM, layers)


def sglang(layers: Layers) -> Settings:
    """For SGLang, as vLLM."""
    return layers.map.export(Engine.SGLANG, layers)


def mistralrs(
    layers: Layers, *, file_name: str = "topology.yaml"
) -> Settings:
    """For mistral.rs; write the settings' file as file_name."""
    return layers.map.export(
        Engine.MISTRAL_RS, layers, file_name=file_name
    )


def accelerate(layers: Layers, *, model: Path) -> Settings:
    """For accelerate: the settings' file is a device_map in JSON."""
    return layers.map.export(Engine.ACCELERATE, layers, model=model)


def environment(layers: Layers) -> Settings:
    """For any program: which devices, and no more."""
    return layers.map.export(Engine.ENV, layers)
