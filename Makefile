# Every target works from any folder (make -C) and with spaces in paths.

CARGO ?= cargo
PREFIX ?= /usr/local
# Options for every cargo call, such as --locked or --offline.
CARGOFLAGS ?=
# `make sweep`: the file to read (empty: fsprobe makes one of its own), and further options of `fsprobe sweep`.
FILE ?=
ARGS ?=

# Recipes read these from the environment, where spaces need no care.
export FILE PREFIX DESTDIR
binary = "$${CARGO_TARGET_DIR:-target}/release/fsprobe"

.PHONY: build test lint bench sweep reports have-file install clean help

build: ## build the release binary, target/release/fsprobe (the default)
	@$(CARGO) build --release $(CARGOFLAGS)

test: ## run every test
	$(CARGO) test $(CARGOFLAGS)

lint: ## check format, lints and documentation; warnings are errors
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets $(CARGOFLAGS) -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps $(CARGOFLAGS)

bench: build ## compare fsprobe's sampling with a bare C loop
	bench/run.sh

sweep: have-file build ## sweep page offsets over FILE=… (without: a file of fsprobe's own); more options in ARGS=…
	@$(binary) sweep $${FILE:+--file "$$FILE"} $(ARGS)

reports: have-file build ## renew reports/: a sweep and a check of this machine, as recorded and as rendered
	@$(binary) sweep $${FILE:+--file "$$FILE"} --quiet --force --output reports/sweep.json >/dev/null
	@$(binary) check --remedies --force --output reports/check.json >/dev/null || [ $$? -ne 2 ]
	@for verb in sweep check; do for format in ticket:ticket.txt markdown:md html:html; do \
		$(binary) report reports/$$verb.json --format "$${format%%:*}" --force --output "reports/$$verb.$${format#*:}" || exit; \
	done; done

have-file:
	@if [ -n "$$FILE" ] && [ ! -e "$$FILE" ]; then \
		printf 'make sweep: there is no file %s. Make one:\n  head -c 64M /dev/urandom > "%s"\n' "$$FILE" "$$FILE" >&2; \
		printf 'or leave FILE out: fsprobe then reads a 64 MiB file of its own.\n' >&2; \
		exit 1; \
	fi

install: build ## install the binary to PREFIX/bin (/usr/local); DESTDIR is put before it
	install -d "$$DESTDIR$$PREFIX/bin"
	install -m 755 $(binary) "$$DESTDIR$$PREFIX/bin/fsprobe"

clean: ## remove what was built
	$(CARGO) clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):[a-z -]* ## \(.*\)/make \1|\2/p' Makefile | awk -F '|' '{ printf "%-13s %s\n", $$1, $$2 }'
