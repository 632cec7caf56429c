#!/usr/bin/env bash
# Tries examples/keepalived as it is: two near relays with a trunk each to one far relay, keepalived beside both, a client
# that knows 10.10.10.100:6000 alone, each in a network namespace of its own on one switch:
#   scripts/keepalived-check.sh [BINARY]      default: target/debug/longhaul
# The near relay that has the address is killed; the address has to move and a new client has to be served. Then it comes
# back and must not take the address again (`nopreempt`). Needs root, keepalived, curl, iproute2 and python3.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(realpath "${1:-target/debug/longhaul}")
out=$PWD/out/keepalived-check
id=lh-ka-$$
switch=$id-sw
address=10.10.10.100

fail() { echo "keepalived-check: $*" >&2; exit 1; }
step() { echo "> $*"; }
children=()
leave() {
  for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
  wait 2>/dev/null || true
  for host in a b far client; do ip netns delete "$id-$host" 2>/dev/null || true; done
  ip netns delete "$switch" 2>/dev/null || true
}
trap leave EXIT

[ "$(id -u)" = 0 ] || fail "run it as root: it makes network namespaces"
[ -x "$binary" ] || fail "there is no $binary: make build"
for tool in ip keepalived curl python3; do
  command -v "$tool" >/dev/null || fail "\`$tool\` is missing: apt-get install iproute2 keepalived curl python3"
done
rm -rf "$out"
mkdir -p "$out"

in_host() { ip netns exec "$id-$1" "${@:2}"; }
# $1 = host, $2 = its log, the rest runs there in the background; `last` is its process.
start() {
  ip netns exec "$id-$1" "${@:3}" >"$out/$2.log" 2>&1 &
  last=$!
  children+=("$last")
}
until_true() {
  for _ in $(seq 150); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  fail "not so after 15 s: $*; see $out"
}
has_address() { in_host "$1" ip -4 -o address show dev eth0 | grep -q "$address/"; }
is_well() { in_host "$1" curl -sf --max-time 1 http://127.0.0.1:7070/healthz; }
# One request of a new client, which tells the server what it wrote.
served() {
  in_host client timeout 5 python3 -c "
import socket
client = socket.create_connection(('$address', 6000), 3)
client.sendall(b'hello')
assert client.recv(5) == b'hello'
"
}

step "a switch, two near relays, a far one with the server, a client"
ip netns add "$switch"
ip -n "$switch" link add br0 type bridge
ip -n "$switch" link set br0 up
number=0
for host in a b far client; do
  number=$((number + 1))
  ip netns add "$id-$host"
  ip -n "$id-$host" link add eth0 type veth peer name "port$number" netns "$switch"
  ip -n "$switch" link set "port$number" master br0 up
  ip -n "$id-$host" address add "10.10.10.$number/24" dev eth0
  ip -n "$id-$host" link set lo up
  ip -n "$id-$host" link set eth0 up
done
start far server python3 -c "
import socketserver
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)
socketserver.ThreadingTCPServer.daemon_threads = True
socketserver.ThreadingTCPServer(('10.10.10.3', 5000), Echo).serve_forever()
"
start far far "$binary" trunk far 10.10.10.3:7000 --plain --allow-target 10.10.10.3/32:5000
declare -A near
run_near() {
  start "$1" "near-$1" "$binary" trunk near 0.0.0.0:6000 --via 10.10.10.3:7000 --to 10.10.10.3:5000 --plain \
    --status 127.0.0.1:7070
  near[$1]=$last
  until_true is_well "$1"
}
run_near a
run_near b

step "keepalived at both, with the example"
sed 's/priority 110 /priority 100 /' examples/keepalived/keepalived.conf >"$out/b.conf"
cp examples/keepalived/keepalived.conf "$out/a.conf"
! cmp -s "$out/a.conf" "$out/b.conf" || fail "both have the same priority"
for host in a b; do
  start "$host" "keepalived-$host" keepalived --dont-fork --log-console --vrrp --use-file "$out/$host.conf" \
    --pid "$out/$host.pid" --vrrp_pid "$out/$host-vrrp.pid"
  # The first one up has the address; the other finds it there.
  if [ "$host" = a ]; then until_true has_address a; fi
done
! has_address b || fail "both have the address"
# What keepalived says of a file that it does not take as it is.
! grep -hE 'WARNING|rounding|Unknown keyword|must be|Unable' "$out"/keepalived-*.log || fail "the example is not right"
served || fail "the client is not served at the beginning"
echo "  $address is at a; a client is served"

step "the relay at a is killed"
before=$(date +%s%N)
kill -KILL "${near[a]}"
until_true has_address b
moved=$(date +%s%N)
until_true served
echo "  at b after $(((moved - before) / 1000000)) ms, a new client served after $((($(date +%s%N) - before) / 1000000)) ms"
! has_address a || fail "both have the address"

step "the relay at a comes back: the address stays"
run_near a
sleep 4
has_address b || fail "the address went back, which resets streams that were well"
! has_address a || fail "both have the address"
served || fail "the client is not served at the end"
echo "the keepalived pair is well"
