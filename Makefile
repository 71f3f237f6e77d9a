.DEFAULT_GOAL := help
.PHONY: help demo test test-oldest test-delayed test-packages test-upgrade chaos proof mutants lint services down worker bench deny lint-features prose seconds docs packages

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: ## services, topology, a worker, and 2,000 orders of which half are paid
	@docker/demo.sh

test: ## lint and licences, then the tests against real services; OVERDUE_TEST_ALL=1 installs what some of them need
	@docker/test.sh

test-oldest: ## the same tests on the oldest that is supported, RabbitMQ 4.0 and PostgreSQL 14
	@OVERDUE_RABBITMQ=4.0 docker/test.sh

test-delayed: ## the tests of the delayed message exchange plugin, OVERDUE_DELAYED_PLUGIN=FILE.ez
	@docker/services.sh up delayed
	@eval "$$(docker/services.sh env delayed)" && cargo test --test it delayed::

test-upgrade: ## the tests that go from a release to this version and back, RELEASE=v0.1.0
	@docker/upgrade.sh $(RELEASE)

chaos: ## faults for MINUTES=5 with three workers and an order service; SEED=7 repeats, RATE=40 orders/s, CLUSTER=3 has three brokers; RECONNECTS=1000
	@MINUTES=$(MINUTES) SEED=$(SEED) RATE=$(RATE) CLUSTER=$(CLUSTER) RECONNECTS=$(RECONNECTS) docker/chaos.sh

seconds: ## seconds by family of tests, of the last `make test`
	@docker/seconds.py target/nextest/default/junit.xml

proof: ## what takes long: a model of changes, orders of statements and rights on services, fuzzing; PART=fuzz is one of them, docker/proof.sh
	@docker/proof.sh

# The rooms that plan and decide; tests without services reach them. Properties try fewer cases than in `make test`.
ROOMS := $(or $(ROOM),decisions ladder order parking permissions plan topology wire)

mutants: ## whether tests without services notice changed code, ROOM=plan in one room, ARGS='--shard 0/20' a part of the changes
	@command -v cargo-mutants >/dev/null || { echo 'cargo-mutants is missing: cargo install --locked cargo-mutants' >&2; exit 69; }
	PROPTEST_CASES=$${PROPTEST_CASES:-16} cargo mutants $(foreach room,$(ROOMS),-f 'src/$(room).rs' -f 'src/$(room)/**/*.rs') $(ARGS)

SCRIPTS := .ci/run docs/site.sh docs/prose/check.sh $(wildcard deploy/packages/*.sh docker/*.sh docker/rabbitmq/*.sh docker/standin/*.sh docker/tls/*.sh)

lint: ## formatting, clippy, documentation and shell scripts, warnings are errors
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --no-deps
	@if command -v shellcheck >/dev/null; then shellcheck -x $(SCRIPTS); \
	else echo 'lint: shellcheck is not installed: skipping the shell scripts' >&2; fi

lint-features: ## clippy without the feature otlp: all dependencies are compiled again
	cargo clippy --no-default-features -- -D warnings

prose: ## spelling and words of the pages, with textlint
	@docs/prose/check.sh

docs: ## the pages as a site with search, in target/book; every link is followed
	@docs/site.sh

packages: ## what a release has, for this machine, in target/packages: archive, .deb, .rpm, image; takes minutes
	@docker/packages.sh

test-packages: ## install what `make packages` has built, in containers; its workers close orders
	@docker/test-packages.sh

services: ## start RabbitMQ and PostgreSQL (docs/services.md)
	@docker/services.sh up

down: ## remove the services, of both versions, and their data
	@docker/services.sh down

worker: ## start the services and the worker, in containers
	@docker/services.sh worker

# These services take their statistics every second; people's brokers do not, and benchmarks are about those.
bench: ## measure, with an optimised build
	@docker/services.sh up
	@eval "$$(docker/services.sh env)" && OVERDUE_BROKER__STATISTICS_INTERVAL=5s cargo bench --benches

deny: ## licences, advisories and sources of the dependencies
	@command -v cargo-deny >/dev/null || { echo 'cargo-deny is missing: cargo install --locked cargo-deny' >&2; exit 69; }
	cargo deny check
