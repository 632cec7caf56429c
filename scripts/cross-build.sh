#!/usr/bin/env bash
# Builds the static binary for another architecture:
#   scripts/cross-build.sh aarch64|powerpc64le [PROFILE [CARGO'S FLAGS]]      PROFILE: release (default) or dev
# Debian's next release packages Rust's standard library for each of its architectures, and C compilers for them; both go
# into a root of their own below out/cross (1.5 GB, once), where the checkout and Cargo's cache are mounted. The binary lies
# in out/cross/target/TARGET/. With qemu-user-static it is run here: its version, and a scenario simulated.
# Needs root, debootstrap and, to run what was built, qemu-user-static.
set -euo pipefail
cd "$(dirname "$0")/.."
architecture=${1:?usage: scripts/cross-build.sh aarch64|powerpc64le [release|dev]}
profile=${2:-release}
flags=${*:3}
case $architecture in
  aarch64) debian=arm64 tools=aarch64-linux-gnu ;;
  powerpc64le) debian=ppc64el tools=powerpc64le-linux-gnu ;;
  *) echo "cross-build: \`$architecture\` is neither aarch64 nor powerpc64le" >&2; exit 2 ;;
esac
target=$architecture-unknown-linux-gnu
out=${CROSS_OUT:-$PWD/out/cross}
root=$out/root
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
suite=forky
cargo_home=${CARGO_HOME:-$HOME/.cargo}

fail() { echo "cross-build: $*" >&2; exit 1; }
step() { echo "> $*"; }
leave() {
  for place in cargo target source proc; do umount "$root/mnt/$place" 2>/dev/null || umount "$root/$place" 2>/dev/null || true; done
}
trap leave EXIT

[ "$(id -u)" = 0 ] || fail "run it as root: it makes a root of its own"
command -v debootstrap >/dev/null || fail "\`debootstrap\` is missing: apt-get install debootstrap"

mkdir -p "$out/target"
if [ ! -e "$root/etc/debian_version" ]; then
  step "a root with Debian $suite"
  # Older releases of debootstrap do not know the name; what it does is the same for all of them.
  debootstrap --variant=minbase "$suite" "$root" "$mirror" /usr/share/debootstrap/scripts/sid >"$out/debootstrap.log" ||
    fail "see $out/debootstrap.log"
fi
in_root() { chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
library=$root/usr/lib/rustlib/$target/lib
if [ ! -e "$library" ]; then
  step "Rust, its library for $debian, a C compiler for it"
  {
    in_root dpkg --add-architecture "$debian"
    # The index of a release that is being made may be days old where a mirror is; its signature is checked all the same.
    in_root apt-get -o Acquire::Check-Valid-Until=false update
    in_root apt-get install -y --no-install-recommends cargo rustc cmake make g++ "gcc-$tools" "g++-$tools" "libc6-dev-$debian-cross"
    # Installed, it would bring the whole C library of that architecture; only the files are needed.
    in_root sh -c "cd /tmp && apt-get download libstd-rust-dev:$debian && dpkg-deb --extract libstd-rust-dev_*_$debian.deb /"
  } >"$out/install-$architecture.log" 2>&1 || fail "see $out/install-$architecture.log"
fi
in_root rustc --version

step "longhaul for $target ($profile)"
cargo fetch --locked --quiet
for place in source target cargo; do mkdir -p "$root/mnt/$place"; done
mount --bind -o ro "$PWD" "$root/mnt/source"
mount --bind "$out/target" "$root/mnt/target"
mount --bind "$cargo_home" "$root/mnt/cargo"
upper=$(echo "$target" | tr a-z- A-Z_)
in_root sh -c "cd /mnt/source && exec env \
  CARGO_HOME=/mnt/cargo CARGO_TARGET_DIR=/mnt/target CARGO_BUILD_JOBS=${CARGO_BUILD_JOBS:-$(nproc)} \
  CARGO_TARGET_${upper}_LINKER=$tools-gcc CC_${target//-/_}=$tools-gcc CXX_${target//-/_}=$tools-g++ \
  AR_${target//-/_}=$tools-ar RUSTFLAGS='-C target-feature=+crt-static' \
  LONGHAUL_COMMIT=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown) \
  cargo build --offline --locked --package longhaul-cli --profile $profile --target $target $flags"
[ "$profile" = dev ] && folder=debug || folder=$profile
binary=$out/target/$target/$folder/longhaul
"$root/usr/bin/$tools-readelf" --file-header "$binary" 2>/dev/null | sed -n 's/^ *\(Machine\|Type\)/  \1/p' ||
  ls -l "$binary"

runner=qemu-${architecture/powerpc64le/ppc64le}-static
if command -v "$runner" >/dev/null; then
  step "run by $runner"
  "$runner" "$binary" --version
  "$runner" "$binary" explain --help >/dev/null
  "$runner" "$binary" simulate scenarios/field/c-uploads.toml | tail -3
else
  echo "not run: \`$runner\` is missing (apt-get install qemu-user-static)"
fi
echo "$binary"
