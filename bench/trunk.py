#!/usr/bin/env python3
"""What a trunk costs and what it makes of several paths, with real sockets.

    cargo build --release -p longhaul-cli
    bench/trunk.py overhead [--rounds 7] [--seconds 3]     loopback: a plain trunk beside two `relay tcp` in series
    bench/trunk.py idle [--streams 10000]                  memory of both ends per idle stream
    bench/trunk.py striping [--seconds 12]                 root: four WAN connections, each behind a shaper of its own
    bench/trunk.py recovery [--kills 10]                   kill -9 of either end, until a new client is answered again

`overhead` alternates the relays and a trunk with each digest within a round and gives the medians of the rounds' ratios, and
the bytes that a trunk adds, padding switched off. `striping` makes two network namespaces and four classes of 50 Mbit/s (htb) between them; each
WAN connection gets one by its port. Then one of the classes stands still for every other second. Everything that it
makes is gone at the end. In `recovery` a killed end is started again after 100 ms, as packaging/systemd has it, and a stream
through another trunk has to notice nothing. Figures are printed as lines of `name value unit`.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from processes import Failure, Processes

ROOT = pathlib.Path(__file__).resolve().parent.parent
MBIT = 1e6
SHAPER = 50 * MBIT


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def toml(folder, name, text):
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def trunk_files(folder, *, near, far, target, status, limits="", padding='burst = "0 B"', digest="blake3"):
    """Configurations of both ends, plain, without padding unless `padding` says otherwise."""
    common = f"[{{end}}.security]\nplain = true\n[{{end}}.padding]\n{padding}\n[{{end}}.limits]\n{limits}\n"
    return (
        toml(
            folder,
            "near",
            f'status = "127.0.0.1:{status}"\n[[near]]\nvia = ["{far}"]\ndigest = "{digest}"\n{common.format(end="near")}'
            f'[[near.listeners]]\nlisten = "{near}"\nto = "{target}"\n',
        ),
        toml(
            folder,
            "far",
            f'[[far]]\nlisten = "{far}"\nallow-targets = ["{target.rsplit(":", 1)[0]}/32:{target.rsplit(":", 1)[1]}"]\n'
            + common.format(end="far"),
        ),
    )


def goodput(binary, address, seconds, within=()):
    """Payload per second as the receiver counts it, in bit/s, every byte compared."""
    command = [*within, binary, "flow", "client", address, "--duration", f"{seconds} s", "--json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=seconds + 60, check=False)
    if done.returncode != 0:
        raise Failure(f"`{' '.join(map(str, command))}`: {done.stderr.strip()[-500:]}")
    flow = json.loads(done.stdout)["flows"][0]
    if not flow["data_ok"]:
        raise Failure("bytes arrived that were not sent")
    return flow["goodput_bps"]


def status(port, within=()):
    command = [*within, "curl", "--silent", "--fail", f"http://127.0.0.1:{port}/status"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["trunks"][0]


# === overhead ===


def overhead(options):
    with Processes() as processes, tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        binary = options.binary
        target, first, second = (f"127.0.0.1:{free_port()}" for _ in range(3))
        processes.start(binary, "flow", "server", target)
        processes.start(binary, "relay", "tcp", second, target, "--json", until='"ready"')
        processes.start(binary, "relay", "tcp", first, second, "--json", until='"ready"')
        arms, states = {"relays": first}, {}
        for digest in ("blake3", "xxh3"):
            near, far, state = (f"127.0.0.1:{free_port()}" for _ in range(3))
            states[digest] = state.rsplit(":", 1)[1]
            files = trunk_files(
                folder, near=near, far=far, target=target, status=states[digest], digest=digest,
            )
            for file, until in zip(reversed(files), ('"ready"', '"wan-connected"')):
                processes.start(binary, "trunk", "run", "--config", file, "--json", until=until)
            arms[digest] = near
        rates = {name: [] for name in arms}
        for round_ in range(options.rounds):
            names = list(arms) if round_ % 2 else list(arms)[::-1]
            for name in names:
                rates[name].append(goodput(binary, arms[name], options.seconds))
        print(f"relays-in-series {statistics.median(rates['relays']) / 1e9:.2f} Gbit/s")
        for digest, state in states.items():
            ratios = [trunk / relays for trunk, relays in zip(rates[digest], rates["relays"])]
            rounds = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            print(f"trunk-{digest} {statistics.median(rates[digest]) / 1e9:.2f} Gbit/s, "
                  f"ratio {statistics.median(ratios):.2f} (rounds {rounds})")
            now = status(state)
            sent = sum(link["sent_bytes"] for link in now["connections"])
            payload = now["delivered_bytes"]
            print(f"bytes-added-{digest} {100 * (sent - payload) / payload:.3f} %")


# === idle streams ===


def memory(pid):
    """Proportional set size in bytes: what would be free without the process."""
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise Failure(f"process {pid} does not tell its memory")


def answer_each(listener):
    """A target in a process of its own, since descriptors are counted by process: keeps every stream open."""
    kept = []
    while True:
        stream = listener.accept()[0]
        kept.append(stream)
        # Whoever connects has sent a word with it.
        if stream.recv(4) == b"ping":
            stream.sendall(b"pong")


def idle(options):
    need = options.streams + 200
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < need:
        raise Failure(f"{need} descriptors are needed in this process and {hard} allowed: raise `ulimit -Hn`, or --streams")
    resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))
    with Processes() as processes, tempfile.TemporaryDirectory() as temporary, socket.socket() as listener:
        folder = pathlib.Path(temporary)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen(4096)
        target_process = multiprocessing.Process(target=answer_each, args=(listener,), daemon=True)
        target_process.start()
        processes.callback(target_process.terminate)
        target = f"127.0.0.1:{listener.getsockname()[1]}"
        near, far, state = (f"127.0.0.1:{free_port()}" for _ in range(3))
        limits = f"clients = {options.streams + 10}\nstreams = {options.streams + 10}\n"
        near_file, far_file = trunk_files(
            folder, near=near, far=far, target=target, status=state.rsplit(":", 1)[1], limits=limits
        )
        ends = [
            processes.start(options.binary, "trunk", "run", "--config", far_file, "--json", until='"ready"'),
            processes.start(options.binary, "trunk", "run", "--config", near_file, "--json", until='"wan-connected"'),
        ]
        before = [memory(end.pid) for end in ends]
        clients = []
        host, port = near.rsplit(":", 1)
        for _ in range(options.streams):
            client = socket.create_connection((host, int(port)), 30)
            # Every one has carried something, both ways.
            client.sendall(b"ping")
            client.settimeout(60)
            clients.append(client)
        for client in clients:
            if client.recv(4) != b"pong":
                raise Failure("a client got something else than what its target sent")
        after = [memory(end.pid) for end in ends]
        for name, old, new in zip(("far", "near"), before, after):
            print(f"{name} {new / 2**20:.1f} MiB with {options.streams} idle streams, {old / 2**20:.1f} without: "
                  f"{(new - old) / options.streams / 1024:.2f} KiB each")
        for client in clients:
            client.close()


# === striping ===


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True, text=True)


def tc(namespace, *words, may_fail=False):
    done = subprocess.run(["tc", "-n", namespace, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode and not may_fail:
        raise Failure(f"tc {' '.join(map(str, words))}: {done.stderr.strip()}")


def shape(namespace, ports):
    """Gives every one of these source ports a shaper of its own, with a queue of 40 ms; what else there is passes freely."""
    tc(namespace, "qdisc", "add", "dev", "wan", "root", "handle", "1:", "htb", "default", "99")
    tc(namespace, "class", "add", "dev", "wan", "parent", "1:", "classid", "1:99", "htb", "rate", "10gbit", "quantum", 60000)
    for index, port in enumerate(ports, 1):
        tc(namespace, "class", "add", "dev", "wan", "parent", "1:", "classid", f"1:{index}", "htb",
           "rate", int(SHAPER), "ceil", int(SHAPER), "burst", "16k", "cburst", "16k", "quantum", 1514)
        tc(namespace, "qdisc", "add", "dev", "wan", "parent", f"1:{index}", "handle", f"{index}0:", "bfifo", "limit", 250000)
        tc(namespace, "filter", "add", "dev", "wan", "parent", "1:", "protocol", "ip", "prio", 1,
           "u32", "match", "ip", "sport", port, "0xffff", "flowid", f"1:{index}")


def stall(namespace, stop):
    """The first class stands still for every other second."""
    rate = ("rate", int(SHAPER), "ceil", int(SHAPER), "burst", "16k", "cburst", "16k")
    still = ("rate", "8kbit", "ceil", "8kbit", "burst", "1600", "cburst", "1600")
    change = ("class", "change", "dev", "wan", "parent", "1:", "classid", "1:1", "htb")
    while not stop.is_set():
        tc(namespace, *change, *still)
        stop.wait(1)
        tc(namespace, *change, *rate)
        stop.wait(1)


def wan_ports(namespace, far):
    lines = subprocess.run(["ip", "netns", "exec", namespace, "ss", "-tnH", "state", "established", "dst", far],
                           capture_output=True, text=True, check=True).stdout.splitlines()
    return [int(line.split()[2].rsplit(":", 1)[1]) for line in lines]


def striping(options):
    if os.geteuid() != 0:
        raise Failure("striping makes network namespaces: run it as root")
    near_ns, far_ns = (f"lh{os.getpid()}{end}" for end in ("n", "f"))
    with Processes() as processes, tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for namespace in (near_ns, far_ns):
            ip("netns", "add", namespace)
            processes.callback(subprocess.run, ["ip", "netns", "delete", namespace], check=False)
            ip("-n", namespace, "link", "set", "lo", "up")
        ip("link", "add", "wan", "netns", near_ns, "type", "veth", "peer", "name", "wan", "netns", far_ns)
        for namespace, address in ((near_ns, "10.77.0.1/24"), (far_ns, "10.77.0.2/24")):
            ip("-n", namespace, "address", "add", address, "dev", "wan")
            # Single packets: a shaper that is handed 64 KiB at once is late by 10 ms.
            ip("-n", namespace, "link", "set", "wan", "up", "gso_max_segs", 1)
        near = ("ip", "netns", "exec", near_ns)
        far = ("ip", "netns", "exec", far_ns)
        rates = {}
        for name, width in (("one", 1), ("four", 4)):
            with Processes() as ends:
                limits = f"wan-connections = {width}\nmin-wan-connections = {width}\n"
                near_file, far_file = trunk_files(
                    folder, near="127.0.0.1:6000", far="10.77.0.2:7000", target="10.77.0.2:7001", status=7070,
                    limits=limits,
                )
                ends.start(options.binary, "flow", "server", "10.77.0.2:7001", within=far)
                ends.start(options.binary, "trunk", "run", "--config", far_file, "--json", within=far, until='"ready"')
                ends.start(options.binary, "trunk", "run", "--config", near_file, "--json", within=near, until='"wan-connected"')
                deadline = time.monotonic() + 20
                while len(ports := wan_ports(near_ns, "10.77.0.2:7000")) < width:
                    if time.monotonic() > deadline:
                        raise Failure(f"{len(ports)} of {width} WAN connections after 20 s")
                    time.sleep(0.05)
                shape(near_ns, ports)
                rates[name] = goodput(options.binary, "127.0.0.1:6000", options.seconds, near)
                if width > 1:
                    stop = threading.Event()
                    staller = threading.Thread(target=stall, args=(near_ns, stop))
                    staller.start()
                    try:
                        rates["stalling"] = goodput(options.binary, "127.0.0.1:6000", options.seconds, near)
                    finally:
                        stop.set()
                        staller.join()
                now = status(7070, near)
                tc(near_ns, "qdisc", "delete", "dev", "wan", "root")
        for name, rate in rates.items():
            print(f"{name} {rate / MBIT:.1f} Mbit/s, {rate / rates['one']:.2f} times one")
        print(f"sent-again {100 * now['repeated_bytes'] / now['delivered_bytes']:.1f} % of the payload by the trunk")


# === recovery ===


def echo_all(listener):
    def echo(stream):
        with stream:
            while piece := stream.recv(65536):
                stream.sendall(piece)

    while True:
        try:
            stream = listener.accept()[0]
        except OSError:
            return
        threading.Thread(target=echo, args=(stream,), daemon=True).start()


def ping(stream):
    stream.sendall(b"ping")
    got = b""
    while len(got) < 4:
        piece = stream.recv(4 - len(got))
        if not piece:
            raise ConnectionError("closed")
        got += piece


def answered(address):
    """Seconds until a new client is answered."""
    host, port = address.rsplit(":", 1)
    began = time.monotonic()
    while time.monotonic() - began < 30:
        try:
            with socket.create_connection((host, int(port)), 1) as client:
                client.settimeout(1)
                ping(client)
                return time.monotonic() - began
        except OSError:
            time.sleep(0.005)
    raise Failure(f"no new client was answered at {address} within 30 s")


def recovery(options):
    with Processes() as processes, tempfile.TemporaryDirectory() as temporary, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        threading.Thread(target=echo_all, args=(listener,), daemon=True).start()
        target = f"127.0.0.1:{listener.getsockname()[1]}"
        pairs = []
        for name in ("killed", "other"):
            folder = pathlib.Path(temporary) / name
            folder.mkdir()
            near, far, state = (f"127.0.0.1:{free_port()}" for _ in range(3))
            files = trunk_files(folder, near=near, far=far, target=target, status=state.rsplit(":", 1)[1])
            commands = [(options.binary, "trunk", "run", "--config", file, "--json") for file in files]
            ends = {
                "far": processes.start(*commands[1], until='"ready"'),
                "near": processes.start(*commands[0], until='"wan-connected"'),
            }
            pairs.append((near, dict(zip(("near", "far"), commands)), ends))
        (near, commands, ends), (other, _, _) = pairs
        host, port = other.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as bystander:
            bystander.settimeout(10)
            ping(bystander)
            for which in ("far", "near"):
                took = []
                for _ in range(options.kills):
                    answered(near)
                    ends[which].kill()
                    ends[which].wait()
                    again = threading.Timer(0.1, lambda: ends.update({which: processes.start(*commands[which], until='"ready"')}))
                    again.start()
                    took.append(answered(near))
                    again.join()
                    ping(bystander)
                print(f"{which}-killed {max(took):.2f} s at most, {statistics.median(took):.2f} s median of {len(took)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "target/release/longhaul", type=pathlib.Path)
    what = parser.add_subparsers(required=True)
    one = what.add_parser("overhead")
    one.add_argument("--rounds", type=int, default=7)
    one.add_argument("--seconds", type=int, default=3)
    one.set_defaults(run=overhead)
    one = what.add_parser("idle")
    one.add_argument("--streams", type=int, default=10_000)
    one.set_defaults(run=idle)
    one = what.add_parser("striping")
    one.add_argument("--seconds", type=int, default=12)
    one.set_defaults(run=striping)
    one = what.add_parser("recovery")
    one.add_argument("--kills", type=int, default=10)
    one.set_defaults(run=recovery)
    options = parser.parse_args()
    if not options.binary.exists():
        raise Failure(f"`{options.binary}` is not there: cargo build --release -p longhaul-cli, or --binary")
    options.run(options)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"trunk.py: {failure}")
