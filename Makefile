# Everything starts from a fresh clone with Rust installed; missing Debian packages are installed.

CARGO ?= cargo

# Each test program in the VM takes one boot.
IN_VM = --config "target.'cfg(all())'.runner='$(CURDIR)/tests/vm/run'"
VM_TESTS = -p portolan --test vm
# Tests of the lab and of the daemon wait more than they compute.
HOST_TEST = $(CARGO) test --locked --workspace --tests --no-fail-fast -- --test-threads $(or $(TEST_THREADS),4)
VM_TEST = $(CARGO) test --locked $(IN_VM) $(VM_TESTS) -- --test-threads 2 --skip kernels::
VM_PACKAGES = qemu-system-x86 busybox-static kmod cpio python3 ipvsadm

.PHONY: help build windows test-windows test-windows-cluster bench-windows install deb test-install demo test test-host test-vm vm-image test-cluster test-page fuzz sanitize check deny sbom test-kernels test-e2e test-journey test-kubectl conformance soak bench bench-peers bpf packages root components

help:
	@echo 'make build   the program: target/release/portolan'
	@echo 'make windows   the program for Windows nodes: target/x86_64-pc-windows-gnu/release/portolan.exe'
	@echo 'make test-windows   that program under wine, with a stand-in for the Host Networking Service (root)'
	@echo 'make test-windows-cluster   that program under wine against a real API server, and beside the real kube-proxy.exe (root, Go)'
	@echo 'make bench-windows   calls to the Host Networking Service for one endpoint change, beside kube-proxy.exe (root, Go)'
	@echo 'make install   the built program with completions, manual pages and systemd unit (PREFIX=/usr/local, DESTDIR=)'
	@echo 'make deb     a Debian package of the program: target/deb/'
	@echo 'make test-install   make install, completions, manual pages and the Debian package in a clean root (root)'
	@echo 'make demo    a demonstration in a private lab of network namespaces (root, about half a minute); MODE=iptables, MODE=userspace or MODE=ebpf for those modes'
	@echo 'make test    all tests, with real packets through real rules (root)'
	@echo 'make test-vm   only the tests that need another kernel (IPVS, SCTP), in a VM'
	@echo 'make test-kernels   every scenario in every mode on several kernels, in the VM (KERNELS="6.12 newest", MODE, SCENARIO)'
	@echo 'make test-cluster   tests against a real API server and the real kube-proxy (root, Go)'
	@echo 'make test-page    the page (portolan page) in a real browser (root); SCREENSHOTS=1 makes the pictures of docs/page'
	@echo 'make test-e2e   the end-to-end tests of Kubernetes in a cluster of three nodes on this machine (root, Go); MODE=iptables, PROXY=kube-proxy, DNS=coredns, FOCUS=REGEX'
	@echo 'make test-journey   takeover from kube-proxy, upgrade, rollback, Helm, Kustomize and DNS in that cluster, under load (root, Go)'
	@echo 'make test-kubectl   kubectl portolan in that cluster (root, Go)'
	@echo 'make conformance    the end-to-end tests with kube-proxy and in every mode; writes docs/conformance.md (root, Go, an hour)'
	@echo 'make fuzz    coverage-guided fuzzing, ten million inputs for each target (INPUTS=N for another number, TARGET=NAME for one, LONGEST=BYTES for shorter inputs, WITHOUT_COMPARES=1 for speed)'
	@echo 'make sanitize   the unsafe code of crates/kernel under Valgrind and Miri (root)'
	@echo 'make check   formatting, lints and repository rules'
	@echo 'make deny    licences, sources and versions of dependencies (deny.toml)'
	@echo 'make sbom    a software bill of materials: target/portolan.cdx.json'
	@echo 'make bpf     compiles the BPF programs again: bpf/*.bpf.o (clang 14)'
	@echo 'make bench   benchmarks at the size of a large cluster (root)'
	@echo 'make soak    a node with 2,000 Services under churn, restarts and outages (MINUTES=30 or HOURS=24; root, Go)'
	@echo 'make bench-peers    Portolan beside the real kube-proxy and CoreDNS, in one run (root, Go, half an hour)'

build:
	$(CARGO) build --locked --release -p portolan

windows: packages
	@scripts/windows-toolchain
	scripts/windows build --release -p portolan --bin portolan

# In a network namespace of its own, because wine's server opens ports for all programs.
test-windows: packages root
	@tests/windows/build
	$(CARGO) test --locked -p portolan --features wine --test windows --no-run
	@unshare --net tests/windows/run $(CARGO) test --locked -p portolan --features wine --test windows -- --test-threads 1

# The same with a real API server, and every scenario file beside the real kube-proxy.exe (SCENARIO=NAME for some).
test-windows-cluster: packages root
	@tests/windows/build
	@tests/cluster/build kube-apiserver etcd kube-proxy.exe
	$(CARGO) test --locked -p portolan --features wine,cluster --test windows --no-run
	@unshare --net tests/windows/run $(CARGO) test --locked -p portolan --features wine,cluster --test windows -- --test-threads 1 --nocapture watching:: compare::

# Calls to HNS for one endpoint change, beside kube-proxy.exe.
bench-windows: packages root
	@tests/windows/build
	@tests/cluster/build kube-apiserver etcd kube-proxy.exe
	$(CARGO) test --locked -p portolan --features wine,cluster --test windows --no-run
	@unshare --net tests/windows/run $(CARGO) test --locked -p portolan --features wine,cluster --test windows -- --nocapture calls::

# Builds nothing, so that root need not: `make build` first.
install:
	@BINARY='$(BINARY)' PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install

deb: build
	@scripts/install-packages dpkg-dev python3
	@scripts/deb

# With the debug program, which is built anyway.
test-install: packages root
	@scripts/install-packages dpkg-dev python3 lintian mandoc groff-base zsh fish man-db
	$(CARGO) build --locked -p portolan --bin portolan
	@tests/deploy/install target/debug/portolan
	@tests/deploy/deb target/debug/portolan

demo: packages root
	$(CARGO) build --locked --profile demo -p portolan --bin portolan --example demo
	@MODE='$(MODE)' $(CARGO) run --quiet --locked --profile demo -p portolan --example demo

# Both tiers at once: the VM computes while the host tests wait for packets and timers. ONE_BY_ONE=1 is slower and calmer.
test: export FIRST = $(HOST_TEST)
test: export SECOND = $(VM_TEST)
test: vm-image root
	$(CARGO) test --locked --workspace --tests --no-run
	$(CARGO) test --locked $(VM_TESTS) --no-run
	@$(if $(ONE_BY_ONE),status=0; sh -c "$$FIRST" || status=1; sh -c "$$SECOND" || status=1; exit $$status,scripts/together "$$FIRST" "$$SECOND")

test-host: packages root
	$(HOST_TEST)

test-vm: vm-image root
	$(VM_TEST)

# An empty name is the kernel of this machine's Debian. All kernels run, whatever the first ones report.
KERNELS ?= debian 6.12 newest
test-kernels: vm-image root
	$(CARGO) test --locked $(VM_TESTS) --no-run
	@status=0; for kernel in $(KERNELS); do \
		VM_KERNEL=$${kernel#debian} VM_SECONDS=7200 VM_PASS=MODE MODE='$(MODE)' $(CARGO) test --quiet --locked $(IN_VM) $(VM_TESTS) \
			-- --nocapture kernels:: || status=1; \
	done; exit $$status

vm-image:
	@scripts/install-packages $(VM_PACKAGES)
	@tests/vm/build

test-cluster: packages root
	@tests/cluster/build
	@tests/deploy/lint "$$(mktemp -d)"
	$(CARGO) test --locked -p portolan --features cluster --test cluster -- --test-threads 2

# Two browsers at a time: each takes a core while it starts.
test-page: packages root
	@scripts/install-packages chromium chromium-driver $(if $(SCREENSHOTS),fonts-inter fonts-jetbrains-mono pngquant)
	SCREENSHOTS='$(SCREENSHOTS)' $(CARGO) test --locked -p portolan --features browser --test page -- --test-threads 2 --nocapture
	$(if $(SCREENSHOTS),pngquant --force --ext .png --strip --speed 1 docs/page/*.png)

test-e2e: packages root
	@tests/e2e/run

test-journey: packages root
	@tests/e2e/journey

test-kubectl: packages root
	@tests/e2e/kubectl

conformance: packages root
	@tests/e2e/matrix

fuzz: packages
	@scripts/install-packages g++
	@LONGEST='$(LONGEST)' INPUTS='$(INPUTS)' TARGET='$(TARGET)' SECONDS_EACH='$(SECONDS_EACH)' WITHOUT_COMPARES='$(WITHOUT_COMPARES)' scripts/fuzz

sanitize: packages root
	@scripts/sanitize

check: packages components
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets --features portolan/cluster,portolan/browser -- -D warnings
	$(CARGO) test --locked -p portolan --test tidy
	@$(MAKE) --no-print-directory deny

# Needs no crate: the rules are few, and cargo-deny takes longer to build than Portolan.
deny:
	@scripts/install-packages python3
	@scripts/deny

sbom:
	@scripts/install-packages python3
	@mkdir -p target
	@scripts/sbom >target/portolan.cdx.json
	@echo 'target/portolan.cdx.json'

# The objects are committed: the build needs no clang.
bpf:
	@scripts/install-packages clang-14
	@$(MAKE) --no-print-directory --directory bpf

bench: packages root
	$(CARGO) bench --locked -p portolan --bench scale

soak: packages root
	@tests/cluster/build
	$(CARGO) bench --locked -p portolan --features cluster --bench soak -- minutes=$(or $(MINUTES),$(if $(HOURS),$$(($(HOURS) * 60)),30))

bench-peers: packages root
	@tests/cluster/build
	$(CARGO) bench --locked -p portolan --features cluster --bench peers
	@tests/coredns/build
	$(CARGO) bench --locked -p portolan --features cluster --bench names

packages:
	@scripts/install-packages

root:
	@test "$$(id -u)" = 0 || { echo 'This needs root: it makes network namespaces and programs the kernel inside them.' \
		'Run it as root, or in a container started with --privileged.' >&2; exit 1; }

# A rustup of the minimal profile has neither.
components:
	@$(CARGO) fmt --version >/dev/null 2>&1 && $(CARGO) clippy --version >/dev/null 2>&1 || rustup component add rustfmt clippy
