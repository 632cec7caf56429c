"""Runs every S3 client through every mode of the relay; see scripts/e2e.sh."""

import argparse
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import clients  # noqa: E402
import stacks  # noqa: E402


# Where client and server speak TLS with each other, as they do with nothing in between.
PASSED_THROUGH = ["tcp, TLS passed through"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(port):
    """Until somebody listens."""
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"e2e: nobody listens on {port}")


class Site:
    """The server, the authority and the relays, which end with this."""

    def __init__(self, home, binary):
        self.home, self.binary, self.processes = home, binary, []
        self.work = home / "work"
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.certify()
        self.plain = self.serve()
        self.secure = self.serve("--cert", self.certificate, "--key", self.key)

    def start(self, name, *words):
        log = open(self.work / f"{name}.log", "w")
        environment = {**os.environ, "ROOT_ACCESS_KEY": clients.ACCESS, "ROOT_SECRET_KEY": clients.SECRET}
        words = [str(word) for word in words]
        self.processes.append(subprocess.Popen(words, stdout=log, stderr=log, env=environment))

    def certify(self):
        words = [self.binary, "relay", "ca", "localhost", "127.0.0.1", "--dir", self.work / "ca", "--json"]
        files = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
        self.ca, self.certificate, self.key = files["authority"], files["certificate"], files["key"]

    def serve(self, *words):
        port = free_port()
        data = self.work / f"data-{port}"
        data.mkdir()
        gateway = self.home / "bin" / "versitygw"
        self.start(f"server-{port}", gateway, "--port", f"127.0.0.1:{port}", "--keep-alive", *words, "posix", data)
        wait_for(port)
        return port

    def relay(self, name, mode, target, *words):
        port = free_port()
        self.start(name, self.binary, "relay", mode, f"127.0.0.1:{port}", f"localhost:{target}", *words)
        wait_for(port)
        return port

    def modes(self):
        """What lies between client and server: name, the client's URL. First nothing: what fails there is
        between client and server alone."""
        yield "nothing", f"http://localhost:{self.plain}"
        yield "nothing, TLS", f"https://localhost:{self.secure}"
        ended = ["--certificate", self.certificate, self.key]
        begun = ["--upstream", "tls", "--upstream-ca", self.ca]
        quick = ["--hot-window", "256 KiB"]
        modes = [
            ("http", "http", "http", self.plain, quick),
            ("http, TLS on both sides", "https", "http", self.secure, [*ended, *begun, *quick]),
            ("http, TLS to the server", "http", "http", self.secure, [*begun, *quick]),
            ("http, 100-continue answered", "http", "http", self.plain, ["--expect", "answer", *quick]),
            ("tls on both sides", "https", "tls", self.secure, [*ended, *begun]),
            ("tls from clients", "https", "tls", self.plain, [*ended, "--upstream", "plain"]),
            ("tcp", "http", "tcp", self.plain, []),
            ("tcp, TLS passed through", "https", "tcp", self.secure, []),
        ]
        for number, (name, scheme, mode, target, words) in enumerate(modes):
            port = self.relay(f"relay-{number}", mode, target, *words)
            yield name, f"{scheme}://localhost:{port}"
        # Over TLS to the server: another relay on the way does that, as a trunk would.
        way = self.relay("relay-via", "http", self.secure, *begun, *quick)
        gateways = [
            ("s3 gateway", self.plain, "", ""),
            ("s3 gateway, encrypted", self.plain, "", 'encrypt = "main"'),
            ("s3 gateway, via TLS", self.secure, f'via = "127.0.0.1:{way}"', ""),
        ]
        for number, (name, target, more, rule) in enumerate(gateways):
            yield name, f"http://localhost:{self.gateway(f'gateway-{number}', target, more, rule)}"

    def gateway(self, name, target, more, rule):
        """`relay s3` in front of a server, which takes the same credentials as the gateway."""
        port = free_port()
        config = self.work / f"{name}.toml"
        config.write_text(
            f'listen = "127.0.0.1:{port}"\norigin = "http://localhost:{target}"\n{more}\nmanage-buckets = true\n'
            f'credentials = {{ access-key = "{clients.ACCESS}", secret-env = "ROOT_SECRET_KEY" }}\n'
            f'client = [{{ access-key = "{clients.ACCESS}", secret-env = "ROOT_SECRET_KEY" }}]\n'
            f'key = [{{ name = "main", command = ["printf", "{"5a" * 32}"] }}]\n'
            f'[[bucket]]\nname = "*"\n{rule}\n'
        )
        self.start(name, self.binary, "relay", "s3", "--config", config)
        wait_for(port)
        return port

    def end(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait()


def fails_alone(name, check, where):
    """Whether a check that failed fails with nothing in between, too. Now and then a part gets a 400 from
    versitygw 1.8.0 over TLS, so one try tells nothing."""
    for _ in range(10):
        client = clients.ALL[name](*where)
        try:
            if check != "put":
                client.put()
            client.checks()[check]()
        except Exception:  # the client's own, of whatever kind
            return True
    return False


def interoperate(site, url):
    """TLS stacks other than our own; the group that each agrees on."""
    node = site.home / "node_modules" / "node" / "bin" / "node"
    go = site.home / "bin" / "tls-client"
    script = pathlib.Path(__file__).parent / "tls-client.mjs"
    results = {}
    for name, words in [("Go", [go, url, site.ca]), ("node 24", [node, script, url, site.ca])]:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60)
        results[name] = done.stdout.strip() or f"failed: {done.stderr.strip()[-300:]}"
    return results


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--home", type=pathlib.Path, required=True)
    arguments.add_argument("--binary", type=pathlib.Path, default=pathlib.Path("target/debug/longhaul"))
    arguments.add_argument("--mode", action="append", help="only modes whose name begins like this")
    arguments.add_argument("--client", choices=clients.ALL, action="append", help="only these")
    given = arguments.parse_args()
    chosen = given.client or list(clients.ALL)
    random.seed(6)
    bodies = (random.randbytes(1_000_000), random.randbytes(clients.PART * clients.PARTS))
    tools = given.home / "venv" / "bin"
    site = Site(given.home, given.binary.resolve())
    rows, interop, failed = [], {}, 0
    # Client and check that fail with nothing in between over TLS: the server's own doing.
    alone = set()
    try:
        for number, (mode, url) in enumerate(site.modes()):
            if given.mode and not any(mode.startswith(prefix) for prefix in given.mode):
                continue
            bucket = f"bucket-{number}"
            first = clients.Boto3(tools, url, site.ca, bucket, site.work / "files" / bucket, bodies)
            first.client().create_bucket(Bucket=bucket)
            for name in chosen:
                directory = site.work / "files" / bucket / name
                client = clients.ALL[name](tools, url, site.ca, bucket, directory, bodies)
                client.sealed = "encrypted" in mode
                direct = (tools, f"https://localhost:{site.secure}", site.ca, bucket, directory / "direct", bodies)
                row = {"mode": mode, "client": name}
                for check, run in client.checks().items():
                    if run is None:
                        row[check] = "-"
                        continue
                    try:
                        run()
                        row[check] = "ok"
                    except Exception as error:  # each check stands for itself
                        if mode == "nothing, TLS":
                            alone.add((name, check))
                        elif mode in PASSED_THROUGH and fails_alone(name, check, direct):
                            alone.add((name, check))
                        if (name, check) in alone and mode in ("nothing, TLS", *PASSED_THROUGH):
                            row[check] = f"fails without a relay as well: {error}"
                            continue
                        failed += 1
                        row[check] = f"FAILED: {error}"
                rows.append(row)
                print(f"{mode:<28} {name:<8} " + "  ".join(
                    f"{check} {row[check]}" for check in row if check not in ("mode", "client")), flush=True)
                shutil.rmtree(directory, ignore_errors=True)
            if url.startswith("https:") and not mode.startswith(("tcp", "nothing")):
                interop[mode] = interoperate(site, f"{url}/")
                print(f"{mode:<28} {interop[mode]}", flush=True)
    finally:
        site.end()
    pairs, unfit = ([], 0) if given.mode else stacks.report(site.binary, given.home)
    failed += unfit
    result = {"rows": rows, "tls": interop, "stacks": pairs}
    (given.home / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    unlike = [group for stacks in interop.values() for group in stacks.values() if "MLKEM768" not in group.upper()]
    done = sum(1 for row in [*rows, *pairs] for check in row.values() if check == "ok")
    print(f"{len(alone)} fail without a relay as well: {sorted(alone)}")
    print(f"{done} checks passed, {failed} failed; without X25519MLKEM768: {unlike or 'nobody'}")
    sys.exit(1 if failed or unlike else 0)


main()
