#!/usr/bin/env python3
"""versitygw's own integration tests, against versitygw directly and through `longhaul relay s3`, compared test by test.

    scripts/e2e.sh --conformance          builds what is needed, then runs this
    scripts/e2e/conformance.py --home out/e2e [--binary target/debug/longhaul]

A test that passes directly and fails through the gateway has to stand in conformance.txt, below the reason why; one that
stands there and passes has to be taken out. Either ends this with status 1. Both runs' words are kept in HOME/work.
Ten minutes.
"""

import argparse
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

FOLDER = pathlib.Path(__file__).parent
ACCESS, SECRET = "root", "root-secret"
# So many have to pass directly, or the comparison says little.
LEAST = 200
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
OUTCOME = re.compile(r"(PASS|FAIL)\s+(\w+)(?::\s*(.*))?$")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(port, process):
    """Until somebody listens."""
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"conformance: `{process.args[0]}` ended before it listened")


def expected(path):
    """Reasons by test, and tests that are not compared: a line that begins with `#` is the reason of the lines below it, and
    `~` stands before a test that passes or fails as it happens."""
    reasons, chance, reason = {}, set(), None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.strip()
        if line.startswith("#"):
            reason = line.lstrip("# ")
        elif line:
            if reason is None or line in reasons:
                sys.exit(f"conformance: {path.name}:{number}: `{line}` has no reason, or stands there twice")
            if line.startswith("~"):
                chance.add(line[1:])
            else:
                reasons[line] = reason
    return reasons, chance


def outcomes(text):
    """Whether it passed and what it said, by test."""
    found = {}
    for line in text.splitlines():
        match = OUTCOME.match(COLOUR.sub("", line).strip())
        if match:
            found[match[2]] = (match[1] == "PASS", match[3] or "")
    return found


class Site:
    """A server, and a gateway in front of another: what tests leave in one must not meet them in the other."""

    def __init__(self, home, binary):
        self.home, self.work, self.processes = home, home / "work" / "conformance", []
        shutil.rmtree(self.work, ignore_errors=True)
        self.direct, behind = self.serve("direct"), self.serve("behind")
        self.through = free_port()
        config = self.work / "gateway.toml"
        config.write_text(
            f'listen = "127.0.0.1:{self.through}"\norigin = "http://127.0.0.1:{behind}"\nmanage-buckets = true\n'
            f'credentials = {{ access-key = "{ACCESS}", secret-env = "ROOT_SECRET_KEY" }}\n'
            f'client = [{{ access-key = "{ACCESS}", secret-env = "ROOT_SECRET_KEY" }}]\n'
            '[[bucket]]\nname = "*"\n'
        )
        self.start("gateway", self.through, binary, "relay", "s3", "--config", config)

    def serve(self, name):
        port, folders = free_port(), [self.work / f"{name}-{kind}" for kind in ("data", "versions")]
        for folder in folders:
            folder.mkdir(parents=True)
        versitygw = self.home / "bin" / "versitygw"
        self.start(
            f"server-{name}", port, versitygw, "--port", f"127.0.0.1:{port}", "posix", "--versioning-dir", folders[1], folders[0]
        )
        return port

    def start(self, name, port, *words):
        log = open(self.work / f"{name}.log", "w")
        environment = {**os.environ, "ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET}
        process = subprocess.Popen([str(word) for word in words], stdout=log, stderr=log, env=environment)
        self.processes.append(process)
        wait_for(port, process)

    def test(self, name, port):
        command = [
            self.home / "bin" / "versitygw", "test", "--access", ACCESS, "--secret", SECRET,
            "--endpoint", f"http://127.0.0.1:{port}", "full-flow", "--versioning-enabled",
        ]
        log = self.work / f"{name}.txt"
        with log.open("w") as file:
            # Its client takes no other authorities, and its status says that something failed, as the lines do better.
            environment = {name: value for name, value in os.environ.items() if name != "AWS_CA_BUNDLE"}
            words = [str(word) for word in command]
            subprocess.run(words, stdout=file, stderr=file, cwd=self.work, env=environment, check=False)
        return outcomes(log.read_text(errors="replace"))

    def end(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--home", type=pathlib.Path, required=True)
    arguments.add_argument("--binary", type=pathlib.Path, default=pathlib.Path("target/debug/longhaul"))
    given = arguments.parse_args()
    reasons, chance = expected(FOLDER / "conformance.txt")
    site = Site(given.home.resolve(), given.binary.resolve())
    try:
        direct = site.test("direct", site.direct)
        through = site.test("through", site.through)
    finally:
        site.end()
    passed = [test for test, (good, _) in direct.items() if good and test not in chance]
    kept = [test for test in passed if through.get(test, (False, ""))[0]]
    lost = {test: through.get(test, (False, "it did not run"))[1] for test in passed if test not in kept}
    new = {test: why for test, why in lost.items() if test not in reasons}
    gone = [test for test in reasons if test in kept]
    print(f"{len(passed)} of {len(direct)} tests pass directly, {len(kept)} of these through the gateway")
    for reason in dict.fromkeys(reasons.values()):
        count = sum(1 for test in lost if reasons.get(test) == reason)
        print(f"  {count:>4}  {reason}")
    for test, why in new.items():
        print(f"FAILS AND IS NOT IN conformance.txt: {test}: {why[:200]}")
    for test in gone:
        print(f"PASSES AND IS STILL IN conformance.txt: {test}")
    if len(passed) < LEAST:
        print(f"fewer than {LEAST} pass directly; see {site.work}")
    sys.exit(1 if new or gone or len(passed) < LEAST else 0)


main()
