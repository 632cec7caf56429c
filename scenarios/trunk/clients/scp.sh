#!/bin/sh
# One upload by the real scp: scp.sh MEBIBYTES
#
# The lab says in AWS_ENDPOINT_URL where the arm's first relay listens. The bytes are not kept at the other end.
set -eu
folder=${TMPDIR:-/tmp}/longhaul-scp
place=${AWS_ENDPOINT_URL#http://}
file=$folder/$1MiB
[ -f "$file" ] || head -c "$1M" /dev/zero >"$file"
exec scp -q -P "${place##*:}" -i "$folder/client" -c aes128-gcm@openssh.com -o IdentitiesOnly=yes -o BatchMode=yes \
  -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "$file" "root@${place%:*}:/dev/null"
