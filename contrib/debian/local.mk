# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# contrib/debian: Debian's packages, which dpkg-buildpackage makes of a release.
EXTRA_DIST += %reldir%/build-packages
EXTRA_DIST += %reldir%/changelog.in
EXTRA_DIST += %reldir%/check
EXTRA_DIST += %reldir%/check-installed
EXTRA_DIST += %reldir%/clean
EXTRA_DIST += %reldir%/control
EXTRA_DIST += %reldir%/copyright
EXTRA_DIST += %reldir%/gpumap-exporter.env
EXTRA_DIST += %reldir%/gpumap-exporter.install
EXTRA_DIST += %reldir%/gpumap-sync.install
EXTRA_DIST += %reldir%/gpumap-sync.postrm
EXTRA_DIST += %reldir%/gpumap-tools.docs
EXTRA_DIST += %reldir%/gpumap-tools.examples
EXTRA_DIST += %reldir%/gpumap-tools.install
EXTRA_DIST += %reldir%/gpumapd.README.Debian
EXTRA_DIST += %reldir%/gpumapd.install
EXTRA_DIST += %reldir%/gpumapd.postrm
EXTRA_DIST += %reldir%/gpumapd.prerm
EXTRA_DIST += %reldir%/libgpumap-dev.examples
EXTRA_DIST += %reldir%/libgpumap-dev.install
EXTRA_DIST += %reldir%/libgpumap-model0.install
EXTRA_DIST += %reldir%/libgpumap-model0.symbols
EXTRA_DIST += %reldir%/libgpumap0.install
EXTRA_DIST += %reldir%/libgpumap0.symbols
EXTRA_DIST += %reldir%/not-installed
EXTRA_DIST += %reldir%/python3-gpumap.docs
EXTRA_DIST += %reldir%/python3-gpumap.install
EXTRA_DIST += %reldir%/rules
EXTRA_DIST += %reldir%/source/format
EXTRA_DIST += %reldir%/tests/client
EXTRA_DIST += %reldir%/tests/control
EXTRA_DIST += %reldir%/tests/story

.PHONY: deb clean-deb
deb: clean-deb
	$(AM_V_at)$(srcdir)/%reldir%/build-packages --needs
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) dist
	$(AM_V_at)$(srcdir)/%reldir%/build-packages $(distdir).tar.xz \
	  packages
clean-deb:
	rm -rf packages
clean-local: clean-deb
