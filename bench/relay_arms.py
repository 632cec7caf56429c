"""The relays that `relay.py` measures: how each is configured, and how it is started."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import time

HAPROXY = """global
  maxconn 6500
  nbthread 2
  ssl-default-bind-options ssl-min-ver TLSv1.3
defaults
  mode tcp
  maxconn 6500
  timeout connect 10s
  timeout client 10m
  timeout server 10m
  {splice}
listen relay
  bind 127.0.0.1:{listen} backlog 4096 {tls}
  server s 127.0.0.1:{target}
"""
SPLICE = "option splice-request\n  option splice-response"

NGINX = """daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 2;
worker_rlimit_nofile 20000;
{modules}
events {{ worker_connections 8192; }}
stream {{
  proxy_timeout 10m; proxy_half_close on;
  server {{ listen 127.0.0.1:{listen} backlog=4096 {tls}; proxy_pass 127.0.0.1:{target}; }}
}}
"""

STUNNEL = """foreground = quiet
pid =
syslog = no
debug = 3
socket = l:TCP_NODELAY=1
socket = r:TCP_NODELAY=1
sslVersionMin = TLSv1.3
[relay]
accept = 127.0.0.1:{listen}
connect = 127.0.0.1:{target}
cert = {cert}
key = {key}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    for _ in range(3000):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise SystemExit(f"nobody listens on {port}")


def certificate(folder, kind):
    """A self-signed certificate and its key, `p256` or `rsa`."""
    cert, key, both = (f"{folder}/{name}" for name in ("cert.pem", "key.pem", "both.pem"))
    algorithm = ["rsa:2048"] if kind == "rsa" else ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command = ["openssl", "req", "-x509", "-newkey", *algorithm, "-nodes", "-keyout", key, "-out", cert]
    subprocess.run([*command, "-days", "30", "-subj", "/CN=localhost"], check=True, capture_output=True)
    text = pathlib.Path(cert).read_text() + pathlib.Path(key).read_text()
    pathlib.Path(both).write_text(text)
    return {"cert": cert, "key": key, "both": both}


class Starter:
    """Writes configurations, starts relays with them, and waits until they listen."""

    def __init__(self, folder, target):
        self.folder, self.target, self.count = folder, target, 0

    def start(self, words, template=None, **values):
        """`{config}` and `{listen}` in `words` are the configuration's file and the port."""
        self.count += 1
        port, config = free_port(), f"{self.folder}/{self.count}.conf"
        if template:
            known = {"listen": port, "target": self.target, "folder": self.folder}
            pathlib.Path(config).write_text(template.format(**known, **values))
        words = [word.format(config=config, listen=port) for word in words]
        log = open(f"{self.folder}/{self.count}.log", "w")
        # The others log no connection either.
        environment = dict(os.environ, LONGHAUL_LOG="warn")
        process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.PIPE, env=environment)
        wait_for(port)
        return port, process


def arms(binary, folder, target, tls=None):
    """Name, port and process of each relay that is installed here; the direct path has no process. `tls` is the
    certificate that clients are shown, `None` where they speak without TLS."""
    starter = Starter(folder, target)
    yield "direct", target, None
    yield "longhaul", *starter.start(longhaul(binary), LONGHAUL_TLS if tls else LONGHAUL, **(tls or {}))
    if shutil.which("haproxy"):
        bind = f"ssl crt {tls['both']}" if tls else ""
        command = ["haproxy", "-db", "-f", "{config}"]
        yield "haproxy", *starter.start(command, HAPROXY, splice="", tls=bind)
        if not tls:
            yield "haproxy splice", *starter.start(command, HAPROXY, splice=SPLICE, tls=bind)
    module = "/usr/lib/nginx/modules/ngx_stream_module.so"
    if shutil.which("nginx") and os.path.exists(module):
        listen = ""
        if tls:
            listen = f"ssl; ssl_certificate {tls['cert']}; ssl_certificate_key {tls['key']}; ssl_protocols TLSv1.3"
        values = {"modules": f"load_module {module};", "tls": listen}
        yield "nginx stream", *starter.start(["nginx", "-c", "{config}"], NGINX, **values)
    if shutil.which("envoy"):
        command = ["envoy", "-c", "{config}", "--concurrency", "2", "--disable-hot-restart", "-l", "error"]
        text = json.dumps(envoy(tls)).replace("{", "{{").replace("}", "}}")
        text = text.replace('"LISTEN"', "{listen}").replace('"TARGET"', "{target}")
        yield "Envoy", *starter.start(command, text)
    if tls and shutil.which("stunnel"):
        yield "stunnel", *starter.start(["stunnel", "{config}"], STUNNEL, **tls)
    if not tls and shutil.which("socat"):
        ends = "TCP4-LISTEN:{listen},bind=127.0.0.1,fork,reuseaddr,backlog=4096", f"TCP4:127.0.0.1:{target}"
        yield "socat -b131072", *starter.start(["socat", "-b131072", "-t10", *ends])


LONGHAUL = """[[tcp]]
listen = "127.0.0.1:{listen}"
target = "127.0.0.1:{target}"
server-profile = "lan"
"""
LONGHAUL_TLS = """[[tls]]
listen = "127.0.0.1:{listen}"
target = "127.0.0.1:{target}"
server-profile = "lan"
upstream = "plain"
certificates = [{{ cert = "{cert}", key = "{key}" }}]
"""


def longhaul(binary):
    # The example of the crate, which is quicker to build, does nothing else.
    return [str(binary), "{config}", "--quiet"] if binary.name == "serve" else [str(binary), "relay", "run", "--config", "{config}"]


def envoy(tls):
    types = "type.googleapis.com/envoy.extensions"
    address = lambda port: {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    proxy = {"@type": f"{types}.filters.network.tcp_proxy.v3.TcpProxy", "stat_prefix": "t", "cluster": "b"}
    chain = {"filters": [{"name": "envoy.filters.network.tcp_proxy", "typed_config": proxy}]}
    if tls:
        pair = {"certificate_chain": {"filename": tls["cert"]}, "private_key": {"filename": tls["key"]}}
        parameters = {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"}
        chain["transport_socket"] = {
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": f"{types}.transport_sockets.tls.v3.DownstreamTlsContext",
                "common_tls_context": {"tls_params": parameters, "tls_certificates": [pair]},
            },
        }
    listener = {"name": "l", "address": address("LISTEN"), "filter_chains": [chain], "tcp_backlog_size": 4096}
    endpoint = {"endpoint": {"address": address("TARGET")}}
    cluster = {
        "name": "b",
        "type": "STATIC",
        "connect_timeout": "10s",
        "circuit_breakers": {"thresholds": [{"max_connections": 50000, "max_pending_requests": 50000}]},
        "load_assignment": {"cluster_name": "b", "endpoints": [{"lb_endpoints": [endpoint]}]},
    }
    limit = {
        "@type": f"{types}.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
        "max_active_downstream_connections": 50000,
    }
    monitor = {"name": "envoy.resource_monitors.global_downstream_max_connections", "typed_config": limit}
    return {
        "static_resources": {"listeners": [listener], "clusters": [cluster]},
        "overload_manager": {"resource_monitors": [monitor]},
    }
