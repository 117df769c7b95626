# Everything a developer or packager does, in one place; `make help` lists it. Each target is a line or two: what is
# longer lies in scripts/.

TARGET  := $(or $(CARGO_TARGET_DIR),target)
BRISK   ?= $(TARGET)/release/brisk
MINUTES ?= 1

# Some tests change users and namespaces. An ordinary user runs the tests, not the compiler, through sudo.
AS_ROOT := $(shell [ "$$(id -u)" = 0 ] || echo env CARGO_TARGET_$$(rustc -vV | sed -n 's/^host: //p' | \
    tr a-z- A-Z_)_RUNNER="\"sudo -E env PATH=$$PATH HOME=$$HOME\"")

# What is packaged is built first, unless it is named.
BUILT   := $(if $(filter $(TARGET)/release/brisk,$(BRISK)),build)

# For `make install`.
PREFIX     ?= /usr
SYSCONFDIR ?= /etc
UNITDIR    ?= $(PREFIX)/lib/systemd/system
RUN_USER   ?= www-data
DESTDIR    ?=

.DEFAULT_GOAL := help
.PHONY: help build php run test tests lint bench tune-demo experiment-tune experiments cookbook conformance corpus docs man soak fuzz fuzz-guided install \
    uninstall deb image

help: ## this list
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## the program: target/release/brisk (FEATURES=none: one without AVIF images, a minute sooner)
	cargo build --release --locked -p brisk $(if $(filter none,$(FEATURES)),--no-default-features)

php: ## the masters of PHP pools: target/php/brisk-phpVERSION (needs php-dev and libphp-embed)
	scripts/setup.sh php
	scripts/php.sh

run: ## builds it (sooner: profile "quick") and serves the example site, or DIR=folder, or CONF=nginx.conf
	cargo build --profile quick --locked -p brisk
	@BRISK=$(TARGET)/quick/brisk DIR="$(DIR)" CONF="$(CONF)" scripts/run.sh

test: ## installs what the tests need, then lint and all tests
	scripts/setup.sh test
	$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory tests

tests: ## the tests alone, or TESTS="-p CRATE --test FILE" of them
	$(AS_ROOT) cargo test --locked $(or $(TESTS),--workspace --no-fail-fast)

lint: ## formatting, clippy, and the repository's own rules (licences, crate directions, docs)
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo test --locked -q -p brisk-tidy

bench: bench-all ## all comparisons with other servers (half an hour, on a quiet machine)

bench-%: ## one of them; `make bench-help` lists the parts
	@[ "$*" = help ] || scripts/setup.sh $(if $(filter load all,$*),load,bench)
	cargo run --release --locked -q -p brisk-benches -- $(if $(filter help,$*),--help,$*)

tune-demo: ## a badly set up bank on nginx and PHP-FPM, tuned on a copy within five minutes; as root
	cargo build --release --locked -p brisk
	BRISK=$(TARGET)/release/brisk scripts/tune_demo.sh

experiments: $(addprefix experiment-,000 001 002 003 004) ## all of the articles' experiments (an hour at most, on a quiet machine)

experiment-tune: build ## the articles' applications from bad starts: article, hand and `brisk tune` side by side; as root, hours (QUICK=1: six minutes; ARTICLES=1: the articles' own changes, an hour)
	scripts/setup.sh experiments
	python3 experiments/tune.py --brisk $(BRISK) $(if $(QUICK),--quick) $(if $(ARTICLES),--articles)

experiment-%: build ## one of the articles' experiments, 000 to 004: real software, driven and judged (QUICK=1: a short look)
	scripts/setup.sh experiments
	python3 experiments/run.py $* --brisk $(BRISK) $(if $(QUICK),--quick)

cookbook: build ## the figures of docs/cookbook, RECIPE="gzip jit" of them (half an hour for all)
	scripts/setup.sh experiments
	python3 experiments/cook.py $(RECIPE) --brisk $(BRISK)

conformance: build ## nginx's own tests against Brisk, with what lies in BRISK_SUITES
	scripts/setup.sh conformance
	scripts/conformance.sh $(BRISK)

corpus: build ## `brisk -t` beside `nginx -t` on the configurations in BRISK_CORPUS
	scripts/setup.sh corpus
	scripts/corpus.sh $(BRISK)

docs: ## the pages of docs/ that are generated from the code
	cargo build --locked -q -p brisk
	$(TARGET)/debug/brisk directives --markdown > docs/directives.md
	$(TARGET)/debug/brisk variables --markdown > docs/variables.md
	$(TARGET)/debug/brisk coverage > docs/nginx-coverage.tsv
	$(TARGET)/debug/brisk coverage apache > docs/apache-coverage.tsv

soak: ## good and hostile clients, reloads and shortages at once, MINUTES=30 of them
	scripts/setup.sh test
	cargo build --release --locked -p brisk
	BRISK_TEST_BIN=$(abspath $(BRISK)) BRISK_SOAK_SECONDS=$$(( $(if $(filter file,$(origin MINUTES)),30,$(MINUTES)) * 60 )) \
	    $(AS_ROOT) cargo test --locked -p brisk --test soak -- --nocapture

man: build ## manual pages and completions of all commands, in target/man and target/completions
	mkdir -p $(TARGET)/man $(TARGET)/completions
	$(BRISK) man --all $(TARGET)/man
	for shell in bash zsh fish; do $(BRISK) completions $$shell >$(TARGET)/completions/brisk.$$shell || exit 1; done

fuzz: ## random inputs for the parsers, and configurations served with and without prepared answers, MINUTES=1 for each
	cargo run --profile fuzz --locked -q -p brisk-fuzz -- all $$(( $(MINUTES) * 60 ))
	BRISK_DIFFERENCE_SECONDS=$$(( $(MINUTES) * 60 )) cargo test --locked -q -p brisk --test difference -- --nocapture nobody

fuzz-guided: ## the same led by coverage (libFuzzer; needs a C++ compiler)
	scripts/fuzz-guided.sh $(MINUTES)

install: ## program, manual pages, completions, default configuration, systemd unit, log rotation (PREFIX, SYSCONFDIR, DESTDIR, RUN_USER)
	@BRISK=$(BRISK) PREFIX=$(PREFIX) SYSCONFDIR=$(SYSCONFDIR) UNITDIR=$(UNITDIR) DESTDIR=$(DESTDIR) \
	    RUN_USER=$(RUN_USER) scripts/install.sh

deb: $(BUILT) ## Debian packages of the program (and its symbols) in OUT=target/deb
	@BRISK=$(BRISK) scripts/deb.sh $(or $(OUT),$(TARGET)/deb)

image: $(BUILT) ## a container image of the program, in OCI's layout, in OUT=target/image
	@command -v umoci >/dev/null || scripts/setup.sh image
	@BRISK=$(BRISK) scripts/image.sh $(or $(OUT),$(TARGET)/image)

uninstall: ## removes them; configuration, sites and logs stay
	@PREFIX=$(PREFIX) SYSCONFDIR=$(SYSCONFDIR) UNITDIR=$(UNITDIR) DESTDIR=$(DESTDIR) scripts/install.sh uninstall
