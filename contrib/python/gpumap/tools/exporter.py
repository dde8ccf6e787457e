# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""gpumap-exporter: the map that gpumapd publishes, as metrics for Prometheus.

The exporter is a client like others: it reads the map, and asks the agent for
nothing unless --usage is given.  Without an agent the exporter goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import tempfile
from asyncio import StreamReader, StreamWriter
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus

from .. import Error, Map, State, attach
from . import command, metrics
from .command import Exit, Failed, Options

NAME = "gpumap-exporter"
LISTEN_DEFAULT = ":9940"
INTERVAL_MAX = 86400  # seconds
ENDS = (signal.SIGTERM, signal.SIGINT)

# A client that breaks a limit is cut off, and others are served.
REQUEST_S = 2  # for an answer of the agent, where it is asked
HEAD_S = 10  # for a request, from the connection or the last answer on
ANSWER_S = 30  # until the client has taken an answer
HEAD_BYTES = 16384
OF_ADDRESS = 16  # connections of one address
OF_ALL = 256
YIELD_S = 0.001  # between two answers, in which requests are read
UNSENT_BYTES = 32 << 20  # of answers that clients have not taken yet

USAGE = """\
usage: gpumap-exporter [--listen ADDRESS:PORT] [--usage]
       gpumap-exporter --textfile FILE [--interval SECONDS] [--usage]
options: --instance NAME, --runtime-dir DIR
See gpumap-exporter(8).
"""

INDEX = b"""\
<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<title>gpumap-exporter</title></head>
<body><h1>gpumap-exporter</h1>
<p><a href="/metrics">Metrics</a></p></body></html>
"""


def tell(text: str) -> None:
    """Say something on standard error."""
    command.tell(f"{NAME}: {text}")


class Target:
    """The attachment that the exporter reads, as long as there is one."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self._map: Map | None = None
        self._errno: int | None = 0  # why there is none: it has been told

    def map(self) -> Map | None:
        """The map, another one where it was retired; None: there is none.

        A map stays readable after its agent's end.
        """
        if self._map is not None and _is_retired(self._map):
            self._map.close()
            self._map = None
        if self._map is None:
            options = self.options
            try:
                self._map = attach(options.instance, options.runtime_dir)
                self._map.request_limit(REQUEST_S)
                self._errno = 0
            except Error as error:
                if error.errno != self._errno:
                    tell(error.refusal or str(error.strerror))
                self._errno = error.errno
        return self._map

    def scrape(self, openmetrics: bool) -> bytes:
        """The metrics of this moment."""
        instance, usage = self.options.instance, self.options.usage
        return metrics.write(self.map(), instance, openmetrics, usage)


def _is_retired(map: Map) -> bool:
    try:
        return map.health().state == State.RETIRED
    except Error:
        return True


# ---- HTTP -------------------------------------------------------------------


def listen(where: str) -> socket.socket:
    """Listen on "ADDRESS:PORT", "[ADDRESS]:PORT" or ":PORT", and say where."""
    host, colon, port = where.rpartition(":")
    if not colon:
        raise Failed(
            f"--listen {where}: give ADDRESS:PORT, [ADDRESS]:PORT or :PORT"
        )
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    try:
        found = socket.getaddrinfo(
            os.fsencode(host) or None,
            os.fsencode(port),
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )
    except socket.gaierror as error:
        raise Failed(f"--listen {where}: {error.strerror}") from None
    # IPv6 first: all addresses of it are those of IPv4, too.
    for family, _, _, _, address in sorted(
        found, key=lambda one: one[0] != socket.AF_INET6
    ):
        try:
            listening = socket.create_server(
                address,
                family=family,
                backlog=socket.SOMAXCONN,
                dualstack_ipv6=family == socket.AF_INET6
                and socket.has_dualstack_ipv6(),
            )
            break
        except OSError as error:
            why = os.strerror(error.errno or 0)
    else:
        raise Failed(f"--listen {where}: {why}")
    numeric = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
    host, port = socket.getnameinfo(listening.getsockname(), numeric)
    tell(f"listening on {f'[{host}]' if ':' in host else host}:{port}")
    return listening


class Request:
    """The head of a request.  ValueError: it is none of HTTP/1.0 or 1.1."""

    def __init__(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, target, version = first.split(" ")
        if version not in ("HTTP/1.0", "HTTP/1.1"):
            raise ValueError(version)
        self.path = target.partition("?")[0]
        fields: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            fields.setdefault(name.lower(), value.strip())
        self.accept = fields.get("accept", "")
        # May another one follow?  A body is not read.
        asked = fields.get("connection", "").lower()
        self.stays = (
            (asked == "keep-alive" or version == "HTTP/1.1" and not asked)
            and fields.get("content-length", "0") == "0"
            and "transfer-encoding" not in fields
        )


@dataclass(slots=True)
class Client:
    """The connections of one address, in the order in which they came."""

    writers: list[StreamWriter] = field(default_factory=list)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Server:
    """Answers requests, and lets no client keep others from being served.

    A connection that is one too many takes the place of the oldest one of its
    address, or of the address that has most.  So there is always room for a
    client that sends its request at once.  Addresses are answered in turn, so
    one that asks again and again delays others by one answer.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.turn = asyncio.Lock()
        self.clients: dict[str, Client] = {}

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Answer the requests of one connection."""
        address = _address(writer)
        client = self._admit(address, writer)
        try:
            # The client may go away, or take too long.
            with suppress(OSError, EOFError):
                while await self._answer(client, reader, writer):
                    pass
        finally:
            self._drop(address, writer)

    async def _answer(
        self, client: Client, reader: StreamReader, writer: StreamWriter
    ) -> bool:
        """Answer one request.  Returns whether there may be another."""
        request = None
        answer = 400, "text/plain", b"no request of HTTP/1.1\n"
        try:
            async with asyncio.timeout(HEAD_S):
                request = Request(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            answer = 431, "text/plain", b"the request is too long\n"
        except ValueError:
            pass
        if request is None:
            self._write(writer, request, *answer)
        else:
            # An address waits for a turn of its own, and then for one of all.
            async with client.turn, self.turn:
                self._write(writer, request, *self._find(request))
                await asyncio.sleep(YIELD_S)
        async with asyncio.timeout(ANSWER_S):
            await writer.drain()
        return request is not None and request.stays

    def _write(
        self,
        writer: StreamWriter,
        request: Request | None,
        status: int,
        kind: str,
        body: bytes,
    ) -> None:
        stays = request is not None and request.stays
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
            f"Date: {formatdate(usegmt=True)}\r\n"
            f"Connection: {'keep-alive' if stays else 'close'}\r\n"
            f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        )
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            head += "Allow: GET, HEAD\r\n"
        if request is not None and request.method == "HEAD":
            body = b""
        self._make_room(len(body))
        writer.write(f"{head}\r\n".encode() + body)

    def _find(self, request: Request) -> tuple[int, str, bytes]:
        """The status, the type and the body of an answer."""
        if request.method not in ("GET", "HEAD"):
            return 405, "text/plain", b"only GET and HEAD\n"
        if request.path == "/metrics":
            openmetrics = "application/openmetrics-text" in request.accept
            kind = metrics.OPENMETRICS if openmetrics else metrics.PLAIN
            return 200, kind, self.target.scrape(openmetrics)
        if request.path == "/":
            return 200, "text/html; charset=utf-8", INDEX
        return 404, "text/plain", b"not found: the metrics are at /metrics\n"

    def _admit(self, address: str, writer: StreamWriter) -> Client:
        counts = {key: len(one.writers) for key, one in self.clients.items()}
        if sum(counts.values()) >= OF_ALL:
            full = max(counts, key=counts.__getitem__)
            self._drop(full, self.clients[full].writers[0])
        elif counts.get(address, 0) >= OF_ADDRESS:
            self._drop(address, self.clients[address].writers[0])
        client = self.clients.setdefault(address, Client())
        client.writers.append(writer)
        # drain() is to wait until the client has taken all.
        writer.transport.set_write_buffer_limits(0)
        return client

    def _drop(self, address: str, writer: StreamWriter) -> None:
        """End a connection, with what the client has not taken."""
        client = self.clients.get(address)
        if client is not None and writer in client.writers:
            client.writers.remove(writer)
            if not client.writers:
                del self.clients[address]
            if writer.transport.get_write_buffer_size():
                writer.transport.abort()
            writer.close()

    def _make_room(self, n_bytes: int) -> None:
        """Cut off the slowest, so that what is unsent fits into memory."""
        unsent = [
            (writer.transport.get_write_buffer_size(), address, writer)
            for address, client in self.clients.items()
            for writer in client.writers
        ]
        n_bytes += sum(size for size, _, _ in unsent)
        for size, address, writer in unsent:
            if size > 0 and n_bytes > UNSENT_BYTES:
                self._drop(address, writer)
                n_bytes -= size


def _address(writer: StreamWriter) -> str:
    """The address that limits are for: of IPv6, the network's part."""
    host: str = (writer.get_extra_info("peername") or ("",))[0]
    if ":" not in host or "." in host:
        return host
    return socket.inet_pton(socket.AF_INET6, host.partition("%")[0])[:8].hex()


async def serve(target: Target, listening: socket.socket) -> None:
    """Serve on the socket until SIGTERM or SIGINT."""
    ended = asyncio.Event()
    for number in ENDS:
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
    server = await asyncio.start_server(
        Server(target).serve,
        sock=listening,
        limit=HEAD_BYTES,
        backlog=socket.SOMAXCONN,
    )
    await ended.wait()
    server.close()


# ---- the file ---------------------------------------------------------------


def write_file(target: Target, path: str) -> bool:
    """Put the metrics in the place of a file, which no reader sees half
    written.  Returns False after telling why that failed.
    """
    # node_exporter reads files that end in .prom: not the temporary one.
    folder, name = os.path.split(path)
    text = target.scrape(openmetrics=False)
    beside = None
    try:
        fd, beside = tempfile.mkstemp(prefix=f"{name}.", dir=folder or ".")
        with open(fd, "wb") as stream:
            # Others may read the file as the umask says.
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(fd, 0o666 & ~mask)
            stream.write(text)
        os.rename(beside, path)
        return True
    except OSError as error:
        tell(f"{path}: {error.strerror}")
    if beside is not None:
        os.unlink(beside)
    return False


def write_files(target: Target, path: str, interval: int) -> int:
    """Write a file, with an interval again and again until a signal."""
    while True:
        done = write_file(target, path)
        if not interval:
            return Exit.OK if done else Exit.FAILED
        if signal.sigtimedwait(ENDS, interval) is not None:
            return Exit.OK


# ---- the command line -------------------------------------------------------


class Parser(Options):
    """The options of gpumap-exporter."""

    def __init__(self) -> None:
        super().__init__(NAME, NAME, "")
        for option in ("--listen", "--textfile", "--interval"):
            self.add_argument(option)
        self.add_argument("--usage", action="store_true")
        self.add_argument("operands", nargs="*")

    def format_help(self) -> str:
        """The summary that --help prints."""
        return USAGE


def main(words: list[str]) -> int:
    """Serve the metrics, or write them to a file."""
    options = Parser().parse_args(words)
    wrong, text, interval = None, options.interval, 0
    if text is not None and text.isascii() and text.isdigit():
        interval = int(text.lstrip("0")[:9] or 0)
    if text is not None and not 0 < interval <= INTERVAL_MAX:
        wrong = (
            f"--interval {text}: give a number of seconds, 1 to {INTERVAL_MAX}"
        )
    elif options.operands:
        wrong = f"it takes no operand: {options.operands[0]}"
    elif options.textfile is None and interval:
        wrong = "--interval is for --textfile"
    elif options.textfile is not None and options.listen is not None:
        wrong = "--listen or --textfile, not both: start it twice"
    if wrong:
        raise Failed(wrong, Exit.USAGE)
    # Until they are waited for.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    target = Target(options)
    if options.textfile is not None:
        return write_files(target, options.textfile, interval)
    where = LISTEN_DEFAULT if options.listen is None else options.listen
    asyncio.run(serve(target, listen(where)))
    return Exit.OK
