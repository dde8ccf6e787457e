# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The shape of a checkpoint, for plans: bytes of layers, and what they keep."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field

from . import _core
from .enums import DType


@dataclass(frozen=True)
class LayerCache:
    """Each of some layers, one after the other, keeps so much of each sequence.

    n_heads          into which ranks divide it; 0: it is not known what it keeps
    window           most tokens that are kept; 0: all
    token_elements   of keys and values of a token, all heads
    conv_elements    whose number is fixed, such as last inputs of a convolution
    state_elements   of a recurrence, 4 bytes each
    """

    n_layers: int
    n_heads: int = 1
    window: int = 0
    token_elements: int = 0
    conv_elements: int = 0
    state_elements: int = 0

    def _pack(self) -> bytes:
        """As struct gpumap_layer_cache."""
        return struct.pack(
            "=IIIxxxxQQQ",
            self.n_layers,
            self.n_heads,
            self.window,
            self.token_elements,
            self.conv_elements,
            self.state_elements,
        )


@dataclass(frozen=True)
class Shape:
    """The facts of a model that a plan needs.

    layer_bytes   bytes of each layer, the last one's with the head
    other_bytes   of what belongs to no layer
    tied_bytes    of an embedding that is the head as well, part of other_bytes
    dtype         of most weights
    n_heads       of attention; 0: not known
    caches        what all layers keep; none: it is not known
    conv_taps     inputs that a convolution over tokens has; 0: not known
    state_bytes   of an element of a recurrence, as the model says; 0: it does not
    """

    layer_bytes: tuple[int, ...]
    other_bytes: int = 0
    tied_bytes: int = 0
    dtype: DType = DType.F16
    n_heads: int = 0
    caches: tuple[LayerCache, ...] = ()
    conv_taps: int = 0
    state_bytes: int = 0
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
        caches = tuple(LayerCache(**one) for one in facts.pop("caches"))
        return cls(**facts, dtype=dtype, caches=caches, path=os.fspath(path))
