/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/cuda/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Debian, Fedora, a container runtime's, WSL's, NixOS'. */
static const char *const usual_folders[] = {
#if defined(__x86_64__)
	"/usr/lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
	"/usr/lib/aarch64-linux-gnu",
#endif
	"/usr/lib64",
	"/usr/lib",
	"/usr/local/nvidia/lib64",
	"/usr/lib/wsl/lib",
	"/run/opengl-driver/lib",
	NULL,
};

struct search {
	const struct gm_library_where *where;
	struct gm_library found;
	char broken[GM_LIBRARY_WHY_BYTES]; /* the first that did not do */
};

static void note_broken(struct search *s, const char *what, const char *why)
{
	if (!s->broken[0])
		snprintf(s->broken, sizeof(s->broken), "%.300s%s", what, why);
}

/* The file that a handle is, or the name that it was asked for by. */
static void note_path(struct gm_library *library, const char *name)
{
	struct link_map *map = NULL;

	if (dlinfo(library->handle, RTLD_DI_LINKMAP, &map) == 0 && map &&
	    map->l_name && map->l_name[0])
		name = map->l_name;
	snprintf(library->path, sizeof(library->path), "%s", name);
}

/* Toolkits and containers keep it in a folder of this name, or below one. */
static bool is_compat(const char *path)
{
	char real[PATH_MAX];

	return realpath(path, real) && strstr(real, "/compat/");
}

/* Take what dlopen gave, unless it is a compat library that came by itself. */
static bool take(struct search *s, void *handle, const char *name, bool any)
{
	struct gm_library found = { .handle = handle };

	note_path(&found, name);
	if (!any && is_compat(found.path)) {
		note_broken(s, found.path,
			    " is a compat library, which only the cuda.compat "
			    "setting selects");
		dlclose(handle);
		return false;
	}
	s->found = found;
	return true;
}

/* dlerror() has one text for "no such library" and for what that one needs. */
static bool says_absent(const char *error, const char *name)
{
	return strstr(error, name) && strstr(error, strerror(ENOENT));
}

static bool try_loaded(struct search *s)
{
	const char *name = s->where->soname;
	void *handle = dlopen(name, RTLD_NOW | RTLD_NOLOAD);

	return handle && take(s, handle, name, true);
}

static bool try_name(struct search *s)
{
	const char *name = s->where->soname;
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	const char *error;

	if (handle)
		return take(s, handle, name, false);
	error = dlerror();
	if (error && !says_absent(error, name))
		note_broken(s, error, "");
	return false;
}

/* "535.261.03" of the file that libcuda.so.1 leads to, or "". */
static void read_version(const char *path, char ret_version[64])
{
	char real[PATH_MAX];
	const char *at = realpath(path, real) ? strrchr(real, '/') : NULL;

	at = at ? strstr(at, ".so.") : NULL;
	snprintf(ret_version, 64, "%s", at ? at + strlen(".so.") : "");
}

/* One that is absent or cannot be loaded is missed by the driver, which says
 * so when it needs it. */
static void open_further(const struct search *s, const char *folder,
			 const char *path)
{
	const char *const *name = s->where->further;
	char version[64], one[PATH_MAX];

	read_version(path, version);
	for (; name && *name; name++) {
		bool has_dot = (*name)[strlen(*name) - 1] == '.';
		int n = snprintf(one, sizeof(one), "%s/%s%s", folder, *name,
				 has_dot ? version : "");

		if (n > 0 && (size_t)n < sizeof(one))
			(void)dlopen(one, RTLD_NOW | RTLD_LOCAL);
	}
}

static bool try_folder(struct search *s, const char *folder, bool any)
{
	char path[PATH_MAX];
	const char *error;
	void *handle;
	int n = snprintf(path, sizeof(path), "%s/%s", folder, s->where->soname);

	if (n < 0 || (size_t)n >= sizeof(path) || access(path, F_OK) != 0)
		return false;
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (handle) {
		if (!take(s, handle, path, any))
			return false;
		open_further(s, folder, path);
		return true;
	}
	error = dlerror();
	note_broken(s, error ? error : path, "");
	return false;
}

static bool try_folders(struct search *s)
{
	const char *const *folder = s->where->folders;

	for (folder = folder ? folder : usual_folders; *folder; folder++) {
		if (try_folder(s, *folder, false))
			return true;
	}
	return false;
}

static bool find(struct search *s)
{
	const char *compat = s->where->compat;

	if (try_loaded(s))
		return true;
	if (!compat)
		return try_name(s) || try_folders(s);
	/* Asked for by name: that it is not there is a fault. */
	if (try_folder(s, compat, true))
		return true;
	note_broken(s, compat, " has no such library");
	return false;
}

int gm_library_open(const struct gm_library_where *where,
		    struct gm_library *ret_library, char *ret_why)
{
	struct search s = { .where = where };

	if (find(&s)) {
		*ret_library = s.found;
		return 0;
	}
	if (s.broken[0]) {
		snprintf(ret_why, GM_LIBRARY_WHY_BYTES,
			 "cannot load %s: %.440s", where->soname, s.broken);
		return -ELIBBAD;
	}
	snprintf(ret_why, GM_LIBRARY_WHY_BYTES,
		 "there is no %s: no NVIDIA driver is installed, or this "
		 "container was not given it",
		 where->soname);
	return -ENOENT;
}
