# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The configuration of gpumap-sync: gpumap-sync.conf(5) and its drop-ins."""

from __future__ import annotations

import grp
import os
import re
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,62}")
ADDRESS = re.compile(r"[A-Za-z0-9._:%][A-Za-z0-9._:%-]{0,62}")
UNITS = {"ms": 0.001, "s": 1.0}
PASSWORD_BYTES = 1024


class Wrong(ValueError):
    """A line or a value that cannot be: the text names the remedy."""


@dataclass(slots=True)
class Config:
    """The keys of gpumap-sync.conf(5); times are seconds."""

    cluster: str = "gpumap"
    node: str = ""
    address: str = ""
    gangs: bool = True
    ttl: float = 5.0
    forget: float = 3600.0
    etcd: tuple[str, ...] = ()
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    user: str | None = None
    password_file: str | None = None
    timeout: float = 5.0
    path: str = "/run/gpumap-sync/node"
    group: int | None = None
    mode: int = 0o660
    instance: str = "node"
    runtime_dir: str = "/run/gpumap"


def is_name(text: str) -> bool:
    """May a node or a cluster have this name?"""
    return NAME.fullmatch(text) is not None


def is_address(text: str) -> bool:
    """May a node have this address?"""
    return ADDRESS.fullmatch(text) is not None


# ---- values -----------------------------------------------------------------


def _name(value: str) -> str:
    if not is_name(value):
        raise Wrong(
            "1 to 63 letters, digits, dots, hyphens or underscores, and no dot"
            " or hyphen first"
        )
    return value


def _address(value: str) -> str:
    if not is_address(value):
        raise Wrong("an IP address or a host name, at most 63 bytes")
    return value


def _text(value: str) -> str:
    if not value or not value.isascii() or re.search(r"[\0- \x7f]", value):
        raise Wrong("a text without blanks")
    return value


def _path(value: str) -> str:
    if not value.startswith("/"):
        raise Wrong("an absolute path")
    return value


def _switch(value: str) -> bool:
    if value not in ("yes", "no"):
        raise Wrong("yes or no")
    return value == "yes"


def _time(least: str, most: str) -> Callable[[str], float]:
    def read(value: str) -> float:
        found = re.fullmatch(r"([0-9]{1,12})(ms|s)", value)
        seconds = int(found[1]) * UNITS[found[2]] if found else -1.0
        if not _seconds(least) <= seconds <= _seconds(most):
            raise Wrong(f"a time from {least} to {most}, as 500ms or 2s")
        return seconds

    return read


def _seconds(text: str) -> float:
    number, unit = re.fullmatch(r"(\d+)(ms|s)", text).groups()  # type: ignore
    return int(number) * UNITS[unit]


def _mode(value: str) -> int:
    if not re.fullmatch("[0-7]{1,4}", value) or int(value, 8) > 0o777:
        raise Wrong("an octal mode, as 0660")
    return int(value, 8)


def _group(value: str) -> int:
    try:
        if value.isascii() and value.isdigit():
            return min(int(value), 2**32 - 2)
        return grp.getgrnam(value).gr_gid
    except KeyError:
        raise Wrong("a group of this machine, or its number") from None


def _endpoints(value: str) -> tuple[str, ...]:
    found = tuple(_text(value).split(","))
    for one in found:
        if not re.fullmatch(r"https?://[^/?#@,]+/?", one):
            raise Wrong(
                f"{one or 'nothing'} is no endpoint: give http://HOST:PORT or"
                " https://HOST:PORT, with commas between several"
            )
    return found


def _directory(value: str) -> str:
    raise Wrong(
        "nodes do not meet in a directory any more: give etcd = ENDPOINTS"
    )


KEYS: dict[str, dict[str, tuple[str, Callable[[str], object]]]] = {
    "cluster": {
        "address": ("address", _address),
        "forget": ("forget", _time("1000ms", "2678400s")),
        "gangs": ("gangs", _switch),
        "name": ("cluster", _name),
        "node": ("node", _name),
        "ttl": ("ttl", _time("1000ms", "600s")),
    },
    "store": {
        "ca": ("ca", _path),
        "cert": ("cert", _path),
        "etcd": ("etcd", _endpoints),
        "key": ("key", _path),
        "password-file": ("password_file", _path),
        "timeout": ("timeout", _time("10ms", "600s")),
        "user": ("user", _text),
        "directory": ("etcd", _directory),
    },
    "socket": {
        "group": ("group", _group),
        "mode": ("mode", _mode),
        "path": ("path", _path),
    },
    "agent": {
        "instance": ("instance", _text),
        "runtime-dir": ("runtime_dir", _path),
    },
}


# ---- files ------------------------------------------------------------------


def _set(config: Config, section: str, line: str) -> str:
    """Take a line.  Returns the section that is open behind it."""
    line = line.strip()
    if not line or line[0] in "#;":
        return section
    if line[0] == "[":
        if not re.fullmatch(r"\[[^\]]*\]", line):
            raise Wrong("a section is one word in brackets: [store]")
        section = line[1:-1].strip()
        if section not in KEYS:
            raise Wrong(
                f"no section [{section[:40]}]: there are {', '.join(KEYS)}"
            )
        return section
    name, equals, value = (word.strip() for word in line.partition("="))
    if not equals or not name:
        raise Wrong("neither [section] nor key = value")
    if not section:
        raise Wrong(f"{name[:40]} stands before the first section")
    if name not in KEYS[section]:
        known = ", ".join(one for one in KEYS[section] if one != "directory")
        raise Wrong(f"[{section}] has no key {name[:40]}: it has {known}")
    field, read = KEYS[section][name]
    try:
        setattr(config, field, read(value))
    except Wrong as wrong:
        raise Wrong(f"{name} = {value[:40]}: {wrong}") from None
    return section


def _read_file(config: Config, path: str, must_exist: bool) -> int:
    """Read one file.  Returns how many were there."""
    try:
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")
    except FileNotFoundError as error:
        if not must_exist:
            return 0
        raise Wrong(f"{path}: {error.strerror}") from None
    except OSError as error:
        raise Wrong(f"{path}: {error.strerror}") from None
    section = ""
    for number, line in enumerate(lines, 1):
        try:
            if b"\0" in line:
                raise Wrong("a NUL byte: this is no text")
            section = _set(
                config, section, line.decode(errors="surrogateescape")
            )
        except Wrong as wrong:
            raise Wrong(f"{path}:{number}: {wrong}") from None
    return 1


def _drop_ins(path: str) -> list[str]:
    folder = f"{path}.d"
    try:
        names = os.listdir(os.fsencode(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise Wrong(f"{folder}: {error.strerror}") from None
    return [
        f"{folder}/{os.fsdecode(name)}"
        for name in sorted(names)
        if name.endswith(b".conf") and len(name) > 5 and name[:1] != b"."
    ]


def read(path: str, must_exist: bool) -> tuple[Config, int]:
    """Read a configuration with its drop-ins.

    must_exist   a path that was named; a default may be absent

    Returns the configuration, and how many files there were.  Wrong: a file,
    a line or a value is wrong, and the text says which, and the remedy.
    """
    config = Config()
    n_files = _read_file(config, path, must_exist)
    for name in _drop_ins(path):
        n_files += _read_file(config, name, True)
    try:
        _complete(config)
    except Wrong as wrong:
        raise Wrong(f"{path}: {wrong}") from None
    return config, n_files


def _complete(config: Config) -> None:
    """Fill in the defaults of this machine, and see that all fits."""
    host = socket.gethostname()
    if not config.node:
        config.node = host if is_name(host) else ""
        config.address = config.address or config.node
    config.address = config.address or (
        host if is_name(host) else config.node
    )
    if not config.node:
        raise Wrong(
            "this machine's host name is no name of a node: add node = NAME to"
            " [cluster]"
        )
    if not config.etcd:
        raise Wrong(
            "no place where the nodes meet: add etcd = ENDPOINTS to [store]"
        )
    if (config.user is None) != (config.password_file is None):
        raise Wrong("user and password-file of [store] go together")
    if (config.cert is None) != (config.key is None):
        raise Wrong("cert and key of [store] go together")
    if config.password_file is not None:
        read_password(config.password_file)
    for file in (config.ca, config.cert, config.key):
        if file is not None and not os.access(file, os.R_OK):
            raise Wrong(f"[store]: {file}: it cannot be read")
    if len(os.fsencode(config.path)) > 107:
        raise Wrong("[socket] path: it has more than 107 bytes")
    if config.group is None:
        try:
            config.group = grp.getgrnam("gpumap").gr_gid
        except KeyError:
            pass


def read_password(path: str) -> str:
    """The first line of a file that nobody else may read."""
    try:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        with open(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            is_file = stat.S_ISREG(status.st_mode)
            line = file.read(PASSWORD_BYTES) if is_file else None
    except OSError as error:
        raise Wrong(f"password-file {path}: {error.strerror}") from None
    if line is None or len(line) == PASSWORD_BYTES:
        raise Wrong(f"password-file {path}: this is no file of one line")
    if status.st_mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
        raise Wrong(
            f"password-file {path}: others may read or write it: chmod 0640"
        )
    password = line.splitlines()[0] if line.strip(b"\r\n") else b""
    if not password:
        raise Wrong(f"password-file {path}: its first line is empty")
    return password.decode(errors="surrogateescape")
