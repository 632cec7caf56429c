#!/usr/bin/env python3
"""The simulator beside ns-3: data packets per CPU-second on the same dumbbells, and what both say about
the algorithms that both have (completion times, congestion windows).

    bench/simulator.py [--quick] [--speed | --agreement] [--without-ns3]

Builds the example `dumbbell` of crates/core/sim in release, makes a virtual environment with ns-3's wheel
from PyPI in target/ns3 (its libraries only), compiles bench/simulator-ns3.cc against its headers, and
prints tables in Markdown. Needs g++. One process at a time, each on one thread; CPU time is the
process's own, so that a busy machine disturbs little but caches.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
NS3 = "ns3==3.44.post0"
LIBRARIES = ["core", "network", "internet", "point-to-point", "applications", "traffic-control"]
SEGMENT = 1448

# Mbit/s, RTT in ms, algorithm, simulated seconds, losses per 10^9, initial ssthresh in bytes, flows.
SPEED = [
    (10000, 1, "reno", 10, 0, None, 1),
    (10000, 1, "cubic", 10, 0, None, 1),
    (10000, 1, "bbr", 10, 0, None, 1),
    (10000, 1, "cubic", 10, 10_000, None, 1),
    (1000, 60, "cubic", 60, 0, None, 1),
    (1000, 60, "reno", 60, 1_000, None, 1),
    (1000, 60, "bbr", 60, 100_000, None, 1),
    (10000, 10.8, "reno", 60, 0, 65535, 1),
    (10000, 10.8, "reno", 5, 0, None, 8),
    (100000, 10, "cubic", 1, 0, None, 1000),
    (100000, 10, "cubic", 1, 0, None, 4000),
]
# Where ns-3 runs as well: simulated seconds short enough for it. Queues of one product, ssthresh given,
# because ns-3 takes minutes for what an overshoot loses (BBR's startup always does), and for losses within a
# large window.
BESIDE = [
    (10000, 1, "reno", 0.3, 0, 1_200_000),
    (10000, 1, "cubic", 0.3, 0, 1_200_000),
    (10000, 1, "cubic", 0.3, 10_000, 1_200_000),
    (1000, 60, "cubic", 1, 0, 3_500_000),
    (1000, 60, "reno", 1, 100_000, 3_500_000),
]
# Completion: Mbit/s, RTT, bytes, initial ssthresh in bytes, numbers of the packets that are lost.
COMPLETION = [
    (100, 20, 10_000_000, 200_000, []),
    (100, 100, 10_000_000, 1_000_000, []),
    (1000, 10, 100_000_000, 1_000_000, []),
    (50, 40, 20_000_000, 200_000, [6000]),
    (50, 40, 20_000_000, 200_000, [4000, 7000, 10000]),
    (20, 160, 10_000_000, 400_000, [3000]),
]
# Our algorithm, the class in ns-3, and after how many segments its receiver sends an ACK. NewReno, HighSpeed
# and Westwood+ count ACKs there and segments here (RFC 3465): with one ACK per segment that is the same.
CLASSES = [
    ("cubic", "TcpCubic", 2),
    ("bbr", "TcpBbr", 2),
    ("reno", "TcpLinuxReno", 2),
    ("reno", "TcpNewReno", 1),
    ("highspeed", "TcpHighSpeed", 1),
    ("westwood", "TcpWestwoodPlus", 1),
]


def run(command):
    """A process: what it prints as JSON, its CPU seconds, its largest resident set so far in MB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    finished = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if finished.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{finished.stderr}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(finished.stdout), used


def memory(command):
    """Peak resident set in kB, of a process that nothing else shares the figure with."""
    finished = subprocess.run(
        [sys.executable, "-c",
         "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL);"
         "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)",
         *[str(word) for word in command]],
        capture_output=True, text=True, check=True)
    return int(finished.stdout)


def build_ours():
    subprocess.run(
        ["cargo", "build", "--locked", "--quiet", "--release", "-p", "longhaul-sim", "--example", "dumbbell"],
        cwd=ROOT, check=True)
    return TARGET / "release" / "examples" / "dumbbell"


def build_ns3():
    """The program, and the environment made where there is none."""
    folder = TARGET / "ns3"
    program = folder / "dumbbell"
    source = ROOT / "bench" / "simulator-ns3.cc"
    if not (folder / "made").exists():
        print(f"making {folder} with {NS3}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        # Its Python bindings would have to be compiled for an hour; the libraries are all we want.
        subprocess.run([folder / "bin/pip", "install", "--quiet", "--no-deps", NS3], check=True)
        (folder / "made").touch()
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        [wheel] = folder.glob("lib/python3*/site-packages/ns3")
        subprocess.run(
            ["g++", "-O2", "-std=c++20", f"-I{wheel}/include", source, "-o", program,
             f"-L{wheel}/lib64", f"-Wl,-rpath,{wheel}/lib64", *[f"-lns3.44-{name}" for name in LIBRARIES]],
            check=True)
    return program


def settings(rate, rtt, seconds, loss, ssthresh, queue, form):
    values = {"rate": rate, "rtt": rtt, "seconds": seconds, "loss": loss, "queue": queue}
    if ssthresh is not None:
        values["ssthresh"] = ssthresh
    return [form.format(name, value) for name, value in values.items()]


def product(rate, rtt):
    return max(int(rate * 1e6 / 8 * rtt / 1e3), 150_000)


def told(rate, rtt, loss):
    lossy = f", {loss / 1e7:g} % loss" if loss else ""
    speed = f"{rate / 1000:g} Gbit/s" if rate >= 1000 else f"{rate} Mbit/s"
    return f"{speed}, {rtt} ms{lossy}"


def speed(ours, factor):
    print("\n| dumbbell | algorithm | flows | simulated | data packets | CPU s | per CPU-second | memory |")
    print("|---|---|---|---|---|---|---|---|")
    for rate, rtt, algorithm, seconds, loss, ssthresh, flows in SPEED:
        seconds *= factor
        command = [ours, f"algorithm={algorithm}", f"flows={flows}",
                   *settings(rate, rtt, seconds, loss, ssthresh, product(rate, rtt), "{}={}")]
        result, used = run(command)
        kilobytes = memory(command)
        packets = result["segments"]
        low = ", ssthresh 65535" if ssthresh else ""
        print(f"| {told(rate, rtt, loss)}{low} | {algorithm} | {flows} | {seconds:g} s | {packets:,} "
              f"| {used:.2f} | **{packets / used / 1e6:.2f} M** | {kilobytes / 1000:.1f} MB |", flush=True)


def beside(ours, theirs):
    print("\n| dumbbell | algorithm | ours, data packets per CPU-second | ns-3 | times |")
    print("|---|---|---|---|---|")
    for rate, rtt, algorithm, seconds, loss, ssthresh in BESIDE:
        own, used = run([ours, f"algorithm={algorithm}",
                         *settings(rate, rtt, seconds, loss, ssthresh, product(rate, rtt), "{}={}")])
        name = next(name for ours, name, _ in CLASSES if ours == algorithm)
        other, _ = run([theirs, f"--algorithm={name}",
                        *settings(rate, rtt, seconds, loss, ssthresh, product(rate, rtt), "--{}={}")])
        mine, its = own["segments"] / used, other["segments"] / other["cpu_s"]
        print(f"| {told(rate, rtt, loss)} | {algorithm} | {mine / 1e6:.2f} M | {its / 1e3:.1f} k "
              f"| {mine / its:.0f} |", flush=True)


def mean_difference(ours, theirs):
    """Of windows, each against the last of ours up to that moment; as a share of theirs."""
    shares = []
    for at, window in theirs:
        before = [cwnd for moment, cwnd in ours if moment <= at]
        if before and window:
            shares.append(abs(before[-1] / window - 1))
    return statistics.mean(shares) if shares else None


def completion(ours, theirs):
    print("\n| transfer | lost | algorithm, class in ns-3 | segments per ACK | ours s | ns-3 s | difference "
          "| windows, mean difference |")
    print("|---|---|---|---|---|---|---|---|")
    differences = []
    for rate, rtt, size, ssthresh, lost in COMPLETION:
        for algorithm, name, acks in CLASSES:
            # Twice the product: what is compared is growth and repair, not how a queue overflows.
            common = (rate, rtt, 60, 0, ssthresh, 2 * product(rate, rtt))
            drop = ",".join(map(str, lost))
            own, _ = run([ours, f"algorithm={algorithm}", f"bytes={size}", "trace=5",
                          *(["acks=each"] if acks == 1 else []), *([f"drop={drop}"] if lost else []),
                          *settings(*common, "{}={}")])
            other, _ = run([theirs, f"--algorithm={name}", f"--bytes={size}", "--trace=5", f"--acks={acks}",
                            *([f"--drop={drop}"] if lost else []), *settings(*common, "--{}={}")])
            mine, its = own["finished_s"][0], other["finished_s"]
            windows = mean_difference(own["cwnd"], other["cwnd"])
            differences.append(abs(mine / its - 1))
            print(f"| {size // 1_000_000} MB, {told(rate, rtt, 0)} | {drop or '-'} | {algorithm}, {name} | {acks} "
                  f"| {mine:.3f} | {its:.3f} | {mine / its - 1:+.1%} "
                  f"| {'-' if windows is None else f'{windows:.1%}'} |", flush=True)
    differences.sort()
    print(f"\n{len(differences)} cells: median {statistics.median(differences):.1%}, 95th percentile "
          f"{differences[int(0.95 * (len(differences) - 1))]:.1%}, worst {differences[-1]:.1%}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--quick", action="store_true", help="a tenth of the simulated time")
    only = arguments.add_mutually_exclusive_group()
    only.add_argument("--speed", action="store_true", help="the tables of speed alone")
    only.add_argument("--agreement", action="store_true", help="what both say alone")
    arguments.add_argument("--without-ns3", action="store_true", help="our own figures only")
    wanted = arguments.parse_args()
    ours = build_ours()
    print(f"{platform.release()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    if not wanted.agreement:
        speed(ours, 0.1 if wanted.quick else 1)
    if not wanted.without_ns3:
        theirs = build_ns3()
        if not wanted.agreement:
            beside(ours, theirs)
        if not wanted.speed:
            completion(ours, theirs)


if __name__ == "__main__":
    main()
