/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * opencl_build - has texts compiled by a gpumap-build of the worker's own, and
 * keeps the operators' binaries for the row's next workers.
 */

#include "agent/device/opencl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/common/fds.h"
#include "agent/common/log.h"
#include "agent/common/memory_file.h"
#include "agent/common/write_all.h"

/* gpumap-build needs some time to find that a limit has passed. */
#define WAIT_S     (GM_BUILD_WAIT_S + 10)
#define SAID_BYTES 512u /* PoCL's version has more than 128 */

static int start(struct gm_opencl *opencl,
		 const struct gm_device_config *config)
{
	const char *argv[] = { config->builder,
			       "--library",
			       config->library,
			       "--device",
			       config->uuid ? config->uuid : "",
			       "--cache",
			       config->cache,
			       NULL };
	const struct timeval limit = { .tv_sec = WAIT_S };
	posix_spawn_file_actions_t files;
	int pair[2], error;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	posix_spawn_file_actions_init(&files);
	error = posix_spawn_file_actions_addopen(&files, STDIN_FILENO,
						 "/dev/null", O_RDONLY, 0);
	if (error == 0)
		error = posix_spawn_file_actions_adddup2(&files, pair[1],
							 GM_BUILD_FD);
	if (error == 0)
		error = posix_spawn_file_actions_addclosefrom_np(
			&files, GM_BUILD_FD + 1);
	if (error == 0)
		error = posix_spawn(&opencl->builder, config->builder, &files,
				    NULL, (char *const *)(uintptr_t)argv,
				    environ);
	posix_spawn_file_actions_destroy(&files);
	close(pair[1]);
	if (error) {
		opencl->builder = 0;
		close(pair[0]);
	}
	opencl->builder_socket = pair[0];
	return -error;
}

int gm_opencl_builder_open(struct gm_opencl *opencl,
			   const struct gm_device_config *config)
{
	int rc;

	opencl->kept = config->operators;
	opencl->keeps = config->operators && config->cache &&
			strcmp(config->operators, config->cache) == 0;
	if (!config->cache) {
		snprintf(opencl->gpu.why, sizeof(opencl->gpu.why),
			 "there is no folder for its compiler: see cache in "
			 "[opencl] of gpumapd.conf");
		return -ENOENT;
	}
	rc = start(opencl, config);
	if (rc < 0)
		snprintf(opencl->gpu.why, sizeof(opencl->gpu.why),
			 "%.300s cannot be started: %s", config->builder,
			 strerror(-rc));
	return rc;
}

/* gpumap-build ends when its socket is closed. */
void gm_opencl_builder_close(struct gm_opencl *opencl)
{
	if (!opencl->builder)
		return;
	close(opencl->builder_socket);
	while (waitpid(opencl->builder, NULL, 0) < 0 && errno == EINTR)
		;
	opencl->builder = 0;
}

/* ---- one text ------------------------------------------------------------ */

/* Returns 0; -EPIPE: it is gone, or its answer would come later, and be taken
 * for the next one's. */
static int exchange(int socket, const struct gm_build_ask *ask,
		    const int fds[2], struct gm_build_answer *ret_answer)
{
	struct iovec part = { (void *)(uintptr_t)ask, sizeof(*ask) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	union gm_fds_room room;
	ssize_t n;

	gm_fds_put(&message, &room, fds, 2);
	do {
		n = sendmsg(socket, &message, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -EPIPE;
	do {
		n = recv(socket, ret_answer, sizeof(*ret_answer), 0);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*ret_answer) ? 0 : -EPIPE;
}

/* All of a file, copied: a stranger's compiler may have it still.  The caller
 * frees it.  NULL: it is none of ours, or there is no memory. */
static unsigned char *read_all(int fd, size_t *ret_n)
{
	unsigned char *bytes = NULL;
	struct stat st;

	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    (uint64_t)st.st_size <= GM_BUILD_MAX)
		bytes = malloc((size_t)st.st_size + 1);
	if (bytes && pread(fd, bytes, (size_t)st.st_size, 0) != st.st_size) {
		free(bytes);
		return NULL;
	}
	*ret_n = bytes ? (size_t)st.st_size : 0;
	return bytes;
}

static int take_binary(struct gm_opencl *opencl, const unsigned char *binary,
		       size_t bytes, gm_cl *ret_program)
{
	const struct gm_opencl_calls *cl = opencl->cl;
	gm_cl_int error = GM_CL_SUCCESS, status = GM_CL_SUCCESS;
	gm_cl program = cl->clCreateProgramWithBinary(opencl->context, 1,
						      &opencl->device, &bytes,
						      &binary, &status, &error);

	if (error != GM_CL_SUCCESS)
		return -ENOEXEC;
	error = cl->clBuildProgram(program, 1, &opencl->device, "", NULL, NULL);
	if (error != GM_CL_SUCCESS) {
		(void)cl->clReleaseProgram(program);
		return error == GM_CL_OUT_OF_HOST_MEMORY ? -ENOMEM : -ENOEXEC;
	}
	*ret_program = program;
	return 0;
}

/* ---- what is kept -------------------------------------------------------- */

/* A kept file begins with it, and its 0: the binary follows.  NULL: no memory,
 * or the device does not say which it is. */
static char *make_key(const struct gm_opencl *opencl,
		      const struct gm_kernel_image *image, const char *options)
{
	static const gm_cl_uint names[] = { GM_CL_DEVICE_NAME,
					    GM_CL_DEVICE_VERSION,
					    GM_CL_DRIVER_VERSION };
	char said[3][SAID_BYTES] = { "" };
	char *key;

	for (size_t i = 0; i < 3; i++)
		if (opencl->cl->clGetDeviceInfo(opencl->device, names[i],
						SAID_BYTES - 1, said[i],
						NULL) != GM_CL_SUCCESS)
			return NULL;
	return asprintf(&key, "%s\n%s\n%s\n%s\n%s", said[0], said[1], said[2],
			options, (const char *)image->bytes) < 0
		       ? NULL
		       : key;
}

/* Returns 0; negative: it is to be compiled. */
static int take_kept(struct gm_opencl *opencl, const char *path,
		     const char *key, gm_cl *ret_program)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	size_t n_key = strlen(key) + 1, n = 0;
	unsigned char *bytes = fd < 0 ? NULL : read_all(fd, &n);
	int rc = -ENOENT;

	if (fd < 0 && errno != ENOENT)
		gm_log(GM_LOG_WARNING, "operators_not_read", "path=%s error=%s",
		       gm_quote(path).text, gm_quote(strerror(errno)).text);
	if (fd >= 0)
		close(fd);
	if (bytes && n > n_key && memcmp(bytes, key, n_key) == 0)
		rc = take_binary(opencl, bytes + n_key, n - n_key, ret_program);
	free(bytes);
	return rc;
}

/* A file that is not written costs the next worker its time. */
static void keep(const char *folder, const char *path, const char *key,
		 const unsigned char *binary, size_t n)
{
	char made[PATH_MAX];
	int fd, rc;

	snprintf(made, sizeof(made), "%s/made", folder);
	fd = open(made, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	rc = fd < 0 ? -errno : gm_write_all(fd, key, strlen(key) + 1);
	if (rc == 0)
		rc = gm_write_all(fd, binary, n);
	if (rc == 0 && (fsync(fd) < 0 || rename(made, path) < 0))
		rc = -errno;
	if (fd >= 0)
		close(fd);
	if (rc < 0)
		gm_log(GM_LOG_WARNING, "operators_not_kept", "path=%s error=%s",
		       gm_quote(path).text, gm_quote(strerror(-rc)).text);
}

/* ---- a program ----------------------------------------------------------- */

/* The text compiled.  The caller frees ret_made, whose binary is behind
 * @answer. */
static int compile(struct gm_opencl *opencl,
		   const struct gm_kernel_image *image, const char *options,
		   struct gm_build_answer *answer, unsigned char **ret_made,
		   size_t *ret_n)
{
	int fds[2] = { gm_memory_file("gpumap-text"),
		       gm_memory_file("gpumap-built") };
	int rc = fds[0] < 0 ? fds[0] : fds[1] < 0 ? fds[1] : 0;
	struct gm_build_ask ask = { 0 };

	snprintf(ask.options, sizeof(ask.options), "%s", options);
	snprintf(ask.kernel, sizeof(ask.kernel), "%s", image->kernel);
	if (rc == 0)
		rc = gm_write_all(fds[0], image->bytes, image->n);
	if (rc == 0)
		rc = exchange(opencl->builder_socket, &ask, fds, answer);
	if (rc == 0)
		rc = answer->status;
	if (rc == 0) {
		*ret_made = read_all(fds[1], ret_n);
		rc = *ret_made && *ret_n >= sizeof(*answer) ? 0 : -EIO;
	}
	if (rc == 0) {
		memcpy(answer, *ret_made, sizeof(*answer));
		rc = answer->status <= 0 ? answer->status : -EIO;
	}
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return rc;
}

int gm_opencl_build(struct gm_opencl *opencl,
		    const struct gm_kernel_image *image, const char *options,
		    const char *kept, gm_cl *ret_program,
		    char ret_why[GM_BUILD_LOG])
{
	const size_t head = sizeof(struct gm_build_answer);
	struct gm_build_answer answer = { 0 };
	char path[PATH_MAX], *key = NULL;
	unsigned char *made = NULL;
	size_t n = 0;
	int rc = -ENOENT;

	if (kept && opencl->kept) {
		snprintf(path, sizeof(path), "%s/%s", opencl->kept, kept);
		key = make_key(opencl, image, options);
	}
	if (key)
		rc = take_kept(opencl, path, key, ret_program);
	if (rc < 0) {
		rc = compile(opencl, image, options, &answer, &made, &n);
		if (rc == 0)
			rc = take_binary(opencl, made + head, n - head,
					 ret_program);
		if (rc == 0 && key && opencl->keeps)
			keep(opencl->kept, path, key, made + head, n - head);
	}
	free(made);
	free(key);
	/* Nothing starts another in a process that is confined. */
	if (rc == -EPIPE)
		rc = gm_stream_lose(&opencl->gpu, 0, "gpumap-build has ended");
	answer.why[GM_BUILD_LOG - 1] = '\0';
	snprintf(ret_why, GM_BUILD_LOG, "%s",
		 rc == 0 || answer.why[0] ? answer.why : strerror(-rc));
	return rc;
}
