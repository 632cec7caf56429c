#!/bin/sh
# An SSH server for one experiment: sshd.sh ADDRESS PORT [TARGET]
#
# Its keys and the client's lie in a folder that scp.sh reads, and TARGET, what tunnel.sh is to reach through it; nothing of the host's own configuration is used.
# Needs openssh-server (the user `sshd` and sftp-server with it).
set -eu
folder=${TMPDIR:-/tmp}/longhaul-scp
sshd=$(command -v sshd || echo /usr/sbin/sshd)
[ -x "$sshd" ] || { echo "sshd.sh: there is no sshd: apt-get install openssh-server" >&2; exit 1; }
mkdir -p "$folder" /run/sshd
chmod 700 "$folder"
printf '%s' "${3:-}" >"$folder/target"
for key in host client; do
  [ -f "$folder/$key" ] || ssh-keygen -q -t ed25519 -N '' -f "$folder/$key"
done
cp "$folder/client.pub" "$folder/authorized"
# A relay's ready line is an open port; ours is, too.
exec "$sshd" -D -e -f /dev/null -p "$2" -h "$folder/host" \
  -o ListenAddress="$1" -o PidFile=none -o UsePAM=no -o StrictModes=no -o PermitRootLogin=prohibit-password \
  -o PasswordAuthentication=no -o AuthorizedKeysFile="$folder/authorized" -o MaxStartups=100 \
  -o Subsystem='sftp internal-sftp'
