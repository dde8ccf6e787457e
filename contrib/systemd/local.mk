# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# contrib/systemd: units of the agent, the user of its workers, and folders.
EXTRA_DIST += %reldir%/71-gpumap.rules %reldir%/boot-vm %reldir%/check-guest %reldir%/check-vm \
	%reldir%/gpumap-exporter.service.in \
	%reldir%/gpumap-sync.service.in \
	%reldir%/gpumapd.service.in %reldir%/gpumapd.socket \
	%reldir%/sysusers.d/gpumap.conf %reldir%/tmpfiles.d/gpumap.conf

if SYSTEMD
# systemd looks below /usr and /usr/local.
unitdir = $(prefix)/lib/systemd/system
unit_DATA = %reldir%/gpumapd.service %reldir%/gpumapd.socket
sysusersdir = $(prefix)/lib/sysusers.d
sysusers_DATA = %reldir%/sysusers.d/gpumap.conf
udevdir = $(prefix)/lib/udev/rules.d
udev_DATA = %reldir%/71-gpumap.rules
tmpfilesdir = $(prefix)/lib/tmpfiles.d
tmpfiles_DATA = %reldir%/tmpfiles.d/gpumap.conf
CLEANFILES += %reldir%/gpumapd.service

if PYTHON
unit_DATA += %reldir%/gpumap-exporter.service %reldir%/gpumap-sync.service
CLEANFILES += %reldir%/gpumap-exporter.service %reldir%/gpumap-sync.service
endif

gm_units = %reldir%/gpumapd.service %reldir%/gpumap-exporter.service \
	%reldir%/gpumap-sync.service
%reldir%/gpumapd.service: %reldir%/gpumapd.service.in
%reldir%/gpumap-exporter.service: %reldir%/gpumap-exporter.service.in
%reldir%/gpumap-sync.service: %reldir%/gpumap-sync.service.in
$(gm_units): Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(SED) -e 's|@sbindir[@]|$(sbindir)|' \
	  -e 's|@sysconfdir[@]|$(sysconfdir)|' $(srcdir)/$@.in >$@
endif
