# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""etcd 3.4 or later, by its JSON gateway.

A client talks to one endpoint at a time, and goes on to the next when that
fails.  Watch lists a prefix and then hears every change of it, in a thread and
by a client of its own.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from .sync_config import Config, Wrong, read_password

VALUE_BYTES = 16384  # of a value that is believed
ANSWER_BYTES = 8 << 20
KEY_BYTES = 256  # of a key that is looked at
QUEUE = 1024  # of what the watch has heard and the loop has not taken
PAGE = 64  # keys that are listed at once
PAUSES = (0.1, 0.2, 0.5, 1.0)  # seconds, after failures in a row

Json = dict[str, Any]


class StoreError(Exception):
    """etcd cannot be reached, or has refused a request: the text says why."""


class LeaseLost(StoreError):
    """etcd has ended the lease."""


class TooLong(StoreError):
    """An answer has more than ANSWER_BYTES."""


class Value(NamedTuple):
    """A key's value, as etcd has it."""

    data: bytes
    revision: int  # of the last change
    lease: int


# ---- requests ---------------------------------------------------------------


def encode(data: str | bytes) -> str:
    """Bytes as JSON of the gateway has them."""
    return b64encode(
        data.encode() if isinstance(data, str) else data
    ).decode()


def end_of(prefix: str) -> str:
    """The end of the range of all keys that begin with the prefix."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def put(key: str, data: bytes, lease: int) -> Json:
    """An operation of a transaction."""
    request = {"key": encode(key), "value": encode(data), "lease": str(lease)}
    return {"request_put": request}


def delete(key: str) -> Json:
    """An operation of a transaction."""
    return {"request_delete_range": {"key": encode(key)}}


def is_revision(key: str, revision: int) -> Json:
    """A condition: the key's last change; 0: there is no such key."""
    return {
        "key": encode(key),
        "target": "MOD",
        "result": "EQUAL",
        "mod_revision": str(revision),
    }


def is_lease(key: str, lease: int) -> Json:
    """A condition: the key is there, under this lease."""
    return {
        "key": encode(key),
        "target": "LEASE",
        "result": "EQUAL",
        "lease": str(lease),
    }


def read_value(kv: Json) -> Value:
    """The value of a key in an answer; of one that is too long, a part that
    is.
    """
    return Value(
        b64decode(kv.get("value", ""))[: VALUE_BYTES + 1],
        int(kv["mod_revision"]),
        int(kv.get("lease", 0)),
    )


# ---- the client -------------------------------------------------------------


class Etcd:
    """One connection.  Threads have one each.

    timeout     seconds for an answer
    addresses   of names, which the thread with resolves finds: others make no
                connection to a name that is not known yet, since a name server
                may take any time
    """

    def __init__(
        self,
        config: Config,
        timeout: float,
        addresses: dict[str, str],
        resolves: bool = False,
    ) -> None:
        self.timeout = timeout
        self._addresses = addresses
        self._resolves = resolves
        self._config = config
        self._endpoints = config.etcd
        self._at = 0
        self._connection: HTTPConnection | None = None
        self._token: str | None = None
        self._tls: ssl.SSLContext | None = None
        if any(one.startswith("https:") for one in config.etcd):
            self._tls = _tls_of(config)

    @property
    def endpoint(self) -> str:
        """The endpoint that is in use."""
        return self._endpoints[self._at]

    def leave(self) -> None:
        """Go on to the next endpoint."""
        self.close()
        self._at = (self._at + 1) % len(self._endpoints)

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def call(self, path: str, body: Json) -> Json:
        """Make a request.  After a failure the next one goes elsewhere.

        A transaction may be carried out and its answer be lost: each has
        conditions, by which a second attempt does nothing.
        """
        try:
            return self._ask(path, body)
        except (LeaseLost, TooLong):
            raise
        except StoreError:
            self.leave()
            raise

    def stream(self, path: str, body: Json) -> Iterable[Json]:
        """Make a request that is answered line by line, without an end.

        Ending: close(), or break_off() in another thread.
        """
        response = self._send(path, body)
        if response.status != 200:
            raise self._refusal(response.status, response.read(65536))
        while True:
            try:
                line = response.readline(ANSWER_BYTES)
            except TimeoutError:
                raise StoreError(
                    f"{self.endpoint}: etcd does not answer a watch: no proxy"
                    " between may keep answers back"
                ) from None
            if not line:
                raise StoreError(f"{self.endpoint}: the watch has ended")
            if not line.endswith(b"\n"):
                raise StoreError(f"{self.endpoint}: a line without an end")
            yield self._parse(line)

    def listen(self) -> None:
        """Wait without a limit for the next line of a stream."""
        if self._connection is not None and self._connection.sock:
            self._connection.sock.settimeout(None)

    def break_off(self) -> None:
        """End a stream that another thread reads."""
        connection = self._connection
        stream = None if connection is None else connection.sock
        if stream is not None:
            with suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)

    # ---- one endpoint --------------------------------------------------------

    def _ask(self, path: str, body: Json) -> Json:
        for attempt in range(2):
            response = self._send(path, body)
            try:
                text = self._read(response)
            except (OSError, HTTPException) as error:
                raise self._failed(error) from None
            if response.will_close:
                self.close()
            if response.status == 200:
                return self._parse(text)
            if attempt == 0 and self._is_token_refused(response.status, text):
                self._token = None
                continue
            break
        raise self._refusal(response.status, text)

    def _read(self, response: HTTPResponse) -> bytes:
        """An answer, which as a whole comes in time."""
        until = time.monotonic() + self.timeout
        parts, size = [], 0
        while part := response.read1(65536):
            size += len(part)
            if size >= ANSWER_BYTES or time.monotonic() > until:
                break
            parts.append(part)
        else:
            return b"".join(parts)
        self.close()
        if size >= ANSWER_BYTES:
            raise TooLong(f"{self.endpoint}: an answer is too long")
        raise TimeoutError

    def _send(self, path: str, body: Json) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._config.user is not None and path != AUTHENTICATE:
            if self._token is None:
                self._token = self._authenticate()
            headers["Authorization"] = self._token
        text = json.dumps(body, separators=(",", ":"))
        was_idle = self._connection is not None
        while True:
            try:
                self._connect().request("POST", path, text, headers)
                return self._connect().getresponse()
            except (OSError, HTTPException) as error:
                # etcd ends connections that were idle.
                if not was_idle or isinstance(error, TimeoutError):
                    raise self._failed(error) from None
                self.close()
                was_idle = False

    def _connect(self) -> HTTPConnection:
        if self._connection is None:
            parts = urlsplit(self.endpoint)
            host, is_tls = parts.hostname or "", parts.scheme == "https"
            self._connection = _Connection(
                self._address_of(host),
                host,
                parts.port or (443 if is_tls else 80),
                self.timeout,
                self._tls if is_tls else None,
            )
        return self._connection

    def _address_of(self, host: str) -> str:
        if self._resolves:
            kind = socket.SOCK_STREAM
            found = socket.getaddrinfo(host, None, type=kind)
            self._addresses[host] = str(found[0][4][0])
        address = self._addresses.get(host)
        if address is None:
            with suppress(ValueError):
                ip_address(host.partition("%")[0])
                return host
            raise StoreError(f"{self.endpoint}: its address is not known yet")
        return address

    def _authenticate(self) -> str:
        assert self._config.password_file is not None
        try:
            password = read_password(self._config.password_file)
        except Wrong as wrong:
            raise StoreError(str(wrong)) from None
        answer = self._ask(
            AUTHENTICATE, {"name": self._config.user, "password": password}
        )
        token = answer.get("token")
        if not isinstance(token, str):
            raise StoreError(f"{self.endpoint}: etcd gives no token")
        return token

    def _failed(self, error: Exception) -> StoreError:
        self.close()
        if isinstance(error, TimeoutError):
            return StoreError(
                f"{self.endpoint}: no answer in {self.timeout:g} s"
            )
        why = getattr(error, "strerror", None) or str(error) or repr(error)
        if "certificate required" in str(error):
            why += ": give cert and key"
        return StoreError(f"{self.endpoint}: {why}")

    def _parse(self, text: bytes) -> Json:
        try:
            value = json.loads(text)
            if isinstance(value, dict):
                return value
        except (ValueError, RecursionError):
            pass
        self.close()
        raise StoreError(f"{self.endpoint}: {NO_ETCD}")

    def _is_token_refused(self, status: int, text: bytes) -> bool:
        return self._config.user is not None and (
            status == 401
            or b"invalid auth token" in text
            or b"auth token" in text
            or b"user name is empty" in text
        )

    def _refusal(self, status: int, text: bytes) -> StoreError:
        """Say what an answer refuses, and the remedy."""
        try:
            answer = json.loads(text)
            why = str(answer.get("error") or answer.get("message"))
        except (ValueError, AttributeError, RecursionError):
            self.close()
            why = "no answer of etcd"
        where = f"{self.endpoint}: {why}"
        if "lease not found" in why:
            return LeaseLost("etcd has ended the lease")
        for part, remedy in REMEDIES.items():
            if part in why:
                return StoreError(
                    f"{where}: {remedy.format(user=self._config.user)}"
                )
        return StoreError(f"{where} (HTTP {status})")


NO_ETCD = "the answer is none of etcd's: is it etcd?"
AUTHENTICATE = "/v3/auth/authenticate"

REMEDIES = {
    "space exceeded": "compact and defragment it, and disarm the alarm"
    " (etcdctl)",
    "user name is empty": "give a user and a password",
    "authentication failed": "etcd has no user {user} with this password"
    " (etcd-node)",
    "CommonName": "give this node a certificate without a common name",
    "permission denied": "give the user the rights of this node and cluster"
    " (etcd-node)",
}


class _Connection(HTTPConnection):
    """A connection to an address that is known; TLS is with the name."""

    def __init__(
        self,
        address: str,
        host: str,
        port: int,
        timeout: float,
        tls: ssl.SSLContext | None,
    ) -> None:
        super().__init__(host, port, timeout=timeout)
        self._address = address
        self._tls = tls

    def connect(self) -> None:
        """Connect, and speak TLS where the endpoint does."""
        stream = socket.create_connection(
            (self._address, self.port), self.timeout
        )
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            stream = self._tls.wrap_socket(stream, server_hostname=self.host)
        self.sock = stream


def _tls_of(config: Config) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=config.ca)
        # Python 3.13 asks for extensions that etcd's own clients do without.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if config.cert is not None:
            context.load_cert_chain(config.cert, config.key)
    except OSError as error:  # ssl.SSLError is one
        raise Wrong(
            f"[store]: ca, cert or key: {error.strerror or error}: each is a"
            " file in PEM"
        ) from None
    return context


# ---- the watch --------------------------------------------------------------


class Listed(NamedTuple):
    """All keys of the prefix: every change from here on is heard."""

    keys: dict[str, Value]
    revision: int  # of the list


class Changed(NamedTuple):
    """Changes in their order: the key, its revision, and its value or None.

    Those of one revision come together.
    """

    changes: list[tuple[str, int, Value | None]]


class Cut(NamedTuple):
    """Changes may be missed until the next Listed."""

    why: str


Heard = Listed | Changed | Cut


class Watch(threading.Thread):
    """Hears all that happens below a prefix, and begins anew after failures.

    The loop takes what was heard from queue, and wake is called for it.
    """

    def __init__(
        self, etcd: Etcd, prefix: str, wake: Callable[[], None]
    ) -> None:
        super().__init__(name="watch", daemon=True)
        self.queue: deque[Heard] = deque()
        self._etcd = etcd
        self._prefix = prefix
        self._wake = wake
        self._ends = threading.Event()

    def run(self) -> None:
        """Listen until stop()."""
        failures = 0
        while not self._ends.is_set():
            why = "the watch has ended"
            try:
                for _ in self._listen():
                    failures = 0
            except StoreError as error:
                why = str(error)
            except (OSError, HTTPException) as error:
                why = f"{self._etcd.endpoint}: {error}"
            except Exception as error:  # whatever an answer may have in it
                why = f"{self._etcd.endpoint}: {NO_ETCD} ({error!r})"
            self._etcd.leave()
            if failures == 0:
                self._say(Cut(why))
            self._ends.wait(PAUSES[min(failures, len(PAUSES) - 1)])
            failures += 1

    def stop(self) -> None:
        """End the thread."""
        self._ends.set()
        self._etcd.break_off()

    def begin_again(self) -> None:
        """End the connection, which hears nothing, and make another one."""
        self._etcd.break_off()

    def _say(self, heard: Heard) -> None:
        # etcd waits while the loop does not come along.
        while len(self.queue) >= QUEUE and not self._ends.is_set():
            self._ends.wait(0.01)
        self.queue.append(heard)
        if len(self.queue) == 1:  # or the loop is about to take more
            self._wake()

    def _listen(self) -> Iterable[None]:
        """List, and then hear.  Yields when something was heard."""
        keys, revision, cluster = self._list()
        request = {
            "key": encode(self._prefix),
            "range_end": encode(end_of(self._prefix)),
            "start_revision": str(revision + 1),
        }
        for line in self._etcd.stream(
            "/v3/watch", {"create_request": request}
        ):
            result = line.get("result")
            if not isinstance(result, dict):
                raise StoreError(f"the watch was refused: {line}"[:200])
            header = result.get("header", {})
            if result.get("canceled"):
                raise StoreError(
                    "etcd has compacted what was missed"
                    if result.get("compact_revision")
                    else "etcd has cancelled the watch"
                )
            if header.get("cluster_id") != cluster:
                raise StoreError("it is another cluster")
            if result.get("created"):
                if int(header.get("revision", 0)) < revision:
                    raise StoreError("etcd has lost the last revisions")
                self._etcd.listen()
                self._say(Listed(keys, revision))
                keys = {}
                yield
            changes = self._changes(result.get("events", []))
            if changes:
                self._say(Changed(changes))
                yield

    def _list(self) -> tuple[dict[str, Value], int, str]:
        keys: dict[str, Value] = {}
        first, revision, cluster, page = self._prefix.encode(), 0, "", PAGE
        while True:
            request = {
                "key": encode(first),
                "range_end": encode(end_of(self._prefix)),
                "limit": str(page),
                "revision": str(revision),
            }
            try:
                answer = self._etcd.call("/v3/kv/range", request)
            except TooLong:
                if page == 1:
                    raise
                page = max(page // 4, 1)
                continue
            if not revision:
                header = answer["header"]
                revision, cluster = int(header["revision"]), header[
                    "cluster_id"
                ]
            kvs = answer.get("kvs", ())
            for kv in kvs:
                key = self._key_of(kv)
                if key is not None:
                    keys[key] = read_value(kv)
            if not answer.get("more"):
                return keys, revision, cluster
            if not kvs:
                raise StoreError("etcd has sent a page without an end")
            first = b64decode(kvs[-1]["key"]) + b"\0"

    def _key_of(self, kv: Json) -> str | None:
        """The key below the prefix; None: it is none of gpumap-sync's."""
        full = b64decode(kv["key"])
        if len(full) > KEY_BYTES or not full.isascii():
            return None
        return full.decode()[len(self._prefix) :]

    def _changes(
        self, events: list[Json]
    ) -> list[tuple[str, int, Value | None]]:
        changes: list[tuple[str, int, Value | None]] = []
        for event in events:
            key, value = self._key_of(event["kv"]), read_value(event["kv"])
            if key is not None:
                is_put = event.get("type", "PUT") == "PUT"
                changes.append(
                    (key, value.revision, value if is_put else None)
                )
        return changes


def now() -> float:
    """Seconds on the clock that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
