#!/usr/bin/env bash
# Installs what `make demo` and `make test` need beyond the toolchains (Rust, Python): iproute2 for the
# lab's namespaces, nftables for connections that a router redirects, openssl and curl as the other end of
# TLS and HTTP/2 tests, strace for errors that no kernel gives on purpose, and a Python environment with the field report's client library. Does nothing when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

need() { command -v "$1" >/dev/null 2>&1; }

missing=()
need ip || missing+=(iproute2)
need openssl || missing+=(openssl)
need nft || missing+=(nftables)
need curl || missing+=(curl)
need strace || missing+=(strace)
need cc || missing+=(build-essential)
need python3 || missing+=(python3)
if need python3 && ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
  missing+=(python3-venv)
fi
if [ "${#missing[@]}" -gt 0 ]; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "setup: please install first: sudo apt-get install ${missing[*]}" >&2
    exit 3
  fi
  echo "setup: installing ${missing[*]}" >&2
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
need cargo || { echo "setup: no cargo: install Rust 1.95 or newer (https://rustup.rs)" >&2; exit 3; }

stamp=.venv/requirements.txt
if ! cmp -s scripts/requirements.txt "$stamp" 2>/dev/null; then
  echo "setup: making .venv with the clients of the field reports" >&2
  python3 -m venv --clear .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r scripts/requirements.txt
  cp scripts/requirements.txt "$stamp"
fi
