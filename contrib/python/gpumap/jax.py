# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""jax arrays over shared memory of host rows."""

from __future__ import annotations

from typing import Any

from .model import Model

__all__ = ["pytree"]


def pytree(model: Model, *, prefix: str = "") -> dict[str, Any]:
    """All tensors of a model as jax arrays of its own memory, by name.

    prefix   only names that begin so, without it

    Arrays of jax cannot be written.  With x64 disabled, jax copies types of 64
    bits to 32.
    """
    from jax import dlpack

    arrays = {}
    for name, tensor in model.items():
        if name.startswith(prefix):
            arrays[name.removeprefix(prefix)] = dlpack.from_dlpack(tensor)
    return arrays
