#!/usr/bin/env python3
"""HTTP mode of `longhaul relay` beside haproxy, on loopback: requests per second, CPU per request,
latency added, and bulk both ways. Rounds interleave the arms in random order; ratios are taken within
each round, so that a machine that slows down slows down both.

    cargo build --release -p longhaul-cli
    bench/relay-http.py [--binary target/release/longhaul] [--rounds 7] [--threads N] [--seconds 3] [--traces]

With --traces the small requests also go through a second longhaul that sends a span for each to a collector, which
reads, counts and forgets them: what a traced request costs beside one that is not. The collector's own work is in
nobody's CPU time, but takes part of the machine's. How many spans arrived is told, since one that finds the queue
full costs less.

Needs wrk, haproxy and nginx (apt-get install wrk haproxy nginx-light). Starts its own processes on free
ports of 127.0.0.1 and ends them. The origin, the load and the relay share the machine's cores: compare
CPU per request first.
"""

import argparse
import collections
import multiprocessing
import os
import platform
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

TICKS = os.sysconf("SC_CLK_TCK")
BULK = 1 << 30
PIECE = memoryview(bytearray(1 << 20))
TRACED = "longhaul with traces"

# What is measured: where it listens, its process, and what its collector has counted.
Arm = collections.namedtuple("Arm", ["port", "process", "spans"], defaults=[None, None])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def origin(folder, port):
    """nginx: a tiny body at /, BULK bytes at /bulk."""
    with open(f"{folder}/bulk", "wb") as file:
        file.truncate(BULK)
    with open(f"{folder}/nginx.conf", "w") as file:
        file.write(
            f"""daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; sendfile on; keepalive_requests 1000000000;
  client_body_temp_path {folder}; default_type text/plain;
  proxy_temp_path {folder}; fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen 127.0.0.1:{port} backlog=4096;
    location / {{ return 200 "hello, world\\n"; }}
    location /bulk {{ root {folder}; }}
  }}
}}
"""
        )
    return subprocess.Popen(["nginx", "-p", folder, "-c", f"{folder}/nginx.conf"])


def sink(listener):
    """Reads uploads to their end, one connection after the other, and answers each with 200."""
    while True:
        stream, _ = listener.accept()
        if os.fork() == 0:
            while True:
                head = b""
                while b"\r\n\r\n" not in head:
                    try:
                        piece = stream.recv(65536)
                    except ConnectionResetError:
                        piece = b""
                    if not piece:
                        os._exit(0)
                    head += piece
                head, body = head.split(b"\r\n\r\n", 1)
                left = int(re.search(rb"(?i)Content-Length: (\d+)", head)[1]) - len(body)
                while left > 0:
                    left -= stream.recv_into(PIECE) or sys.exit("the upload was cut short")
                stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        stream.close()


def collector(listener, spans):
    """Takes batches of spans, one connection after the other, as the relay sends them."""
    while True:
        stream, _ = listener.accept()
        with stream:
            message, length = bytearray(), None
            while length is None or len(message) < length:
                piece = stream.recv(1 << 20)
                if not piece:
                    break
                message += piece
                if length is None and b"\r\n\r\n" in message:
                    head = message.split(b"\r\n\r\n", 1)[0]
                    length = len(head) + 4 + int(re.search(rb"(?i)Content-Length: (\d+)", head)[1])
            else:
                # Before the answer: whoever has that may look at the number.
                spans.value += message.count(b'"spanId"')
                stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")


def haproxy(folder, port, target, threads):
    config = f"{folder}/haproxy-{port}.cfg"
    with open(config, "w") as file:
        file.write(
            f"""global
  nbthread {threads}
  maxconn 4000
defaults
  mode http
  timeout connect 10s
  timeout client 60s
  timeout server 60s
  http-reuse always
frontend f
  bind 127.0.0.1:{port}
  default_backend b
backend b
  server s 127.0.0.1:{target}
"""
        )
    return subprocess.Popen(["haproxy", "-f", config])


def longhaul(binary, port, target, traces=None):
    """`traces` is a file to write, and the port of a collector."""
    command = [binary, "relay", "http", f"127.0.0.1:{port}", f"127.0.0.1:{target}"]
    command += ["--prime", "off", "--server-profile", "lan"]
    if traces:
        path, endpoint = traces
        text = subprocess.run(command + ["--print-config"], check=True, capture_output=True, text=True).stdout
        with open(path, "w") as file:
            file.write(f'{text}\n[traces]\nendpoint = "http://127.0.0.1:{endpoint}/v1/traces"\n')
        command = [binary, "relay", "run", "--config", path]
    # haproxy logs nothing here either.
    environment = dict(os.environ, LONGHAUL_LOG="warn")
    return subprocess.Popen(command, env=environment)


def cpu(process):
    if process is None:
        return 0.0
    with open(f"/proc/{process.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def settled(spans):
    """The number of spans, once none has come for longer than the relay gathers them."""
    while True:
        before = spans.value
        time.sleep(1.5)
        if spans.value == before:
            return before


def requests(arm, connections, seconds):
    port, process, spans = arm
    before, spans_before = cpu(process), spans.value if spans is not None else 0
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency"]
    text = subprocess.run(
        command + [f"http://127.0.0.1:{port}/"], check=True, capture_output=True, text=True
    ).stdout
    if "Socket errors" in text or "Non-2xx" in text:
        sys.exit(f"the load met errors:\n{text}")
    count = int(re.search(r"(\d+) requests in", text)[1])
    spent = re.search(r"requests in ([\d.]+)(m?s)", text)
    elapsed = float(spent[1]) * {"s": 1, "ms": 1e-3}[spent[2]]
    scale = {"us": 1, "ms": 1e3, "s": 1e6}
    found = {p: (float(v), u) for p, v, u in re.findall(r"(\d+)%\s+([\d.]+)(us|ms|s)", text)}
    # The last spans are sent when the load is over.
    arrived = {} if spans is None else {"spans/request": (settled(spans) - spans_before) / count}
    return arrived | {
        "requests/s": count / elapsed,
        "CPU us/request": (cpu(process) - before) / count * 1e6,
        "p50 us": found["50"][0] * scale[found["50"][1]],
        "p99 us": found["99"][0] * scale[found["99"][1]],
    }


def bulk(arm, upload):
    port, process, _ = arm
    before, start = cpu(process), time.monotonic()
    with socket.create_connection(("127.0.0.1", port)) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if upload:
            stream.sendall(f"PUT /sink HTTP/1.1\r\nHost: o\r\nContent-Length: {BULK}\r\n\r\n".encode())
            for _ in range(BULK // len(PIECE)):
                stream.sendall(PIECE)
            if not stream.recv(4096).startswith(b"HTTP/1.1 200"):
                sys.exit("the upload was refused")
        else:
            stream.sendall(b"GET /bulk HTTP/1.1\r\nHost: o\r\n\r\n")
            head = b""
            while b"\r\n\r\n" not in head:
                head += stream.recv(4096)
            left = BULK - len(head.split(b"\r\n\r\n", 1)[1])
            while left > 0:
                count = stream.recv_into(PIECE)
                if count == 0:
                    sys.exit("the download was cut short")
                left -= count
    elapsed = time.monotonic() - start
    return {
        "Gbit/s": BULK * 8 / elapsed / 1e9,
        "CPU s/GB": (cpu(process) - before) / (BULK / 1e9),
    }


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def spread(values):
    return f"{number(statistics.median(values))} ({number(min(values))} to {number(max(values))})"


def ratio(by_arm, one, other):
    """Of what was measured in the same round; nothing where that was not both, or too little."""
    pairs = zip(by_arm.get(one, []), by_arm.get(other, []))
    ratios = [value / beside for value, beside in pairs if beside > 0]
    return spread(ratios) if ratios else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--binary", default="target/release/longhaul")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="haproxy's; longhaul has one per processor")
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--traces", action="store_true", help="also measure small requests that are traced")
    arguments = parser.parse_args()
    dice = random.Random(arguments.seed)
    tests = {
        "GET 13 B, 1 connection": lambda arm: requests(arm, 1, arguments.seconds),
        "GET 13 B, 32 connections": lambda arm: requests(arm, 32, arguments.seconds),
        "GET 1 GiB": lambda arm: bulk(arm, False),
        "PUT 1 GiB": lambda arm: bulk(arm, True),
    }
    results = {test: {} for test in tests}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.chmod(folder, 0o755)
        processes = []

        def arms_before(target):
            ports = {"longhaul": free_port(), "haproxy": free_port()}
            ours = longhaul(arguments.binary, ports["longhaul"], target)
            theirs = haproxy(folder, ports["haproxy"], target, arguments.threads)
            processes.extend([ours, theirs])
            for port in ports.values():
                wait_for(port)
            return {
                "direct": Arm(target),
                "longhaul": Arm(ports["longhaul"], ours),
                "haproxy": Arm(ports["haproxy"], theirs),
            }

        def traced(target):
            spans = multiprocessing.Value("Q", lock=False)
            taking = socket.create_server(("127.0.0.1", 0))
            collecting = multiprocessing.Process(target=collector, args=[taking, spans], daemon=True)
            collecting.start()
            drains.append(collecting)
            port, file = free_port(), f"{folder}/traces.toml"
            processes.append(longhaul(arguments.binary, port, target, (file, taking.getsockname()[1])))
            wait_for(port)
            return Arm(port, processes[-1], spans)

        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        drains = [multiprocessing.Process(target=sink, args=[listener], daemon=True)]
        try:
            port = free_port()
            processes.append(origin(folder, port))
            wait_for(port)
            drains[0].start()
            arms_by_test = dict.fromkeys(tests, arms_before(port))
            arms_by_test["PUT 1 GiB"] = arms_before(listener.getsockname()[1])
            if arguments.traces:
                small = arms_by_test["GET 13 B, 1 connection"]
                small = small | {TRACED: traced(port)}
                arms_by_test |= {test: small for test in tests if test.startswith("GET 13 B")}
            for turn in range(arguments.rounds):
                for test, measure in tests.items():
                    arms = arms_by_test[test]
                    for name in dice.sample(list(arms), len(arms)):
                        for what, value in measure(arms[name]).items():
                            results[test].setdefault(what, {}).setdefault(name, []).append(value)
                print(f"round {turn + 1} of {arguments.rounds}", file=sys.stderr)
        finally:
            for drain in drains:
                drain.terminate()
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()
    version = subprocess.run(["haproxy", "-v"], capture_output=True, text=True).stdout.split()[2]
    print(f"{time.strftime('%Y-%m-%d')}, kernel {platform.release()}, {os.cpu_count()} cores,")
    print(f"load {os.getloadavg()[0]:.1f}, haproxy {version}, {arguments.threads} relay threads,")
    print(f"{arguments.rounds} rounds, seed {arguments.seed}; median (minimum to maximum)\n")
    columns = ["test", "measure", "direct", "longhaul", "haproxy", "longhaul / haproxy"]
    if arguments.traces:
        columns += [TRACED, "with / without"]
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for test, measures in results.items():
        for what, by_arm in measures.items():
            shown = {name: spread(values) for name, values in by_arm.items()}
            if what.startswith("CPU"):
                del shown["direct"]
            shown["longhaul / haproxy"] = ratio(by_arm, "longhaul", "haproxy")
            shown["with / without"] = ratio(by_arm, TRACED, "longhaul")
            cells = [shown.get(name) or "-" for name in columns[2:]]
            print("| " + " | ".join([test, what, *cells]) + " |")


main()
