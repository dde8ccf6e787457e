# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""A stand-in for vLLM: the parts that a model loader meets, and a model.

Names, signatures and the order of calls are those of vLLM 0.32 and 0.33:
register_model_loader, BaseModelLoader.load_model, initialize_model,
process_weights_after_loading and weights_already_processed.
"""

from __future__ import annotations

import dataclasses
import sys
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

LOADERS: dict[str, type] = {}
disk_loads: list[str] = []  # models that were read from disk
transforms: list[str] = []  # layers whose weights were converted
_processed = False


# ---- vllm.config, vllm.distributed, vllm.platforms ---------------------------


@dataclasses.dataclass
class LoadConfig:
    load_format: str = "auto"
    device: str | None = None
    model_loader_extra_config: Any = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class ModelConfig:
    model: str
    dtype: torch.dtype = torch.float32
    quantization: str | None = None
    revision: str | None = None
    hf_config: Any = dataclasses.field(default_factory=types.SimpleNamespace)
    takes_processed: bool = True

    def compute_hash(self) -> str:
        return f"{self.model} {self.dtype}"


def vllm_config(load: LoadConfig, draft: Any = None) -> Any:
    space = types.SimpleNamespace
    return space(
        load_config=load,
        device_config=space(device=torch.device("cpu")),
        parallel_config=space(
            enable_eplb=False, enable_expert_parallel=False
        ),
        cache_config=space(cache_dtype="auto"),
        speculative_config=draft,
    )


def group() -> Any:
    return types.SimpleNamespace(rank_in_group=0, world_size=1)


# ---- vllm.model_executor -----------------------------------------------------


class QuantizeMethodBase(ABC):
    supports_pre_processed_weights = False

    @abstractmethod
    def process_weights_after_loading(self, layer: Any) -> None: ...


class Turned(QuantizeMethodBase):
    """Keeps the weight transposed, with a scale that no checkpoint has."""

    def __init__(self, takes_processed: bool) -> None:
        self.supports_pre_processed_weights = takes_processed

    def process_weights_after_loading(self, layer: Any) -> None:
        if not _processed:
            transforms.append("turned")
            weight = layer.weight.data
            layer.weight = torch.nn.Parameter(
                weight.t(), requires_grad=False
            )
            layer.weight_scale = torch.nn.Parameter(
                weight.abs().max().reshape(1), requires_grad=False
            )
            del layer.raw_scale
        layer.kernel = torch.matmul  # what no tensor shows


@contextmanager
def weights_already_processed() -> Iterator[None]:
    global _processed
    _processed = True
    try:
        yield
    finally:
        _processed = False


def process_weights_after_loading(
    model: Any, model_config: Any, target_device: torch.device
) -> None:
    for name, module in model.named_modules():
        method = getattr(module, "quant_method", None)
        if isinstance(method, QuantizeMethodBase):
            if _processed and not method.supports_pre_processed_weights:
                raise RuntimeError(f"{name} takes no processed weights")
            method.process_weights_after_loading(module)


class Layer(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self, takes_processed: bool) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(4, 6))
        self.weight.weight_loader = "of this layer"
        self.raw_scale = torch.nn.Parameter(torch.empty(1))
        self.quant_method = Turned(takes_processed)


class Model(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self, takes_processed: bool) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(8, 4)
        self.layer = Layer(takes_processed)
        self.lm_head = torch.nn.Linear(4, 8, bias=False)
        self.lm_head.weight = self.embed.weight
        table = 1.0 / torch.arange(1, 5)
        self.register_buffer("table", table, persistent=False)


def initialize_model(
    vllm_config: Any, *, prefix: str = "", model_config: Any = None
) -> Model:
    return Model(model_config.takes_processed)


class BaseModelLoader(ABC):
    def __init__(self, load_config: LoadConfig) -> None:
        self.load_config = load_config

    def get_external_weight_memory(self, vllm_config: Any) -> int:
        return 0

    @abstractmethod
    def download_model(self, model_config: Any) -> None: ...

    @abstractmethod
    def load_weights(self, model: Any, model_config: Any) -> None: ...

    def load_model(
        self, vllm_config: Any, model_config: Any, prefix: str = ""
    ) -> Any:
        device = torch.device(
            vllm_config.device_config.device
            if self.load_config.device is None
            else self.load_config.device
        )
        model = initialize_model(
            vllm_config=vllm_config,
            model_config=model_config,
            prefix=prefix,
        )
        self.load_weights(model, model_config)
        process_weights_after_loading(model, model_config, device)
        return model.eval()


class DefaultModelLoader(BaseModelLoader):
    def __init__(self, load_config: LoadConfig) -> None:
        super().__init__(load_config)
        assert load_config.load_format == "auto"
        if load_config.model_loader_extra_config:
            raise ValueError("Unexpected extra config keys")

    def download_model(self, model_config: Any) -> None:
        pass

    def load_weights(self, model: Any, model_config: Any) -> None:
        disk_loads.append(model_config.model)
        torch.manual_seed(7)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape))


def register_model_loader(load_format: str) -> Callable[[type], type]:
    def wrapper(loader: type) -> type:
        if not issubclass(loader, BaseModelLoader):
            raise ValueError("no subclass of `BaseModelLoader`")
        LOADERS[load_format] = loader
        return loader

    return wrapper


def get_model_loader(load_config: LoadConfig) -> Any:
    return LOADERS[load_config.load_format](load_config)


@contextmanager
def set_default_torch_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


# ---- as modules --------------------------------------------------------------


def modules() -> dict[str, types.ModuleType]:
    """What sys.modules has where vLLM is installed."""
    me = vars(sys.modules[__name__])

    def module(name: str, *names: str, **values: Any) -> None:
        made = types.ModuleType(name)
        vars(made).update({key: me[key] for key in names}, **values)
        found[name] = made

    found: dict[str, types.ModuleType] = {}
    module("vllm", __version__="0.33.0", __path__=[])
    module(
        "vllm.distributed",
        get_dp_group=group,
        get_pp_group=group,
        get_tensor_model_parallel_rank=lambda: 0,
        get_tensor_model_parallel_world_size=lambda: 1,
    )
    executor = "vllm.model_executor"
    module(executor, __path__=[])
    module(f"{executor}.layers", __path__=[])
    module(f"{executor}.layers.quantization", __path__=[])
    module(
        f"{executor}.layers.quantization.base_config", "QuantizeMethodBase"
    )
    module(
        f"{executor}.model_loader",
        "BaseModelLoader",
        "DefaultModelLoader",
        "get_model_loader",
        "register_model_loader",
        __path__=[],
    )
    module(
        f"{executor}.model_loader.utils",
        "initialize_model",
        "process_weights_after_loading",
    )
    module(f"{executor}.utils", "weights_already_processed")
    module(
        "vllm.platforms",
        current_platform=types.SimpleNamespace(
            get_device_name=lambda: "a stand-in"
        ),
    )
    module("vllm.utils", __path__=[])
    module("vllm.utils.torch_utils", "set_default_torch_dtype")
    return found
