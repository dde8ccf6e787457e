# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# contrib/rpm: packages of rpm, which rpmbuild makes of a release.
EXTRA_DIST += %reldir%/build-packages
EXTRA_DIST += %reldir%/check
EXTRA_DIST += %reldir%/gpumap.rpmlintrc
EXTRA_DIST += %reldir%/gpumap.spec.in

.PHONY: rpm clean-rpm
rpm: dist
	$(AM_V_at)$(srcdir)/%reldir%/build-packages $(distdir).tar.xz rpms
clean-rpm:
	rm -rf rpms
clean-local: clean-rpm
