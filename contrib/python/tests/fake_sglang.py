# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""A stand-in for SGLang: its registry of hooks, and its default loader.

Names, signatures and the order of calls are those of SGLang 0.5.23.
"""

from __future__ import annotations

import enum
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

disk_loads: list[str] = []  # models that were read from disk


class HookType(enum.Enum):
    BEFORE = "before"
    AFTER = "after"
    AROUND = "around"
    REPLACE = "replace"


class HookRegistry:
    _hooks: list[tuple[str, Callable[..., Any]]] = []

    @classmethod
    def register(
        cls,
        target: str,
        hook: Callable[..., Any],
        hook_type: HookType = HookType.AFTER,
    ) -> None:
        assert hook_type == HookType.AROUND
        cls._hooks.append((target, hook))

    @classmethod
    def apply_hooks(cls, patch: Callable[[Any, str, Any], None]) -> None:
        """Wrap the targets; patch is setattr()."""
        for target, hook in cls._hooks:
            assert target.startswith(
                "sglang.srt.model_loader.loader.DefaultModelLoader."
            )
            name = target.rpartition(".")[2]
            raw = vars(DefaultModelLoader)[name]
            static = isinstance(raw, staticmethod)
            original = raw.__func__ if static else raw
            wrapped: Any = functools.wraps(original)(
                functools.partial(_around, hook, original)
                if static
                else _method(hook, original)
            )
            patch(
                DefaultModelLoader,
                name,
                staticmethod(wrapped) if static else wrapped,
            )


def _around(hook: Any, original: Any, *args: Any, **named: Any) -> Any:
    return hook(original, *args, **named)


def _method(hook: Any, original: Any) -> Any:
    def method(*args: Any, **named: Any) -> Any:
        return hook(original, *args, **named)

    return method


class Model(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(5, 3)
        self.processed = 0

    def load_weights(self, weights: Iterator[tuple[str, Any]]) -> None:
        for name, tensor in weights:
            with torch.no_grad():
                getattr(self.up, name).copy_(tensor)
        # Some models make more tensors of what they have loaded.
        self.folded = self.up.weight.detach().sum(0)


class DefaultModelLoader:
    def __init__(self, load_config: Any) -> None:
        self.load_config = load_config

    def load_model(self, *, model_config: Any, device_config: Any) -> Any:
        device = torch.device(device_config.device)
        model = Model()
        self.load_weights_and_postprocess(
            model, self._get_all_weights(model_config, model), device
        )
        return model.eval()

    def _get_all_weights(
        self, model_config: Any, model: Any
    ) -> Iterator[tuple[str, Any]]:
        disk_loads.append(model_config.model_path)
        torch.manual_seed(11)
        yield "weight", torch.randn(3, 5)
        yield "bias", torch.randn(3)

    @staticmethod
    def load_weights_and_postprocess(
        model: Any, weights: Any, target_device: Any
    ) -> None:
        DefaultModelLoader.load_weights_only(model, weights, target_device)
        DefaultModelLoader.postprocess_weights(model, target_device)

    @staticmethod
    def load_weights_only(
        model: Any, weights: Any, target_device: Any
    ) -> None:
        model.load_weights(weights)

    @staticmethod
    def postprocess_weights(model: Any, target_device: Any) -> None:
        model.processed += 1


class LayeredModelLoader(DefaultModelLoader):
    """One of those that derive from the default one."""


def config(path: str, draft: bool = False) -> Any:
    return types.SimpleNamespace(
        model_path=path,
        revision=None,
        dtype=torch.float32,
        quantization=None,
        hf_config={"hidden_size": 5},
        is_draft_model=draft,
    )


def modules() -> dict[str, types.ModuleType]:
    """What sys.modules has where SGLang is installed."""
    found: dict[str, types.ModuleType] = {}

    def module(name: str, **values: Any) -> None:
        made = types.ModuleType(name)
        vars(made).update(values, __path__=[])
        found[name] = made

    me = sys.modules[__name__]
    module("sglang", __version__="0.5.23")
    module("sglang.srt")
    module(
        "sglang.srt.distributed",
        get_pp_group=lambda: types.SimpleNamespace(
            rank_in_group=0, world_size=1
        ),
        get_tensor_model_parallel_rank=lambda: 0,
        get_tensor_model_parallel_world_size=lambda: 1,
        get_moe_expert_parallel_rank=lambda: 0,
        get_moe_expert_parallel_world_size=lambda: 1,
    )
    found["sglang.srt"].distributed = (  # type: ignore[attr-defined]
        found["sglang.srt.distributed"]
    )
    module("sglang.srt.plugins")
    module(
        "sglang.srt.plugins.hook_registry",
        HookRegistry=me.HookRegistry,
        HookType=me.HookType,
    )
    return found
