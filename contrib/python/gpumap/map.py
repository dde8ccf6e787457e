# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Attach to an agent: its devices, layer maps, plans and reservations."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, overload

from . import _core, enums, errors, facts
from .checkpoint import Shape
from .enums import ChooseBy, DType, Setting, Strategy
from .facts import Charge, Device, Group, LayersInfo, MeshInfo, Plan

__all__ = ["Devices", "Layers", "Map", "Reservation", "attach"]

Path = str | os.PathLike[str]
DTypeLike = DType | str | int

# Reservations of this process that have no name of their own.
_reservations = itertools.count(1)


def dtype_of(dtype: DTypeLike) -> DType:
    """A type by its name, "bf16" or "BF16", or by its number."""
    if isinstance(dtype, str):
        try:
            return DType[dtype.upper()]
        except KeyError:
            names = ", ".join(d.name for d in DType)
            raise ValueError(f"no type {dtype!r}: one of {names}") from None
    return DType(dtype)


@overload
def attach(
    instance: str = ..., runtime_dir: Path | None = ...
) -> Map: ...
@overload
def attach(
    instance: str = ...,
    runtime_dir: Path | None = ...,
    *,
    required: Literal[True],
) -> Map: ...
@overload
def attach(
    instance: str = ...,
    runtime_dir: Path | None = ...,
    *,
    required: bool,
) -> Map | None: ...
def attach(
    instance: str = "node",
    runtime_dir: Path | None = None,
    *,
    required: bool = True,
) -> Map | None:
    """Map an agent's segment into this process, read-only.

    instance      the agent's name
    runtime_dir   of its control socket; None: /run/gpumap
    required      False: return None where no agent runs

    NotRunning: no agent has published under this name.  Protocol: its layout
    is another one than this package's.  Denied: another user could have
    written it.
    """
    try:
        return Map(instance, runtime_dir)
    except errors.NotRunning:
        if required:
            raise
        return None


class Devices(Sequence[Device]):
    """The device table: item i is what row i is now, read anew each time."""

    def __init__(self, map: Map) -> None:
        self._map = map

    def __len__(self) -> int:
        return self._map._device_count()

    @overload
    def __getitem__(self, row: int) -> Device: ...
    @overload
    def __getitem__(self, row: slice) -> list[Device]: ...
    def __getitem__(self, row: int | slice) -> Device | list[Device]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        if row < 0:
            row += len(self)
        if not 0 <= row < len(self):
            raise IndexError(f"no row {row}")
        return Device._of(self._map._device_read(row))

    def __repr__(self) -> str:
        return f"<{len(self)} devices of {self._map.instance!r}>"


class Layers(_core.View):
    """A layer map by its name: layers[i] is the row that holds layer i.

    A lookup makes no system call, and follows later publications of the name.
    One object may be used by any thread.

    layers[i], layers.row(i)   IndexError: the map has no such layer.  NotFound:
                               it was released.  Stale: attach again
    """

    map: Map
    name: str

    def __new__(cls, map: Map, name: str) -> Layers:
        self = super().__new__(cls, map, name)
        self.map = map
        self.name = name
        return self

    def read(self) -> LayersInfo:
        """Read the whole map, as one publication, at the speed of C."""
        got, rows, sizes, charges = self.map._layers_read(self.name)
        got["setting"] = Setting(got["setting"])
        got["dtype"] = DType(got["dtype"])
        return LayersInfo(
            **got,
            rows=memoryview(rows).cast("I"),
            bytes=memoryview(sizes).cast("Q"),
            charges=tuple(Charge(**charge) for charge in charges),
        )

    @property
    def rows(self) -> memoryview:
        """The row of each layer: format "I", shape (n_layers,)."""
        return self.read().rows

    @property
    def bytes(self) -> memoryview:
        """The bytes of each layer: format "Q", shape (n_layers,)."""
        return self.read().bytes

    def __iter__(self) -> Iterator[int]:
        return iter(self.read().rows)

    def __repr__(self) -> str:
        return f"<Layers {self.name!r} of {len(self)} layers>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Layers, (self.map, self.name))


class Reservation:
    """Memory that is kept for this process until release(), or its end.

    name       of the committed layer map that keeps it
    by_row     bytes of each row
    """

    def __init__(self, map: Map, name: str, by_row: dict[int, int]) -> None:
        self.map = map
        self.name = name
        self.by_row = by_row
        self._released = False

    def release(self) -> None:
        """Give the memory back; more than once does nothing."""
        if self._released:
            return
        self._released = True
        try:
            self.map.release(self.name)
        except (errors.NotFound, errors.Forked):
            pass

    def started(self) -> None:
        """End the start window: the next process may start on the rows."""
        self.map.started(self.name)

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, *unused: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<Reservation {self.name!r} of {self.by_row}>"


class Map(_core.Map):
    """One process's view of one agent, from attach().

    Reading makes no system call.  Threads may share it.  A child that was
    forked may go on reading; what asks the agent raises Forked there.  Pickled,
    it attaches again where it is unpickled.
    """

    instance: str
    runtime_dir: str | None

    def __new__(
        cls, instance: str = "node", runtime_dir: Path | None = None
    ) -> Map:
        folder = None if runtime_dir is None else os.fspath(runtime_dir)
        self = super().__new__(cls, instance, folder)
        self.instance = instance
        self.runtime_dir = folder
        return self

    def __enter__(self) -> Map:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return (Map, (self.instance, self.runtime_dir))

    def __repr__(self) -> str:
        if self.closed:
            return f"<Map {self.instance!r}, closed>"
        return f"<Map {self.instance!r} of {len(self.devices)} devices>"

    # ---- health and changes --------------------------------------------------

    def health(self) -> facts.Health:
        """Is the agent alive, and is this still its map?"""
        return facts.Health._of(self._health())

    def wait_change(self, seen: int, timeout: float | None = None) -> int:
        """Sleep until the generation is no longer seen; return the new one.

        timeout   seconds; None: for ever

        Timeout: it did not change.  Stale: the agent has not been seen for two
        seconds, or its map was retired.
        """
        return self._wait_change(seen, timeout)

    def wait_ready(self, timeout: float | None = None) -> None:
        """Sleep until the agent answers and every row has its worker.

        timeout   seconds; None: for ever

        After Gone: the next agent goes on with the same map, where another
        session can be opened.  Rows that are FAILED, LOST, DRAINING or cordoned
        are not waited for.

        Timeout: a row is not READY yet, and the text names it.  NotRunning: no
        agent answered in that time.  Stale: the map was retired, attach again.
        """
        self._wait_ready(timeout)

    # ---- devices -------------------------------------------------------------

    @property
    def devices(self) -> Devices:
        """The device table, a sequence of Device by row."""
        return Devices(self)

    def visible(self, env: Mapping[str, str] | None = None) -> list[int]:
        """The row of each CUDA ordinal that this process sees.

        env   CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER; None: os.environ

        An entry that CUDA does not accept ends the list, as in CUDA.
        """
        env = os.environ if env is None else env
        rows, _ = self._device_visible(
            env.get("CUDA_VISIBLE_DEVICES"), env.get("CUDA_DEVICE_ORDER")
        )
        return list(rows)

    def ordinal(
        self, row: int, env: Mapping[str, str] | None = None
    ) -> int | None:
        """The CUDA ordinal of a row in this process, None: it is not seen."""
        rows = self.visible(env)
        return rows.index(row) if row in rows else None

    def row(
        self, device: int | str | object, env: Mapping[str, str] | None = None
    ) -> int:
        """The row of a device as this process names it.

        device   a CUDA ordinal; "cuda", "cuda:1"; "cpu", the first host row;
                 a UUID, with or without "GPU-"; or a torch.device

        NoDevice: there is none.
        """
        kind = getattr(device, "type", None)
        if isinstance(kind, str):  # a torch.device
            index = getattr(device, "index", None)
            device = kind if index is None else f"{kind}:{index}"
        if isinstance(device, str):
            name, _, index = device.lower().partition(":")
            if name == "cpu":
                for one in self.devices:
                    if one.is_host:
                        return one.row
                raise errors.make("Map.row", 19, "there is no host row", "")
            if name != "cuda":
                return self._device_find(facts.uuid_bytes(device))
            device = int(index or 0)
        if not isinstance(device, int):
            raise TypeError(f"no device: {device!r}")
        rows = self.visible(env)
        if not 0 <= device < len(rows):
            raise errors.make(
                "Map.row", 19, f"this process sees {len(rows)} CUDA devices", ""
            )
        return rows[device]

    def choose(
        self,
        prefer: str | None = None,
        *,
        compute_capability: str | None = None,
        cuda_version: str | None = None,
        total_bytes: int = 0,
        free_bytes: int = 0,
        rows: Iterable[int] | None = None,
        by: ChooseBy | str = ChooseBy.BEST,
    ) -> list[int]:
        """The rows that meet a program's needs, best first.

        prefer   a UUID, "cuda:1", a PCI id or a part of the name
        by       the order: "best", "free_memory" or "free_compute"

        NoDevice: no row meets them.
        """
        if isinstance(by, str):
            by = ChooseBy[by.upper()]
        choice = {
            "prefer": prefer,
            "compute_capability": compute_capability,
            "cuda_version": cuda_version,
            "total_bytes": total_bytes,
            "free_bytes": free_bytes,
            "rows": None if rows is None else list(rows),
            "by": int(by),
        }
        return list(self._device_choose(choice))

    def path(self, to: int, from_: int) -> facts.DevicePath:
        """How the cards of two rows are linked, from memory to memory.

        All is 0 until the agent has asked the driver, and of rows that are no
        cards.  NoDevice: there are no such rows.
        """
        return facts.DevicePath._of(self._device_path_read(to, from_))

    def jobs(self, row: int) -> facts.DeviceJobs:
        """How many jobs a row has done, and how long they took."""
        return facts.DeviceJobs(**self._device_jobs_read(row))

    def trace(self, rows: Iterable[int] | None = None) -> Trace:
        """Begin to record the jobs of rows; None: of all that have a worker.

        Denied: only root and the agent's user may.  Busy: another process has a
        trace of a row.  NoDevice: a row has no worker.
        """
        return Trace(self, rows)

    def drain(self, row: int) -> None:
        """Take a device out of service, and wait until it is.

        Timeout: the worker has not ended yet; call again to wait for that.
        """
        self._device_drain(row)

    def undrain(self, row: int) -> None:
        """Put a device into service again."""
        self._device_undrain(row)

    def cordon(self, row: int) -> None:
        """Keep new sessions and plans away from a row, until uncordon()."""
        self._device_cordon(row)

    def uncordon(self, row: int) -> None:
        """Let new sessions and plans have a row again."""
        self._device_uncordon(row)

    # ---- worth ---------------------------------------------------------------

    def worth(self, row: int, work: enums.Work | str, size: int) -> bool:
        """Is a row worth it for work of this size?

        work   "gemm", "copy", ...: see Work
        size   in the unit of work: operations, an order or elements
        """
        if isinstance(work, str):
            work = enums.Work[work.upper()]
        return self._worth(row, int(work), size)

    def policy(self, row: int) -> facts.Policy:
        """The thresholds that worth() compares with."""
        return facts.Policy(**self._policy_read(row))

    def set_policy(
        self, row: int, least: Sequence[int], generation: int | None = None
    ) -> None:
        """Set a row's thresholds, by Work; 0, or the default: the default.

        generation   Policy.generation of the device that was measured; None:
                     whatever the row has

        Again: the row was given to another device.
        """
        told = self._policy_read(row)
        if generation is not None:
            told["generation"] = generation
        self._policy_set({**told, "least": tuple(least)})

    # ---- layer maps ----------------------------------------------------------

    def maps(self) -> list[str]:
        """The names of all layer maps."""
        return self._layers_names()

    def layers(self, name: str) -> Layers:
        """A layer map.  NotFound: there is none of this name."""
        return Layers(self, name)

    def publish(
        self,
        name: str,
        spec: str,
        *,
        n_layers: int = 0,
        layer_bytes: Sequence[int] | None = None,
        other_bytes: int = 0,
        dtype: DTypeLike | None = None,
    ) -> Layers:
        """Have the agent publish a layer map, which replaces one of this name.

        spec          "ROW:LAYERS;ROW:LAYERS", "0:40;1:40", or "LAYERS"
        layer_bytes   of each layer; None: not known
        dtype         of most weights; None: f16

        Invalid, NoDevice, Denied, Quota, Full: refusal says what to do.
        """
        self._layers_publish(
            {
                "name": name,
                "spec": spec,
                "n_layers": n_layers,
                "layer_bytes": layer_bytes,
                "other_bytes": other_bytes,
                "dtype": int(dtype_of("f16" if dtype is None else dtype)),
            }
        )
        return self.layers(name)

    def release(self, name: str) -> None:
        """Have the agent remove a layer map, and free what it reserved.

        NotFound: there is none.  Denied: it belongs to another user.
        """
        self._layers_release(name)

    # ---- plans ---------------------------------------------------------------

    def plan(
        self,
        model: Path | Shape,
        *,
        rows: Iterable[int] | None = None,
        strategy: Strategy | str = Strategy.FILL,
        spec: str | None = None,
        topology: str | Mapping[Any, Mapping[str, Any]] | None = None,
        split: str | Sequence[int] | None = None,
        dtype: DTypeLike | Literal["auto"] = "auto",
        max_seq_len: int = 4096,
        max_batch: int = 1,
        paged: tuple[Literal["mib", "share", "tokens"], float] | None = None,
        engine: enums.Engine | str | None = None,
        base_row: int | None = None,
        publish: str | None = None,
        commit: str | None = None,
        held: bool = True,
        wait: float | None = 0,
        start: float = 0,
    ) -> Plan:
        """Have the agent place a model's layers on rows.

        model       a checkpoint, see Shape.of(); or its Shape
        rows        only these, in this order; None: all
        strategy    "fill", "balance" or "fewest"
        spec        place it by hand, "0:40;1:40"
        topology    or by these ranges, "0-16:cuda[0];16-32:cpu"; or by what a
                    topology file of mistral.rs says, as read by a YAML parser
        split       or as a pipeline with these layers a rank, [16, 16]
        dtype       of activations and the KV cache; "auto": the best there is
        paged       ("mib", n), ("share", 0.9) or ("tokens", n)
        engine      charge the cache by the rule of "vllm", "sglang",
                    "llama.cpp" or "accelerate"; None: what the layers need
        publish     publish the plan as the layer map of this name
        commit      likewise, and reserve its memory
        held        with commit: only while this process lives
        wait        with commit: seconds to wait in a line; None: for ever
        start       with held: seconds of a start window, see reserve()

        DoesNotFit: missing_bytes, row and remedies say what is missing.
        """
        shape = model if isinstance(model, Shape) else Shape.of(model)
        request = _plan_request(shape)
        if isinstance(strategy, str):
            strategy = Strategy[strategy.upper()]
        setting, text = Setting.AUTO, None
        if spec is not None:
            setting, text = Setting.MANUAL, spec
        elif topology is not None:
            setting, text = Setting.TOPOLOGY, _topology_text(topology)
        elif split is not None:
            setting = Setting.PIPELINE
            text = split if isinstance(split, str) else _numbers_text(split)
        if setting in (Setting.AUTO, Setting.TOPOLOGY):
            request["strategy"] = int(strategy)
        request |= {
            "name": commit or publish,
            "setting": int(setting),
            "text": text,
            "rows": None if rows is None else list(rows),
            "max_seq_len": max_seq_len,
            "max_batch_size": max_batch,
        }
        if dtype != "auto":
            request["compute_dtype"] = int(dtype_of(dtype))
        flags = enums.PLAN_PUBLISH if commit or publish else 0
        if commit:
            flags |= enums.PLAN_COMMIT | (enums.PLAN_HELD if held else 0)
        if base_row is not None:
            flags |= enums.PLAN_BASE
            request["base_row"] = base_row
        if paged is not None:
            kinds = {"mib": 1, "share": 2, "tokens": 3}
            request["paged"] = kinds[paged[0]]
            if paged[0] == "share":
                request["paged_share"] = paged[1]
            else:
                request["paged_amount"] = int(paged[1])
        if engine is not None:
            request["engine"] = _engine_of(engine)
        request["flags"] = flags
        request["start_ns"] = int(start * 1e9)
        caches = b"".join(one._pack() for one in shape.caches)
        if wait == 0:
            return self._plan(request, caches)
        request["wait_ns"] = int(min(wait or 3e9, 3e9) * 1e9)
        return _in_line(self, request, caches)

    def _plan(self, request: dict[str, Any], caches: bytes = b"") -> Plan:
        try:
            got, rows, charges = self._plan_make(request, caches)
        except errors.DoesNotFit as error:
            raise _explained(error) from None
        missing = got["missing_bytes"]
        return Plan(
            name=request.get("name"),
            n_layers=got["n_layers"],
            base_row=got["base_row"],
            compute_dtype=DType(got["compute_dtype"]),
            kv_bytes=got["kv_bytes"],
            version=got["version"],
            missing_bytes=missing,
            missing_row=got["missing_row"] if missing else None,
            spec=got["spec"],
            warnings=tuple(got["warnings"].splitlines()),
            rows=memoryview(rows).cast("I"),
            charges=tuple(Charge(**charge) for charge in charges),
        )

    def reserve(
        self,
        bytes: int | Mapping[int, int],
        *,
        rows: Iterable[int] | None = None,
        name: str | None = None,
        wait: float | None = 0,
        start: float = 0,
    ) -> Reservation:
        """Keep memory of rows free for this process, which allocates it itself.

        bytes   of each row, {0: 8 << 30}; or of one row among rows
        rows    for a number of bytes: those to choose from; None: all GPUs, or
                all rows where there are none
        name    of the reservation, which no other map has; None: one that no
                other process has
        wait    seconds to wait in a line for room; None: for ever
        start   seconds of a start window at most, in which no other process
                starts on the rows: Reservation.started() ends it

        The memory is kept until release(), the end of a with statement or the
        end of this process.

        DoesNotFit: there was not as much free, in time.
        """
        if name is None:
            name = f"python.{os.getpid()}.{next(_reservations)}"
        request: dict[str, Any] = {
            "name": name,
            "flags": enums.PLAN_PUBLISH
            | enums.PLAN_COMMIT
            | enums.PLAN_HELD
            | enums.PLAN_NEW,
            "setting": int(Setting.RESERVE),
            "start_ns": int(start * 1e9),
        }
        if isinstance(bytes, int):
            request["layer_bytes"] = [bytes]
            request["rows"] = None if rows is None else list(rows)
        else:
            request["layer_bytes"] = list(bytes.values())
            request["rows"] = list(bytes)
        if wait == 0:
            plan = self._plan(request)
        else:
            # A century is for ever, and fits into 64 bits.
            request["wait_ns"] = int(min(wait or 3e9, 3e9) * 1e9)
            plan = _in_line(self, request)
        by_row = {one.row: one.bytes for one in plan.charges}
        return Reservation(self, name, by_row)

    def waiting(self) -> list[facts.Waiting]:
        """The requests that wait for room, the first in the line first."""
        return [facts.Waiting._of(one) for one in self._wait_list()]

    def drop_waiting(self, name: str) -> None:
        """Have the requests for a map that wait for room end with Canceled.

        NotFound: none waits, or all are others' and this user is not root.
        """
        self._wait_drop(name)

    def started(self, name: str) -> None:
        """End the start window of a held map or a reservation."""
        self._started(name)

    def request_limit(self, seconds: float | None) -> None:
        """How long requests may wait for an agent that does not answer.

        seconds   from the next request on: 60 at first, at least 1; None: for
                  ever.  A request's own wait is added.

        Then it raises Timeout, and the agent may still do what it was asked.
        Requests of a session have a limit of the agent's.
        """
        self._request_limit(seconds)

    def holders(self) -> list[facts.Holder]:
        """The committed layer maps."""
        return [facts.Holder(**one) for one in self._holders()]

    def reservations(self) -> list[facts.Reserved]:
        """The reserved bytes of each row, and how many of them are in use."""
        return [facts.Reserved(**one) for one in self._reservation_list()]

    # ---- other engines -------------------------------------------------------

    def export(
        self,
        engine: enums.Engine | str,
        layers: str | Layers,
        *,
        model: Path | None = None,
        by_env: bool = False,
        file_name: str | None = None,
    ) -> facts.Settings:
        """Say a layer map in the settings of another inference engine.

        engine   "llama.cpp", "ollama", "vllm", "sglang", "mistral.rs",
                 "accelerate", or "env" for any
        model    the model's files; accelerate needs them
        by_env   llama.cpp: variables in the place of arguments

        Unsupported: the engine cannot follow this map; refusal names the layer
        and the way out.
        """
        got = self._engine_export(
            layers.name if isinstance(layers, Layers) else layers,
            {
                "engine": _engine_of(engine),
                "flags": enums.ENGINE_BY_ENV if by_env else 0,
                "model": None if model is None else os.fspath(model),
                "file_name": file_name,
            },
        )
        return facts.Settings(
            exact=got["exact"],
            argv=tuple(got["argv"]),
            env=dict(one.split("=", 1) for one in got["env"]),
            notes=tuple(got["notes"]),
            file=got["file"],
            rows=got["rows"],
        )

    # ---- sessions, shares, masks, meshes -------------------------------------

    def session(
        self,
        *,
        depth: int = 256,
        arena: int = 64 << 20,
        pollable: bool = False,
        sparse: bool = False,
        programs: bool = False,
    ) -> Session:
        """Open a session, which has queues to the rows.

        depth      jobs in flight for each row, a power of two from 16 to 1024
        arena      bytes of each row's range of memory for payloads
        pollable   fileno() is to work, for asyncio and poll
        sparse     memory is taken page by page, where it is touched
        programs   jobs may run programs

        Quota: this user has no session left.  NoDevice: no row takes jobs.
        """
        return Session(
            self,
            depth=depth,
            arena=arena,
            pollable=pollable,
            sparse=sparse,
            programs=programs,
        )

    def who(self) -> list[facts.SessionInfo]:
        """The agent's sessions, of all users; sessions() is the same."""
        return [facts.SessionInfo._of(one) for one in self._session_list()]

    sessions = who

    def usage(self) -> list[facts.Usage]:
        """The memory that sessions have on each row."""
        return [facts.Usage(**one) for one in self._usage_list()]

    def shares(self) -> list[facts.ShareInfo]:
        """The shares of this instance, oldest first."""
        return [facts.ShareInfo._of(one) for one in self._share_list()]

    def release_share(self, name: str) -> None:
        """End a share for all that hold it.

        NotFound: there is none.  Denied: another user shared it.
        """
        self._share_release(name)

    def masks(self) -> list[str]:
        """The names of all masks."""
        return self._mask_names()

    def mask(self, name: str, pin: bool = False) -> Mask:
        """Open a mask; pin: keep this version of it.

        NotFound: there is none.  Denied: this user may not read masks.
        """
        return Mask(self, name, pin)

    def publish_mask(
        self,
        name: str,
        *,
        kind: enums.MaskKind | str = "custom",
        form: enums.MaskForm | str = "causal",
        dtype: DTypeLike = "u8",
        tgt_len: int = 0,
        past_kv_len: int = 0,
        sliding_window: int = 0,
        chunk_size: int = 0,
        data: object | None = None,
        shape: Sequence[int] | None = None,
        map: str | None = None,
        rows: Iterable[int] | None = None,
    ) -> facts.MaskInfo:
        """Have the agent publish a mask, with replicas near rows.

        kind, form   of a rule, "causal", "sliding", ...: see MaskForm
        data         or a tensor of bytes: any C-contiguous buffer
        shape        of data, if that does not have one itself
        map          replicas for the rows of this layer map, also later ones
        rows         or for these rows; neither: for all that can have one
        """
        from .mask import publish

        return publish(
            self,
            name,
            kind=kind,
            form=form,
            dtype=dtype_of(dtype),
            numbers={
                "tgt_len": tgt_len,
                "past_kv_len": past_kv_len,
                "sliding_window": sliding_window,
                "chunk_size": chunk_size,
            },
            data=data,
            shape=shape,
            map=map,
            rows=rows,
        )

    def release_mask(self, name: str) -> None:
        """Have the agent remove a mask."""
        self._mask_release(name)

    def meshes(self) -> list[str]:
        """The names of all meshes."""
        return self._mesh_names()

    def mesh(self, name: str) -> Mesh:
        """A mesh.  NotFound: there is none of this name."""
        return Mesh(self, name)

    def publish_mesh(
        self,
        name: str,
        topology: enums.MeshTopology | str = "data",
        *,
        tp: int = 1,
        pp: int = 1,
        dp: int = 1,
        rows: Iterable[int] | None = None,
        groups: Mapping[str, Sequence[int]] | None = None,
    ) -> Mesh:
        """Have the agent publish a mesh, which arranges rows as ranks.

        topology   "data", "tensor", "pipeline" or "mixed"
        tp, pp, dp degrees of the topologies that have them
        rows       of each rank; None: all cards, or hosts, or dummies
        groups     more groups, by name: their ranks
        """
        if isinstance(topology, str):
            topology = enums.MeshTopology[topology.upper()]
        request = {
            "name": name,
            "topology": int(topology),
            "tp": tp,
            "pp": pp,
            "dp": dp,
            "rows": None if rows is None else list(rows),
        }
        added = [
            {
                "name": key,
                "ranks": list(ranks),
                "backend": int(enums.MeshBackend.GLOO),
            }
            for key, ranks in (groups or {}).items()
        ]
        self._mesh_publish(request, added)
        return self.mesh(name)

    def release_mesh(self, name: str) -> None:
        """Have the agent remove a mesh."""
        self._mesh_release(name)

    # ---- the cluster ---------------------------------------------------------

    def cluster(self) -> facts.Cluster:
        """The devices and shares of all nodes, as one publication.

        NotFound: this node is in no cluster.  Again: the agent published again
        and again meanwhile.
        """
        return facts.Cluster._of(*self._cluster_read())

    def publish_cluster(
        self,
        name: str,
        node: str,
        nodes: Iterable[facts.ClusterNode] = (),
        *,
        remove: Iterable[str] = (),
        limit_ns: int,
        begin: bool = False,
        more: bool = False,
        heard: bool = False,
    ) -> None:
        """Have the agent publish what nodes say, as gpumap-sync does.

        node       this node's name
        nodes      new ones, and those that have changed
        remove     names of nodes that it is to forget
        limit_ns   the age at which the cluster is stale
        begin      forget all nodes that came before
        more       more is coming: readers see nothing of this yet
        heard      with this, all that other nodes have said is known

        When no node is left, this node is in no cluster any more.

        Denied: another user than root, the agent's and that of [cluster] user.
        Stale: the agent knows nothing of what came before, send all.
        """
        flags = (
            begin * enums.CLUSTER_BEGIN
            | more * enums.CLUSTER_MORE
            | heard * enums.CLUSTER_HEARD
        )
        entries = [one._entry() for one in nodes]
        entries += [({"name": one}, [], [], True) for one in remove]
        self._cluster_publish(
            {"name": name, "node": node, "limit_ns": limit_ns, "flags": flags},
            entries,
        )


def _in_line(map: Map, request: dict[str, Any], caches: bytes = b"") -> Plan:
    """Make a plan that waits, and can be interrupted.

    The request waits in a thread and on an attachment of its own: others would
    wait behind it, and a signal could not end it without losing the place.
    """
    result: list[Plan | BaseException] = []
    left = threading.Event()
    ended = threading.Event()

    def wait() -> None:
        try:
            with Map(map.instance, map.runtime_dir) as own:
                plan = own._plan(request, caches)
                result.append(plan)
                if left.is_set():
                    own.release(request["name"])
        except BaseException as error:
            result.append(error)
        finally:
            ended.set()

    threading.Thread(target=wait, daemon=True).start()
    try:
        while not ended.wait(0.1):
            pass
    except BaseException:
        left.set()
        raise
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]


def _topology_text(
    topology: str | Mapping[Any, Mapping[str, Any]],
) -> str:
    """The ranges as gpumap_plan_request.text has them; "*" is for a pattern
    over the names of tensors, which places no layers."""
    if isinstance(topology, str):
        return topology
    entries = []
    for layers, entry in topology.items():
        selector = str(layers)
        if selector.startswith("/") and selector.endswith("/"):
            selector = "*"
        device, isq = entry.get("device") or "", entry.get("isq") or ""
        entries.append(f"{selector}:{device}:{isq}")
    return ";".join(entries)


def _numbers_text(numbers: Sequence[int]) -> str:
    return ",".join(str(n) for n in numbers)


def _engine_of(engine: enums.Engine | str) -> int:
    if isinstance(engine, str):
        engine = enums.Engine[engine.upper().replace(".", "_")]
    return int(engine)


def _plan_request(shape: Shape) -> dict[str, Any]:
    return {
        "layer_bytes": list(shape.layer_bytes),
        "other_bytes": shape.other_bytes,
        "tied_bytes": shape.tied_bytes,
        "dtype": int(shape.dtype),
        "n_heads": shape.n_heads,
        "conv_taps": shape.conv_taps,
        "state_bytes": shape.state_bytes,
    }


def _explained(error: errors.DoesNotFit) -> errors.DoesNotFit:
    """Add what the answer said to what the exception says."""
    got: dict[str, Any] = getattr(error, "_plan", None) or {}
    error.missing_bytes = got.get("missing_bytes", 0)
    error.row = got.get("missing_row") if error.missing_bytes else None
    # The agent's sentence ends with the remedies.
    mark = ";" if ";" in error.refusal else ":"
    remedies = error.refusal.rpartition(mark)[2].split(",")
    error.remedies = tuple(
        one.strip().removeprefix("or ") for one in remedies if one.strip()
    )
    return error


# At the end: these import this module.
from .mask import Mask  # noqa: E402
from .mesh import Mesh  # noqa: E402
from .session import Session  # noqa: E402
from .trace import Trace  # noqa: E402

