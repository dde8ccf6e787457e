# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""tinygrad tensors over shared memory of host rows."""

from __future__ import annotations

from typing import Any

from .model import Model

__all__ = ["state_dict"]

_TYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}


def state_dict(model: Model, *, prefix: str = "") -> dict[str, Any]:
    """All tensors of a model as tinygrad tensors of its own memory, by name.

    prefix   only names that begin so, without it

    Blocks of quantised types are uint8.  The tensors must not be assigned to:
    the memory is read-only.  Each keeps the memory that it lies in.
    """
    from tinygrad import Tensor, dtypes

    tensors = {}
    for name, tensor in model.items():
        if not name.startswith(prefix):
            continue
        known = tensor.dtype in _TYPES
        made = Tensor.from_blob(
            tensor.address,
            tensor.shape if known else (tensor.nbytes,),
            dtype=getattr(dtypes, _TYPES.get(tensor.dtype, "uint8")),
            device="CPU",
        )
        made.gpumap_memory = tensor
        tensors[name.removeprefix(prefix)] = made
    return tensors
