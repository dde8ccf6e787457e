/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * library - finds a library of NVIDIA's at run time.
 *
 * The order of places: the library that this process has loaded already,
 * because two copies of a driver in one process do not agree; the one that the
 * system's linker finds; the folders that installers and container runtimes
 * use.  A driver's library that came with a toolkit ("compat") works with few
 * cards and fails with CUDA error 803 beside a newer driver, so one is taken
 * only from the folder that the administrator named, and then instead of the
 * system's.
 *
 * A driver opens further libraries of its own by their bare names, which the
 * linker does not find in a folder that only this search knows.  They are
 * opened from there first: a library that is loaded is found by its name.
 *
 * A missing library is no fault, and is told apart from one that is there and
 * cannot be loaded.
 */
#ifndef GM_LIBRARY_H
#define GM_LIBRARY_H

#define GM_LIBRARY_WHY_BYTES  512
#define GM_LIBRARY_PATH_BYTES 256

struct gm_library_where {
	const char *soname; /* "libcuda.so.1" */
	const char *compat; /* folder of the library to take instead, or NULL */
	const char *const *folders; /* ends with NULL; NULL: the usual ones */
	/* Further libraries that it opens by name; ends with NULL; NULL: none.
	 * The version of its file follows a name that ends with a dot. */
	const char *const *further;
};

struct gm_library {
	void *handle;                     /* of dlopen */
	char path[GM_LIBRARY_PATH_BYTES]; /* of the file; cut, for people */
};

/*
 * gm_library_open - load it
 *
 * ret_why	GM_LIBRARY_WHY_BYTES; on failure, a line that says what was
 *		looked for and met
 *
 * The library stays until the process ends: a driver leaves threads and exit
 * handlers behind that need it.
 *
 * Returns	0
 *		-ENOENT		it is nowhere
 *		-ELIBBAD	it is there and cannot be loaded, or is a compat
 *				library that was not asked for
 * Threads	any
 */
int gm_library_open(const struct gm_library_where *where,
		    struct gm_library *ret_library, char *ret_why);

#endif
