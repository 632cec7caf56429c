#!/usr/bin/env python3
"""A trunk of two real processes on a WAN on which everything goes wrong, from a seed.

    cargo build --release -p longhaul-cli
    bench/trunk-chaos.py [--gigabytes 10] [--streams 8] [--seed 1] [--plain]

The WAN is a process that copies between sockets, 50 MB/s for each connection and direction. About five times a second it resets a
connection, closes one, lets one hang for good, stalls one or all for up to 3 s, or cuts the whole WAN for 1 to 30 s,
in which connections hang and new ones are reset. Every stream's SHA-256 is computed where it is sent and where it arrives, and no
"""

import argparse
import collections
import hashlib
import json
import multiprocessing
import pathlib
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from processes import Failure, Processes

ROOT = pathlib.Path(__file__).resolve().parent.parent
RATE = 50e6
PIECE = 1 << 18
BLOCK = 1 << 20


def listen():
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen(256)
    return listener


def free_port():
    with listen() as listener:
        return listener.getsockname()[1]


# === the WAN ===


class Connection:
    def __init__(self, near, far, wan):
        self.near, self.far, self.wan = near, far, wan
        self.stalled_until = 0.0
        self.over = False
        for ends in ((near, far), (far, near)):
            threading.Thread(target=self.carry, args=ends, daemon=True).start()

    def carry(self, source, sink):
        try:
            while piece := source.recv(PIECE):
                time.sleep(len(piece) / RATE)
                while time.monotonic() < max(self.stalled_until, self.wan.cut_until):
                    time.sleep(0.01)
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            self.end()

    def end(self, reset=False):
        self.over = True
        for stream in (self.near, self.far):
            if reset:
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            try:
                stream.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            if reset:
                stream.close()


class Wan:
    """Copies between near ends and the far one, badly."""

    def __init__(self, listener, far, seed, told):
        self.listener, self.far, self.told = listener, far, told
        self.random = random.Random(seed)
        self.connections = []
        self.cut_until = 0.0

    def accept(self):
        while True:
            near = self.listener.accept()[0]
            try:
                if time.monotonic() < self.cut_until:
                    raise OSError("the WAN is cut")
                far = socket.create_connection(("127.0.0.1", self.far), 1)
                far.settimeout(None)
            except OSError:
                near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                near.close()
                continue
            self.connections.append(Connection(near, far, self))

    def go_wrong(self):
        while True:
            time.sleep(self.random.uniform(0.05, 0.35))
            self.connections = [one for one in self.connections if not one.over]
            now = time.monotonic()
            if not self.connections or now < self.cut_until:
                continue
            one = self.random.choice(self.connections)
            what = self.random.choices(("reset", "close", "hang", "stall", "stall-all", "cut"), (30, 20, 8, 30, 8, 2))[0]
            if what in ("reset", "close"):
                one.end(reset=what == "reset")
            elif what == "hang":
                one.stalled_until = float("inf")
            elif what == "stall":
                one.stalled_until = now + self.random.uniform(0.1, 3)
            elif what == "stall-all":
                until = now + self.random.uniform(0.1, 3)
                for each in self.connections:
                    each.stalled_until = max(each.stalled_until, until)
            else:
                self.cut_until = now + self.random.uniform(1, 30)
            self.told.put(what)


def be_wan(listener, far, seed, told):
    wan = Wan(listener, far, seed, told)
    threading.Thread(target=wan.accept, daemon=True).start()
    wan.go_wrong()


# === the target and the clients ===


def be_target(listener):
    """Answers every stream with the SHA-256 of what came."""

    def serve(stream):
        digest = hashlib.sha256()
        while piece := stream.recv(BLOCK):
            digest.update(piece)
        stream.sendall(digest.digest())
        stream.close()

    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


def send(port, seed, length, outcomes, moved):
    generator = random.Random(seed)
    blocks = [generator.randbytes(BLOCK) for _ in range(8)]
    digest = hashlib.sha256()
    try:
        with socket.create_connection(("127.0.0.1", port)) as stream:
            for number in range(length // BLOCK):
                # No two blocks of a stream are alike.
                block = number.to_bytes(8, "big") + blocks[number % 8][8:]
                digest.update(block)
                stream.sendall(block)
                moved[seed] += BLOCK
            stream.shutdown(socket.SHUT_WR)
            answer = b""
            while len(answer) < 32 and (piece := stream.recv(32)):
                answer += piece
        outcomes.append(None if answer == digest.digest() else f"stream {seed}: another SHA-256 arrived")
    except OSError as error:
        outcomes.append(f"stream {seed}: {error}")


# === the run ===


def ends(options, folder, near, far, wan, target):
    """Both ends' commands, and what has to be prepared for them."""
    binary = str(options.binary)
    secured = []
    for name in ("near", "far"):
        secured.append(["--plain"] if options.plain else ["--identity", str(folder / name)])
    if not options.plain:
        init = [binary, "trunk", "init", "--json", "--identity"]
        pins = [json.loads(subprocess.run([*init, words[1]], capture_output=True, check=True).stdout)["pin"] for words in secured]
        for words, pin in zip(secured, reversed(pins)):
            subprocess.run([*init, words[1], "--trust", pin], capture_output=True, check=True)
    allowed = ["--allow", "127.0.0.0/8"] if options.plain else []
    place = f"127.0.0.1:{target}"
    return (
        [binary, "trunk", "near", f"127.0.0.1:{near}", "--via", f"127.0.0.1:{wan}", "--to", place, "--json", *secured[0]],
        [binary, "trunk", "far", f"127.0.0.1:{far}", "--allow-target", f"127.0.0.1/32:{target}", "--json", *secured[1], *allowed],
    )


def run(options):
    with Processes() as processes, tempfile.TemporaryDirectory() as temporary, listen() as target, listen() as wan:
        near, far = free_port(), free_port()
        told = multiprocessing.Queue()
        for role, arguments in ((be_target, (target,)), (be_wan, (wan, far, options.seed, told))):
            process = multiprocessing.Process(target=role, args=arguments, daemon=True)
            process.start()
            processes.callback(process.terminate)
        ports = (wan.getsockname()[1], target.getsockname()[1])
        near_command, far_command = ends(options, pathlib.Path(temporary), near, far, *ports)
        processes.start(*far_command, until='"ready"')
        processes.start(*near_command, until='"wan-connected"')
        length = int(options.gigabytes * 1e9) // options.streams
        outcomes, moved = [], collections.Counter()
        began = time.monotonic()
        clients = [
            threading.Thread(target=send, args=(near, seed, length, outcomes, moved)) for seed in range(options.streams)
        ]
        for client in clients:
            client.start()
        while any(client.is_alive() for client in clients):
            clients[0].join(10)
            if sys.stderr.isatty():
                print(f"\r{sum(moved.values()) / 1e9:.2f} GB", end="", file=sys.stderr)
        seconds = time.monotonic() - began
        wrong = collections.Counter()
        while not told.empty():
            wrong[told.get()] += 1
        failures = [outcome for outcome in outcomes if outcome]
        print(f"bytes {sum(moved.values()) / 1e9:.2f} GB over {options.streams} streams in {seconds:.0f} s, seed {options.seed}")
        print(f"went-wrong {sum(wrong.values())} times: " + ", ".join(f"{name} {count}" for name, count in sorted(wrong.items())))
        print(f"sha256-equal {len(outcomes) - len(failures)} of {options.streams} streams")
        if failures:
            raise Failure("; ".join(failures))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "target/release/longhaul", type=pathlib.Path)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="without TLS")
    options = parser.parse_args()
    if not options.binary.exists():
        raise Failure(f"`{options.binary}` is not there: cargo build --release -p longhaul-cli, or --binary")
    run(options)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"trunk-chaos.py: {failure}")
