#!/usr/bin/env bash
# Validates what is only an example here, offline once its tools are there:
#   scripts/examples-check.sh [BINARY]       default: target/debug/longhaul
# Kubernetes manifests by the schemas of the Python package kubernetes-validate, and the configuration in them by the relay
# itself; Prometheus' files by promtool, with the alerts' own tests; every metric that alerts and the Grafana dashboard name
# by what a running relay answers. Needs python3, promtool (Debian's package prometheus) and curl; makes out/examples-check.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(realpath "${1:-target/debug/longhaul}")
out=$PWD/out/examples-check

fail() { echo "examples-check: $*" >&2; exit 1; }
step() { echo "> $*"; }
[ -x "$binary" ] || fail "there is no $binary: make build"
for tool in promtool curl python3; do
  command -v "$tool" >/dev/null || fail "\`$tool\` is missing: apt-get install prometheus curl python3-venv"
done
mkdir -p "$out"
if [ ! -x "$out/venv/bin/kubernetes-validate" ]; then
  step "schemas of Kubernetes"
  python3 -m venv "$out/venv"
  "$out/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes-validate==1.37.0
fi

step "packaging/kubernetes"
"$out/venv/bin/kubernetes-validate" --strict packaging/kubernetes/*.yaml
for manifest in packaging/kubernetes/*.yaml; do
  "$out/venv/bin/python" - "$manifest" "$out" <<'PYTHON'
import sys, yaml
for document in yaml.safe_load_all(open(sys.argv[1])):
    if document and document["kind"] == "ConfigMap":
        for name, text in document["data"].items():
            open(f"{sys.argv[2]}/{name}", "w").write(text)
PYTHON
done
# The check resolves names, and the manifest's is only an example.
sed -i 's/store\.example/127.0.0.1/' "$out/relay.toml"
"$binary" relay check --config "$out/relay.toml" >/dev/null

step "examples/prometheus"
promtool check config --lint=none examples/prometheus/prometheus.yml
promtool check rules examples/prometheus/alerts.yml
(cd examples/prometheus && promtool test rules alerts-test.yml)

step "metrics that alerts and dashboard name"
"$binary" relay http 127.0.0.1:0 127.0.0.1:9 --admin 127.0.0.1:0 --json >"$out/relay.jsonl" 2>"$out/relay.log" &
relay=$!
trap 'kill "$relay" 2>/dev/null || true' EXIT
admin=
for _ in $(seq 50); do
  admin=$(sed -n 's/.*"event":"admin".*"address":"\([^"]*\)".*/\1/p' "$out/relay.jsonl" | head -1)
  [ -n "$admin" ] && break
  sleep 0.1
done
[ -n "$admin" ] || fail "the relay does not say where its administrator's interface is: $out/relay.log"
curl -fsS "http://$admin/metrics" >"$out/metrics.txt"
promtool check metrics <"$out/metrics.txt" || true
"$out/venv/bin/python" - "$out/metrics.txt" <<'PYTHON'
import json, re, sys
known = set(re.findall(r"^# TYPE (\S+)", open(sys.argv[1]).read(), re.M))
def named(text):
    return set(re.findall(r"\blonghaul_[a-z0-9_]+", text))
dashboard = json.load(open("examples/grafana/relay.json"))
panels = [panel for panel in dashboard["panels"] if panel.get("targets")]
assert panels, "no panel asks anything"
ids = [panel["id"] for panel in dashboard["panels"]]
assert len(ids) == len(set(ids)), "two panels have one number"
used = {"dashboard": set(), "alerts": named(open("examples/prometheus/alerts.yml").read())}
for panel in panels:
    for target in panel["targets"]:
        used["dashboard"] |= named(target["expr"])
for where, names in used.items():
    unknown = {name for name in names if re.sub("_(bucket|sum|count)$", "", name) not in known and name not in known}
    assert names, f"{where} names no metric"
    assert not unknown, f"{where} names what no relay answers: {sorted(unknown)}"
    print(f"  {where}: {len(names)} metrics, all known")
PYTHON
echo "the examples are well"
