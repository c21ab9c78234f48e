"""Modules and calls that macOS and Windows lack: what must work there is imported and run without them.

It runs on Linux, so it proves what a program asks of its system, and nothing about how the others answer.
"""

import subprocess
import sys

LINUX_CALLS = ("eventfd", "fdatasync", "posix_fadvise", "posix_fallocate", "RWF_NOWAIT", "sched_getaffinity")
UNIX_CALLS = (*LINUX_CALLS, "pwritev", "preadv", "statvfs", "O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK")
WITHOUT = """
import os, sys
sys.modules.update(dict.fromkeys({modules!r}))
for name in {calls!r}:
    if hasattr(os, name):
        delattr(os, name)
"""
BUS_AND_SERVICES = """
import asyncio, tempfile
from pathlib import Path
from typing import Protocol
import hutong, hutong.cli.app, hutong.cli.main, hutong.testing
from hutong.rpc import service

@service("shop")
class Shop(Protocol):
    async def buy(self, count: int) -> int: ...

class MyShop:
    async def buy(self, count: int) -> int:
        return 3 * count

async def main():
    async with hutong.Node(rpc="127.0.0.1:0", metrics="127.0.0.1:0") as node:
        node.bus.consumer("greeter", lambda message: message.reply("hello, " + message.body))
        print((await node.bus.request("greeter", "bus")).body)
        await node.rpc.bind(Shop, MyShop())
        async with hutong.connect(node.rpc_address) as client:
            print(await client.proxy(Shop).buy(4))
    try:
        async with hutong.Node(data_dir=tempfile.mkdtemp()):
            print("served")
    except hutong.UsageError as error:
        print(error)

asyncio.run(main())
"""
BROKER = """
import asyncio, fcntl, tempfile
FULL_FLUSH = 51  # in macOS's sys/fcntl.h
flushed = []

def instead(descriptor, command, *rest):
    if command != FULL_FLUSH:
        return real(descriptor, command, *rest)
    flushed.append(descriptor)
    os.fsync(descriptor)
    return 0

real, fcntl.fcntl, fcntl.F_FULLFSYNC = fcntl.fcntl, instead, FULL_FLUSH
import hutong
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from hutong.runtime.threads.write_ring import WriteRing

def none(self, loop):
    raise OSError(38, "io_uring is Linux's")

WriteRing.__init__ = none

async def main():
    folder = tempfile.mkdtemp()
    async with hutong.Node(kafka="127.0.0.1:0", data_dir=folder) as node:
        async with AIOKafkaProducer(bootstrap_servers=node.kafka, acks="all") as producer:
            await producer.send_and_wait("orders", b"tea")
    print(bool(flushed))
    async with hutong.Node(kafka="127.0.0.1:0", data_dir=folder) as node:
        consumer = AIOKafkaConsumer("orders", bootstrap_servers=node.kafka, auto_offset_reset="earliest")
        async with consumer:
            print((await consumer.getone()).value.decode())

asyncio.run(main())
"""


def run(program: str, modules: tuple[str, ...], calls: tuple[str, ...]) -> list[str]:
    """The lines that a program prints in an interpreter without these modules and without these names of `os`."""
    text = WITHOUT.format(modules=modules, calls=calls) + program
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_bus_services_and_commands_need_no_unix() -> None:
    told = run(BUS_AND_SERVICES, ("uvloop", "fcntl", "resource", "pwd", "grp", "termios"), UNIX_CALLS)
    assert told[:2] == ["hello, bus", "12"]
    assert told[2].startswith("A node keeps its data on Linux or macOS: this system has no locks for its folder.")


def test_a_broker_flushes_by_the_call_of_macos() -> None:
    assert run(BROKER, ("uvloop",), LINUX_CALLS) == ["True", "tea"]
