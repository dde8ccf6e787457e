# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# contrib/apparmor: profiles of the agent and of what it starts.
EXTRA_DIST += %reldir%/gpumapd.in

if AGENT
noinst_DATA += %reldir%/gpumapd
CLEANFILES += %reldir%/gpumapd

%reldir%/gpumapd: %reldir%/gpumapd.in Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(SED) -e 's|@sbindir[@]|$(sbindir)|' \
	  -e 's|@bindir[@]|$(bindir)|' -e 's|@libdir[@]|$(libdir)|' \
	  -e 's|@pkglibexecdir[@]|$(pkglibexecdir)|' \
	  -e 's|@sysconfdir[@]|$(sysconfdir)|' \
	  $(srcdir)/%reldir%/gpumapd.in >$@
endif
if APPARMOR
apparmordir = $(sysconfdir)/apparmor.d
apparmor_DATA = %reldir%/gpumapd
endif
