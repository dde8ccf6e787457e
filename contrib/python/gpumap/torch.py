# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""torch tensors and modules over shared memory of host rows.

torch has no read-only tensors: a write into read-only memory ends the process.
So tensors are copy on write by default: pages that are not written stay shared.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch.overrides import TorchFunctionMode

from . import _core, errors
from .map import Map
from .model import Model
from .session import Buffer, FingerprintLike, Job, Session, Share, Users

__all__ = [
    "Published",
    "Report",
    "attach_module",
    "differences",
    "exported",
    "materialize",
    "open_module",
    "pool",
    "publish_module",
    "state_dict",
    "unfilled_on_meta",
    "without_memory",
]

Writable = Literal["private", "no"]

_ALIGN = 256
_PIECE = 32 << 20  # of an upload
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
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "BOOL": "bool",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
}


def _dtype_of(name: str) -> Any:
    found = getattr(torch, name, None)
    if found is None:
        raise TypeError(f"torch {torch.__version__} has no {name}")
    return found


def _over(memory: Any, at: int, nbytes: int) -> Any:
    """Bytes of a buffer as a torch tensor, which keeps the buffer."""
    if nbytes == 0:
        return torch.empty(0, dtype=torch.uint8)
    with warnings.catch_warnings():
        # The buffer may be read-only, which writable="no" asks for.
        warnings.simplefilter("ignore", UserWarning)
        return torch.frombuffer(
            memory, dtype=torch.uint8, count=nbytes, offset=at
        )


def state_dict(
    model: Model,
    *,
    device: Any = None,
    writable: Writable = "private",
    prefix: str = "",
) -> dict[str, Any]:
    """All tensors of a model, as torch tensors over its memory.

    device     copy them there; None: leave them in main memory
    writable   "private": copy on write, each call's own; "no": the shared
               memory itself, which must never be written
    prefix     only names that begin so, without it

    Blocks of quantised types are uint8, of shape (nbytes,).  TypeError: torch
    lacks a type.  BufferError: a tensor is on a GPU.
    """
    private: dict[int, _core.Mapping] | None = (
        {} if writable == "private" else None
    )
    tensors = {}
    for name in model:
        if not name.startswith(prefix):
            continue
        found = model._find(name)
        assert found is not None
        tensor = _torch_of(model._tensor(found, private))
        if device is not None:
            tensor = tensor.to(device)
        tensors[name.removeprefix(prefix)] = tensor
    return tensors


def _torch_of(tensor: Any) -> Any:
    flat = _over(tensor, 0, tensor.nbytes)
    if tensor.dtype not in _TYPES:
        return flat
    dtype = _dtype_of(_TYPES[tensor.dtype])
    return flat.view(dtype).reshape(tensor.shape)


# ---- modules -----------------------------------------------------------------


@dataclass
class Report:
    """How a module and a set of tensors went together.

    attached     names that have shared memory now
    tied         names that share the memory of another name, as before
    missing      names of the module that nothing was found for
    unexpected   names that the module does not have
    meta         names that still have no memory at all
    """

    attached: list[str] = field(default_factory=list)
    tied: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    meta: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Is nothing missing, and nothing left over?"""
        return not (self.missing or self.unexpected or self.meta)


@dataclass
class _Slot:
    """A place of a module where a tensor is."""

    name: str
    owner: Any
    key: str
    kind: Literal["param", "buffer", "attr"]
    persistent: bool = True

    def get(self) -> Any:
        return getattr(self.owner, self.key)

    def set(self, tensor: Any) -> None:
        """Put a tensor in its place, which may have had none on meta.

        A parameter with memory stays the object that it is: engines and
        optimizers give theirs attributes.
        """
        if self.kind == "param":
            had = self.owner._parameters[self.key]
            if (
                not had.is_meta
                and not isinstance(tensor, torch.nn.Parameter)
                and (had.dtype, had.device) == (tensor.dtype, tensor.device)
            ):
                had.data = tensor
                return
            grad = had.requires_grad and tensor.is_floating_point()
            self.owner._parameters[self.key] = (
                tensor
                if isinstance(tensor, torch.nn.Parameter)
                else torch.nn.Parameter(tensor, requires_grad=grad)
            )
        elif self.kind == "buffer":
            self.owner._buffers[self.key] = tensor
        else:
            setattr(self.owner, self.key, tensor)


def _slots(module: Any) -> Iterator[_Slot]:
    for path, owner in module.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        for key, value in owner._parameters.items():
            if value is not None:
                yield _Slot(prefix + key, owner, key, "param")
        for key, value in owner._buffers.items():
            if value is not None:
                kept = key not in owner._non_persistent_buffers_set
                yield _Slot(prefix + key, owner, key, "buffer", kept)
        for key, value in vars(owner).items():
            if isinstance(value, torch.Tensor):
                yield _Slot(prefix + key, owner, key, "attr", False)


def attach_module(
    module: Any,
    model: Model | Published | Mapping[str, Any],
    *,
    prefix: str = "",
    strict: bool = True,
    add: bool = False,
    writable: Writable = "private",
) -> Report:
    """Put a model's tensors in the place of a module's own.

    module     on the meta device, or with memory, which it gives up
    model      a Model, what open_module() returns, or a dict of tensors
    prefix     of the names in model
    strict     raise Mismatch unless all fits
    add        give the module the tensors that open_module() returns and it
               lacks, as an engine does that converts weights

    Ties stay: of names that had one tensor it is enough that one is found.
    Tensors keep the dtype that they have in memory.  Buffers that a checkpoint
    does not have (persistent=False) may be missing.
    """
    tensors: Mapping[str, Any]
    if isinstance(model, Model):
        tensors = state_dict(model, writable=writable, prefix=prefix)
    else:
        tensors = {
            name.removeprefix(prefix): tensor
            for name, tensor in model.items()
            if name.startswith(prefix)
        }
    report = Report()
    left = dict(tensors)
    groups: dict[int, list[_Slot]] = {}
    for slot in _slots(module):
        groups.setdefault(id(slot.get()), []).append(slot)
    problems = []
    for slots in groups.values():
        found = [slot for slot in slots if slot.name in left]
        if not found:
            if any(slot.persistent for slot in slots):
                report.missing.append(slots[0].name)
            continue
        first = found[0]
        tensor = left[first.name]
        had = first.get()
        if tuple(had.shape) != tuple(tensor.shape):
            problems.append(
                f"{first.name} is {tuple(tensor.shape)}, the module's is "
                f"{tuple(had.shape)}"
            )
            continue
        for slot in slots:
            left.pop(slot.name, None)
        first.set(tensor)
        report.attached.append(first.name)
        for slot in slots:
            if slot is not first:
                slot.set(first.get())
                report.tied[slot.name] = first.name
    if add and isinstance(model, Published):
        _add(module, model, left, report)
    report.unexpected = sorted(left)
    report.meta = without_memory(module)
    if report.missing:
        problems.append(f"missing: {', '.join(report.missing[:8])}")
    if report.unexpected:
        problems.append(f"unexpected: {', '.join(report.unexpected[:8])}")
    if strict and problems:
        raise errors.make(
            "attach_module",
            129,
            "the module and the model differ",
            "; ".join(problems) + ": give the module's own configuration, or "
            "strict=False",
        )
    return report


def _add(
    module: Any, model: Published, left: dict[str, Any], report: Report
) -> None:
    """Register what is left where the module has a place for it."""
    owners = dict(module.named_modules(remove_duplicate=False))
    params: dict[int, Any] = {}
    for one in model.manifest:
        tensor = left.get(one["name"])
        path, _, key = one["name"].rpartition(".")
        owner = owners.get(path)
        if tensor is None or owner is None:
            continue
        if one["kind"] == "param":
            made = torch.nn.Parameter(tensor, requires_grad=False)
            owner.register_parameter(
                key, params.setdefault(id(tensor), made)
            )
        elif one["kind"] == "buffer":
            owner.register_buffer(key, tensor, persistent=one["persistent"])
        else:
            setattr(owner, key, tensor)
        report.attached.append(one["name"])
        del left[one["name"]]


def materialize(module: Any, device: Any) -> list[str]:
    """Give the tensors on the meta device memory, without content; return
    their names."""
    names = []
    for slot in _slots(module):
        tensor = slot.get()
        if tensor.is_meta:
            names.append(slot.name)
            slot.set(torch.empty_like(tensor, device=device))
    return names


def without_memory(module: Any) -> list[str]:
    """Names of a module's tensors that are on the meta device."""
    return [slot.name for slot in _slots(module) if slot.get().is_meta]


class unfilled_on_meta(TorchFunctionMode):  # type: ignore[misc]
    """In this context torch makes tensors without content on the meta device.

    A module's parameters are such, and never have memory.  What is computed has
    memory as ever: a checkpoint has no tensor for tables of positions and
    frequencies.

    device   for what is computed; None: torch's choice
    """

    def __init__(self, device: Any = None) -> None:
        super().__init__()
        self.device = device

    def __torch_function__(
        self,
        function: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("device") is None:
            if function in _UNFILLED:
                kwargs["device"] = "meta"
            elif function in _COMPUTED and self.device is not None:
                kwargs["device"] = self.device
        return function(*args, **kwargs)


_UNFILLED = {torch.empty, torch.empty_strided, torch.rand, torch.randn}
_COMPUTED = {
    torch.arange,
    torch.eye,
    torch.full,
    torch.linspace,
    torch.logspace,
    torch.ones,
    torch.scalar_tensor,
    torch.tensor,
    torch.zeros,
}


class Published(dict[str, Any]):
    """The tensors of a published module by name, and the share they are in."""

    share: Share
    manifest: list[dict[str, Any]]


def publish_module(
    session: Session,
    name: str,
    module: Any,
    *,
    fingerprint: FingerprintLike = None,
    row: int = 0,
    users: Users = "self",
    keep: bool = False,
) -> Share:
    """Share a module's tensors as they are now: parameters, buffers and plain
    attributes, with their dtypes, shapes, strides and ties.

    row           whose memory has them; others can view a host row's
    fingerprint   of all that they depend on: open_module() compares it
    users, keep   as Session.share()

    Exists: the name is taken.  NoMemory, Quota: the row has no room.
    """
    manifest: list[dict[str, Any]] = []
    places: dict[tuple[Any, ...], int] = {}
    copies: list[tuple[int, Any]] = []
    end = 0
    for slot in _slots(module):
        tensor = slot.get().detach()
        if tensor.is_meta:
            raise ValueError(f"{slot.name} is on the meta device")
        flat = _extent(tensor)
        key = (tensor.data_ptr(), flat.numel(), tensor.dtype)
        if flat.numel() == 0 or key not in places:
            places[key] = end
            copies.append((end, flat))
            end += -(-_bytes_of(flat) // _ALIGN) * _ALIGN
        manifest.append(
            {
                "name": slot.name,
                "kind": slot.kind,
                "persistent": slot.persistent,
                "requires_grad": bool(slot.get().requires_grad),
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "shape": list(tensor.shape),
                "stride": list(tensor.stride()),
                "at": places[key],
                "extent": flat.numel(),
            }
        )
    buffer = session.alloc(row, max(end, 1), exportable=True)
    _upload(session, buffer, copies)
    about = json.dumps({"gpumap.torch": 1, "tensors": manifest}).encode()
    share = session.share(
        name,
        [buffer],
        about=about,
        users=users,
        keep=keep,
        fingerprint=fingerprint,
    )
    share.buffers = [buffer]
    return share


def _upload(
    session: Session, buffer: Buffer, copies: list[tuple[int, Any]]
) -> None:
    """Copy tensors to a buffer, through memory of the session's arena.

    The buffer will be shared read-only, so this process has it for jobs only.
    """
    row = buffer.row
    assert row is not None
    most = max((_bytes_of(flat) for _, flat in copies), default=0)
    memory = session.memory(row, max(min(most, _PIECE), 1))
    staged = _over(memory, 0, memory.nbytes)
    for at, flat in copies:
        if not flat.numel():
            continue
        data = flat.view(torch.uint8)
        for first in range(0, data.numel(), memory.nbytes):
            piece = data[first : first + memory.nbytes]
            staged[: piece.numel()].copy_(piece)
            job = Job("copy", piece.numel(), "u8", (buffer, at + first), memory)
            session.run(row, job)
    del staged
    memory.free()


def _bytes_of(flat: Any) -> int:
    return int(flat.numel() * flat.element_size())


def _extent(tensor: Any) -> Any:
    """All elements between a tensor's first and last one, in memory order."""
    if tensor.numel() == 0:
        return tensor.reshape(0)
    last = sum(
        (n - 1) * stride
        for n, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return tensor.as_strided((last + 1,), (1,), tensor.storage_offset())


def open_module(
    session: Session,
    name: str,
    *,
    fingerprint: FingerprintLike = None,
    device: Any = None,
    writable: Writable = "private",
) -> Published:
    """Open what publish_module() has shared, for attach_module().

    device   copy the tensors there; None: leave them in main memory

    NotFound: nothing has this name.  Mismatch: another fingerprint, or the
    share is none of publish_module()'s.
    """
    share = session.open_share(name, fingerprint=fingerprint)
    try:
        about = json.loads(share.about)
        manifest = about["tensors"]
        if about["gpumap.torch"] != 1:
            raise KeyError("another version")
    except (ValueError, KeyError, TypeError):
        share.close()
        raise errors.make(
            "open_module",
            129,
            "it is no module",
            f"{name} was not shared by publish_module() of this release",
        ) from None
    memory = share.mapping(0, private=writable == "private")
    tensors = Published()
    tensors.share = share
    tensors.manifest = manifest
    made: dict[tuple[Any, ...], Any] = {}
    for one in manifest:
        key = (one["at"], one["dtype"], str(one["shape"]), str(one["stride"]))
        if key not in made or one["extent"] == 0:
            made[key] = _manifested(memory, one)
            if device is not None:
                made[key] = made[key].to(device)
        tensors[one["name"]] = made[key]
    return tensors


def _manifested(memory: memoryview, one: dict[str, Any]) -> Any:
    dtype = _dtype_of(one["dtype"])
    shape, stride = tuple(one["shape"]), tuple(one["stride"])
    if one["extent"] == 0:
        return torch.empty_strided(shape, stride, dtype=dtype)
    size = torch.empty(0, dtype=dtype).element_size()
    flat = _over(memory, one["at"], one["extent"] * size).view(dtype)
    return flat.as_strided(shape, stride)


# ---- pools -------------------------------------------------------------------

_allocators: list[Any] = []  # torch's pools do not keep theirs


def pool(map: Map, row: int) -> Any:
    """A torch.cuda.MemPool whose memory is buffers of a row.

        with torch.cuda.use_mem_pool(gpumap.torch.pool(map, row)):
            module = load()

    Its memory counts as this user's on the row, and jobs of other sessions can
    have it: exported() says by which number.  A device has one pool, as long as
    the process runs, and what torch frees stays with it.

    Exists: the device has one.  NoDevice: the row is not visible to CUDA here.
    TypeError: this torch has no MemPool.  It has not been run with torch on a
    GPU: its allocator is tested on a stand-in for the driver.
    """
    if not hasattr(torch.cuda, "MemPool"):
        raise TypeError(f"torch {torch.__version__} has no MemPool")
    device = map.ordinal(row)
    if device is None:
        raise errors.make(
            "pool", 19, "the row is not visible", f"CUDA here lacks row {row}"
        )
    map._pool_open(row, device)
    _allocators.append(
        torch.cuda.memory.CUDAPluggableAllocator(
            _core.__file__, "gpumap_pool_alloc", "gpumap_pool_free"
        )
    )
    return torch.cuda.MemPool(_allocators[-1].allocator())


def exported(tensor: Any) -> tuple[int, int]:
    """The number by which Session.import_buffer() has the memory of a tensor of
    a pool, and where in it the tensor begins, in bytes.

    ValueError: it is of no pool.
    """
    found = _core._pool_find(tensor.data_ptr())
    if found is None:
        raise ValueError("the tensor's memory is not of a gpumap pool")
    return found[:2]


# ---- two modules -------------------------------------------------------------


def differences(a: Any, b: Any) -> list[str]:
    """What two modules differ in: names, kinds, dtypes, shapes, strides, bytes
    and ties; [] if in nothing."""
    ours = {slot.name: slot for slot in _slots(a)}
    theirs = {slot.name: slot for slot in _slots(b)}
    found = [
        f"{name}: in one only"
        for name in sorted(ours.keys() ^ theirs.keys())
    ]
    for name in sorted(ours.keys() & theirs.keys()):
        x, y = ours[name].get(), theirs[name].get()
        for what, left, right in (
            ("kind", ours[name].kind, theirs[name].kind),
            ("dtype", x.dtype, y.dtype),
            ("shape", tuple(x.shape), tuple(y.shape)),
            ("stride", x.stride(), y.stride()),
        ):
            if left != right:
                found.append(f"{name}: {what} {left} and {right}")
        if x.shape == y.shape and x.dtype == y.dtype and not _equal(x, y):
            found.append(f"{name}: other bytes")
    if _ties(ours) != _ties(theirs):
        found.append(f"ties: {_ties(ours)} and {_ties(theirs)}")
    return found


def _equal(x: Any, y: Any) -> bool:
    def data(tensor: Any) -> Any:
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        return flat.view(torch.uint8) if flat.numel() else flat

    return bool(torch.equal(data(x), data(y)))


def _ties(slots: dict[str, _Slot]) -> set[tuple[str, ...]]:
    groups: dict[int, list[str]] = {}
    for name, slot in slots.items():
        groups.setdefault(id(slot.get()), []).append(name)
    return {tuple(sorted(names)) for names in groups.values() if names[1:]}
