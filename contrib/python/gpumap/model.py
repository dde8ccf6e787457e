# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Models: checkpoints in the memory of rows, as mappings of tensors."""

from __future__ import annotations

import io
import json
import os
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from . import _core, enums, errors
from .enums import MetaFormat, ModelState
from .facts import Fingerprint, Progress

if TYPE_CHECKING:
    from .map import Path
    from .session import Buffer, FingerprintLike, OnProgress, Session, Users

__all__ = ["File", "Model", "Tensor"]

# The types that numpy has no name for, by those of ml_dtypes.
_ML_DTYPES = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
}
_BITS = {"BF16": "u2"}


class Tensor(_core.Tensor):
    """A tensor of a model, in memory that it keeps mapped.

    name     as in the checkpoint
    dtype    the type of an element as the file has it, "BF16"; or of a block,
             "Q4_K"
    shape    in elements, the last dimension fastest
    layer    None: of none, or no layer map was followed
    row      where it is
    nbytes   how large it is
    offset   in the descriptor of fd(), in bytes
    strict   False; True: __dlpack__ refuses read-only memory to programs that
             ask for its older form, which cannot say so.  torch before 2.9
             asks for that, and a write there ends the process; so does jax,
             which never writes.

    memoryview(t) is read-only, with the format of dtype; of types that the
    buffer protocol lacks, such as BF16, and of blocks it is bytes, of shape
    (nbytes,).  __dlpack__ keeps all types and the shape.  For a tensor on a
    GPU all of these raise BufferError.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    layer: int | None
    row: int
    offset: int
    strict: bool = False
    model: Model

    @property
    def buffer(self) -> int:
        """The handle by which jobs of row name its memory, from offset on."""
        return self.model._handle(self.name)

    def fd(self) -> int:
        """A descriptor of its memory, read-only, for the caller to close.

        BufferError: it is on a GPU.
        """
        mapping = self.model._mapping_of(self)
        if mapping is None:
            raise BufferError("its row is no host row")
        return os.dup(mapping.fileno())

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if (
            self.strict
            and (max_version is None or max_version < (1,))
            and view_of(self).readonly
        ):
            raise BufferError(
                "the program cannot be told that the memory is read-only: "
                "give it Model.private(), or a copy"
            )
        return super().__dlpack__(
            stream=stream,
            max_version=max_version,
            dl_device=dl_device,
            copy=copy,
        )

    def numpy(self, *, raw: bool = False) -> Any:
        """A read-only array of the tensor's own memory.

        raw   BF16 as uint16, float8 types as uint8, blocks as bytes

        TypeError: numpy lacks the type, and ml_dtypes is not installed.
        """
        import numpy

        array: Any = numpy.asarray(view_of(self))
        if self.dtype not in _ML_DTYPES:
            return array
        if raw:
            array = array.view(_BITS.get(self.dtype, "u1"))
            return array.reshape(self.shape)
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError(
                f"numpy has no {self.dtype}: install ml_dtypes, or use "
                f"numpy(raw=True) for the bits"
            ) from None
        dtype = getattr(ml_dtypes, _ML_DTYPES[self.dtype])
        return array.view(dtype).reshape(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without dimensions has no length")
        return self.shape[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return (_tensor_of, (self.model, self.name))

    def __repr__(self) -> str:
        return (
            f"<Tensor {self.name!r} {self.dtype} {self.shape} "
            f"on row {self.row}>"
        )


def view_of(what: Any) -> memoryview:
    """memoryview(), of objects that type checkers take for no buffers."""
    return memoryview(what)


def _tensor_of(model: Model, name: str) -> Tensor:
    return model[name]


class Model(_core.Model, Mapping[str, Tensor]):
    """A checkpoint in the memory of rows: a mapping of names to tensors.

    Made by Session.load() and Session.open().  close() ends the handle only: a
    tensor, and any array made from it, keeps its memory.  A model with a name
    can be pickled, also for spawn: it is opened again where it is unpickled.
    """

    name: str | None
    session: Session
    _pair: tuple[bytes, str | None] | None
    # By the index of a buffer:
    _mappings: dict[int, _core.Mapping]
    _private: dict[int, _core.Mapping]
    _imports: dict[int, Buffer]  # of those that are only mapped

    def __new__(
        cls,
        session: Session,
        name: str | None,
        flags: int = 0,
        opts: dict[str, Any] | None = None,
        fingerprint: FingerprintLike = None,
    ) -> Model:
        from .session import pair_of

        pair = pair_of(fingerprint)
        if opts is None:
            self = super().__new__(cls, session, None, name, flags, pair)
        else:
            self = super().__new__(cls, session, opts, None, 0, pair)
        self.name = name
        self.session = session
        self._pair = pair
        self._mappings = {}
        self._private = {}
        self._imports = {}
        return self

    # ---- the mapping ---------------------------------------------------------

    def __getitem__(self, name: str) -> Tensor:
        found = self._find(name)
        if found is None:
            raise KeyError(name)
        return self._tensor(found, None)

    def _tensor(
        self,
        found: tuple[Any, ...],
        private: dict[int, _core.Mapping] | None,
    ) -> Tensor:
        name, dtype, shape, row, layer, _, at, nbytes, part = found
        mapping = self._mapping(part, row, private)
        # A tensor without bytes has no buffer, and needs none.
        owner: object = b"" if nbytes == 0 else mapping
        tensor = Tensor(owner, at if nbytes else 0, nbytes, dtype, shape)
        tensor.name = name
        tensor.dtype = dtype
        tensor.shape = shape
        tensor.layer = None if layer < 0 else layer
        tensor.row = row
        tensor.offset = at
        tensor.model = self
        return tensor

    def private(self, name: str) -> Tensor:
        """A tensor in writable memory of this process's own.

        The memory is copy on write: pages that are not written stay shared, and
        no write reaches the share or another process.
        """
        found = self._find(name)
        if found is None:
            raise KeyError(name)
        return self._tensor(found, self._private)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    # Two models are the same if they are one object, and a model has no order.
    __hash__ = object.__hash__
    __eq__ = object.__eq__

    # ---- memory --------------------------------------------------------------

    def _mapping_of(self, tensor: Tensor) -> _core.Mapping | None:
        found = self._find(tensor.name)
        return None if found is None else self._mapping(found[8], found[3])

    def _mapping(
        self,
        part: int,
        row: int,
        private: dict[int, _core.Mapping] | None = None,
    ) -> _core.Mapping | None:
        """The mapping of one of the model's buffers; None: on a GPU, or there
        is no such buffer.

        private   copy-on-write mappings that were made before
        """
        known = self._mappings if private is None else private
        had = known.get(part)
        if had is not None:
            return had
        buffers = self._buffers()
        if part >= len(buffers) or not self._is_host(row):
            return None
        if part not in self._mappings:
            self._map(part, buffers)
        shared = self._mappings[part]
        if private is None:
            return shared
        fd = os.dup(shared.fileno())
        made = _core.Mapping(fd, len(view_of(shared)), True)
        private[part] = made
        return made

    def _is_host(self, row: int) -> bool:
        return self.session.map.devices[row].is_host

    def _map(self, part: int, buffers: list[tuple[int, int, int]]) -> None:
        """Map a buffer of a host row, and of a share those behind it whose
        descriptors come with the same request."""
        share = self.progress.share
        if not share:
            number = self.session._buffer_export(buffers[part][0])
            fd, nbytes, _ = self.session.map._export_fd(number)
            self._mappings[part] = _core.Mapping(fd, nbytes)
            return
        end = part + 1
        while (
            end < len(buffers)
            and end not in self._mappings
            and self._is_host(buffers[end][2])
        ):
            end += 1
        fds = self.session._share_fds(share, part, end - part)
        try:
            while fds:
                # Mapping() closes the descriptor, also where it fails.
                made = _core.Mapping(fds.pop(0), buffers[part][1])
                self._mappings[part] = made
                part += 1
        finally:
            for fd in fds:
                os.close(fd)

    def _handle(self, name: str) -> int:
        """The handle of a tensor's buffer for jobs; 0: it has none."""
        found = self._find(name)
        if found is None or found[5]:
            return 0 if found is None else found[5]
        part = found[8]
        share = self.progress.share
        if not share or part >= len(self._buffers()):
            return 0
        had = self._imports.get(part)
        if had is None:
            from .session import Buffer

            handle, nbytes, row = self.session._share_buffer(share, part)
            had = Buffer(self.session, handle, nbytes, row)
            self._imports[part] = had
        return had.handle

    # ---- state ---------------------------------------------------------------

    @property
    def progress(self) -> Progress:
        """How far it is loaded; asking makes progress."""
        got, waiting = self._progress()
        state = ModelState(got["state"])
        got["state"] = state
        got["was_there"] = bool(got["was_there"])
        return Progress(
            **got,
            waiting_for=waiting if state == ModelState.WAITING else "",
        )

    @property
    def state(self) -> ModelState:
        """LOADED, or how far it is."""
        return self.progress.state

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is LOADED; False: the time has passed.

        Raises what has failed.
        """
        return self._wait(timeout)

    def renew(self) -> None:
        """Import buffers again after a worker has died.

        Tensors that were taken before keep their memory.  NotFound: the share
        has ended, load it again.
        """
        self._renew()
        self._mappings = {}
        self._private = {}
        self._imports = {}

    def cancel(self) -> None:
        """Stop loading, and free the memory."""
        self._cancel()

    def close(self, timeout: float | None = None) -> None:
        """End the handle; tensors, and arrays of them, stay as they are.

        Timeout: jobs of it are in flight still; call again.
        """
        self._close(timeout)
        for one in self._imports.values():
            one.handle = 0  # it has ended with the share
        self._mappings = {}
        self._private = {}
        self._imports = {}

    @property
    def meta(self) -> bytes:
        """The checkpoint's metadata, without a file: config.json, or the head
        of a GGUF file up to the end of its key-value pairs; b"": none."""
        return self._meta()[1]

    @property
    def config(self) -> dict[str, Any]:
        """The metadata as a dict: config.json's, or GGUF's key-value pairs."""
        kind, data = self._meta()
        if kind == MetaFormat.CONFIG_JSON:
            config: dict[str, Any] = json.loads(data)
            return config
        if kind == MetaFormat.GGUF:
            return _gguf_values(io.BytesIO(data))
        return {}

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self.name is None:
            raise TypeError("a model without a name is of one process only")
        return (_open_again, (self.session.map, self.name, self._pair))

    def __repr__(self) -> str:
        if self.closed:
            return f"<Model {self.name!r}, closed>"
        return f"<Model {self.name!r} of {len(self)} tensors>"


class File:
    """A whole file in the memory of a host row, shared by a name.

    name      of the file, as it was loaded
    nbytes    how long it is
    model     the model with this file as its one tensor
    """

    def __init__(self, model: Model) -> None:
        names = list(model)
        if len(names) != 1:
            model.close()
            raise errors.make(
                "File", 129, "it is no file", f"{model.name} is a model: open()"
            )
        self.model = model
        self.name = names[0]
        self._tensor = model[self.name]
        self.nbytes = self._tensor.nbytes
        self._fd = self._tensor.fd()

    def fileno(self) -> int:
        """The descriptor, which this object owns: read, map or fstat it."""
        if self._fd < 0:
            raise ValueError("the file is closed")
        return self._fd

    def fd(self) -> int:
        """A descriptor for the caller to close."""
        return os.dup(self.fileno())

    @property
    def path(self) -> str:
        """A path by which programs of this user open it until close().

        The path goes through this process, /proc/PID/fd/N.
        """
        return f"/proc/{os.getpid()}/fd/{self.fileno()}"

    def link(self, folder: Path) -> str:
        """Make a link of the file's own name in a folder, for programs that
        want a folder with files; return its path.  close() leaves it."""
        link = os.path.join(os.fspath(folder), self.name)
        os.symlink(self.path, link)
        return link

    def view(self) -> memoryview:
        """Its bytes, read-only; they stay after close()."""
        return view_of(self._tensor)

    def close(self) -> None:
        """End the handle, with its descriptor and path."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self.model.close()

    def __enter__(self) -> File:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)

    def __repr__(self) -> str:
        return f"<File {self.name!r} of {self.nbytes} bytes>"


def _open_again(
    map: Any, name: str, pair: tuple[bytes, str | None] | None
) -> Model:
    """Unpickle a model: in a session of its own, which ends with it."""
    session = map.session(arena=1 << 20)
    expect = None if pair is None else Fingerprint(*pair)
    model: Model = session.open(name, fingerprint=expect)
    session.close()
    return model


# ---- loading -----------------------------------------------------------------


def load(
    session: Session,
    path: Path,
    *,
    name: str | None,
    layers: str | None,
    rows: Iterable[int] | None,
    read_only: bool,
    users: Users,
    keep: bool,
    any_files: bool,
    fingerprint: FingerprintLike,
    progress: OnProgress,
    timeout: float | None,
    as_file: bool = False,
) -> Model:
    """Session.load() and Session.load_file()."""
    from .session import share_flags, uids_of

    where = None if rows is None else list(rows)
    if layers is None and where is None:
        where = [0]
    opts: dict[str, Any] = {
        "path": os.fspath(path),
        "layers": layers,
        "rows": where,
        "flags": enums.BUFFER_EXPORTABLE
        | (enums.MODEL_ANY_FILES if any_files else 0)
        | (enums.MODEL_AS_FILE if as_file else 0),
        "name": name,
    }
    if name is not None or keep:
        opts["share_flags"] = share_flags(read_only, users, keep)
        opts["uids"] = uids_of(users)
    model = Model(session, name, 0, opts, fingerprint)
    deadline = None if timeout is None else time.monotonic() + timeout
    tell = _teller(progress, os.path.basename(os.fspath(path)))
    try:
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            step = left if tell is None else min(left or 0.1, 0.1)
            loaded = model.wait(step)
            if tell is not None:
                tell(model.progress)
            if loaded:
                return model
            if left is not None and left <= 0:
                raise errors.make(
                    "gpumap_model_wait", 62, "the deadline passed", ""
                )
    except BaseException:
        model.close(0 if timeout is not None else None)
        raise


def _teller(
    progress: OnProgress, name: str
) -> Callable[[Progress], object] | None:
    if progress is None or progress is False:
        return None
    if progress is True:
        return Bar(name)
    return progress


class Bar:
    """A progress bar on stderr: tqdm's where that is installed, else a line."""

    def __init__(self, name: str, stream: TextIO | None = None) -> None:
        self._name = name
        self._stream = sys.stderr if stream is None else stream
        self._bar: Any = None
        self._ended = False
        try:
            import tqdm
        except ImportError:
            return
        self._bar = tqdm.tqdm(
            desc=name, unit="B", unit_scale=True, file=self._stream
        )

    def __call__(self, progress: Progress) -> None:
        done = progress.state == ModelState.LOADED
        if self._bar is not None:
            self._bar.total = progress.total_bytes
            self._bar.update(progress.bytes - self._bar.n)
            if done:
                self._bar.close()
            return
        if self._ended or not (done or self._stream.isatty()):
            return
        end = "\n" if done else ""
        print(f"\r{self._line(progress)}", end=end, file=self._stream)
        self._stream.flush()
        self._ended = done

    def _line(self, progress: Progress) -> str:
        if progress.state == ModelState.WAITING:
            return f"{self._name}: another process is loading it"
        text = (
            f"{self._name}: {progress.fraction:4.0%} of "
            f"{progress.total_bytes / 1e9:.1f} GB"
        )
        if progress.bytes_per_second:
            text += f", {progress.bytes_per_second / 1e9:.1f} GB/s"
        return text


# ---- the metadata of GGUF files ----------------------------------------------

_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}


def _exactly(stream: BinaryIO, n: int) -> bytes:
    data = stream.read(n)
    if len(data) != n:
        raise ValueError("the file ends in its header")
    return data


def _scalar(stream: BinaryIO, form: str) -> Any:
    return struct.unpack(form, _exactly(stream, struct.calcsize(form)))[0]


def _text(stream: BinaryIO) -> str:
    length = _scalar(stream, "<Q")
    if length > 64 << 20:
        raise ValueError(f"a text of {length} bytes")
    return _exactly(stream, length).decode("utf-8", "replace")


def _value(stream: BinaryIO, kind: int) -> Any:
    if kind == 8:
        return _text(stream)
    if kind == 9:
        item = _scalar(stream, "<I")
        n = _scalar(stream, "<Q")
        if item not in _SCALARS:
            return [_value(stream, item) for _ in range(n)]
        form = f"<{n}{_SCALARS[item][1]}"
        return list(
            struct.unpack(form, _exactly(stream, struct.calcsize(form)))
        )
    if kind not in _SCALARS:
        raise ValueError(f"a GGUF value of type {kind}")
    return _scalar(stream, _SCALARS[kind])


def _gguf_values(stream: BinaryIO) -> dict[str, Any]:
    """The key-value pairs, which the library has checked and does not read."""
    if _exactly(stream, 4) != b"GGUF":
        raise ValueError("no GGUF file")
    _scalar(stream, "<I")
    _scalar(stream, "<Q")
    values: dict[str, Any] = {}
    for _ in range(_scalar(stream, "<Q")):
        key = _text(stream)
        values[key] = _value(stream, _scalar(stream, "<I"))
    return values
