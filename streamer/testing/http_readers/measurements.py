"""What a candidate costs: CPU time, speed and memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from streamer.testing.attack.frames import BINARY, PING, frame
from streamer.testing.http_readers.candidate_process import CandidateProcess, pushed, upgrade
from streamer.testing.http_readers.candidates import REPLY

CONNECTIONS, EVERY_S, SIZE = 50, 0.1, 10_240
IDLE_SOCKETS = 300
FLOOD_MB = 64


async def paced(running: CandidateProcess, seconds: float) -> float:
    """Measure the microseconds of CPU for a message of 10 KiB, with 50 connections that send ten a second each."""
    message, number = frame(BINARY, bytes(SIZE)), 0

    async def talk(place: int) -> None:
        nonlocal number
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(upgrade("/ws"))
        await reader.readuntil(b"\r\n\r\n")
        await begin.wait()
        await asyncio.sleep(place * EVERY_S / CONNECTIONS)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            writer.write(message)
            await reader.readexactly(2 + len(REPLY))
            number += 1
            await asyncio.sleep(EVERY_S)
        writer.close()

    begin = asyncio.Event()
    talking = [asyncio.create_task(talk(place)) for place in range(CONNECTIONS)]
    await asyncio.sleep(0.5)
    before = running.cpu_s
    begin.set()
    await asyncio.gather(*talking)
    return (running.cpu_s - before) / number * 1e6


def gets(running: CandidateProcess, seconds: float) -> float:
    """Measure the GETs a second on one connection, or on new ones if the server closes it."""
    request, number, until = b"GET /plain HTTP/1.1\r\nHost: a\r\n\r\n", 0, time.monotonic() + seconds
    connection = running.connect()
    while time.monotonic() < until:
        connection.sendall(request)
        answer = connection.recv(4096)
        while not answer.endswith(b"alive\n"):
            answer += connection.recv(4096)
        number += 1
        if b"onnection: close" in answer:
            connection.close()
            connection = running.connect()
    connection.close()
    return number / seconds


def idle(running: CandidateProcess) -> float:
    """Measure the kilobytes of each idle websocket."""
    before = running.megabytes
    opened = [running.connect(upgrade("/ws")) for _ in range(IDLE_SOCKETS)]
    for one in opened:
        one.recv(4096)
    time.sleep(0.5)
    kilobytes = (running.megabytes - before) * 1000 / IDLE_SOCKETS
    for one in opened:
        one.close()
    return kilobytes


def flood(running: CandidateProcess) -> float:
    """Measure the megabytes that pings cost if the client does not read the pongs."""
    before = running.megabytes
    connection = running.connect(upgrade("/ws"))
    connection.recv(4096)
    pushed(connection, frame(PING, bytes(125)) * 1000, FLOOD_MB * 1_000_000)
    grown = running.megabytes - before
    connection.close()
    return grown


MEASUREMENTS: dict[str, Callable[[CandidateProcess, float], float]] = {
    "CPU time per message, µs": lambda running, seconds: asyncio.run(paced(running, seconds)),
    "GET requests per second": gets,
    "memory per idle websocket, KB": lambda running, _: idle(running),
    f"growth after at most {FLOOD_MB} MB of pings, MB": lambda running, _: flood(running),
}
