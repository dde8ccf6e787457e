# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""For loaders of engines: of several that want the same tensors, one loads.

Engines that would have the same tensors in the same module claim one name: the
first loads from disk as ever and publishes its module, and those after it open
that.  Where there is no agent, or something does not fit, an engine loads from
disk with a warning.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import errors
from .map import attach
from .session import Session
from .torch import Published, attach_module, open_module, publish_module

__all__ = ["Tensors", "files_of", "hash_of"]

# A share lives as long as a session that holds it.
_held: list[Session] = []


class Tensors:
    """The tensors of one engine's module, in a share that engines make and use.

    extra   of the engine's settings, all optional: instance and runtime_dir of
            the agent; row, the host row whose memory has them; timeout in
            seconds of another engine's load, 3600; fallback, true: load from
            disk where the share cannot be had
    log     for warnings, and one line for what was attached
    """

    KEYS = frozenset({"instance", "runtime_dir", "row", "timeout", "fallback"})

    def __init__(
        self, engine: str, extra: Mapping[str, Any], log: logging.Logger
    ) -> None:
        unknown = sorted(extra.keys() - self.KEYS)
        if unknown:
            raise ValueError(
                f"gpumap's loader has no {', '.join(unknown)}; it has "
                f"{', '.join(sorted(self.KEYS))}"
            )
        self.engine = engine
        self.instance = str(extra.get("instance", "node"))
        self.runtime_dir: str | None = extra.get("runtime_dir")
        self.row = int(extra.get("row", 0))
        self.timeout = float(extra.get("timeout", 3600))
        self.fallback = bool(extra.get("fallback", True))
        self.log = log
        self.fields: dict[str, object] = {}
        self._session: Session | None = None

    @property
    def name(self) -> str:
        """The name of the share, which its fields make."""
        return f"{self.engine}.{hash_of(self.fields)[:32]}"

    def found(self) -> bool:
        """Is the share there?

        False   this engine makes it, in the context making(); or there can be
                none
        """
        try:
            if self._session is None:
                node = attach(self.instance, self.runtime_dir)
                self._session = node.session()
            return not self._session.claim(
                self.name, fingerprint=self.fields, timeout=self.timeout
            )
        except errors.Error as error:
            self.refused(error)
            self._session = None
        return False

    @contextmanager
    def making(self) -> Iterator[Callable[[Any], bool]]:
        """In this context the module is loaded, and given to the function that
        the context has; True: it is shared now."""
        session = self._session

        def publish(module: Any) -> bool:
            if session is None:
                return False
            try:
                publish_module(
                    session,
                    self.name,
                    module,
                    fingerprint=self.fields,
                    row=self.row,
                )
            except (errors.Error, ValueError) as error:
                # This engine has its tensors, only others have not.
                self.log.warning("gpumap: not shared: %s", error)
                return False
            _held.append(session)
            return True

        try:
            yield publish
        finally:
            if session is not None:
                self._unclaim(session)

    def _unclaim(self, session: Session) -> None:
        try:  # nothing, where the share was published
            session.unclaim(self.name)
        except errors.Error as error:
            self.log.warning("gpumap: %s", error)

    def open(self, device: Any = None) -> Published:
        """The tensors of the share, for attach_module()."""
        assert self._session is not None
        published = open_module(
            self._session, self.name, fingerprint=self.fields, device=device
        )
        _held.append(self._session)
        self.log.info(
            "gpumap: %d tensors of %s", len(published), self.name
        )
        return published

    def refused(self, error: errors.Error) -> None:
        """Warn, where the engine can load from disk; else raise."""
        if not self.fallback:
            raise error
        self.log.warning("gpumap: %s; this engine loads from disk", error)

    def load(
        self, module: Any, from_disk: Callable[[], None], device: Any = None
    ) -> None:
        """Fill a module that has memory: with the share's tensors, or from disk
        and for the others.

        device   None: tensors are the shared memory, copy on write; else
                 copies of them there
        """
        if self.found():
            try:
                attach_module(module, self.open(device), add=True)
                return
            except errors.Error as error:
                self.refused(error)
                from_disk()
                return
        with self.making() as publish:
            from_disk()
            shared = publish(module)
        if not shared or device is not None:
            return
        # This engine has the shared memory in the place of its own.
        self._session = None
        if self.found():
            attach_module(module, self.open(), add=True)
        else:
            with self.making():
                pass  # it ended meanwhile: give the claim back


def hash_of(settings: Any) -> str:
    """A hash of settings: of a dict or list, or an object with to_dict()."""
    if hasattr(settings, "to_dict"):
        settings = settings.to_dict()
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def files_of(model: str, revision: str | None) -> str:
    """A hash of the files that a model is, by their names, sizes and times; or
    its name and revision on a hub."""
    folder = Path(model)
    if not folder.is_dir():
        return f"{model} {revision}"
    files = [
        (file.name, file.stat().st_size, file.stat().st_mtime_ns)
        for file in sorted(folder.iterdir())
        if file.is_file()
    ]
    return hash_of(files)
