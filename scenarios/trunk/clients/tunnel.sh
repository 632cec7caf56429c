#!/bin/sh
# A port forwarded by the real ssh to what stands behind the SSH server at the far site: tunnel.sh ADDRESS PORT FAR
set -eu
folder=${TMPDIR:-/tmp}/longhaul-scp
# ssh names what the far end is to connect to; only the far end's host was told (sshd.sh).
exec ssh -N -L "$1:$2:$(cat "$folder/target")" -p "${3##*:}" -i "$folder/client" -c aes128-gcm@openssh.com \
  -o IdentitiesOnly=yes -o BatchMode=yes -o ExitOnForwardFailure=yes -o StrictHostKeyChecking=no \
  -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "root@${3%:*}"
