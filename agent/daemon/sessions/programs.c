/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sessions/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/daemon/base/memfd.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/sessions/session.h"
#include "gpumap.h"
#include "lib/model/plan/size_text.h"
#include "shm/queue.h"

#define NAME_BYTES GM_PROGRAM_NAME_BYTES

/* ---- who --------------------------------------------------------------- */

int gm_program_policy(struct gm_connection *c)
{
	switch (c->server->d->config->programs_policy) {
	case GM_CONFIG_PROGRAMS_ANY:
		return 0;
	case GM_CONFIG_PROGRAMS_SAME_USER:
		if (gm_user_is_privileged(c->uid))
			return 0;
		return gm_connection_bad(
			c, -EPERM,
			"uid %u may not run programs: policy in [programs] of "
			"gpumapd.conf is same-user, which is root and uid %u; "
			"set it to any",
			(unsigned)c->uid, (unsigned)geteuid());
	default:
		return gm_connection_bad(
			c, -EPERM,
			"this agent runs no programs of clients: policy in "
			"[programs] of gpumapd.conf is operators-only; set it "
			"to same-user or any");
	}
}

/* ---- which ------------------------------------------------------------- */

#define WORD                          \
	"abcdefghijklmnopqrstuvwxyz"  \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZ_" \
	"0123456789"

/* The name is part of messages, too. */
static bool is_made_of(const char *good, const char name[NAME_BYTES])
{
	size_t n = strnlen(name, NAME_BYTES);

	return n > 0 && n < NAME_BYTES && strspn(name, good) == n;
}

/* The characters that a name in a path may have. */
static bool is_name(const char *name)
{
	return name[0] != '.' && is_made_of(WORD ".-", name);
}

/* Only root and the agent's user could have changed it.  Above the last folder,
 * a folder that all users may write is as good where it is sticky: others
 * cannot rename our entries there. */
static int check(int fd, const char *path, bool above, char *ret_why)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return gm_why(ret_why, -errno, "%s: %s", path, strerror(errno));
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return gm_why(ret_why, -EPERM,
			      "%s belongs to uid %u: programs, and the folders "
			      "that they are in, have to be root's or uid %u's",
			      path, (unsigned)st.st_uid, (unsigned)geteuid());
	if ((st.st_mode & 022) && !(above && (st.st_mode & S_ISVTX)))
		return gm_why(ret_why, -EPERM,
			      "%s can be written by others (mode %04o): chmod "
			      "go-w",
			      path, (unsigned)st.st_mode & 07777);
	return 0;
}

static int why_not(int error, const char *path, char *ret_why)
{
	if (error == ELOOP)
		return gm_why(ret_why, -EPERM,
			      "%s is a symbolic link: have the thing itself "
			      "there, or give the path that it leads to",
			      path);
	if (error == ENOTDIR)
		return gm_why(ret_why, -EPERM,
			      "%s is no folder, or a symbolic link: give the "
			      "path that it leads to",
			      path);
	return gm_why(ret_why, -error, "%s: %s", path, strerror(error));
}

/* One folder further.  @fd is closed. */
static int step(int fd, const char *word, const char *path, bool above,
		char *ret_why)
{
	int next = openat(fd, word,
			  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int error = next < 0 ? why_not(errno, path, ret_why)
			     : check(next, path, above, ret_why);

	close(fd);
	if (error && next >= 0)
		close(next);
	return error ? error : next;
}

/* Every folder from the root on.  Returns the last one's descriptor. */
static int walk(const char *directory, char *ret_why)
{
	char path[PATH_MAX];
	char *word, *end;
	int fd;

	if (snprintf(path, sizeof(path), "%s", directory) >= (int)sizeof(path))
		return gm_why(ret_why, -ENAMETOOLONG, "%.60s...: %s", directory,
			      strerror(ENAMETOOLONG));
	for (end = path + strlen(path); end > path + 1 && end[-1] == '/';)
		*--end = '\0';
	fd = step(AT_FDCWD, "/", "/", path[1] != '\0', ret_why);
	for (word = path + 1; fd >= 0 && *word; word = end) {
		char after;

		end = word + strcspn(word, "/");
		after = *end;
		*end = '\0';
		if (*word)
			fd = step(fd, word, path, after != '\0', ret_why);
		*end = after;
		end += after != '\0';
	}
	return fd;
}

static int check_size(const struct gm_config *config, uint64_t bytes,
		      const char *what, char *ret_why)
{
	if (bytes <= config->image_bytes)
		return 0;
	return gm_why(ret_why, -EFBIG,
		      "%s has %s, the limit is %s; raise image-limit in "
		      "[programs] of gpumapd.conf",
		      what, gm_size_up(bytes).text,
		      gm_size_down(config->image_bytes).text);
}

static int check_file(int fd, const char *path, uint64_t *ret_bytes,
		      char *ret_why)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return gm_why(ret_why, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return gm_why(ret_why, -EPERM, "%s is no regular file", path);
	*ret_bytes = (uint64_t)st.st_size;
	return check(fd, path, false, ret_why);
}

enum gm_program_form gm_program_form(const struct gm_device *device)
{
	switch (device->facts.kind) {
	case GPUMAP_DEVICE_CUDA:
		return GM_PROGRAM_IMAGE;
	case GPUMAP_DEVICE_OPENCL:
		return GM_PROGRAM_TEXT;
	case GPUMAP_DEVICE_VULKAN:
		return GM_PROGRAM_MODULE;
	case GPUMAP_DEVICE_HIP:
		return GM_PROGRAM_CODE;
	default:
		return GM_PROGRAM_OBJECT;
	}
}

/* The file names that a program may have; the first that exists counts. */
static const char *const suffixes[GM_PROGRAM_FORMS][4] = {
	[GM_PROGRAM_OBJECT] = { ".so" },
	[GM_PROGRAM_IMAGE] = { ".fatbin", ".cubin", ".ptx" },
	[GM_PROGRAM_TEXT] = { ".cl", ".cl.spv" },
	[GM_PROGRAM_MODULE] = { ".spv" },
	[GM_PROGRAM_CODE] = { ".hsaco", ".co" },
};

/* @file has room for a name and any suffix.  Returns a descriptor, or what the
 * first of the names says. */
static int open_any(int folder, const char *name, const char *const *suffix,
		    char *file, size_t room)
{
	int fd = -1, error = -ENOENT;

	for (; fd < 0 && error == -ENOENT && *suffix; suffix++) {
		snprintf(file, room, "%s%s", name, *suffix);
		/* The open of a special file may wait. */
		fd = openat(folder, file,
			    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY |
				    O_CLOEXEC);
		error = fd < 0 ? -errno : 0;
	}
	return error ? error : fd;
}

int gm_program_open(const struct gm_config *config, const char name[64],
		    enum gm_program_form form, int *ret_fd,
		    char ret_why[GM_WHY_BYTES])
{
	const char *directory = config->programs_directory;
	char file[NAME_BYTES + 16], path[PATH_MAX];
	uint64_t bytes = 0;
	int folder, fd, error;

	if (!is_name(name))
		return gm_why(ret_why, -EINVAL,
			      "a program's name is up to %u letters, digits, "
			      "'.', '_' and '-', and does not begin with '.'",
			      NAME_BYTES - 1);
	if (!directory)
		directory = GM_PROGRAMS_DIRECTORY;
	folder = walk(directory, ret_why);
	if (folder < 0)
		return folder;
	fd = open_any(folder, name, suffixes[form], file, sizeof(file));
	error = fd < 0 ? fd : 0;
	close(folder);
	if (snprintf(path, sizeof(path), "%s/%s", directory, file) >=
	    (int)sizeof(path))
		snprintf(path, sizeof(path), "%s", file);
	if (error)
		return why_not(-error, path, ret_why);
	error = check_file(fd, path, &bytes, ret_why);
	if (error == 0 && form != GM_PROGRAM_OBJECT)
		error = check_size(config, bytes, path, ret_why);
	if (error) {
		close(fd);
		return error;
	}
	*ret_fd = fd;
	return 0;
}

static enum gm_program_form form_of(const struct gm_connection *c, uint32_t row)
{
	return gm_program_form(c->server->d->devices->of[row]);
}

/* The file that rows of a form get for a name. */
static int file_bytes(struct gm_connection *c, const char *name,
		      enum gm_program_form form, uint64_t *ret_bytes)
{
	struct stat st;
	int fd, error;

	error = gm_program_open(c->server->d->config, name, form, &fd,
				c->server->why);
	if (error)
		return error;
	if (fstat(fd, &st) != 0)
		error = -errno;
	else
		*ret_bytes = (uint64_t)st.st_size;
	close(fd);
	return error;
}

int gm_program_bytes(struct gm_connection *c, const struct gm_program_ask *ask,
		     uint64_t *ret_bytes)
{
	enum gm_program_form asked = form_of(c, ask->row);
	uint64_t bytes[GM_PROGRAM_FORMS] = { 0 }, sum = 0;
	int error = file_bytes(c, ask->name, asked, &bytes[asked]);

	if (error)
		return error;
	/* There need be none for the others. */
	for (uint32_t form = 0; form < GM_PROGRAM_FORMS; form++)
		if (form != asked)
			(void)file_bytes(c, ask->name, form, &bytes[form]);
	for (uint32_t i = 0; i < c->session->n_rows; i++)
		if (__builtin_add_overflow(sum, bytes[form_of(c, i)], &sum))
			return -EOVERFLOW;
	*ret_bytes = sum;
	return 0;
}

int gm_program_check_image(const struct gm_config *config, int fd,
			   uint64_t *ret_bytes, char ret_why[GM_WHY_BYTES])
{
	uint64_t bytes = 0;
	int error = gm_memfd_bytes(fd, &bytes, ret_why);

	if (error)
		return error;
	if (bytes == 0)
		return gm_why(ret_why, -EINVAL, "an image has at least a byte");
	error = gm_memfd_check_fixed(fd, "the image", ret_why);
	if (error == 0)
		error = check_size(config, bytes, "the image", ret_why);
	if (error == 0)
		*ret_bytes = bytes;
	return error;
}

bool gm_program_is_kernel(const char name[GM_PROGRAM_NAME_BYTES])
{
	return is_made_of(WORD "$", name);
}
