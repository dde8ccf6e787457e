# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""A model loader for vLLM: one engine of the node loads, the others attach.

    vllm serve MODEL --load-format gpumap \\
        --model-loader-extra-config '{"instance": "node"}'

vLLM finds this module by the entry point vllm.general_plugins, and the loader
by register_model_loader().  gpumap.engine.Tensors has the keys of the extra
config.  The share's fingerprint is of all that the tensors of a rank depend on.

On the CPU tensors are shared as they are loaded, before vLLM packs some of them
for its kernels: what it packs is each engine's own, and the rest is the shared
memory, copy on write.  On a GPU the share has what vLLM has made of them; each
engine copies that from the host row to its GPU, with
weights_already_processed(), and reads and converts nothing.

Run with vLLM 0.32 on a CPU.  On a GPU it has not been run.  Draft models and
expert load balancing load from disk.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import torch
import vllm
from vllm.distributed import (
    get_dp_group,
    get_pp_group,
    get_tensor_model_parallel_rank,
    get_tensor_model_parallel_world_size,
)
from vllm.model_executor.layers.quantization.base_config import (
    QuantizeMethodBase,
)
from vllm.model_executor.model_loader import (
    BaseModelLoader,
    DefaultModelLoader,
    register_model_loader,
)
from vllm.model_executor.model_loader.utils import (
    initialize_model,
    process_weights_after_loading,
)
from vllm.model_executor.utils import weights_already_processed
from vllm.platforms import current_platform
from vllm.utils.torch_utils import set_default_torch_dtype

from . import errors
from .engine import Tensors, files_of, hash_of
from .torch import attach_module, materialize, unfilled_on_meta

__all__ = ["GpumapModelLoader", "register"]

# vLLM shows what loggers below its name say.
_log = logging.getLogger("vllm.gpumap")


def register() -> None:
    """The entry point: --load-format gpumap names the loader."""
    register_model_loader("gpumap")(GpumapModelLoader)


class GpumapModelLoader(BaseModelLoader):  # type: ignore[misc]
    """vLLM's model loader by the name gpumap."""

    def __init__(self, load_config: Any) -> None:
        super().__init__(load_config)
        extra = load_config.model_loader_extra_config or {}
        self.tensors = Tensors("vllm", extra, _log)
        self.disk = DefaultModelLoader(
            dataclasses.replace(
                load_config, load_format="auto", model_loader_extra_config={}
            )
        )

    def get_external_weight_memory(self, vllm_config: Any) -> int:
        """Bytes on the engine's GPU that it did not allocate itself: 0, since
        the shared tensors are in a host row."""
        return 0

    def download_model(self, model_config: Any) -> None:
        """Download as vLLM's own loader does."""
        self.disk.download_model(model_config)

    def load_model(
        self, vllm_config: Any, model_config: Any, prefix: str = ""
    ) -> Any:
        """Make the model, with the share's tensors or from disk."""
        what = vllm_config, model_config, prefix
        if _is_unsuited(vllm_config, model_config):
            return self.disk.load_model(*what)
        # Processing may change the settings, so they are read before.
        self.tensors.fields = _settings(*what)
        device = torch.device(
            self.load_config.device or vllm_config.device_config.device
        )
        if _packs(device):
            return super().load_model(*what)
        if self.tensors.found():
            try:
                return self._attached(device, *what)
            except errors.Error as error:
                self.tensors.refused(error)
                return self.disk.load_model(*what)
        with self.tensors.making() as publish:
            model = self.disk.load_model(*what)
            unready = _unready(model)
            if unready:
                _log.warning("gpumap: not shared: %s", unready)
            else:
                publish(model)
        return model

    def load_weights(self, model: Any, model_config: Any) -> None:
        """Fill a model that vLLM has made: as a part of load_model() on the
        CPU; or again, and then from disk."""
        if not self.tensors.fields:
            self.disk.load_weights(model, model_config)
            return

        def from_disk() -> None:
            self.disk.load_weights(model, model_config)

        self.tensors.load(model, from_disk)
        self.tensors.fields = {}

    def _attached(
        self,
        device: Any,
        vllm_config: Any,
        model_config: Any,
        prefix: str,
    ) -> Any:
        with set_default_torch_dtype(model_config.dtype):
            with unfilled_on_meta(device):
                model = initialize_model(
                    vllm_config=vllm_config,
                    model_config=model_config,
                    prefix=prefix,
                )
            published = self.tensors.open(device)
            attach_module(model, published, strict=False, add=True)
            with weights_already_processed():
                process_weights_after_loading(model, model_config, device)
            # vLLM drops these when it processes, and reads them no more.
            materialize(model, device)
        return model.eval()


def _packs(device: torch.device) -> bool:
    """Does vLLM put what it makes of weights where no tensor shows it?"""
    return bool(device.type == "cpu")


def _is_unsuited(vllm_config: Any, model_config: Any) -> bool:
    """Are its tensors not those that another engine would load?"""
    draft = vllm_config.speculative_config
    return bool(
        vllm_config.parallel_config.enable_eplb
        or (draft is not None and model_config is draft.draft_model_config)
    )


def _unready(model: Any) -> str:
    """A layer that takes no processed weights; "": all do."""
    for name, layer in model.named_modules():
        method = getattr(layer, "quant_method", None)
        if isinstance(method, QuantizeMethodBase) and not (
            method.supports_pre_processed_weights
        ):
            return (
                f"{name} ({type(method).__name__}) takes no processed weights"
            )
    return ""


def _settings(
    vllm_config: Any, model_config: Any, prefix: str
) -> dict[str, object]:
    quant = getattr(model_config.hf_config, "quantization_config", None)
    kernels = getattr(vllm_config, "kernel_config", None)
    pp, dp = get_pp_group(), get_dp_group()
    return {
        "engine": f"vllm {vllm.__version__}, torch {torch.__version__}",
        "model": model_config.compute_hash(),
        "files": files_of(model_config.model, model_config.revision),
        "dtype": model_config.dtype,
        "quantization": model_config.quantization,
        "quantization_config": hash_of(quant),
        "kv_cache_dtype": vllm_config.cache_config.cache_dtype,
        "kernels": None if kernels is None else kernels.compute_hash(),
        "tp": f"{get_tensor_model_parallel_rank()} of "
        f"{get_tensor_model_parallel_world_size()}",
        "pp": f"{pp.rank_in_group} of {pp.world_size}",
        "dp": f"{dp.rank_in_group} of {dp.world_size}",
        "expert_parallel": (
            vllm_config.parallel_config.enable_expert_parallel
        ),
        "platform": current_platform.get_device_name(),
        "prefix": prefix,
    }
