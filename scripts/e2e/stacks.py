"""TLS stacks other than our own on either side of the relay: OpenSSL, Go, Node and a browser, with ECDSA and RSA keys.

Needs the relay's binary, `openssl`, and in HOME/bin and HOME/node_modules what scripts/e2e.sh puts there. A browser
that is not there is said not to have run.
"""

import argparse
import base64
import contextlib
import hashlib
import http.server
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).parent
HYBRID = "X25519MLKEM768"
KEYS = {
    "ECDSA P-256": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
    "RSA 2048": ["-newkey", "rsa:2048"],
}


class Origin(http.server.BaseHTTPRequestHandler):
    """Answers everything with `ok`."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_words):
        pass


class Server(http.server.ThreadingHTTPServer):
    """Says nothing of a relay that has ended before its answer."""

    def handle_error(self, _request, _address):
        pass


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, timeout=60, **options)
    return done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def certify(folder, name, key):
    """A certificate for localhost that signs itself, which whoever talks to it is told to believe."""
    cert, secret = folder / f"{name}.pem", folder / f"{name}.key"
    words = ["openssl", "req", "-x509", *key, "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:false"]
    subprocess.run([*words, *names, "-keyout", secret, "-out", cert], check=True, capture_output=True)
    return cert, secret


@contextlib.contextmanager
def process(*words):
    """A process that ends with its block, and its standard output."""
    words = [str(word) for word in words]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        try:
            yield child.stdout
        finally:
            child.kill()


def event(lines, name):
    """The relay's next event of this name."""
    for line in lines:
        found = json.loads(line)
        if found["event"] == name:
            return found
    raise RuntimeError(f"the relay ended before `{name}`")


@contextlib.contextmanager
def relay(binary, target, *words):
    """An HTTP relay that makes no connection before it is asked: its port, and its events."""
    quiet = ["--prime", "off", "--pool-min-idle", "0", "--json"]
    with process(binary, "relay", "http", "127.0.0.1:0", target, *quiet, *words) as events:
        yield int(event(events, "listening")["address"].rsplit(":", 1)[1]), events


def get(port):
    """One request in the clear."""
    out, error = run("curl", "--silent", "--show-error", "--max-time", "30", f"http://127.0.0.1:{port}/")
    if error:
        raise RuntimeError(error.strip())
    return out


def fingerprint(certificate):
    """Of the key, as Chromium's option wants it."""
    key = subprocess.run(["openssl", "x509", "-in", certificate, "-pubkey", "-noout"], check=True, capture_output=True)
    words = ["openssl", "pkey", "-pubin", "-outform", "der"]
    key = subprocess.run(words, input=key.stdout, check=True, capture_output=True)
    return base64.b64encode(hashlib.sha256(key.stdout).digest()).decode()


def clients(home, certificate, folder):
    """Name, the command for a port, and what its output must have. None for one that is not there."""
    node = home / "node_modules" / "node" / "bin" / "node"
    yield "Go", lambda port: [home / "bin" / "tls-client", f"https://localhost:{port}/", certificate], HYBRID
    yield "Node 24", lambda port: [node, HERE / "tls-client.mjs", f"https://localhost:{port}/", certificate], HYBRID
    for version in ["-tls1_2", "-tls1_3"]:
        words = ["openssl", "s_client", "-ign_eof", version, "-CAfile", certificate, "-verify_return_error",
                 "-verify_hostname", "localhost", "-servername", "localhost"]
        yield f"OpenSSL {version[1:]}", lambda port, words=words: [*words, "-connect", f"localhost:{port}"], "200 OK"
    browser = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
    words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom",
             f"--user-data-dir={folder / 'browser'}", f"--ignore-certificate-errors-spki-list={fingerprint(certificate)}"]
    command = (lambda port: [*words, f"https://localhost:{port}/"]) if browser else None
    yield "Chromium", command, "ok"


def servers(home, certificate, key):
    node = home / "node_modules" / "node" / "bin" / "node"
    yield "Go", [home / "bin" / "tls-server", certificate, key], True
    yield "Node 24", [node, HERE / "tls-server.mjs", certificate, key], True
    for version in ["-tls1_2", "-tls1_3"]:
        words = ["openssl", "s_server", "-www", "-accept", "127.0.0.1:0", version, "-cert", certificate, "-key", key]
        yield f"OpenSSL {version[1:]}", words, False


def port_of(lines):
    """What a server says of itself: a number, or `ACCEPT 127.0.0.1:4433` as OpenSSL has it."""
    for line in lines:
        word = line.strip().rsplit(":", 1)[-1]
        if word.isdigit():
            return int(word)
    raise RuntimeError("the server does not start")


def from_clients(binary, home, origin, folder, kind, certificate, key):
    """Each client through a relay with this certificate."""
    words = ["--certificate", certificate, key, "--upstream", "plain"]
    for name, command, expected in clients(home, certificate, folder):
        if command is None:
            yield {"side": "client", "stack": name, "key": kind, "outcome": "not run: there is none"}
            continue
        with relay(binary, f"127.0.0.1:{origin}", *words) as (port, events):
            request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" if "OpenSSL" in name else None
            out, error = run(*command(port), input=request)
            row = {"side": "client", "stack": name, "key": kind}
            if expected not in out:
                yield {**row, "outcome": f"FAILED: {(out + error)[-300:]!r}"}
                continue
            tls = event(events, "request-done")["client_tls"]
            wants_hybrid = "OpenSSL" not in name
            fits = tls["group"] == HYBRID or not wants_hybrid
            yield {**row, **tls, "outcome": "ok" if fits else f"FAILED: agreed on {tls['group']}"}


def to_servers(binary, home, kind, certificate, key):
    """A relay to each server with this certificate."""
    for name, command, is_hybrid in servers(home, certificate, key):
        with process(*command) as lines:
            target = f"localhost:{port_of(lines)}"
            with relay(binary, target, "--upstream", "tls", "--upstream-ca", certificate) as (port, events):
                row = {"side": "server", "stack": name, "key": kind}
                try:
                    get(port)
                except RuntimeError as error:
                    yield {**row, "outcome": f"FAILED: {error}"}
                    continue
                tls = event(events, "connected")["tls"]
                fits = tls["group"] == HYBRID or not is_hybrid
                yield {**row, **tls, "outcome": "ok" if fits else f"FAILED: agreed on {tls['group']}"}


def check(binary, home):
    """All of them, one after the other."""
    server = Server(("127.0.0.1", 0), Origin)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for kind, words in KEYS.items():
            certificate, key = certify(folder, kind.split()[0], words)
            yield from from_clients(binary, home, server.server_port, folder, kind, certificate, key)
            yield from to_servers(binary, home, kind, certificate, key)
    server.shutdown()


def report(binary, home):
    """Prints a line for each, and returns all of them and how many failed."""
    rows, failed = [], 0
    for row in check(binary, home):
        rows.append(row)
        failed += row["outcome"].startswith("FAILED")
        agreed = " ".join(str(row.get(name, "")) for name in ("version", "group", "cipher_suite"))
        print(f"{row['side']:<7} {row['stack']:<15} {row['key']:<12} {agreed:<55} {row['outcome']}", flush=True)
    return rows, failed


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--home", type=pathlib.Path, required=True)
    arguments.add_argument("--binary", type=pathlib.Path, default=pathlib.Path("target/debug/longhaul"))
    given = arguments.parse_args()
    rows, failed = report(given.binary.resolve(), given.home)
    (given.home / "stacks.json").write_text(json.dumps(rows, indent=2) + "\n")
    print(f"{len(rows)} pairs, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
