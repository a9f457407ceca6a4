# `make help` lists the targets. Everything lands in .venv and in ignored folders.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TYPED := $(shell find tracelib daemon -name '*.pxd')

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib/xtraced
SYSCONFDIR ?= /etc
UNITDIR ?= /usr/lib/systemd/system
SYSUSERSDIR ?= /usr/lib/sysusers.d
TMPFILESDIR ?= /usr/lib/tmpfiles.d
MANDIR ?= $(PREFIX)/share/man

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.PHONY: demo
demo: $(READY) ## collect from a simulated hypervisor for a few seconds, and look at it
	@BIN=$(BIN) tests/e2e/demo.sh

.PHONY: test
test: $(READY) lint type ## everything that must pass before a change goes in (minutes)
	$(BIN)/python -m pytest -m "not slow and not soak"

.PHONY: test-slow
test-slow: $(READY) ## the tests that take longer: crash loops, soaks, large files
	$(BIN)/python -m pytest -m "slow and not soak"

.PHONY: soak
soak: $(READY) ## full rate, rotations, a disk that stalls, for SOAK_SECONDS (an hour)
	$(BIN)/python -m pytest -m soak -s tests/soak

FUZZ_SECONDS ?= 300
.PHONY: fuzz
fuzz: $(READY) ## mutated inputs for every parser, for FUZZ_SECONDS
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) --save build

.PHONY: test-xen
test-xen: $(READY) ## the service in a real dom0 on a real Xen, under QEMU; needs root (minutes)
	$(BIN)/python -m tests.xen

.PHONY: lint
lint: $(READY) ## ruff
	$(BIN)/ruff check .

.PHONY: type
type: $(READY) ## mypy, strict
	$(BIN)/mypy

.PHONY: bench
bench: $(READY) ## compare with xentrace and xenalyze; prints tables
	$(BIN)/python -m tests.bench.capture
	$(BIN)/python -m tests.bench.read
	$(BIN)/python -m tests.bench.dump

.PHONY: wheel
wheel: $(READY) ## build a wheel and a source archive into dist/
	$(BIN)/python -m build --outdir dist

.PHONY: install
install: install-programs install-files ## install the service; DESTDIR= for packagers

# In a folder of their own, with all that they import: nothing that other programs of this
# Python use is touched, and nothing of theirs is relied upon.
.PHONY: install-programs
install-programs:
	$(PYTHON) -m pip install -qq --disable-pip-version-check --upgrade \
		--target $(DESTDIR)$(LIBDIR) '.[analysis]'
	install -d $(DESTDIR)$(PREFIX)/bin
	for program in xtraced xtracectl; do \
		printf '#!%s\nimport sys\n\nsys.path.insert(0, "%s")\nfrom %s.cli import main\n\nsys.exit(main())\n' \
			"$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(LIBDIR) $$program > $(DESTDIR)$(PREFIX)/bin/$$program && \
		chmod 0755 $(DESTDIR)$(PREFIX)/bin/$$program || exit 1; \
	done

.PHONY: install-files
install-files:
	install -d -m 0755 $(DESTDIR)$(SYSCONFDIR)/xtraced
	test -e $(DESTDIR)$(SYSCONFDIR)/xtraced/xtraced.toml || \
		install -m 0644 systemd/xtraced.toml $(DESTDIR)$(SYSCONFDIR)/xtraced/xtraced.toml
	install -D -m 0644 systemd/xtraced.service $(DESTDIR)$(UNITDIR)/xtraced.service
	install -D -m 0644 systemd/sysusers.d/xtraced.conf $(DESTDIR)$(SYSUSERSDIR)/xtraced.conf
	install -D -m 0644 systemd/tmpfiles.d/xtraced.conf $(DESTDIR)$(TMPFILESDIR)/xtraced.conf
	install -D -m 0644 man/xtraced.8 $(DESTDIR)$(MANDIR)/man8/xtraced.8
	install -D -m 0644 man/xtracectl.1 $(DESTDIR)$(MANDIR)/man1/xtracectl.1
	install -D -m 0644 man/xtraced.toml.5 $(DESTDIR)$(MANDIR)/man5/xtraced.toml.5

.PHONY: clean
clean: ## remove everything that the other targets made
	rm -rf $(VENV) build dist .demo .xen *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find tracelib daemon tests -name __pycache__ -prune -exec rm -rf {} +
	find tracelib daemon \( -name '*.c' -o -name '*.so' \) -delete

# Debian's python3 has neither ensurepip nor headers until asked for. Without headers or a
# compiler everything still works, with the inner loops uncompiled.
$(READY): pyproject.toml setup.py $(TYPED) $(wildcard $(TYPED:.pxd=.py))
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || { \
		rm -rf $(VENV); \
		echo "python3 -m venv does not work here: installing python3-venv and python3-dev"; \
		apt-get update -qq && apt-get install -y -qq python3-venv python3-dev && \
		$(PYTHON) -m venv $(VENV); } || { \
		echo "install python3-venv (and python3-dev, to compile) as root, then try again"; exit 1; }
	@echo "setting up $(VENV): packages, and the inner loops compiled (a minute or two)"
	@$(BIN)/pip install -qq --disable-pip-version-check -e '.[dev]'
	@touch $@
