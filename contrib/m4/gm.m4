# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# GM_ADD_FLAGS(VARIABLE, FLAGS)
# Append to VARIABLE each of FLAGS that the compiler takes without a warning.
AC_DEFUN([GM_ADD_FLAGS], [
  for gm_flag in $2; do
    AC_MSG_CHECKING([whether $CC takes $gm_flag])
    gm_saved_cflags=$CFLAGS
    # gcc swallows any unknown -Wno-x until it has something else to say.
    CFLAGS="$CFLAGS -Werror `AS_ECHO(["$gm_flag"]) | sed 's/^-Wno-/-W/'`"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([])],
      [AC_MSG_RESULT([yes])
       AS_VAR_APPEND([$1], [" $gm_flag"])],
      [AC_MSG_RESULT([no])])
    CFLAGS=$gm_saved_cflags
  done
])

# GM_COMPILE_FLAGS
# Flags that our code needs.  CFLAGS of the user or the distribution come after
# ours on the command line and replace none of them.
AC_DEFUN([GM_COMPILE_FLAGS], [
  AC_ARG_ENABLE([werror],
    [AS_HELP_STRING([--enable-werror], [stop at the first warning])],
    [], [enable_werror=no])

  GM_CFLAGS="-std=gnu11 -fvisibility=hidden"
  GM_ADD_FLAGS([GM_CFLAGS], [-Wall -Wextra -Wshadow -Wstrict-prototypes \
    -Wmissing-prototypes -Wold-style-definition -Wpointer-arith -Wundef \
    -Wvla -Wwrite-strings -Wformat=2 -Wimplicit-fallthrough \
    -Wno-unused-parameter])
  AS_IF([test "x$enable_werror" != xno], [AS_VAR_APPEND([GM_CFLAGS], [" -Werror"])])
  AC_SUBST([GM_CFLAGS])

  # A branch over a 32-byte boundary costs Skylake and its kin as much as a
  # whole lookup: what is compared must not differ in where it happens to lie.
  GM_BENCH_CFLAGS=
  GM_ADD_FLAGS([GM_BENCH_CFLAGS], [-Wa,-mbranches-within-32B-boundaries \
    -mbranches-within-32B-boundaries])
  AC_SUBST([GM_BENCH_CFLAGS])
])

# GM_CHECK_JOBS
# Tests wait more than they compute: two at a time run on each CPU, three on two
# CPUs where sanitizers make them compute more, unless a -j says how many.
# Automake hands AM_MAKEFLAGS to every make that it starts; only those which run
# tests get anything.
AC_DEFUN([GM_CHECK_JOBS], [
  gm_none_asked='$(if $(filter -j%,$(MAKEFLAGS)),,'
  gm_runs_tests='$(if $(filter check-TESTS recheck,$(@)),'
  gm_half_cpus=4
  AS_IF([test "x$GM_SANITIZE" != x], [gm_half_cpus=3])
  AM_MAKEFLAGS="$gm_runs_tests$gm_none_asked-j\$\$(($gm_half_cpus * \$\$(nproc) / 2))))"
  AC_SUBST([AM_MAKEFLAGS])
])

# GM_SANITIZERS
# --enable-asan, --enable-tsan, --enable-coverage, --enable-fuzz: whatever
# instruments the code, in one variable that the compiler and the linker get.
# GM_BUILD names what is on, for tests that hold in a plain build only.
AC_DEFUN([GM_SANITIZERS], [
  AC_ARG_ENABLE([asan], [AS_HELP_STRING([--enable-asan],
      [AddressSanitizer and UBSan, stop at the first report])],
    [], [enable_asan=no])
  AC_ARG_ENABLE([tsan],
    [AS_HELP_STRING([--enable-tsan], [ThreadSanitizer])], [], [enable_tsan=no])
  AC_ARG_ENABLE([coverage],
    [AS_HELP_STRING([--enable-coverage], [count lines for gcov])],
    [], [enable_coverage=no])
  AC_ARG_ENABLE([fuzz],
    [AS_HELP_STRING([--enable-fuzz], [libFuzzer targets (needs clang)])],
    [], [enable_fuzz=no])

  AS_IF([test "x$enable_asan" != xno && test "x$enable_tsan" != xno],
    [AC_MSG_ERROR([--enable-asan and --enable-tsan exclude each other])])
  GM_SANITIZE=
  GM_BUILD=
  AS_IF([test "x$enable_asan" != xno], [
    GM_SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=all"
    AS_VAR_APPEND([GM_SANITIZE], [" -fno-omit-frame-pointer"])
    AS_VAR_APPEND([GM_BUILD], [" asan"])])
  AS_IF([test "x$enable_tsan" != xno], [
    GM_SANITIZE="-fsanitize=thread"
    AS_VAR_APPEND([GM_BUILD], [" tsan"])])
  AS_IF([test "x$enable_asan$enable_tsan" != xnono],
    [AC_DEFINE([GM_SANITIZED], [1], [Define to 1 in a build with ASan or TSan.])])
  AS_IF([test "x$enable_coverage" != xno], [
    AC_DEFINE([GM_COVERED], [1], [Define to 1 in a build that counts lines.])
    AS_VAR_APPEND([GM_SANITIZE], [" --coverage"])
    AS_VAR_APPEND([GM_BUILD], [" coverage"])])
  AS_IF([test "x$enable_fuzz" != xno], [
    AS_VAR_APPEND([GM_SANITIZE], [" -fsanitize=fuzzer-no-link"])
    AS_VAR_APPEND([GM_BUILD], [" fuzz"])])

  gm_saved_cflags=$CFLAGS
  CFLAGS="$CFLAGS $GM_SANITIZE"
  AS_IF([test "x$GM_SANITIZE" != x], [
    AC_MSG_CHECKING([whether $CC links with $GM_SANITIZE])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([])], [AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no])
       AC_MSG_ERROR([$CC lacks what was asked for: its runtime library must be installed, and fuzzing needs CC=clang])])])
  CFLAGS=$gm_saved_cflags
  AC_SUBST([GM_SANITIZE])
  AM_CONDITIONAL([FUZZ], [test "x$enable_fuzz" != xno])
  AM_CONDITIONAL([TSAN], [test "x$enable_tsan" != xno])
])

# GM_ARG_TESTPOINTS
# --enable-testpoints: compile the GM_POINT()s in.  Never install such a build.
AC_DEFUN([GM_ARG_TESTPOINTS], [
  AC_ARG_ENABLE([testpoints], [AS_HELP_STRING([--enable-testpoints],
      [let tests kill or stop a process at a named instant])],
    [], [enable_testpoints=no])
  AS_IF([test "x$enable_testpoints" != xno], [
    AC_DEFINE([GM_TESTPOINTS], [1], [Define to 1 to compile test points in.])
    AS_VAR_APPEND([GM_BUILD], [" testpoints"])])
  AM_CONDITIONAL([TESTPOINTS], [test "x$enable_testpoints" != xno])
  AC_SUBST([GM_BUILD])
])

# GM_MAN
# Tarballs carry built pages, so scdoc is needed only where a page changed.
AC_DEFUN([GM_MAN], [
  AC_ARG_ENABLE([man],
    [AS_HELP_STRING([--disable-man], [no manual pages])], [], [enable_man=look])
  AC_PATH_PROG([SCDOC], [scdoc])
  gm_man=no
  AS_IF([test "x$enable_man" = xno], [],
    [test "x$SCDOC" != x || test -f "$srcdir/lib/gpumap.7"], [gm_man=yes],
    [test "x$enable_man" = xyes],
    [AC_MSG_ERROR([manual pages need scdoc (Debian, Fedora: scdoc)])])
  AM_CONDITIONAL([MAN], [test "x$gm_man" = xyes])
])

# GM_NEED(PREFIX, MODULE, DEBIAN-PACKAGE, FEDORA-PACKAGE)
AC_DEFUN([GM_NEED], [
  PKG_CHECK_MODULES([$1], [$2], [], [AC_MSG_ERROR(
    [gpumapd needs $2 (Debian: $3, Fedora: $4); --disable-agent builds the client library alone])])
])

# GM_PYTHON
# --with-python: the programs that are written in Python, where Python 3.11 and its
# headers are.  Asked for and missing is an error.  Unless PYTHON names one, the
# system's comes first: services run as users who do not see those of others.
AC_DEFUN([GM_PYTHON], [
  AC_ARG_WITH([python],
    [AS_HELP_STRING([--with-python], [gpumapctl calibrate, cluster, doctor, top, topo and trace, gpumap-exporter and gpumap-sync])],
    [], [with_python=look])
  AS_IF([test "x$enable_agent" = xno], [with_python=no])
  AS_IF([test "x$with_python" != xno], [
    gm_wants_python=$with_python
    with_python=no
    for gm_python in ${PYTHON-/usr/bin/python3 python3 python3.11 python3.12 \
        python3.13 python3.14}; do
      AS_IF([$gm_python -c 'import os, sys, sysconfig
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(sys.version_info < (3, 11) or not os.path.exists(header))' \
        2>&AS_MESSAGE_LOG_FD], [with_python=yes; break])
    done
    # By its path: a script's first line is not looked up in PATH.
    AS_IF([test "x$with_python" = xyes],
      [PYTHON=`$gm_python -c 'import sys; print(sys.executable)'`],
      [test "x$gm_wants_python" = xyes], [AC_MSG_ERROR(
        [gpumapctl calibrate, cluster, doctor, top, topo and trace, gpumap-exporter and gpumap-sync need Python 3.11 and its headers (Debian: python3-dev, Fedora: python3-devel)])])])
  AS_IF([test "x$with_python" = xyes], [
    AM_PATH_PYTHON([3.11])
    PYTHON_CPPFLAGS="-isystem `$PYTHON -c 'import sysconfig
print(sysconfig.get_path("include"))'`"])
  # A program that loads a library with ASan has to load ASan first.
  TOOL_PYTHON=$PYTHON
  AS_CASE([$GM_BUILD], [*asan*],
    [TOOL_PYTHON="/usr/bin/env -S LD_PRELOAD=`$CC -print-file-name=libasan.so` ASAN_OPTIONS=detect_leaks=0 $TOOL_PYTHON"])
  AC_SUBST([PYTHON_CPPFLAGS])
  AC_SUBST([TOOL_PYTHON])
  AM_CONDITIONAL([PYTHON], [test "x$with_python" = xyes])
])

# GM_DLOPEN
# Where dlopen is, in a variable of its own: the client library needs libc only,
# so LIBS stays as it is.
AC_DEFUN([GM_DLOPEN], [
  gm_saved_libs=$LIBS
  AC_SEARCH_LIBS([dlopen], [dl], [], [AC_MSG_ERROR([gpumapd needs dlopen])])
  DL_LIBS=
  AS_CASE([$ac_cv_search_dlopen], [-l*], [DL_LIBS=$ac_cv_search_dlopen])
  LIBS=$gm_saved_libs
  AC_SUBST([DL_LIBS])
])

# GM_WITH_HEADER(NAME, HEADER, USUAL-PREFIX)
# --with-NAME[=PREFIX]: find HEADER, never a library.  Asked for and missing is
# an error; not asked for and missing is a line in the summary.
AC_DEFUN([GM_WITH_HEADER], [
  AC_ARG_WITH([$1],
    [AS_HELP_STRING([--with-$1=PREFIX], [where include/$2 is (headers only)])],
    [], [with_$1=look])
  gm_$1=no
  m4_toupper([$1])_CPPFLAGS=
  gm_saved_cppflags=$CPPFLAGS
  AS_CASE([$with_$1],
    [no], [],
    [yes|look], [
      AC_CHECK_HEADER([$2], [gm_$1=yes])
      AS_IF([test "x$gm_$1" = xno && test -n "$3" && test -f "$3/include/$2"],
        [gm_$1=yes m4_toupper([$1])_CPPFLAGS="-isystem $3/include"])],
    [AS_IF([test -f "$with_$1/include/$2"],
      [gm_$1=yes m4_toupper([$1])_CPPFLAGS="-isystem $with_$1/include"])])
  CPPFLAGS=$gm_saved_cppflags
  AS_IF([test "x$gm_$1" = xyes],
    [AC_DEFINE([HAVE_]m4_toupper(m4_translit([$2], [./], [__])), [1],
      [Define to 1 if <$2> may be included.])],
    [test "x$with_$1" != xlook && test "x$with_$1" != xno],
    [AC_MSG_ERROR([--with-$1=$with_$1: no $2 there])])
  AC_SUBST(m4_toupper([$1])_CPPFLAGS)
])

# GM_VULKAN
# --enable-vulkan: rows of Vulkan, where its headers and a compiler of GLSL are.
# Asked for and missing is an error.  The loader is opened at run time.
AC_DEFUN([GM_VULKAN], [
  AC_ARG_ENABLE([vulkan],
    [AS_HELP_STRING([--enable-vulkan], [rows of Vulkan (auto)])],
    [], [enable_vulkan=auto])
  AC_PATH_PROG([GLSLANG], [glslangValidator])
  AS_IF([test "x$enable_agent" = xno], [enable_vulkan=no])
  gm_vulkan=no
  AS_IF([test "x$enable_vulkan" != xno && test "x$GLSLANG" != x],
    [AC_CHECK_DECL([VK_API_VERSION_1_2], [gm_vulkan=yes], [],
      [[#include <vulkan/vulkan_core.h>]])])
  AS_IF([test "x$gm_vulkan" = xyes],
    [AC_DEFINE([HAVE_VULKAN], [1], [Define to 1 to build rows of Vulkan.])],
    [test "x$enable_vulkan" = xyes],
    [AC_MSG_ERROR([--enable-vulkan needs headers of Vulkan 1.2 and glslangValidator (Debian: libvulkan-dev glslang-tools, Fedora: vulkan-headers glslang)])])
  AM_CONDITIONAL([VULKAN], [test "x$gm_vulkan" = xyes])
])

# GM_HIP
# --enable-hip: operators of HIP rows, where a clang makes code objects.
# HIP_TARGETS are the instruction sets, of those that it knows.
# ----------------------------------------------------------------------
AC_DEFUN([GM_HIP], [
  AC_ARG_ENABLE([hip],
    [AS_HELP_STRING([--enable-hip], [operators of HIP rows (auto)])],
    [], [enable_hip=auto])
  AC_ARG_VAR([HIP_TARGETS], [instruction sets of the operators of HIP rows])
  AC_PATH_PROGS([HIP_CLANG], [clang-21 clang-20 clang-19 clang-18 clang-17 clang-16 clang-15 clang-14 clang])
  AS_IF([test "x$enable_agent" = xno], [enable_hip=no])
  gm_hip=
  AS_IF([test "x$enable_hip" != xno && test "x$HIP_CLANG" != x], [
    AC_MSG_CHECKING([for AMD's instruction sets of $HIP_CLANG])
    AS_ECHO(['extern "C" __attribute__((global)) void k() {}']) >conftest.hip
    for gm_target in ${HIP_TARGETS:-gfx900 gfx906 gfx908 gfx90a gfx942 gfx950 gfx1010 gfx1030 gfx1031 gfx1032 gfx1036 gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1200 gfx1201}; do
      AS_IF([$HIP_CLANG -x hip --cuda-device-only --no-gpu-bundle-output -nogpulib -nogpuinc -mcode-object-version=4 --offload-arch=$gm_target -o conftest.co conftest.hip >&AS_MESSAGE_LOG_FD 2>&1],
        [gm_hip="${gm_hip:+$gm_hip }$gm_target"])
    done
    rm -f conftest.hip conftest.co
    AC_MSG_RESULT([${gm_hip:-none}])
  ])
  HIP_TARGETS=$gm_hip
  AS_IF([test "x$gm_hip" != x],
    [AC_DEFINE([HAVE_HIP_OPERATORS], [1], [Define to 1 to build operators of HIP rows.])],
    [test "x$enable_hip" = xyes],
    [AC_MSG_ERROR([--enable-hip needs a clang and an lld that make code for AMD's cards (Debian: clang lld, Fedora: clang lld)])])
  AM_CONDITIONAL([HIP], [test "x$gm_hip" != x])
])

# GM_SUMMARY
# Print the decisions in one screen, and the packages that bring what was left out.
AC_DEFUN([GM_SUMMARY], [
  gm_with() {
    AS_CASE([$[]1], [no], [AS_ECHO(["no ($[]2)"])], [AS_ECHO([yes])])
  }
  AS_ECHO(["
gpumap $PACKAGE_VERSION

  prefix        $prefix
  compiler      $CC $CFLAGS
  agent         $enable_agent
  python tools  `gm_with $with_python 'Debian: python3-dev, Fedora: python3-devel'`
  cuda.h        `gm_with $gm_cuda 'for tests alone'`
  nccl.h        `gm_with $gm_nccl 'for tests alone'`
  vulkan        `gm_with $gm_vulkan 'Debian: libvulkan-dev glslang-tools, Fedora: vulkan-headers glslang'`
  hip operators ${gm_hip:-no (Debian, Fedora: clang lld)}
  sys/sdt.h     `gm_with $gm_sdt 'Debian: systemtap-sdt-dev, Fedora: systemtap-sdt-devel'`
  manual pages  $gm_man
  build         ${GM_BUILD:-plain}
"])
])
