# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Attention masks, which have a replica near each row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from . import _core
from .enums import DeviceFlags, DeviceState, DType, MaskForm, MaskKind
from .facts import MaskInfo

if TYPE_CHECKING:
    from .map import Map

__all__ = ["Mask"]


class Mask(_core.Mask):
    """A published mask by its name, from Map.mask().

    Not pinned, it follows later publications of the name.
    """

    map: Map
    name: str
    pinned: bool

    def __new__(cls, map: Map, name: str, pin: bool = False) -> Mask:
        self = super().__new__(cls, map, name, pin)
        self.map = map
        self.name = name
        self.pinned = pin
        return self

    def info(self) -> MaskInfo:
        """The facts of the publication of this moment."""
        return read_info(self.map, self.name)

    def read(self, row: int) -> tuple[memoryview, tuple[int, ...]]:
        """A copy of one row's replica, whole and of one version: its bytes and
        shape.

        NotFound: the row has no replica.  BufferError: it is on a GPU.
        """
        got, data = self._read(row)
        if data is None:
            raise BufferError("the replica is not in this node's main memory")
        return memoryview(data), got["shape"]

    def view(self, row: int) -> _core.Tensor:
        """One row's replica of a pinned mask, without a copy.

        The tensor has the buffer protocol and __dlpack__, and keeps the pin.
        """
        got, replica = self._pinned(row)
        if replica is None:
            raise BufferError("the replica is not in this node's main memory")
        dtype = DType(got["dtype"]).name
        return _core.Tensor(replica, 0, got["bytes"], dtype, got["shape"])

    def version(self, row: int) -> int:
        """The version of the row's replica."""
        number: int = self._read(row)[0]["version"]
        return number

    def __repr__(self) -> str:
        return f"<Mask {self.name!r}>"


def read_info(map: Map, name: str) -> MaskInfo:
    """Read the facts of a mask."""
    got, rows = _core._mask_info(map, name)
    rank = got.pop("rank")
    got.pop("n_rows")
    got["kind"] = MaskKind(got["kind"])
    got["form"] = MaskForm(got["form"])
    got["dtype"] = DType(got["dtype"])
    got["shape"] = got["shape"][:rank]
    got["strides"] = got["strides"][:rank]
    return MaskInfo(**got, rows=rows)


def _rows_for(attached: Map, kind: MaskKind) -> Iterable[int]:
    """The rows that can have a replica; as gpumapctl has it."""
    for device in attached.devices:
        if kind != MaskKind.CUSTOM or (
            DeviceFlags.EXPORTS in device.flags
            and (device.is_host or device.state == DeviceState.READY)
        ):
            yield device.row


def publish(
    attached: Map,
    name: str,
    *,
    kind: MaskKind | str,
    form: MaskForm | str,
    dtype: DType,
    numbers: dict[str, int],
    data: object | None,
    shape: Sequence[int] | None,
    map: str | None,
    rows: Iterable[int] | None,
) -> MaskInfo:
    """Map.publish_mask()."""
    kind = MaskKind[kind.upper()] if isinstance(kind, str) else kind
    form = MaskForm[form.upper()] if isinstance(form, str) else form
    request: dict[str, Any] = {
        "name": name,
        "kind": int(kind),
        "dtype": int(dtype),
        **numbers,
    }
    if map is not None:
        request["map"] = map
    else:
        request["rows"] = list(
            _rows_for(attached, kind) if rows is None else rows
        )
    if kind == MaskKind.CUSTOM:
        request["form"] = int(MaskForm.LOADED if data is not None else form)
    if data is not None:
        view = memoryview(data)  # type: ignore[arg-type]
        dims = tuple(view.shape or ()) if shape is None else tuple(shape)
        if math.prod(dims) * dtype.nbytes != view.nbytes:
            raise ValueError(f"data is not {dtype.name} of shape {dims}")
        request |= {"rank": len(dims), "shape": dims}
    _core._mask_publish(attached, request, data)
    return read_info(attached, name)
