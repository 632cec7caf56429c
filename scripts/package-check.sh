#!/usr/bin/env bash
# Tries the packages as an administrator would, around binaries that are built already:
#   scripts/package-check.sh [BINARY [STATIC]]
#     BINARY  what the packages hold; default: target/release/longhaul
#     STATIC  what the container holds; default: that of `make static`, where it is there
# Makes each package twice and compares them to the byte; installs, starts, upgrades, removes and purges the .deb in a
# fresh Debian root (debootstrap, downloaded once), then installs, starts, upgrades and erases the .rpm there, with rpm's own
# database; lays out what the container file says and runs the static binary alone in it. There is no systemd in these
# roots: the unit's ExecStart runs here as its user with its capabilities, in a network namespace of its own.
# Where podman is there, it builds the container file and runs it.
# Needs root, debootstrap, rpm, rpm2cpio, cpio and curl; everything it makes is below out/package-check.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(realpath "${1:-target/release/longhaul}")
static=$(realpath --canonicalize-missing "${2:-target/x86_64-unknown-linux-gnu/release/longhaul}")
out=$PWD/out/package-check
root=$out/debian
main=

fail() { echo "package-check: $*" >&2; exit 1; }
step() { echo "> $*"; }
leave() {
  [ -z "$main" ] || kill "$main" 2>/dev/null || true
  umount "$root/proc" 2>/dev/null || true
}
trap leave EXIT

[ "$(id -u)" = 0 ] || fail "run it as root: it enters roots of its own"
[ -x "$binary" ] || fail "there is no $binary: make release"
for tool in debootstrap rpmbuild rpm2cpio cpio curl setpriv unshare; do
  command -v "$tool" >/dev/null || fail "\`$tool\` is missing: apt-get install debootstrap rpm rpm2cpio cpio curl util-linux"
done
mkdir -p "$out"

step "each package twice, compared"
version=$(cargo metadata --locked --no-deps --format-version 1 | sed -E 's/.*"name":"longhaul-cli","version":"([^"]*)".*/\1/')
for number in 1 2; do
  cargo xtask package all --binary "$binary" --out "$out/$number" >/dev/null
done
for package in "$out"/1/longhaul*; do
  cmp "$package" "$out/2/$(basename "$package")" || fail "$(basename "$package") differs from build to build"
  echo "  $(sha256sum <"$package" | cut -c1-16)  $(stat -c %s "$package") B  $(basename "$package")"
done
for kind in deb rpm; do
  cargo xtask package "$kind" --binary "$binary" --out "$out/next" --version "$version.1" >/dev/null
done

if [ ! -e "$root/etc/debian_version" ]; then
  step "a fresh Debian root"
  debootstrap --variant=minbase bookworm "$root" >"$out/debootstrap.log" || fail "see $out/debootstrap.log"
fi
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
in_root() { chroot "$root" "$@"; }
in_root dpkg --purge longhaul >/dev/null 2>&1 || true

# The unit's program, user and capabilities; $main is its process.
start() {
  local exec caps
  exec=$(sed -n 's/^ExecStart=//p' "$root/usr/lib/systemd/system/longhaul-relay.service")
  caps=$(sed -n 's/^AmbientCapabilities=//p' "$root/usr/lib/systemd/system/longhaul-relay.service" |
    tr 'A-Z' 'a-z' | sed 's/cap_/+/g; s/ /,/g')
  in_root longhaul relay check --config /etc/longhaul/relay.toml >/dev/null
  # shellcheck disable=SC2086
  unshare --net sh -c 'ip link set lo up && exec "$@"' sh \
    chroot "$root" setpriv --reuid longhaul --regid longhaul --clear-groups --no-new-privs \
    --inh-caps="-all,$caps" --ambient-caps="-all,$caps" --bounding-set="-all,$caps" $exec >>"$out/relay.log" 2>&1 &
  main=$!
  until_ready
}
# Until the relay of $main answers its administrator.
until_ready() {
  local answer
  for _ in $(seq 50); do
    if answer=$(nsenter --target "$main" --net curl -fsS http://127.0.0.1:9901/readyz 2>/dev/null); then
      echo "  /readyz: $answer"
      return
    fi
    kill -0 "$main" 2>/dev/null || fail "the relay ended, see $out/relay.log"
    sleep 0.2
  done
  fail "the relay does not answer, see $out/relay.log"
}
stop() {
  kill -TERM "$main"
  wait "$main" || fail "the relay did not drain well: exit code $?"
  main=
}

step "the .deb: install, start as its user, stop"
cp "$out"/1/longhaul_*.deb "$out"/next/longhaul_*.deb "$root/tmp/"
in_root dpkg --install "/tmp/longhaul_${version}_amd64.deb" >"$out/dpkg.log" || fail "see $out/dpkg.log"
in_root getent passwd longhaul >/dev/null || fail "there is no user longhaul"
in_root longhaul --version
start
stop

step "upgrade: the edited configuration stays, the new program starts"
echo '# edited' >>"$root/etc/longhaul/relay.toml"
in_root dpkg --install "/tmp/longhaul_$version.1_amd64.deb" >>"$out/dpkg.log" || fail "see $out/dpkg.log"
in_root dpkg-query --show longhaul
tail -1 "$root/etc/longhaul/relay.toml" | grep -q edited || fail "the upgrade lost the configuration"
start
stop

step "remove keeps the configuration, purge leaves nothing"
in_root dpkg --remove longhaul >>"$out/dpkg.log"
[ -e "$root/etc/longhaul/relay.toml" ] || fail "removing lost the configuration"
[ ! -e "$root/usr/bin/longhaul" ] || fail "removing left the program"
in_root dpkg --purge longhaul >>"$out/dpkg.log"
left=$(find "$root/etc" "$root/usr" "$root/var/lib" -name '*longhaul*' ! -path '*/dpkg/*')
[ -z "$left" ] || fail "purging left: $left"
! in_root getent passwd longhaul >/dev/null || fail "purging left the user"

step "the .rpm: its files, what it asks for"
rm -rf "$out/rpm-root"
mkdir -p "$out/rpm-root"
rpm2cpio "$out"/1/longhaul-*.rpm | (cd "$out/rpm-root" && cpio --quiet -idm)
diff -r --no-dereference "$out/1/tree" "$out/rpm-root" || fail "the .rpm holds something else than the tree"
rpm -qp --requires "$out"/1/longhaul-*.rpm | sed 's/^/  requires /'

# The same root, with a database of rpm's: its scripts run in there. What they need came as .deb, which rpm cannot know.
of_rpm() { rpm --root "$root" --nodeps "$@" >>"$out/rpm.log" 2>&1 || fail "rpm $*: see $out/rpm.log"; }
rm -rf "$root/var/lib/rpm" "$root/usr/lib/sysimage/rpm" "$out/rpm.log"
step "the .rpm: install, start as its user, stop"
of_rpm --install "$out"/1/longhaul-*.rpm
in_root getent passwd longhaul >/dev/null || fail "there is no user longhaul"
[ "$(in_root stat -c %U:%a /var/lib/longhaul)" = longhaul:750 ] || fail "its folder is not its own"
rpm --root "$root" --query longhaul
start
stop

step "upgrade: the edited configuration stays, the new program starts"
echo '# edited' >>"$root/etc/longhaul/relay.toml"
of_rpm --upgrade "$out"/next/longhaul-*.rpm
rpm --root "$root" --query longhaul
tail -1 "$root/etc/longhaul/relay.toml" | grep -q edited || fail "the upgrade lost the configuration"
start
stop

step "erase: the edited configuration is kept aside, nothing else is left but the user and its folder"
of_rpm --erase longhaul
grep -q edited "$root/etc/longhaul/relay.toml.rpmsave" || fail "erasing lost the configuration"
left=$(find "$root/etc" "$root/usr" -name '*longhaul*' ! -path '*/etc/longhaul' ! -path '*/dpkg/*')
[ -z "$left" ] || fail "erasing left: $left"
in_root userdel longhaul
rm -rf "$root/etc/longhaul" "$root/var/lib/longhaul"

step "the tarball holds the same tree"
rm -rf "$out/tar-root"
mkdir -p "$out/tar-root"
tar -xzf "$out"/1/longhaul-*.tar.gz -C "$out/tar-root"
diff -r --no-dereference "$out/1/tree" "$out/tar-root" || fail "the tarball holds something else than the tree"

if [ ! -x "$static" ]; then
  echo "not run: the container, because there is no $static (make static)"
  echo "all other packages are well"
  exit
fi
step "the container: the static binary alone in an empty root"
! readelf --program-headers "$static" | grep -q INTERP || fail "$static asks for a loader: it is linked dynamically"
scratch=$out/scratch
rm -rf "$scratch"
mkdir -p "$scratch/etc/longhaul"
# What packaging/container/Containerfile says, by hand.
cp "$static" "$scratch/longhaul"
cp packaging/config/relay.toml "$scratch/etc/longhaul/"
alone() { chroot --userspec=65532:65532 "$scratch" /longhaul "$@"; }
alone --version
alone relay check --config /etc/longhaul/relay.toml >/dev/null
cp scenarios/field/c-uploads.toml "$scratch/"
alone simulate /c-uploads.toml >/dev/null
alone profile list >/dev/null
alone tune --rtt '200 ms' --for windows >/dev/null
alone cc list >/dev/null 2>&1 && fail "without privilege and without /sys it listed controllers"
capture=$(find crates ../shared/seeds -name '*.pcap' 2>/dev/null | sort | head -1)
if [ -n "$capture" ]; then
  cp "$capture" "$scratch/one.pcap"
  alone explain /one.pcap | sed -n 's/^/  /;1,3p'
fi
unshare --net sh -c 'ip link set lo up && exec "$@"' sh \
  chroot --userspec=65532:65532 "$scratch" /longhaul relay run --config /etc/longhaul/relay.toml --json >>"$out/relay.log" 2>&1 &
main=$!
until_ready
stop

if ! command -v podman >/dev/null; then
  echo "not run: the container file by an engine, because \`podman\` is missing (apt-get install podman runc)"
  echo "all packages are well, and the static binary"
  exit
fi
step "the container file, built and run by $(podman --version)"
image=localhost/longhaul-package-check
# runc where it is there: crun refuses hosts with both kinds of control groups.
engine() { if command -v runc >/dev/null; then podman --runtime runc "$@"; else podman "$@"; fi; }
engine build --quiet --build-arg BINARY="$(realpath --relative-to=. "$static")" --tag "$image" \
  --file packaging/container/Containerfile . >/dev/null
# Podman's own limits may lie above those of this shell, which a host can refuse.
container=$(engine run --detach --network none --ulimit nofile=4096:4096 --ulimit nproc=4096:4096 "$image")
main=$(engine inspect --format '{{.State.Pid}}' "$container")
until_ready
main=
engine stop --time 20 "$container" >/dev/null
code=$(engine inspect --format '{{.State.ExitCode}}' "$container")
engine logs "$container" >"$out/container.log" 2>&1
engine rm "$container" >/dev/null
engine rmi --force "$image" >/dev/null
[ "$code" = 0 ] || fail "the container ended with $code, see $out/container.log"
grep -q '"event":"stopped"' "$out/container.log" || fail "the container was not drained, see $out/container.log"
echo "all packages are well, and the container"
