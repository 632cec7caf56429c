#!/usr/bin/env python3
"""`longhaul explain --json` beside tshark, tcptrace and capinfos on one generated capture.

    cargo build --release -p longhaul-cli
    bench/explain.py --packets 5000000 --connections 14000

The capture is headers-only (96 bytes kept): downloads of many sizes over paths of 5 to 200 ms in slow start up to
a window of 64 segments, an ACK for every second segment, one retransmission in 500 segments, interleaved as a busy
server sees them. A seed fixes every byte. Each tool reads it from the page cache; the best of the runs counts, and
its largest resident memory. A tool that is not installed, or takes longer than the limit, is said to be so.
"""

import argparse
import heapq
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

MSS = 1448
SNAPLEN = 96


def packet(source, destination, ports, seq, ack, flags, length):
    """Ethernet, IPv4 and TCP with timestamps; payload is not kept."""
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 52 + length, 1, 0x4000, 64, 6, 0, source, destination)
    options = b"\x01\x01\x08\x0a" + bytes(8)
    tcp = struct.pack("!HHIIBBHHH", *ports, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 0x80, flags, 0xFFFF, 0, 0)
    return b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0" + ip + tcp + options


def syn(source, destination, ports, seq, ack, flags):
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 60, 1, 0x4000, 64, 6, 0, source, destination)
    tcp = struct.pack("!HHIIBBHHH", *ports, seq, ack, 0xA0, flags, 0xFFFF, 0, 0)
    options = struct.pack("!BBHBBBBIIBBB", 2, 4, 1460, 4, 2, 8, 10, 1, 0, 1, 3, 3) + b"\x07"
    return b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0" + ip + tcp + options


def connection(number, start, segments, rng):
    """Packets of one download as (time, bytes, length on the wire), seen at the server."""
    client = bytes([10, number >> 16 & 255, number >> 8 & 255, number & 255])
    server = bytes([192, 0, 2, 1 + number % 16])
    up, down = (20000 + number % 40000, 443), (443, 20000 + number % 40000)
    rtt, c, s = rng.uniform(0.005, 0.2), rng.getrandbits(31), rng.getrandbits(31)
    yield start, syn(client, server, up, c, 0, 0x02), 74
    yield start + 1e-5, syn(server, client, down, s, c + 1, 0x12), 74
    now = start + rtt
    yield now, packet(client, server, up, c + 1, s + 1, 0x10, 0), 66
    yield now + 1e-5, packet(client, server, up, c + 1, s + 1, 0x18, 200), 266
    c, sent, window = c + 201, 0, 10
    while sent < segments:
        burst = min(window, segments - sent)
        for index in range(burst):
            at = now + 2e-5 * (index + 2)
            yield at, packet(server, client, down, s + 1 + (sent + index) * MSS, c, 0x10, MSS), 66 + MSS
        if rng.random() < burst / 500:
            again = sent + rng.randrange(burst)
            yield now + rtt * 0.9, packet(server, client, down, s + 1 + again * MSS, c, 0x10, MSS), 66 + MSS
        for index in range(1, burst, 2):
            at = now + rtt + 2e-5 * index
            yield at, packet(client, server, up, c, s + 1 + (sent + index + 1) * MSS, 0x10, 0), 66
        sent, window, now = sent + burst, min(window * 2, 64), now + rtt
    end = s + 1 + segments * MSS
    yield now + 0.01, packet(client, server, up, c, end, 0x11, 0), 66
    yield now + 0.01001, packet(server, client, down, end, c + 1, 0x11, 0), 66
    yield now + 0.01 + rtt, packet(client, server, up, c + 1, end + 1, 0x10, 0), 66


def generate(path, packets, connections, seed):
    rng = random.Random(seed)
    # 1.5 packets per segment, and nine around them.
    mean = max(1, round((packets / connections - 9) / 1.52))
    sizes = [max(1, round(rng.expovariate(1 / mean))) for _ in range(connections)]
    starts = (connection(n, 1_700_000_000 + n * 0.01, size, random.Random(seed + n)) for n, size in enumerate(sizes))
    count = 0
    with open(path, "wb", buffering=1 << 20) as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAPLEN, 1))
        waiting = []
        coming = next(starts, None)
        number = 0
        coming_first = next(coming, None)
        while waiting or coming_first:
            # A connection joins once its first packet is due, so that few are held at a time.
            while coming_first and (not waiting or coming_first[0] <= waiting[0][0]):
                heapq.heappush(waiting, (coming_first[0], number, coming_first, coming))
                number += 1
                coming = next(starts, None)
                coming_first = next(coming, None) if coming else None
            at, order, (_, data, length), rest = heapq.heappop(waiting)
            seconds = int(at)
            file.write(struct.pack("<IIII", seconds, int((at - seconds) * 1e9), len(data), length))
            file.write(data)
            count += 1
            following = next(rest, None)
            if following:
                heapq.heappush(waiting, (max(following[0], at), order, following, rest))
    return count


def measure(command, runs, limit):
    """Best wall time in seconds and largest resident memory in MB, or why there is none."""
    if not shutil.which(command[0]):
        return "not installed"
    best, memory = None, 0
    for _ in range(runs):
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - began > limit:
                process.kill()
                os.wait4(process.pid, 0)
                return f"more than {limit} s"
            time.sleep(0.005)
        took = time.monotonic() - began
        if os.waitstatus_to_exitcode(status):
            return f"exit {os.waitstatus_to_exitcode(status)}"
        best = took if best is None else min(best, took)
        memory = max(memory, usage.ru_maxrss / 1000)
    return best, memory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", type=int, default=1_000_000)
    parser.add_argument("--connections", type=int, default=2_800)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--limit", type=int, default=300, help="seconds per run")
    parser.add_argument("--longhaul", default="target/release/longhaul")
    parser.add_argument("--capture", help="an existing capture instead of a generated one")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = asked.capture or os.path.join(folder, "bench.pcap")
        if asked.capture:
            said = subprocess.run(["capinfos", "-M", "-c", path], capture_output=True, text=True, check=True).stdout
            packets = int(said.split()[-1])
        else:
            packets = generate(path, asked.packets, asked.connections, asked.seed)
        size = os.path.getsize(path) / 1e6
        print(f"{packets} packets, {size:.0f} MB, load {os.getloadavg()[0]:.1f}\n", flush=True)
        print("| tool | s | packets/s | memory MB |\n|---|---:|---:|---:|", flush=True)
        tools = {
            "longhaul explain --json": [asked.longhaul, "explain", "--json", path],
            "capinfos -c": ["capinfos", "-c", path],
            "tcptrace -l": ["tcptrace", "-l", path],
            "tshark -q -z conv,tcp": ["tshark", "-r", path, "-q", "-z", "conv,tcp"],
        }
        for name, command in tools.items():
            result = measure(command, asked.runs, asked.limit)
            if isinstance(result, str):
                print(f"| {name} | {result} | | |", flush=True)
            else:
                print(f"| {name} | {result[0]:.2f} | {packets / result[0]:,.0f} | {result[1]:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
