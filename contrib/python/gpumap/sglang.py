# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""A plugin for SGLang: one engine of the node loads, the others attach.

    GPUMAP_SGLANG='{"instance": "node"}' \\
        python -m sglang.launch_server --model-path MODEL

SGLang finds this module by the entry point sglang.srt.plugins.  Without the
variable GPUMAP_SGLANG, which has the settings of gpumap.engine.Tensors as JSON,
the plugin does nothing.

The plugin has two AROUND hooks of SGLang's HookRegistry on DefaultModelLoader:
one on load_model(), which says of what the tensors are, and one on
load_weights_only(), which is left out where another engine has loaded them.
Tensors are shared as they are loaded, and each engine processes its own copy:
on the CPU that is the shared memory, copy on write, until it is written.

It has not been run with SGLang: its tests are on a stand-in for the registry
and the loader, written after SGLang 0.5.23.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import torch

from .engine import Tensors, files_of, hash_of

__all__ = ["register"]

_LOADER = "sglang.srt.model_loader.loader.DefaultModelLoader"
_log = logging.getLogger("sglang.gpumap")
_settings: dict[str, Any] = {}
_loading: ContextVar[Tensors | None] = ContextVar("loading", default=None)


def register() -> None:
    """The entry point: put the hooks in, where GPUMAP_SGLANG is set."""
    text = os.environ.get("GPUMAP_SGLANG")
    if text is None:
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    settings = json.loads(text or "{}")
    Tensors("sglang", settings, _log)  # wrong settings are told now
    _settings.clear()
    _settings.update(settings)
    HookRegistry.register(
        f"{_LOADER}.load_model", _load_model, HookType.AROUND
    )
    HookRegistry.register(
        f"{_LOADER}.load_weights_only", _load_weights, HookType.AROUND
    )


def _load_model(
    original: Callable[..., Any],
    loader: Any,
    *,
    model_config: Any,
    device_config: Any,
) -> Any:
    tensors = None
    # Other loaders derive from this one, and load other things.
    if type(loader).__name__ == "DefaultModelLoader" and not (
        model_config.is_draft_model
    ):
        tensors = Tensors("sglang", _settings, _log)
        tensors.fields = _fields(loader, model_config, device_config)
    token = _loading.set(tensors)
    try:
        return original(
            loader, model_config=model_config, device_config=device_config
        )
    finally:
        _loading.reset(token)


def _load_weights(
    original: Callable[..., None], model: Any, weights: Any, target_device: Any
) -> None:
    tensors = _loading.get()
    if tensors is None:
        original(model, weights, target_device)
        return
    device = torch.device(target_device)
    tensors.load(
        model,
        lambda: original(model, weights, target_device),
        None if device.type == "cpu" else device,
    )


def _fields(
    loader: Any, model_config: Any, device_config: Any
) -> dict[str, object]:
    import sglang
    from sglang.srt import distributed

    quant = getattr(model_config.hf_config, "quantization_config", None)
    config = model_config.hf_config
    pp = distributed.get_pp_group()
    return {
        "engine": f"sglang {sglang.__version__}, torch {torch.__version__}",
        "files": files_of(model_config.model_path, model_config.revision),
        "format": loader.load_config.load_format,
        "config": hash_of(config),
        "dtype": model_config.dtype,
        "quantization": model_config.quantization,
        "quantization_config": hash_of(quant),
        "tp": f"{distributed.get_tensor_model_parallel_rank()} of "
        f"{distributed.get_tensor_model_parallel_world_size()}",
        "pp": f"{pp.rank_in_group} of {pp.world_size}",
        "ep": f"{distributed.get_moe_expert_parallel_rank()} of "
        f"{distributed.get_moe_expert_parallel_world_size()}",
        "device": device_config.device,
    }
