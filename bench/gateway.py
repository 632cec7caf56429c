#!/usr/bin/env python3
"""What the S3 gateway brings over distance, and what its encryption costs.

    cargo build --release -p longhaul-cli
    bench/gateway.py wan [--way pool|trunk] [--rounds 3] [--large 480]
                                             root: 200 ms, 1 Gbit/s; a client with one connection
    bench/gateway.py loopback [--starts 3] [--rounds 7]
                                             a bucket that is encrypted beside one that is not

`wan` has `longhaul lab up` make the path and the store behind it, starts the gateway on a host of its own beside the
client, waits until its way to the store is hot, and lets curl put and get objects over one connection each, plain and
encrypted in turns. The way is the gateway's own pool, or a trunk whose far end stands beside the store. Every GET is
compared with what was put. Beside each time stands its bound: the round trips that the verb needs (a PUT in parts three:
begin, parts, complete; all else one) and the bytes at the path's rate, 1448 of 1500; and the processor time of each kind of
process while a large object passed. The lab's store takes objects of up to 1 GiB.
`loopback` alternates both buckets within a round and gives the median of all rounds' ratios, and that of each start of the
gateways. Its pools are cold: a hot connection is paced at what priming measured, and that would be measured again.
Everything that it starts ends with it. Figures are printed as lines of `name value unit`.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from processes import Failure, Processes
from trunk import trunk_files

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB = 1 << 20
RTT_S, RATE = 0.2, 1e9
# The lab's store has these.
ACCESS, SECRET = "longhaul-lab", "longhaul-lab-secret"
# Two gateways in front of the same bucket, because one has one rule for a bucket.
KINDS = {"plain": "", "sealed": 'encrypt = "main"'}

# What every way has; a relay's windows have to hold the path.
PATH = """
name = "bench-gateway"
title = "200 ms, 1 Gbit/s"
seed = 9
[path]
rtt = "200 ms"
rate = "1 Gbit/s"
queue = "1 BDP"
[hosts.client]
congestion-control = "cubic"
[hosts.origin]
congestion-control = "cubic"
[[workloads]]
name = "1 MiB"
bytes = "1 MiB"
[experiment]
runs = 1
block = 1
capture = "none"
"""
WAYS = {
    "pool": """
[hosts.relay]
sysctls = { "net.ipv4.tcp_slow_start_after_idle" = "0" }
[relays.gateway]
[[arms]]
name = "relay"
relay = "gateway"
""",
    "trunk": """
[hosts.relay]
sysctls = { "net.ipv4.tcp_wmem" = "4096 16384 67108864", "net.ipv4.tcp_rmem" = "4096 131072 67108864" }
[hosts.far-relay]
sysctls = { "net.ipv4.tcp_wmem" = "4096 16384 67108864", "net.ipv4.tcp_rmem" = "4096 131072 67108864" }
[relays.gateway]
mode = "trunk"
[relays.far]
mode = "trunk"
at = "far"
[[arms]]
name = "trunk"
relay = ["gateway", "far"]
""",
}
STORE, FAR, NEAR = "192.0.2.10", "192.0.2.21:7000", "127.0.0.1:6000"
# Twice the path's bytes until its windows are full, and as much again to see that they grow no further.
HEAT = 'burst = "128 MiB"\nready-for = "1 Gbit/s"'


def configuration(folder, kind, listen, origin, via=None):
    """A gateway that encrypts, or does not."""
    via = f'via = "{via}"\n' if via else ""
    path = folder / f"{kind}.toml"
    path.write_text(
        f'listen = "{listen}"\norigin = "http://{origin}"\n{via}'
        f'credentials = {{ access-key = "{ACCESS}", secret-env = "SECRET" }}\n'
        f'client = [{{ access-key = "{ACCESS}", secret-env = "SECRET" }}]\n'
        f'key = [{{ name = "main", env = "KEY" }}]\n[[bucket]]\nname = "lab"\n{KINDS[kind]}\n'
    )
    return path


def environment():
    return {**os.environ, "SECRET": SECRET, "KEY": "5a" * 32}


def curl(url, *words, within=(), into=subprocess.PIPE):
    """Seconds from the first byte of the handshake to the last of the answer, which goes to `into`."""
    signed = ["--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{ACCESS}:{SECRET}"]
    signed += ["-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]
    command = [*within, "curl", "--silent", "--show-error", "--fail-with-body", "--write-out", "%{stderr}%{time_total}"]
    command = [*map(str, command), *signed, *map(str, words), url]
    done = subprocess.run(command, stdout=into, stderr=subprocess.PIPE, timeout=280, check=False)
    said = done.stderr.decode().strip()
    if done.returncode:
        raise Failure(f"curl {url}: {said[-300:]} {(done.stdout or b'').decode(errors='replace')[-300:]}")
    return float(said.split()[-1])


def put(endpoint, key, file, within=()):
    return curl(f"http://{endpoint}/lab/{key}", "--upload-file", file, within=within)


def get(endpoint, key, file, within=(), compare=True):
    """As [`put`]; compares with what was put while it comes: memory for a copy of it, which a virtual machine's host may have taken
    back, would take the client longer than the bytes."""
    url = f"http://{endpoint}/lab/{key}"
    if not compare:
        return curl(url, within=within, into=subprocess.DEVNULL)
    with subprocess.Popen(["cmp", "--silent", "-", file], stdin=subprocess.PIPE, pipesize=MIB) as same:
        seconds = curl(url, within=within, into=same.stdin)
    if same.returncode:
        raise Failure(f"{key} is not what was put")
    return seconds


def made(folder, mib):
    """A file that cannot be compressed."""
    path = folder / f"object-{mib}"
    with path.open("wb") as file:
        for _ in range(mib):
            file.write(os.urandom(MIB))
    return path


def bound(round_trips, size):
    return round_trips * RTT_S + size * 8 * 1500 / 1448 / RATE


def say(name, seconds, limit):
    middle = statistics.median(seconds)
    every = " ".join(f"{value:.3f}" for value in seconds)
    print(f"{name} {middle:.3f} s ({middle / limit:.3f} x {limit:.3f} s; {every})", flush=True)


def used():
    """Processor seconds by kind of process, of those that take part, and of the whole machine without idling."""
    total = list(map(int, pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
    # User, nice, system, interrupts; the others are idle, waiting for disks, and stolen.
    seconds = {"machine": sum(total[:3] + total[5:7])}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text().split("\0")
            fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if pathlib.Path(words[0]).name == "longhaul" and len(words) > 3:
            kind = "-".join(words[1:4] if words[1:3] == ["lab", "worker"] else words[1:3])
            seconds[kind] = seconds.get(kind, 0) + int(fields[11]) + int(fields[12])
    return {kind: ticks / os.sysconf("SC_CLK_TCK") for kind, ticks in seconds.items()}


def timed(name, move, *arguments):
    """Seconds that it takes; prints whose processor time they were."""
    before = used()
    seconds = move(*arguments)
    after = used()
    shares = {kind: (after[kind] - before.get(kind, 0)) / seconds for kind in after}
    shown = " ".join(f"{kind} {share:.2f}" for kind, share in sorted(shares.items(), key=lambda pair: -pair[1]) if share > 0.01)
    print(f"processors-{name} {shown}", flush=True)
    return seconds


def hot_trunk(processes, binary, folder, relay):
    """A trunk from the gateway's host to one beside the store, whose windows hold the path in both directions."""
    near, far = trunk_files(folder, near=NEAR, far=FAR, target=f"{STORE}:80", status=7070, padding=HEAT)
    beside_the_store = [binary, "lab", "shell", "far-relay-far", "--"]
    run = (binary, "trunk", "run", "--json", "--config")
    began = time.monotonic()
    ends = {"far": processes.start(*run, far, within=beside_the_store, until='"ready"')}
    ends["near"] = processes.start(*run, near, within=relay)
    for name, end in ends.items():
        end.until('"wan-hot"')
        print(f"trunk-{name}-hot {time.monotonic() - began:.1f} s", flush=True)


def wan(binary, way, rounds, large_mib):
    folder = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm"))
    with Processes() as processes:
        processes.callback(subprocess.run, ["rm", "-r", str(folder)], check=True)
        scenario = folder / "path.toml"
        scenario.write_text(PATH + WAYS[way])
        processes.start(
            binary, "lab", "up", scenario, "--out", folder / "out", until="Ctrl-C ends it", stream="stderr"
        )
        client = [binary, "lab", "shell", "client", "--"]
        relay = [binary, "lab", "shell", "relay-gateway-to-far" if way == "trunk" else "relay-gateway", "--"]
        if way == "trunk":
            hot_trunk(processes, binary, folder, relay)
        endpoints = {}
        for port, kind in enumerate(KINDS, 9000):
            endpoints[kind] = f"10.10.0.20:{port}"
            config = configuration(folder, kind, endpoints[kind], STORE, via=NEAR if way == "trunk" else None)
            rate = [] if way == "trunk" else ["--path-rate", "1 Gbit/s"]
            gateway = processes.start(
                binary, "relay", "s3", "--config", config, *rate, "--json",
                within=relay, until="gateway-listening", env=environment(),
            )
            if way == "pool":
                print(f"pool-{kind} {gateway.until('pool-ready').strip()}", flush=True)
        small, large = made(folder, 1), made(folder, large_mib)
        for kind in KINDS:
            seconds = [put(endpoints[kind], f"small-{kind}", small, client) for _ in range(2 * rounds + 1)]
            say(f"put-1-mib-{kind}", seconds, bound(1, MIB))
        puts, gets = {kind: [] for kind in KINDS}, {kind: [] for kind in KINDS}
        for _ in range(rounds):
            for kind in KINDS:
                puts[kind].append(timed(f"put-{kind}", put, endpoints[kind], "large", large, client))
                gets[kind].append(timed(f"get-{kind}", get, endpoints[kind], "large", large, client))
        for kind in KINDS:
            say(f"put-{large_mib}-mib-{kind}", puts[kind], bound(3, large_mib * MIB))
            say(f"get-{large_mib}-mib-{kind}", gets[kind], bound(1, large_mib * MIB))
        some = made(folder, 64)
        for verb, move in (("put", put), ("get", get)):
            seconds = move(STORE, "direct", some, client)
            print(f"direct-{verb}-64-mib {64 * MIB * 8 / seconds / 1e6:.1f} Mbit/s", flush=True)


def loopback(binary, starts, rounds, mib):
    """Rounds of several starts, because where a process finds its memory differs from one to the next."""
    seconds = {"put": [], "get": []}
    for _ in range(starts):
        for verb, rows in loopback_start(binary, rounds, mib).items():
            seconds[verb].append(rows)
    for verb, by_start in seconds.items():
        every = [row for rows in by_start for row in rows]
        for kind in KINDS:
            middle = statistics.median(row[kind] for row in every)
            print(f"loopback-{verb}-{kind} {mib * MIB / middle / 1e6:.0f} MB/s")
        middles = [statistics.median(map(share, rows)) for rows in by_start]
        spread = f"by start {' '.join(f'{middle:.3f}' for middle in middles)}; {min(map(share, every)):.3f} to {max(map(share, every)):.3f}"
        print(f"loopback-{verb}-encrypted-share {statistics.median(map(share, every)):.3f} of the plain rate ({spread})", flush=True)


def share(row):
    return row["plain"] / row["sealed"]


def loopback_start(binary, rounds, mib):
    """Seconds by kind, of every round and verb, through gateways of their own."""
    folder = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm"))
    with Processes() as processes:
        processes.callback(subprocess.run, ["rm", "-r", str(folder)], check=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            store = f"127.0.0.1:{probe.getsockname()[1]}"
        setup = {
            "listen": store, "bucket": "lab", "credentials": {"access-key": ACCESS, "secret-key": SECRET},
        }
        processes.start(binary, "lab", "worker", "origin", feed=json.dumps(setup), until="listening")
        endpoints = {}
        for kind in KINDS:
            config = configuration(folder, kind, "127.0.0.1:0", store)
            gateway = processes.start(binary, "relay", "s3", "--config", config, "--hot", "off", "--json", env=environment())
            endpoints[kind] = json.loads(gateway.until("gateway-listening"))["address"]
        file = made(folder, mib)
        verbs = {
            "put": lambda kind, number: put(endpoints[kind], f"{kind}-{number % 2}", file),
            "get": lambda kind, number: get(endpoints[kind], f"{kind}-{number % 2}", file, compare=number == 0),
        }
        seconds = {}
        for verb, work in verbs.items():
            # The first two of each fill caches and pools.
            for number in range(2):
                for kind in KINDS:
                    work(kind, number)
            seconds[verb] = [{kind: work(kind, number + 1) for kind in KINDS} for number in range(rounds)]
        return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["wan", "loopback"])
    parser.add_argument("--way", choices=WAYS, default="pool", help="how `wan` reaches the store")
    parser.add_argument("--rounds", type=int, help="of each start of `loopback` 7, of `wan` 3, unless said otherwise")
    parser.add_argument("--starts", type=int, default=3, help="how often `loopback` starts its gateways")
    parser.add_argument("--large", type=int, default=480, metavar="MIB", help="the large object of `wan`, in MiB")
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/release/longhaul")
    arguments = parser.parse_args()
    if not arguments.binary.is_file():
        sys.exit(f"error: no `{arguments.binary}`; run `cargo build --release -p longhaul-cli`")
    binary = arguments.binary.resolve()
    try:
        if arguments.what == "wan":
            wan(binary, arguments.way, arguments.rounds or 3, arguments.large)
        else:
            loopback(binary, arguments.starts, arguments.rounds or 7, 256)
    except (Failure, subprocess.TimeoutExpired) as failure:
        sys.exit(f"error: {failure}")


if __name__ == "__main__":
    main()
