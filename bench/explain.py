#!/usr/bin/env python3
"""`longhaul explain --json` beside tshark, tcptrace and capinfos on one generated capture.

    cargo build --release -p longhaul-cli
    bench/explain.py --packets 5000000 --connections 14000

    bench/explain.py --full --packets 1640000 --connections 2300     # 1.7 GB with all payload

The capture is headers-only (128 bytes kept) unless `--full` is given: downloads of many sizes over paths of 5 to
200 ms in slow start up to a window of 64 segments, an ACK for every second segment, one retransmission in 500
segments, interleaved as a busy server sees them, with timestamps and IP identifications as hosts send them. A seed
fixes every byte. It lies in memory (`/dev/shm`), so that no disk is measured; the best of the runs counts, and the
largest resident memory. What takes half a minute is run once. A tool that is not installed, or takes longer than the
limit, is said to be so. tcptrace runs with `-n`, for without it it asks the DNS for every address.
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
HEADERS = 128
ETHERNET = b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0"
# What cannot be compressed or mistaken for a protocol.
PAYLOAD = random.Random(0).randbytes(MSS)
SYN_OPTIONS = struct.pack("!BBHBBBBIIBBB", 2, 4, 1460, 4, 2, 8, 10, 1, 0, 1, 3, 3) + b"\x07"
IP = struct.Struct("!BBHHHBBH4s4s")
TCP = struct.Struct("!HHIIBBHHHBBBBII")
SYN = struct.Struct("!HHIIBBHHH")
RECORD = struct.Struct("<IIII")


class Host:
    """One end of a connection: its address, its counter of IP identifications, its clock."""

    def __init__(self, address, rng):
        self.address, self.identification, self.clock = address, rng.getrandbits(16), rng.getrandbits(30)

    def ip(self, peer, length):
        self.identification = self.identification + 1 & 0xFFFF
        return ETHERNET + IP.pack(0x45, 0, length, self.identification, 0x4000, 64, 6, 0, self.address, peer.address)

    def stamp(self, at):
        return self.clock + int(at % 1e5 * 1000) & 0xFFFFFFFF


def packet(source, destination, ports, seq, ack, flags, length, stamps, kept):
    """Ethernet, IPv4 and TCP with timestamps, and as much of the payload as is kept."""
    tcp = TCP.pack(*ports, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 0x80, flags, 0xFFFF, 0, 0, 1, 1, 8, 10, *stamps)
    return source.ip(destination, 52 + length) + tcp + PAYLOAD[: min(length, kept)]


def syn(source, destination, ports, seq, ack, flags):
    tcp = SYN.pack(*ports, seq, ack, 0xA0, flags, 0xFFFF, 0, 0)
    return source.ip(destination, 60) + tcp + SYN_OPTIONS


def connection(number, start, segments, rng, kept):
    """Packets of one download as (time, bytes, length on the wire), seen at the server."""
    client = Host(bytes([10, number >> 16 & 255, number >> 8 & 255, number & 255]), rng)
    server = Host(bytes([192, 0, 2, 1 + number % 16]), rng)
    up, down = (20000 + number % 40000, 443), (443, 20000 + number % 40000)
    rtt, c, s = rng.uniform(0.005, 0.2), rng.getrandbits(31), rng.getrandbits(31)
    heard = 0

    def from_client(at, seq, ack, flags, length=0):
        nonlocal heard
        # It left half a round trip ago and echoes what had reached it by then.
        heard = client.stamp(at - rtt / 2)
        stamps = heard, server.stamp(at - rtt)
        return at, packet(client, server, up, seq, ack, flags, length, stamps, kept), 66 + length

    def from_server(at, seq, ack, flags, length=0):
        stamps = server.stamp(at), heard
        return at, packet(server, client, down, seq, ack, flags, length, stamps, kept), 66 + length

    yield start, syn(client, server, up, c, 0, 0x02), 74
    yield start + 1e-5, syn(server, client, down, s, c + 1, 0x12), 74
    now = start + rtt
    yield from_client(now, c + 1, s + 1, 0x10)
    yield from_client(now + 1e-5, c + 1, s + 1, 0x18, 200)
    c, sent, window = c + 201, 0, 10
    while sent < segments:
        burst = min(window, segments - sent)
        for index in range(burst):
            at = now + 2e-5 * (index + 2)
            yield from_server(at, s + 1 + (sent + index) * MSS, c, 0x10, MSS)
        if rng.random() < burst / 500:
            again = sent + rng.randrange(burst)
            yield from_server(now + rtt * 0.9, s + 1 + again * MSS, c, 0x10, MSS)
        for index in range(1, burst, 2):
            at = now + rtt + 2e-5 * index
            yield from_client(at, c, s + 1 + (sent + index + 1) * MSS, 0x10)
        sent, window, now = sent + burst, min(window * 2, 64), now + rtt
    end = s + 1 + segments * MSS
    yield from_client(now + 0.01, c, end, 0x11)
    yield from_server(now + 0.01001, end, c + 1, 0x11)
    yield from_client(now + 0.01 + rtt, c + 1, end + 1, 0x10)


def generate(path, packets, connections, seed, full):
    rng = random.Random(seed)
    kept = MSS if full else HEADERS - 66
    # 1.5 packets per segment, and nine around them.
    mean = max(1, round((packets / connections - 9) / 1.52))
    sizes = [max(1, round(rng.expovariate(1 / mean))) for _ in range(connections)]
    starts = (
        connection(n, 1_700_000_000 + n * 0.01, size, random.Random(seed + n), kept) for n, size in enumerate(sizes)
    )
    count = 0
    with open(path, "wb", buffering=1 << 20) as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144 if full else HEADERS, 1))
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
            at, order, (_, data, length), rest = waiting[0]
            seconds = int(at)
            file.write(RECORD.pack(seconds, int((at - seconds) * 1e9), len(data), length))
            file.write(data)
            count += 1
            following = next(rest, None)
            if following:
                heapq.heapreplace(waiting, (max(following[0], at), order, following, rest))
            else:
                heapq.heappop(waiting)
    return count


ANALYSIS = [
    word
    for field in (
        "frame.number",
        "tcp.stream",
        "tcp.analysis.retransmission",
        "tcp.analysis.out_of_order",
        "tcp.analysis.duplicate_ack",
        "tcp.analysis.zero_window",
        "tcp.analysis.bytes_in_flight",
        "tcp.analysis.ack_rtt",
    )
    for word in ("-e", field)
]


# Seconds. What takes longer differs little from run to run.
LONG = 30


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
        if took > LONG:
            break
    return best, memory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", type=int, default=1_000_000)
    parser.add_argument("--connections", type=int, default=2_800)
    parser.add_argument("--full", action="store_true", help="keep the payload too")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", action="append", help="only tools whose name begins so; may be repeated")
    parser.add_argument("--limit", type=int, default=300, help="seconds per run")
    parser.add_argument("--longhaul", default="target/release/longhaul")
    parser.add_argument("--capture", help="an existing capture instead of a generated one")
    parser.add_argument("--keep", help="only write the capture, to this file")
    asked = parser.parse_args()
    if asked.keep:
        count = generate(asked.keep, asked.packets, asked.connections, asked.seed, asked.full)
        print(f"{count} packets in {asked.keep}")
        return 0
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        path = asked.capture or os.path.join(folder, "bench.pcap")
        if asked.capture:
            said = subprocess.run(["capinfos", "-M", "-c", path], capture_output=True, text=True, check=True).stdout
            packets = int(said.split()[-1])
        else:
            packets = generate(path, asked.packets, asked.connections, asked.seed, asked.full)
        size = os.path.getsize(path) / 1e6
        print(f"{packets} packets, {size:.0f} MB, load {os.getloadavg()[0]:.1f}\n", flush=True)
        print("| tool | s | packets/s | memory MB |\n|---|---:|---:|---:|", flush=True)
        tools = {
            "longhaul explain --json": [asked.longhaul, "explain", "--json", path],
            "capinfos -c": ["capinfos", "-c", path],
            "tcptrace -n -l": ["tcptrace", "-n", "-l", path],
            "tshark -q -z conv,tcp": ["tshark", "-r", path, "-q", "-z", "conv,tcp"],
            "tshark -T fields, tcp.analysis": ["tshark", "-r", path, "-T", "fields", *ANALYSIS],
        }
        for name, command in tools.items():
            if asked.only and not name.startswith(tuple(asked.only)):
                continue
            result = measure(command, asked.runs, asked.limit)
            if isinstance(result, str):
                print(f"| {name} | {result} | | |", flush=True)
            else:
                print(f"| {name} | {result[0]:.2f} | {packets / result[0]:,.0f} | {result[1]:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
