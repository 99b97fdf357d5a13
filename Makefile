# Each job calls a script or a swift command; `make` alone lists the jobs.

PREFIX ?= /usr
DESTDIR ?=
# The bus reads policy below /usr and /etc only; systemd and sysusers also look below /usr/local.
POLICYDIR ?= $(if $(filter /usr,$(PREFIX)),/usr/share,/etc)/dbus-1/system.d
CONFDIR ?= /etc/earshot

PROGRAMS := earshotd earshot earshot-air
# Private presence opens network sockets: it has a process, a user and a package of its own.
PRESENCED := earshot-presenced
# So does the uplink of the mesh.
NOSTRD := earshot-nostrd
INTERFACES := $(PREFIX)/share/dbus-1/interfaces
EXAMPLES := $(PREFIX)/share/doc/earshot/examples
CHECKER := $(PREFIX)/share/earshot-check
# Where Debian's Python looks for modules of packages.
PYTHON := $(PREFIX)/lib/python3/dist-packages
CHECK_UNITS := earshot-check.socket earshot-check@.service earshot-check-status.service earshot-check-status.timer
SOCIAL_UNITS := earshot-sociald.service earshot-sociald.socket
SOCIAL_CATALOG := $(PREFIX)/lib/systemd/catalog/earshot-sociald.catalog
GENERATOR := $(PREFIX)/lib/systemd/system-generators/earshot-bluetooth-generator

# swift.org's toolchain is expected in /opt/swift; one in PATH takes precedence.
export PATH := $(PATH):/opt/swift/usr/bin
export SWIFT_BACKTRACE := enable=no

# STRICT=1 makes every warning an error, in every build (so in CI lint and test share one).
# SANITIZE=thread or SANITIZE=address builds and tests with that sanitizer, in a separate build folder.
SWIFTFLAGS := $(if $(STRICT),-Xswiftc -warnings-as-errors)
SANITIZED := $(if $(SANITIZE),--sanitize $(SANITIZE) --scratch-path .build/$(SANITIZE))
# The file lists false reports of the leak sanitizer with reasons; it also applies to programs that the tests start.
ifeq ($(SANITIZE),address)
export LSAN_OPTIONS := suppressions=$(CURDIR)/scripts/sanitizer/lsan.supp:print_suppressions=0
endif
RELEASE := -c release --static-swift-stdlib

.PHONY: help run build test e2e lint fuzz bench sim release release-social install install-service install-check install-social install-presence uninstall install-nostr install-python deb fresh-machine clean
.DEFAULT_GOAL := help

help: ## List the jobs.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

run: ## Try it on the simulated radio: a kiosk with its QR code, and a wallet (ONCE=1, CREDENTIAL=, OUTPUT=, LIMIT=, LOSS=); MESH=3: three nodes of the mesh; SOCIAL=1: the social server; PRESENCE=2: two peers that find each other, by Bluetooth and on the network; UPLINK=1: two nodes out of range of each other, with a Nostr relay and a SOCKS proxy; UPLINK=network: in network namespaces; UPLINK=tor: with tor.
	@$(if $(SOCIAL)$(PRESENCE)$(UPLINK),true,scripts/run --check)
	@scripts/deps run
	@for program in $(if $(SOCIAL),earshot earshot-sociald,$(PROGRAMS) $(if $(PRESENCE),$(PRESENCED)) $(if $(UPLINK),$(NOSTRD))); do (set -x; swift build $(SWIFTFLAGS) --product $$program) || exit 1; done
	@$(if $(SOCIAL),scripts/run-social,$(if $(PRESENCE),scripts/run-presence,$(if $(UPLINK),scripts/run-uplink$(patsubst %,-%,$(filter network tor,$(UPLINK))),$(if $(MESH),scripts/run-mesh,scripts/run))))

build: ## Build everything, with the tests.
	@scripts/deps build
	swift build --build-tests $(SWIFTFLAGS) $(SANITIZED)

test: ## Run the tests; they need no Bluetooth and no root (SANITIZE=thread or address, FILTER=name, ALL=1).
	@scripts/deps test
	swift build --build-tests $(SWIFTFLAGS) $(SANITIZED)
	@FILTER='$(FILTER)' scripts/test $(SWIFTFLAGS) $(SANITIZED)

e2e: release ## Run the installed service against real BlueZ, in virtual machines (SUITE=bookworm, trixie or pair, TEST=words of a name, ALL=1).
	@scripts/deps e2e
	@rm -rf .build/e2e && mkdir -p .build/e2e
	@$(MAKE) --no-print-directory install DESTDIR=.build/e2e/root >.build/e2e/install.log 2>&1 || { cat .build/e2e/install.log >&2; exit 1; }
	@scripts/e2e

lint: ## Check format, warnings, scripts, D-Bus policy and the unit's exposure.
	@scripts/deps lint
	@scripts/lint

fuzz: ## Fuzz every decoder (SECONDS=60 for each target, TARGET=name for one, LIST=1 lists them).
	@scripts/deps build
	@scripts/fuzz

bench: ## Measure speed and memory of a release build (writes bench.json); PART=engine, noise, mesh, feed, visitors, check, service, field, social or presence.
	@scripts/deps bench
	@for program in earshot-bench earshotd earshot-presenced earshot-air; do set -x; swift build $(RELEASE) --product $$program || exit 1; done
	$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror scripts/bench/libdbus-roundtrip.c -o .build/release/libdbus-roundtrip \
	  $$(pkg-config --cflags --libs dbus-1)
	$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror scripts/bench/primitives.c -o .build/release/primitives \
	  $$(pkg-config --cflags --libs libsodium)
	$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror scripts/bench/unseal.c -o .build/release/unseal \
	  $$(pkg-config --cflags --libs libcrypto zlib)
	$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror scripts/bench/sqlite.c -o .build/release/sqlite \
	  $$(pkg-config --cflags --libs sqlite3)
	$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror scripts/bench/presence.c -o .build/release/presence \
	  $$(pkg-config --cflags --libs libssl libcrypto) -l:libsecp256k1.a
	.build/release/earshot-bench $(PART)

sim: ## Simulate a mesh of a thousand nodes (SCENARIO=file, SEED=1, MAINS=0,50,100, COMPARE=flood or couriers, OUT=folder).
	@scripts/deps build
	swift build -c release --product earshot-sim
	.build/release/earshot-sim $(if $(SEED),--seed $(SEED)) $(if $(MAINS),--mains $(MAINS)) \
	  $(if $(COMPARE),--compare-$(COMPARE)) \
	  --output '$(or $(OUT),.build/sim)' '$(or $(SCENARIO),examples/sim/thousand.conf)'

release: ## Build the programs as they are installed: optimized, with Swift inside.
	@scripts/deps install
	@for program in $(PROGRAMS) $(PRESENCED) $(NOSTRD); do (set -x; swift build $(RELEASE) --product $$program) || exit 1; done

release-social: ## Build the social server as it is installed.
	@scripts/deps install
	swift build $(RELEASE) --product earshot-sociald

install: install-service install-check install-social install-presence install-nostr install-python ## Install programs, units, policy, interfaces and configuration (PREFIX=/usr, DESTDIR=).
ifeq ($(DESTDIR),)
	@scripts/reload
endif

install-service: release
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(INTERFACES)' '$(DESTDIR)$(CONFDIR)'
	for program in $(PROGRAMS); do install -m 755 .build/release/$$program '$(DESTDIR)$(PREFIX)/bin/' || exit 1; done
	.build/release/earshotd --write-interfaces '$(DESTDIR)$(INTERFACES)'
	install -d '$(DESTDIR)$(PREFIX)/lib/systemd/system'
	sed 's|/usr/bin/|$(PREFIX)/bin/|' systemd/earshotd.service >'$(DESTDIR)$(PREFIX)/lib/systemd/system/earshotd.service'
	install -D -m 644 systemd/bluetooth-restart.conf '$(DESTDIR)$(PREFIX)/lib/systemd/system/bluetooth.service.d/earshot.conf'
	install -D -m 755 systemd/bluetooth-generator '$(DESTDIR)$(GENERATOR)'
	install -D -m 644 systemd/earshot.sysusers.conf '$(DESTDIR)$(PREFIX)/lib/sysusers.d/earshot.conf'
	install -D -m 644 dbus-policy/org.earshot.conf '$(DESTDIR)$(POLICYDIR)/org.earshot.conf'
	install -D -m 644 dbus-policy/org.earshot.service '$(DESTDIR)$(PREFIX)/share/dbus-1/system-services/org.earshot.service'
	for file in config/earshot.conf; do \
	  to='$(DESTDIR)$(CONFDIR)'/$${file##*/}; \
	  if [ -e "$$to" ]; then echo "not replaced: $$to"; else install -m 644 "$$file" "$$to" || exit 1; fi; \
	done
	install -D -m 644 docs/man/earshot-social.1 '$(DESTDIR)$(PREFIX)/share/man/man1/earshot-social.1'
	install -d '$(DESTDIR)$(EXAMPLES)'
	install -m 755 examples/receive.py examples/receive.sh '$(DESTDIR)$(EXAMPLES)/'
	install -m 755 examples/shell.sh '$(DESTDIR)$(EXAMPLES)/'
	install -D -m 644 examples/grafana/earshot.json '$(DESTDIR)$(EXAMPLES)/grafana/earshot.json'
	install -d '$(DESTDIR)$(PREFIX)/lib/systemd/catalog'
	.build/release/earshotd --write-catalog '$(DESTDIR)$(PREFIX)/lib/systemd/catalog/earshotd.catalog'

# Private presence: its own package in Debian.
install-presence: release
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(INTERFACES)' '$(DESTDIR)$(CONFDIR)'
	install -m 755 .build/release/$(PRESENCED) '$(DESTDIR)$(PREFIX)/bin/'
	.build/release/$(PRESENCED) --write-interfaces '$(DESTDIR)$(INTERFACES)'
	install -d '$(DESTDIR)$(PREFIX)/lib/systemd/system' '$(DESTDIR)$(PREFIX)/lib/systemd/catalog'
	sed 's|/usr/bin/|$(PREFIX)/bin/|' systemd/$(PRESENCED).service >'$(DESTDIR)$(PREFIX)/lib/systemd/system/$(PRESENCED).service'
	install -D -m 644 systemd/earshot-presence.sysusers.conf '$(DESTDIR)$(PREFIX)/lib/sysusers.d/earshot-presence.conf'
	install -D -m 644 dbus-policy/org.earshot.Presence.conf '$(DESTDIR)$(POLICYDIR)/org.earshot.Presence.conf'
	install -D -m 644 dbus-policy/org.earshot.Presence.service \
	  '$(DESTDIR)$(PREFIX)/share/dbus-1/system-services/org.earshot.Presence.service'
	to='$(DESTDIR)$(CONFDIR)/presence.conf'; if [ -e "$$to" ]; then echo "not replaced: $$to"; else install -m 644 config/presence.conf "$$to"; fi
	.build/release/$(PRESENCED) --write-catalog '$(DESTDIR)$(PREFIX)/lib/systemd/catalog/$(PRESENCED).catalog'

# The uplink of the mesh: its own package in Debian.
install-nostr: release
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(INTERFACES)' '$(DESTDIR)$(CONFDIR)'
	install -m 755 .build/release/$(NOSTRD) '$(DESTDIR)$(PREFIX)/bin/'
	.build/release/$(NOSTRD) --write-interfaces '$(DESTDIR)$(INTERFACES)'
	install -d '$(DESTDIR)$(PREFIX)/lib/systemd/system' '$(DESTDIR)$(PREFIX)/lib/systemd/catalog'
	sed 's|/usr/bin/|$(PREFIX)/bin/|' systemd/$(NOSTRD).service >'$(DESTDIR)$(PREFIX)/lib/systemd/system/$(NOSTRD).service'
	install -D -m 644 systemd/earshot-nostr.sysusers.conf '$(DESTDIR)$(PREFIX)/lib/sysusers.d/earshot-nostr.conf'
	install -D -m 644 dbus-policy/org.earshot.Nostr.conf '$(DESTDIR)$(POLICYDIR)/org.earshot.Nostr.conf'
	install -D -m 644 dbus-policy/org.earshot.Nostr.service \
	  '$(DESTDIR)$(PREFIX)/share/dbus-1/system-services/org.earshot.Nostr.service'
	to='$(DESTDIR)$(CONFDIR)/uplink.conf'; if [ -e "$$to" ]; then echo "not replaced: $$to"; else install -m 644 config/uplink.conf "$$to"; fi
	.build/release/$(NOSTRD) --write-catalog '$(DESTDIR)$(PREFIX)/lib/systemd/catalog/$(NOSTRD).catalog'
	install -D -m 644 docs/man/$(NOSTRD).8 '$(DESTDIR)$(PREFIX)/share/man/man8/$(NOSTRD).8'

# The credential checker: Python, and a separate Debian package. It does not trust a clock that is earlier than the day of the build.
install-check:
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(CHECKER)/earshot_check/contexts' '$(DESTDIR)$(CONFDIR)/issuers.d'
	install -m 644 Sources/Check/earshot_check/*.py '$(DESTDIR)$(CHECKER)/earshot_check/'
	install -m 644 Sources/Check/earshot_check/contexts/* '$(DESTDIR)$(CHECKER)/earshot_check/contexts/'
	sed -E "s|^DATE = .*|DATE = \"$$(date -u -d "@$${SOURCE_DATE_EPOCH:-$$(date +%s)}" +%F)\"|" \
	  Sources/Check/earshot_check/release.py >'$(DESTDIR)$(CHECKER)/earshot_check/release.py'
	sed "s|str(Path(__file__).resolve().parent)|\"$(CHECKER)\"|; /^from pathlib/d" Sources/Check/earshot-check >'$(DESTDIR)$(PREFIX)/bin/earshot-check'
	chmod 755 '$(DESTDIR)$(PREFIX)/bin/earshot-check'
	install -d '$(DESTDIR)$(PREFIX)/lib/systemd/system'
	for unit in $(CHECK_UNITS); do \
	  sed 's|/usr/bin/|$(PREFIX)/bin/|' systemd/$$unit >'$(DESTDIR)$(PREFIX)/lib/systemd/system/'$$unit || exit 1; \
	done
	install -D -m 644 systemd/earshot-check.sysusers.conf '$(DESTDIR)$(PREFIX)/lib/sysusers.d/earshot-check.conf'
ifeq ($(DESTDIR),)
	python3 -m compileall -q '$(CHECKER)'
endif

# The client for programs in Python: its own package in Debian.
install-python:
	install -d '$(DESTDIR)$(PYTHON)/earshot' '$(DESTDIR)$(EXAMPLES)/python'
	install -m 644 Sources/Python/earshot/*.py Sources/Python/earshot/py.typed '$(DESTDIR)$(PYTHON)/earshot/'
	install -m 755 examples/python/*.py '$(DESTDIR)$(EXAMPLES)/python/'

# The social server: a daemon and a package of its own. Neither the service nor its socket is enabled.
install-social: release-social
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(INTERFACES)' '$(DESTDIR)$(CONFDIR)' '$(DESTDIR)$(PREFIX)/lib/systemd/system'
	install -m 755 .build/release/earshot-sociald '$(DESTDIR)$(PREFIX)/bin/'
	.build/release/earshot-sociald --write-interfaces '$(DESTDIR)$(INTERFACES)'
	for unit in $(SOCIAL_UNITS); do \
	  sed 's|/usr/bin/|$(PREFIX)/bin/|' systemd/$$unit >'$(DESTDIR)$(PREFIX)/lib/systemd/system/'$$unit || exit 1; \
	done
	install -D -m 644 systemd/earshot-social.sysusers.conf '$(DESTDIR)$(PREFIX)/lib/sysusers.d/earshot-social.conf'
	install -D -m 644 dbus-policy/org.earshot.Social.conf '$(DESTDIR)$(POLICYDIR)/org.earshot.Social.conf'
	install -D -m 644 dbus-policy/org.earshot.Social.service '$(DESTDIR)$(PREFIX)/share/dbus-1/system-services/org.earshot.Social.service'
	to='$(DESTDIR)$(CONFDIR)/social.conf'; if [ -e "$$to" ]; then echo "not replaced: $$to"; else install -m 644 config/social.conf "$$to"; fi
	install -d '$(DESTDIR)$(PREFIX)/lib/systemd/catalog'
	.build/release/earshot-sociald --write-catalog '$(DESTDIR)$(SOCIAL_CATALOG)'
	install -D -m 644 docs/man/earshot-sociald.8 '$(DESTDIR)$(PREFIX)/share/man/man8/earshot-sociald.8'

uninstall: ## Remove the installed files, except the configuration and the user.
	@$(if $(DESTDIR),true,systemctl disable --now earshotd.service earshot-check.socket earshot-check-status.timer $(SOCIAL_UNITS) $(PRESENCED).service $(NOSTRD).service 2>/dev/null || true)
	rm -f $(PROGRAMS:%='$(DESTDIR)$(PREFIX)/bin/%') '$(DESTDIR)$(PREFIX)/bin/$(PRESENCED)'
	rm -f '$(DESTDIR)$(PREFIX)/lib/systemd/system/$(PRESENCED).service' '$(DESTDIR)$(PREFIX)/lib/sysusers.d/earshot-presence.conf'
	rm -f '$(DESTDIR)$(POLICYDIR)/org.earshot.Presence.conf' '$(DESTDIR)$(PREFIX)/lib/systemd/catalog/$(PRESENCED).catalog'
	rm -f '$(DESTDIR)$(PREFIX)/share/dbus-1/system-services/org.earshot.Presence.service'
	rm -f '$(DESTDIR)$(PREFIX)/bin/$(NOSTRD)' '$(DESTDIR)$(PREFIX)/lib/systemd/system/$(NOSTRD).service'
	rm -f '$(DESTDIR)$(PREFIX)/lib/sysusers.d/earshot-nostr.conf' '$(DESTDIR)$(POLICYDIR)/org.earshot.Nostr.conf'
	rm -f '$(DESTDIR)$(PREFIX)/share/dbus-1/system-services/org.earshot.Nostr.service'
	rm -f '$(DESTDIR)$(PREFIX)/lib/systemd/catalog/$(NOSTRD).catalog' '$(DESTDIR)$(PREFIX)/share/man/man8/$(NOSTRD).8'
	rm -f '$(DESTDIR)$(PREFIX)/lib/systemd/system/earshotd.service' '$(DESTDIR)$(PREFIX)/lib/sysusers.d/earshot.conf'
	rm -f '$(DESTDIR)$(PREFIX)/lib/systemd/system/bluetooth.service.d/earshot.conf' '$(DESTDIR)$(GENERATOR)'
	rm -f '$(DESTDIR)$(POLICYDIR)/org.earshot.conf'
	rm -f '$(DESTDIR)$(PREFIX)/share/dbus-1/system-services/org.earshot.service'
	rm -rf '$(DESTDIR)$(EXAMPLES)' '$(DESTDIR)$(CHECKER)' '$(DESTDIR)$(PYTHON)/earshot'
	rm -f '$(DESTDIR)$(PREFIX)/bin/earshot-check' '$(DESTDIR)$(PREFIX)/lib/sysusers.d/earshot-check.conf'
	for unit in $(CHECK_UNITS); do rm -f '$(DESTDIR)$(PREFIX)/lib/systemd/system/'$$unit; done
	rm -f '$(DESTDIR)$(PREFIX)/bin/earshot-sociald' '$(DESTDIR)$(PREFIX)/lib/sysusers.d/earshot-social.conf' '$(DESTDIR)$(SOCIAL_CATALOG)'
	rm -f '$(DESTDIR)$(POLICYDIR)/org.earshot.Social.conf'
	rm -f '$(DESTDIR)$(PREFIX)/share/man/man1/earshot-social.1' '$(DESTDIR)$(PREFIX)/share/man/man8/earshot-sociald.8'
	rm -f '$(DESTDIR)$(PREFIX)/share/dbus-1/system-services/org.earshot.Social.service'
	for unit in $(SOCIAL_UNITS); do rm -f '$(DESTDIR)$(PREFIX)/lib/systemd/system/'$$unit; done
	rm -f '$(DESTDIR)$(INTERFACES)'/org.earshot.*.xml '$(DESTDIR)$(PREFIX)/lib/systemd/catalog'/earshotd.catalog
ifeq ($(DESTDIR),)
	@scripts/reload
endif

deb: ## Build the Debian packages in the parent folder.
	@scripts/deps deb
	@# scripts/deps checks the build dependencies: dpkg does not know a toolchain in /opt/swift.
	dpkg-buildpackage --unsigned-source --unsigned-changes --build=binary --no-check-builddeps

fresh-machine: ## Prove that run and test work on a bare Debian 13 with git and make (needs root).
	@scripts/fresh-machine

clean: ## Remove all build results.
	rm -rf .build bench.json debian/.debhelper debian/earshot debian/earshot-check debian/earshot-social debian/earshot-presence debian/earshot-nostr debian/python3-earshot debian/files debian/*.substvars debian/*.debhelper debian/debhelper-build-stamp debian/earshot.earshotd.service debian/earshot-check.earshot-check* debian/earshot-social.earshot-sociald* debian/earshot-presence.earshot-presenced.service debian/earshot-nostr.earshot-nostrd.service
