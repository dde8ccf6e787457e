# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The shape of a checkpoint, for plans: bytes of layers, heads of attention."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from . import _core
from .enums import DType


@dataclass(frozen=True)
class Shape:
    """The facts of a model that a plan needs.

    layer_bytes   bytes of each layer
    other_bytes   of what belongs to no layer
    dtype         of most weights
    n_heads ...   of attention, 0: not known, and no KV cache is charged
    """

    layer_bytes: tuple[int, ...]
    other_bytes: int = 0
    dtype: DType = DType.F16
    n_heads: int = 0
    n_kv_heads: int = 0
    k_dim: int = 0
    v_dim: int = 0
    kv_lora_rank: int = 0
    kpe_head_dim: int = 0
    path: str | None = field(default=None, compare=False)

    @property
    def n_layers(self) -> int:
        """How many layers there are."""
        return len(self.layer_bytes)

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Shape:
        """Read the headers of a checkpoint.

        path   a directory with a config.json and safetensors files, one such
               file, or a GGUF file

        NotFound: there is none, or a file of it is missing.  Invalid: it is
        malformed or incomplete.
        """
        facts = _core._model_measure(os.fspath(path))
        dtype = DType(facts.pop("dtype"))
        return cls(**facts, dtype=dtype, path=os.fspath(path))
