# Two commands for a stranger: `make demo` (the main job) and `make test`. Both install what they need.
# `make help` lists the rest.

SHELL := /bin/bash
.PHONY: help demo build release install packages static cross packages-check examples-check keepalived-check test e2e e2e-s3 soak field case-e bench page e2e-page lint ci setup clean
.DEFAULT_GOAL := help

# Everything that one checkout needs lies inside it.
BIN := target/debug/longhaul
OUT ?= out/demo
# An external client for the demo, run in the client's namespace: make demo CLIENT='aws s3 cp {file} s3://{bucket}/{key}'
CLIENT ?=
export LONGHAUL_PYTHON := $(CURDIR)/.venv/bin/python

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

demo: setup build ## a slow WAN upload explained, made fast and proved; writes $(OUT)/report.html
	$(BIN) lab run scenarios/field/c-uploads.toml --out $(OUT) $(if $(CLIENT),--client '$(CLIENT)')

build: ## the longhaul binary
	cargo build --locked --package longhaul-cli

# Where the checkout and Cargo's cache lie does not show in the binary: the same commit and tools give the same bytes anywhere.
CACHE := $(or $(CARGO_HOME),$(HOME)/.cargo)
ANYWHERE = --remap-path-prefix=$(CURDIR)=/longhaul --remap-path-prefix=$(CACHE)=/cargo
ANYWHERE_C = -ffile-prefix-map=$(CURDIR)=/longhaul -ffile-prefix-map=$(CACHE)=/cargo
release: ## the binary that packages hold: optimised, in target/release
	RUSTFLAGS='$(ANYWHERE)' CFLAGS='$(ANYWHERE_C)' cargo build --locked --release --package longhaul-cli

# Below PREFIX: binary, manual, completions, units. Configuration that is there already stays.
PREFIX ?= /usr/local
DESTDIR ?=
BINARY ?= target/release/longhaul
install: $(if $(wildcard $(BINARY)),,release) ## binary, manual pages, completions and units below PREFIX (/usr/local)
	install -D -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/longhaul
	$(BINARY) manual $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(BINARY) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/longhaul
	$(BINARY) completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_longhaul
	$(BINARY) completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/longhaul.fish
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	for unit in packaging/systemd/*.service; do \
	  sed 's#/usr/bin/longhaul#$(PREFIX)/bin/longhaul#' "$$unit" > "$(DESTDIR)$(PREFIX)/lib/systemd/system/$$(basename $$unit)"; \
	done
	install -D -m 644 packaging/sysusers/longhaul.conf $(DESTDIR)$(PREFIX)/lib/sysusers.d/longhaul.conf
	[ -e $(DESTDIR)/etc/longhaul/relay.toml ] || install -D -m 644 packaging/config/relay.toml $(DESTDIR)/etc/longhaul/relay.toml

packages: release ## .deb, .rpm and a tarball, in out/packages
	cargo xtask package all

TARGET ?= x86_64-unknown-linux-gnu
ARCHITECTURE ?= aarch64
static: ## a binary that needs nothing of its host, for containers: target/TARGET/release/longhaul
	RUSTFLAGS='-C target-feature=+crt-static $(ANYWHERE)' CFLAGS='$(ANYWHERE_C)' cargo build --locked --release --package longhaul-cli --target $(TARGET)

cross: ## the static binary for ARCHITECTURE (aarch64, powerpc64le), in out/cross/target; needs root and debootstrap
	scripts/cross-build.sh $(ARCHITECTURE)

examples-check: build ## Kubernetes, Prometheus and Grafana files by their schemas, tools and a relay's own metrics
	scripts/examples-check.sh $(BIN)

keepalived-check: build ## the keepalived pair in network namespaces: the address moves, a new client is served (root)
	scripts/keepalived-check.sh $(BIN)

packages-check: ## packages built twice and compared, installed, upgraded and removed in a fresh Debian root (root, debootstrap)
	scripts/package-check.sh $(BINARY)

test: setup ## every test: units, properties, captures, namespaces, the whole binary
	cargo build --locked --quiet --package longhaul-xtask
	set -o pipefail; cargo test --locked --workspace 2>&1 | target/debug/xtask executed

e2e: build ## real S3 clients and TLS stacks (OpenSSL, Go, Node, a browser) through every mode of the relay, in front of versitygw; installs into out/e2e
	scripts/e2e.sh

e2e-s3: build ## real S3 clients through the S3 gateway, plain and encrypted; then versitygw's own tests, directly and through it (fifteen minutes)
	scripts/e2e.sh --mode nothing --mode 's3 gateway'
	scripts/e2e.sh --conformance

# What fails becomes a file of the crate's corpus, which `make test` replays. Inputs are many, so that all of it is optimised here.
MINUTES ?= 10
CORES ?= 1
# Each is 100,000 steps of virtual time, run twice: three seconds on a busy core.
SEEDS ?= 100
soak: ## fresh inputs for every fuzz body, for MINUTES minutes on CORES cores; then SEEDS runs of a trunk in chaos
	cargo run --locked --config 'profile.dev.package.longhaul-relay.opt-level=1' --config 'profile.dev.package.longhaul-gateway.opt-level=1' --package longhaul-xtask --features relay,gateway -- fuzz all --minutes $(MINUTES) --cores $(CORES)
	LONGHAUL_SOAK_SEEDS=$(SEEDS) cargo test --locked --release --package longhaul-trunk --test trunk soak -- --ignored --nocapture

# Every field scenario on real kernels and in virtual time. A failed assertion stands in the page.
field: setup build ## the field reports' cases, measured and simulated; writes docs/field-results.md (about 40 minutes)
	for scenario in scenarios/field/*.toml; do \
	  name=$$(basename $$scenario .toml); \
	  $(BIN) lab run $$scenario --out out/field/$$name; status=$$?; [ $$status -le 1 ] || exit $$status; \
	  $(BIN) simulate $$scenario --json > out/field/$$name/simulated.json; status=$$?; \
	  [ $$status -le 1 ] || rm -f out/field/$$name/simulated.json; \
	done; \
	cargo xtask field out/field

# In a release build, which the simulator's speed is about.
case-e: ## field case E in virtual time, with one flow and with eight; writes docs/case-e.md and its pictures (two minutes)
	cargo run --locked --quiet --release --package longhaul-xtask -- case-e

bench: setup build ## the numbers of BENCHMARKS.md; simulator beside kernel and ns-3, explain beside tshark and tcptrace, HTTP mode beside haproxy: what is missing of wrk, haproxy, nginx, tshark, tcptrace is said
	failed=; for scenario in c-uploads c-uploads-60ms c-uploads-120ms; do \
	  $(BIN) lab run scenarios/field/$$scenario.toml --out out/bench/$$scenario || failed="$$failed $$scenario"; \
	done; \
	for scenario in scenarios/trunk/*.toml; do \
	  name=trunk-$$(basename $$scenario .toml); \
	  $(BIN) lab run $$scenario --out out/bench/$$name || failed="$$failed $$name"; \
	done; \
	cargo test --locked --package longhaul-lab --test simulator -- matrix > out/bench/kernel-matrix.md || failed="$$failed kernel-matrix"; \
	bench/simulator.py > out/bench/simulator.md || failed="$$failed simulator"; \
	cargo build --locked --release --package longhaul-cli && \
	bench/explain.py --packets 5300000 --connections 14400 | tee out/bench/explain.md && \
	bench/explain.py --full --packets 1640000 --connections 2300 | tee out/bench/explain-full.md && \
	bench/relay-http.py --rounds 5 --seconds 2 && \
	bench/relay.py --rounds 15 --seconds 1 --out out/bench/relay.json && \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

# `cargo build` embeds what is committed below crates/host/dash/assets and needs no npm; a test compares digests.
page: build ## builds the web page anew from crates/host/dash/page (needs node); commit what changes
	scripts/setup-page.sh
	$(BIN) schema page > crates/host/dash/page/schema.json
	cd crates/host/dash/page && npm run --silent types && npm run --silent check && npm run --silent build

e2e-page: build ## the page's tests in a real Chromium, with real relays; pictures go to out/page
	scripts/setup-page.sh --browser
	cd crates/host/dash/page && npm test --silent

lint: ## formatting, dependency directions, clippy, documentation
	cargo xtask lint

ci: ## what CI runs
	.ci/run

setup:
	@scripts/setup.sh

clean: ## remove what was built and measured
	rm -rf target out .venv
