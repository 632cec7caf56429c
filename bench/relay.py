#!/usr/bin/env python3
"""Byte streams through `longhaul relay tcp` beside haproxy, nginx and socat, on loopback.

    cargo build --release -p longhaul-cli
    bench/relay.py [--binary target/release/longhaul] [--rounds 15] [--seconds 1] [--out FILE.json]

Per round, each arm once, in random order: bulk on 1 and on 8 connections (Gbit/s, and the relay's CPU seconds
per GB), 64-byte round trips (p50 and p99, us), new connections per second with CPU us each; and once at the end
memory per idle connection (PSS). Each figure is divided by the direct path's of the same round. `longhaul` is
beside the best peer of each column: the ratio's 95 % interval comes from resampling rounds (10,000 times, seeded),
and a column counts as worse only where the whole interval lies on the bad side of 1.

Needs haproxy, nginx with its stream module and socat (apt-get install haproxy nginx-light libnginx-mod-stream
socat). Client, server and relay share the machine's cores, so CPU per GB and per connection say more than rates.
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
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

TICKS = os.sysconf("SC_CLK_TCK")
PIECE = memoryview(bytearray(1 << 20))
IDLE = 1000
# Column: what is better, unit.
COLUMNS = {
    "bulk1": ("more", "Gbit/s, 1 connection"),
    "bulk1_cpu": ("less", "CPU s/GB, 1 connection"),
    "bulk8": ("more", "Gbit/s, 8 connections"),
    "bulk8_cpu": ("less", "CPU s/GB, 8 connections"),
    "p50": ("less", "64 B round trip p50, us"),
    "p99": ("less", "64 B round trip p99, us"),
    "rate": ("more", "connections/s"),
    "rate_cpu": ("less", "CPU us/connection"),
    "idle": ("less", "KB per idle connection"),
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise SystemExit(f"nobody listens on {port}")


# === the server: what a connection's first byte says is done with the rest ===


def serve(listener):
    while True:
        stream, _ = listener.accept()
        # A process each would cost more than what is measured.
        import threading

        threading.Thread(target=answer, args=(stream,), daemon=True).start()


def answer(stream):
    with stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        kind = stream.recv(1)
        if kind == b"b":
            buffer = bytearray(1 << 20)
            count = 0
            while got := stream.recv_into(buffer):
                count += got
            stream.sendall(struct.pack("!Q", count))
        elif kind == b"p":
            while data := stream.recv(64):
                stream.sendall(data)
        elif kind == b"c":
            stream.sendall(b"c")
        elif kind == b"i":
            stream.recv(1)


# === the clients ===


def connect(port):
    stream = socket.create_connection(("127.0.0.1", port), 10)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def push(port, seconds, start, sent):
    with connect(port) as stream:
        stream.sendall(b"b")
        start.wait()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            stream.sendall(PIECE)
        stream.shutdown(socket.SHUT_WR)
        sent.put(struct.unpack("!Q", stream.recv(8, socket.MSG_WAITALL))[0])


def bulk(port, connections, seconds):
    start, sent = multiprocessing.Barrier(connections + 1), multiprocessing.Queue()
    pushers = [
        multiprocessing.Process(target=push, args=(port, seconds, start, sent)) for _ in range(connections)
    ]
    for pusher in pushers:
        pusher.start()
    start.wait()
    began = time.monotonic()
    count = sum(sent.get() for _ in pushers)
    took = time.monotonic() - began
    for pusher in pushers:
        pusher.join()
    return count, took


def ping(port, seconds):
    times = []
    with connect(port) as stream:
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


def knock(port, seconds):
    count, end = 0, time.monotonic() + seconds
    began = time.monotonic()
    while time.monotonic() < end:
        with connect(port) as stream:
            stream.sendall(b"c")
            stream.recv(1)
        count += 1
    return count, time.monotonic() - began


# === arms ===


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


def cpu(root):
    """Seconds of a process, of those it has started, and of those that have ended."""
    total = 0
    for process in tree(root):
        try:
            with open(f"/proc/{process}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += sum(int(field) for field in fields[11:15])
    return total / TICKS


def memory(root):
    total = 0
    for process in tree(root):
        try:
            with open(f"/proc/{process}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except OSError:
            continue
    return total


HAPROXY = """global
  maxconn 6500
  nbthread 2
defaults
  mode tcp
  maxconn 6500
  timeout connect 10s
  timeout client 10m
  timeout server 10m
  option splice-request
  option splice-response
listen relay
  bind 127.0.0.1:{listen} backlog 4096
  server s 127.0.0.1:{target}
"""

NGINX = """daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 2;
{modules}
events {{ worker_connections 8192; }}
stream {{
  server {{ listen 127.0.0.1:{listen} backlog=4096; proxy_pass 127.0.0.1:{target}; }}
}}
"""


def arms(binary, folder, target):
    """Name, port and process of each; the direct path has none."""
    yield "direct", target, None

    def start(name, *words):
        log = open(f"{folder}/{name}.log", "w")
        process = subprocess.Popen([str(word) for word in words], stdout=log, stderr=log, stdin=subprocess.PIPE)
        return process

    port = free_port()
    config = pathlib.Path(folder, "relay.toml")
    config.write_text(
        f'[[tcp]]\nlisten = "127.0.0.1:{port}"\ntarget = "127.0.0.1:{target}"\nserver-profile = "lan"\n'
    )
    if binary.name == "serve":
        process = start("longhaul", binary, config)
    else:
        process = start("longhaul", binary, "relay", "run", "--config", config)
    wait_for(port)
    yield "longhaul", port, process
    if shutil.which("haproxy"):
        port = free_port()
        pathlib.Path(folder, "haproxy.cfg").write_text(HAPROXY.format(listen=port, target=target))
        process = start("haproxy", "haproxy", "-db", "-f", f"{folder}/haproxy.cfg")
        wait_for(port)
        yield "haproxy", port, process
    if shutil.which("nginx"):
        port = free_port()
        module = "/usr/lib/nginx/modules/ngx_stream_module.so"
        modules = f"load_module {module};" if os.path.exists(module) else ""
        text = NGINX.format(listen=port, target=target, folder=folder, modules=modules)
        pathlib.Path(folder, "nginx.conf").write_text(text)
        tested = subprocess.run(["nginx", "-t", "-c", f"{folder}/nginx.conf"], capture_output=True)
        if tested.returncode == 0:
            process = start("nginx", "nginx", "-c", f"{folder}/nginx.conf")
            wait_for(port)
            yield "nginx stream", port, process
    if shutil.which("socat"):
        port = free_port()
        ends = f"TCP4-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr,backlog=4096", f"TCP4:127.0.0.1:{target}"
        process = start("socat", "socat", "-b131072", *ends)
        wait_for(port)
        yield "socat -b131072", port, process


def measure(port, process, seconds):
    figures = {}
    for name, connections in [("bulk1", 1), ("bulk8", 8)]:
        before = cpu(process.pid) if process else 0
        count, took = bulk(port, connections, seconds)
        figures[name] = count * 8 / took / 1e9
        if process:
            figures[f"{name}_cpu"] = (cpu(process.pid) - before) / (count / 1e9)
    figures["p50"], figures["p99"] = ping(port, seconds)
    before = cpu(process.pid) if process else 0
    count, took = knock(port, seconds)
    figures["rate"] = count / took
    if process:
        figures["rate_cpu"] = (cpu(process.pid) - before) / count * 1e6
    return figures


def idle(port, process):
    before = memory(process.pid)
    streams = []
    for _ in range(IDLE):
        stream = connect(port)
        stream.sendall(b"i")
        streams.append(stream)
    time.sleep(1)
    after = memory(process.pid)
    for stream in streams:
        stream.close()
    return (after - before) / IDLE


# === what the figures say ===


def normalised(figure, direct, column):
    """Rates as shares of the direct path's, times as multiples; CPU and memory as they are."""
    return figure / direct if column in ("bulk1", "bulk8", "p50", "p99", "rate") else figure


def interval(ratios, rng):
    """The 95 % interval of the median, from resampled rounds."""
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(10_000))
    return medians[249], medians[9749]


def report(rounds):
    names = [name for name in rounds[0]["arms"] if name != "direct"]
    rng = random.Random(6)
    print(f"\n{platform.node()}, {platform.release()}, {os.cpu_count()} cores, {len(rounds)} rounds, "
          f"{time.strftime('%Y-%m-%d', time.gmtime())}\n")
    print("| | " + " | ".join(names) + " | longhaul : best peer, 95 % | |")
    print("|---" * (len(names) + 3) + "|")
    worse = []
    for column, (better, unit) in COLUMNS.items():
        of = {
            name: [
                normalised(r["arms"][name][column], r["arms"]["direct"].get(column, 1), column)
                for r in rounds
                if column in r["arms"][name]
            ]
            for name in names
        }
        shown = {
            name: statistics.median(r["arms"][name][column] for r in rounds if column in r["arms"][name])
            for name in names
            if of[name]
        }
        peers = [name for name in names if name != "longhaul" and of[name]]
        pick = max if better == "more" else min
        best = pick(peers, key=lambda name: statistics.median(of[name]))
        pairs = list(zip(of["longhaul"], of[best]))
        ratios = [ours / theirs for ours, theirs in pairs if theirs]
        if len(ratios) >= 5:
            low, high = interval(ratios, rng)
            bad = high < 1 if better == "more" else low > 1
            good = low > 1 if better == "more" else high < 1
            said = f"{statistics.median(ratios):.2f} ({low:.2f} to {high:.2f}) of {best}"
        else:
            bad = good = False
            said = f"{statistics.median(ratios):.2f} of {best}" if ratios else "-"
        if bad:
            worse.append(column)
        verdict = "worse" if bad else "better" if good else "no difference shown"
        cells = " | ".join(f"{shown[name]:.3g}" if name in shown else "-" for name in names)
        print(f"| {unit} | {cells} | {said} | {verdict} |")
    print(f"\nworse: {', '.join(worse) or 'no column'}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", type=pathlib.Path, default=pathlib.Path("target/release/longhaul"))
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
    server = multiprocessing.Process(target=serve, args=(listener,), daemon=True)
    server.start()
    with tempfile.TemporaryDirectory() as folder:
        running = list(arms(given.binary.resolve(), folder, target))
        try:
            for index in range(number - 1, given.rounds, parts):
                order = running[:]
                rng.shuffle(order)
                figures = {}
                for name, port, process in order:
                    figures[name] = measure(port, process, given.seconds)
                rounds.append({"round": index, "arms": {name: figures[name] for name, _, _ in running}})
                print(f"round {index + 1} of {given.rounds}", file=sys.stderr, flush=True)
            for name, port, process in running:
                if process:
                    rounds[-1]["arms"][name]["idle"] = idle(port, process)
        finally:
            for _, _, process in running:
                if process:
                    process.terminate()
                    process.wait()
            server.terminate()
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(rounds, indent=1) + "\n")
    report(rounds)


main()
