#!/usr/bin/env python3
"""What `longhaul top` costs with many sockets on the host: the whole program, not its parts.

    cargo build --release -p longhaul-cli
    bench/top.py [--binary target/release/longhaul] [--sockets 20000] [--seconds 30] [-- MORE ARGUMENTS OF top]

Opens connections over loopback in processes of their own, lets one of twenty move a kilobyte ten times a second,
runs `longhaul top --json` beside them, and prints its processor time: all of it divided by the time it ran (with the
start, which looks up every process), and the part after the first five seconds. The bound of `top` itself
(`--max-cpu`, 4 % of a core by default) is in effect unless an argument says otherwise. Readings that came are counted:
a program that reads less often is cheap as well.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import platform
import resource
import socket
import subprocess
import sys
import time

TICKS = os.sysconf("SC_CLK_TCK")
EACH = 4000  # connections of one process: two descriptors each
BUSY = 20  # one of so many carries data
SETTLED_S = 5


def hold(connections, ready, over):
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    pairs = []
    for _ in range(connections):
        client = socket.create_connection(listener.getsockname())
        pairs.append((client, listener.accept()[0]))
    ready.put(connections)
    piece = bytes(1000)
    while not over.wait(0.1):
        for client, server in pairs[::BUSY]:
            client.sendall(piece)
            server.recv(1000, socket.MSG_WAITALL)


def cpu(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(field) for field in fields[11:13]) / TICKS


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", type=pathlib.Path, default=pathlib.Path("target/release/longhaul"))
    arguments.add_argument("--sockets", type=int, default=20_000)
    arguments.add_argument("--seconds", type=int, default=30)
    arguments.add_argument("more", nargs="*", help="further arguments of `longhaul top`, after --")
    given = arguments.parse_args()
    if not given.binary.exists():
        sys.exit(f"{given.binary} is not there: cargo build --release -p longhaul-cli")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    ready, over = multiprocessing.Queue(), multiprocessing.Event()
    holders, left = [], given.sockets // 2
    while left > 0:
        holders.append(multiprocessing.Process(target=hold, args=(min(left, EACH), ready, over), daemon=True))
        left -= EACH
    for holder in holders:
        holder.start()
    held = 2 * sum(ready.get() for _ in holders)
    command = [given.binary, "top", "--json", "--duration", f"{given.seconds} s", *given.more]
    began = time.monotonic()
    top = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    settled, seen, readings = None, 0, 0
    for line in top.stdout:
        reading = json.loads(line)
        if reading.get("line") == "reading":
            readings += 1
            seen = reading["summary"]["connections"]
        took = time.monotonic() - began
        if settled is None and took >= SETTLED_S:
            settled = cpu(top), took
        last = cpu(top), took
    over.set()
    code = top.wait()
    if code or settled is None:
        sys.exit(f"`longhaul top` ended with {code} after {readings} readings")
    (early, early_s), (total, total_s) = settled, last
    later = (total - early) / (total_s - early_s)
    print(f"{platform.node()}, {platform.release()}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d', time.gmtime())}: "
          f"{held} sockets ({seen} connections in the last reading), {readings} readings in {total_s:.1f} s, "
          f"{total / total_s * 100:.2f} % of a core in all, {later * 100:.2f} % after {early_s:.0f} s")


if __name__ == "__main__":
    main()
