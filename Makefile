# Each job calls a script or a swift command; `make` alone lists the jobs.

PREFIX ?= /usr
DESTDIR ?=
# The bus reads policy below /usr and /etc only; systemd and sysusers also look below /usr/local.
POLICYDIR ?= $(if $(filter /usr,$(PREFIX)),/usr/share,/etc)/dbus-1/system.d
CONFDIR ?= /etc/earshot

PROGRAMS := earshotd earshot earshot-air
# Daemons that open network sockets: each has a process, a user and a package of its own. SERVICE_name: its program, the name of its
# configuration file, its name on the bus, and its units.
SERVICES := social presence nostr
SERVICE_social := earshot-sociald social.conf org.earshot.Social earshot-sociald.service earshot-sociald.socket
SERVICE_presence := earshot-presenced presence.conf org.earshot.Presence earshot-presenced.service
SERVICE_nostr := earshot-nostrd uplink.conf org.earshot.Nostr earshot-nostrd.service
DAEMONS := $(foreach service,$(SERVICES),$(word 1,$(SERVICE_$(service))))
INTERFACES := $(PREFIX)/share/dbus-1/interfaces
EXAMPLES := $(PREFIX)/share/doc/earshot/examples
CHECKER := $(PREFIX)/share/earshot-check
# Where Debian's Python looks for modules of packages.
PYTHON := $(PREFIX)/lib/python3/dist-packages
CHECK_UNITS := earshot-check.socket earshot-check@.service earshot-check-status.service earshot-check-status.timer
UNITS := $(PREFIX)/lib/systemd/system
CATALOG := $(PREFIX)/lib/systemd/catalog
# zsh reads completions of Debian's packages from another folder than those of local installations.
ZSHDIR ?= $(PREFIX)/share/zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)
# Manual pages of each package; MANUAL_social and so on are those of the daemons above.
MANUAL := earshot.1 earshot-air.1 earshot-social.1 earshot.conf.5 org.earshot.5 earshotd.8
MANUAL_check := earshot-check.1
MANUAL_social := earshot-social.conf.5 earshot-sociald.8
MANUAL_presence := earshot-presence.conf.5 earshot-presenced.8
MANUAL_nostr := earshot-uplink.conf.5 earshot-nostrd.8
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
# Without a search path for libraries beside the program, and with all symbols bound at the start, as Debian demands.
RELEASE := -c release --static-swift-stdlib --disable-local-rpath -Xlinker -z -Xlinker now

# BUILT=folder installs programs that exist already, and builds nothing. ARCH=arm64 builds for that architecture on another one, with
# the files that scripts/cross makes in CROSS; RUN is then the emulator for programs that write installed files.
ARCH ?=
BUILT ?=
CROSS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/earshot/cross-$(ARCH)
FROM := $(or $(BUILT),.build/$(if $(ARCH),$(ARCH)/)release)
RUN := $(if $(ARCH),$(CROSS)/run)
export CROSS
ifneq ($(ARCH),)
RELEASE += --scratch-path .build/$(ARCH) --swift-sdks-path $(CROSS)/sdks --swift-sdk earshot-$(ARCH)
include $(wildcard $(CROSS)/pkg-config.mk)
endif

.PHONY: help run build test e2e lint fuzz bench sim release install install-service install-check $(SERVICES:%=install-%) install-python uninstall deb fresh-machine clean
.DEFAULT_GOAL := help

help: ## List the jobs.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

run: ## Try it on the simulated radio: a kiosk with its QR code, and a wallet (ONCE=1, CREDENTIAL=, OUTPUT=, LIMIT=, LOSS=); MESH=3: three nodes of the mesh; SOCIAL=1: the social server; PRESENCE=2: two peers that find each other, by Bluetooth and on the network; UPLINK=1: two nodes out of range of each other, with a Nostr relay and a SOCKS proxy; UPLINK=network: in network namespaces; UPLINK=tor: with tor.
	@$(if $(SOCIAL)$(PRESENCE)$(UPLINK),true,scripts/run --check)
	@scripts/deps run
	@for program in $(if $(SOCIAL),earshot earshot-sociald,$(PROGRAMS) $(if $(PRESENCE),earshot-presenced) $(if $(UPLINK),earshot-nostrd)); do (set -x; swift build $(SWIFTFLAGS) --product $$program) || exit 1; done
	@$(if $(SOCIAL),scripts/run-social,$(if $(PRESENCE),scripts/run-presence,$(if $(UPLINK),scripts/run-uplink$(patsubst %,-%,$(filter network tor,$(UPLINK))),$(if $(MESH),scripts/run-mesh,scripts/run))))

build: ## Build everything, with the tests.
	@scripts/deps build
	swift build --build-tests $(SWIFTFLAGS) $(SANITIZED)

test: ## Run the tests; they need no Bluetooth and no root (SANITIZE=thread or address, FILTER=name, ALL=1).
	@scripts/deps test
	swift build --build-tests $(SWIFTFLAGS) $(SANITIZED)
	@FILTER='$(FILTER)' scripts/test $(SWIFTFLAGS) $(SANITIZED)

e2e: release ## Run the installed service against real BlueZ, in virtual machines (SUITE=bookworm, trixie, pair or packages, TEST=words of a name, DEBS=folder, ALL=1).
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

release: ## Build the programs as they are installed: optimized, with Swift inside (ARCH=arm64: for that architecture, after make deb).
	@scripts/deps install
	@for program in $(PROGRAMS) $(DAEMONS); do (set -x; swift build $(RELEASE) --product $$program) || exit 1; done

install: install-service install-check $(SERVICES:%=install-%) install-python ## Install programs, units, policy, interfaces and configuration (PREFIX=/usr, DESTDIR=).
ifeq ($(DESTDIR),)
	@scripts/reload
endif

# install_configuration FILE: installs config/FILE, unless it exists.
define install_configuration
@to='$(DESTDIR)$(CONFDIR)/$(1)'; if [ -e "$$to" ]; then echo "not replaced: $$to"; else install -D -m 644 'config/$(1)' "$$to"; fi
endef

# install_units UNIT...: installs units, with the folder of the programs.
define install_units
install -d '$(DESTDIR)$(UNITS)'
for unit in $(1); do sed 's|/usr/bin/|$(PREFIX)/bin/|' systemd/$$unit >'$(DESTDIR)$(UNITS)/'$$unit || exit 1; done
endef

# install_manual PAGE...: installs pages of docs/man.
define install_manual
for page in $(1); do install -D -m 644 docs/man/$$page '$(DESTDIR)$(PREFIX)/share/man/man'$${page##*.}/$$page || exit 1; done
endef

# install_daemon PROGRAM, PACKAGE, BUS NAME: installs a daemon without its units and its configuration file.
define install_daemon
install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(INTERFACES)' '$(DESTDIR)$(CATALOG)'
install -m 755 $(FROM)/$(1) '$(DESTDIR)$(PREFIX)/bin/'
$(RUN) $(FROM)/$(1) --write-interfaces '$(DESTDIR)$(INTERFACES)'
$(RUN) $(FROM)/$(1) --write-catalog '$(DESTDIR)$(CATALOG)/$(1).catalog'
install -D -m 644 systemd/$(2).sysusers.conf '$(DESTDIR)$(PREFIX)/lib/sysusers.d/$(2).conf'
install -D -m 644 systemd/$(2).tmpfiles.conf '$(DESTDIR)$(PREFIX)/lib/tmpfiles.d/$(2).conf'
install -D -m 644 dbus-policy/$(3).conf '$(DESTDIR)$(POLICYDIR)/$(3).conf'
install -D -m 644 dbus-policy/$(3).service '$(DESTDIR)$(PREFIX)/share/dbus-1/system-services/$(3).service'
endef

install-service: $(if $(BUILT),,release)
	$(call install_daemon,earshotd,earshot,org.earshot)
	for program in $(PROGRAMS); do install -m 755 $(FROM)/$$program '$(DESTDIR)$(PREFIX)/bin/' || exit 1; done
	$(call install_units,earshotd.service)
	install -D -m 644 systemd/bluetooth-restart.conf '$(DESTDIR)$(UNITS)/bluetooth.service.d/earshot.conf'
	install -D -m 755 systemd/bluetooth-generator '$(DESTDIR)$(GENERATOR)'
	$(call install_configuration,earshot.conf)
	$(call install_manual,$(MANUAL))
	install -d '$(DESTDIR)$(EXAMPLES)' '$(DESTDIR)$(PREFIX)/share/bash-completion/completions' '$(DESTDIR)$(ZSHDIR)' \
	  '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d'
	install -m 755 examples/receive.py examples/receive.sh examples/shell.sh '$(DESTDIR)$(EXAMPLES)/'
	install -D -m 644 examples/grafana/earshot.json '$(DESTDIR)$(EXAMPLES)/grafana/earshot.json'
	$(RUN) $(FROM)/earshot completion bash >'$(DESTDIR)$(PREFIX)/share/bash-completion/completions/earshot'
	$(RUN) $(FROM)/earshot completion zsh >'$(DESTDIR)$(ZSHDIR)/_earshot'
	$(RUN) $(FROM)/earshot completion fish >'$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/earshot.fish'

# The daemons with a package of their own. None of their units is enabled.
$(SERVICES:%=install-%): install-%: $(if $(BUILT),,release)
	$(call install_daemon,$(word 1,$(SERVICE_$*)),earshot-$*,$(word 3,$(SERVICE_$*)))
	$(call install_units,$(wordlist 4,9,$(SERVICE_$*)))
	$(call install_configuration,$(word 2,$(SERVICE_$*)))
	$(call install_manual,$(MANUAL_$*))

# The client for programs in Python: its own package in Debian.
install-python:
	install -d '$(DESTDIR)$(PYTHON)/earshot' '$(DESTDIR)$(EXAMPLES)/python'
	install -m 644 Sources/Python/earshot/*.py Sources/Python/earshot/py.typed '$(DESTDIR)$(PYTHON)/earshot/'
	install -m 755 examples/python/*.py '$(DESTDIR)$(EXAMPLES)/python/'

# The credential checker: Python, and a separate Debian package. It does not trust a clock that is earlier than the day of the build.
install-check:
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(CHECKER)/earshot_check/contexts' '$(DESTDIR)$(CONFDIR)/issuers.d'
	install -m 644 Sources/Check/earshot_check/*.py '$(DESTDIR)$(CHECKER)/earshot_check/'
	install -m 644 Sources/Check/earshot_check/contexts/* '$(DESTDIR)$(CHECKER)/earshot_check/contexts/'
	sed -E "s|^DATE = .*|DATE = \"$$(date -u -d "@$${SOURCE_DATE_EPOCH:-$$(date +%s)}" +%F)\"|" \
	  Sources/Check/earshot_check/release.py >'$(DESTDIR)$(CHECKER)/earshot_check/release.py'
	sed "s|str(Path(__file__).resolve().parent)|\"$(CHECKER)\"|; /^from pathlib/d" Sources/Check/earshot-check >'$(DESTDIR)$(PREFIX)/bin/earshot-check'
	chmod 755 '$(DESTDIR)$(PREFIX)/bin/earshot-check'
	$(call install_units,$(CHECK_UNITS))
	install -D -m 644 systemd/earshot-check.sysusers.conf '$(DESTDIR)$(PREFIX)/lib/sysusers.d/earshot-check.conf'
	$(call install_manual,$(MANUAL_check))
ifeq ($(DESTDIR),)
	python3 -m compileall -q '$(CHECKER)'
endif

# forget_daemon PROGRAM, PACKAGE, BUS NAME: removes what install_daemon installs, except the interfaces.
define forget_daemon
rm -f '$(DESTDIR)$(PREFIX)/bin/$(1)' '$(DESTDIR)$(CATALOG)/$(1).catalog' '$(DESTDIR)$(PREFIX)/lib/sysusers.d/$(2).conf'
rm -f '$(DESTDIR)$(PREFIX)/lib/tmpfiles.d/$(2).conf' '$(DESTDIR)$(POLICYDIR)/$(3).conf'
rm -f '$(DESTDIR)$(PREFIX)/share/dbus-1/system-services/$(3).service'

endef

ALL_UNITS := earshotd.service $(CHECK_UNITS) $(foreach service,$(SERVICES),$(wordlist 4,9,$(SERVICE_$(service))))
PACKAGES := earshot earshot-check earshot-doc python3-earshot $(SERVICES:%=earshot-%)
ALL_MANUAL := $(MANUAL) $(MANUAL_check) $(foreach service,$(SERVICES),$(MANUAL_$(service)))

uninstall: ## Remove the installed files, except the configuration and the user.
	@$(if $(DESTDIR),true,systemctl disable --now $(filter-out earshot-check@.service earshot-check-status.service,$(ALL_UNITS)) 2>/dev/null || true)
	rm -f $(PROGRAMS:%='$(DESTDIR)$(PREFIX)/bin/%')
	$(call forget_daemon,earshotd,earshot,org.earshot)
	$(foreach service,$(SERVICES),$(call forget_daemon,$(word 1,$(SERVICE_$(service))),earshot-$(service),$(word 3,$(SERVICE_$(service)))))
	for unit in $(ALL_UNITS); do rm -f '$(DESTDIR)$(UNITS)/'$$unit; done
	for page in $(ALL_MANUAL); do rm -f '$(DESTDIR)$(PREFIX)/share/man/man'$${page##*.}/$$page; done
	rm -f '$(DESTDIR)$(UNITS)/bluetooth.service.d/earshot.conf' '$(DESTDIR)$(GENERATOR)'
	rm -f '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/earshot' '$(DESTDIR)$(ZSHDIR)/_earshot'
	rm -f '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/earshot.fish'
	rm -rf '$(DESTDIR)$(EXAMPLES)' '$(DESTDIR)$(CHECKER)' '$(DESTDIR)$(PYTHON)/earshot'
	rm -f '$(DESTDIR)$(PREFIX)/bin/earshot-check' '$(DESTDIR)$(PREFIX)/lib/sysusers.d/earshot-check.conf'
	rm -f '$(DESTDIR)$(INTERFACES)'/org.earshot.*.xml
ifeq ($(DESTDIR),)
	@scripts/reload
endif

deb: ## Build the Debian packages in the parent folder, without running tests (ARCH=arm64: for that architecture, on Debian 13).
	@scripts/deps deb
	$(if $(ARCH),scripts/cross '$(ARCH)' '$(CROSS)')
	@# scripts/deps checks the build dependencies: dpkg does not know a toolchain in /opt/swift.
	BUILT='$(BUILT)' dpkg-buildpackage --unsigned-source --unsigned-changes --build=binary --no-check-builddeps \
	  $(if $(ARCH),--host-arch $(ARCH))

fresh-machine: ## Prove that run and test work on a bare Debian 13 with git and make (needs root).
	@scripts/fresh-machine

clean: ## Remove all build results.
	rm -rf .build bench.json debian/.debhelper debian/files debian/tmp debian/debhelper-build-stamp debian/*.substvars \
	  debian/*.debhelper debian/*.service debian/*.socket debian/*.timer $(wildcard $(PACKAGES:%=debian/%/))
