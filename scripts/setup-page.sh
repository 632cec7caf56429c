#!/usr/bin/env bash
# Installs what the web page needs beyond `scripts/setup.sh`: node and npm, to build it; and with --browser a
# Chromium, to test it. Does nothing when all is there. Nobody needs it to build or run longhaul itself.
set -euo pipefail
cd "$(dirname "$0")/.."

need() { command -v "$1" >/dev/null 2>&1; }

missing=()
need node || missing+=(nodejs)
need npm || missing+=(npm)
if [ "${1:-}" = --browser ] && [ -z "${LONGHAUL_CHROMIUM:-}" ]; then
  need chromium || need chromium-browser || need google-chrome || missing+=(chromium)
fi
if [ "${#missing[@]}" -gt 0 ]; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "setup-page: please install first: sudo apt-get install ${missing[*]}" >&2
    exit 3
  fi
  echo "setup-page: installing ${missing[*]}" >&2
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
major=$(node -p 'process.versions.node.split(".")[0]')
if [ "$major" -lt 20 ]; then
  echo "setup-page: node $major is too old: the page is built with node 20 or newer" >&2
  exit 3
fi

stamp=crates/host/dash/page/node_modules/.longhaul-lock
if ! cmp -s crates/host/dash/page/package-lock.json "$stamp" 2>/dev/null; then
  echo "setup-page: installing the page's packages" >&2
  (cd crates/host/dash/page && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
  cp crates/host/dash/page/package-lock.json "$stamp"
fi
