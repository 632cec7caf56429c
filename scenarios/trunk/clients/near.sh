#!/bin/sh
# The near end of a trunk to the SSH server behind its far end: near.sh ADDRESS PORT FAR
set -eu
exec "${LONGHAUL:-target/release/longhaul}" trunk near "$1:$2" --plain --via "$3" --to 127.0.0.1:2222
