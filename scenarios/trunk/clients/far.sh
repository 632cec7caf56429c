#!/bin/sh
# The far end of a trunk and the SSH server behind it, on one host: far.sh ADDRESS PORT
set -eu
"$(dirname "$0")/sshd.sh" 127.0.0.1 2222 &
exec "${LONGHAUL:-target/release/longhaul}" trunk far "$1:$2" --plain --allow 10.0.0.0/8 --allow-target 127.0.0.1/32:2222
