/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/probe/role.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/common/node_clock.h"
#include "agent/common/running_clock.h"
#include "agent/probe/parse.h"

#define ARGUMENTS (16u + 2 * GM_PROBE_SKIPS)
#define ADDED     4u /* variables of ours, and the end */

/* Where no MPS daemon ever listens: cuInit would join any that does. */
#define NO_PIPES "CUDA_MPS_PIPE_DIRECTORY=/nonexistent"

static struct gm_running_clock running;

uint64_t gm_role_now(void)
{
	return gm_running_clock_read(&running, gm_node_clock_now());
}

void gm_role_sleep(uint64_t ns)
{
	gm_running_clock_sleep(&running, ns);
}

struct words {
	char *argv[ARGUMENTS + 1];
	uint32_t n;
	char text[4][16]; /* of numbers */
	uint32_t n_texts;
};

static void add(struct words *w, const char *option, const char *value)
{
	if (w->n + 2 > ARGUMENTS)
		return;
	w->argv[w->n++] = (char *)option;
	if (value)
		w->argv[w->n++] = (char *)value;
	w->argv[w->n] = NULL;
}

static void add_number(struct words *w, const char *option, uint32_t number)
{
	char *text = w->text[w->n_texts++];

	snprintf(text, sizeof(w->text[0]), "%u", number);
	add(w, option, text);
}

static void make_words(const struct gm_probe_options *o, struct words *w)
{
	*w = (struct words){ 0 };
	add(w, "gpumap-probe", NULL);
	if (o->library)
		add(w, "--library", o->library);
	if (o->sysfs)
		add(w, "--sysfs", o->sysfs);
	add_number(w, "--refresh", o->refresh_ms);
	switch (o->role) {
	case GM_ROLE_CENSUS:
		add(w, "--census", NULL);
		break;
	case GM_ROLE_WATCH:
		add_number(w, "--watch", o->index);
		for (uint32_t i = 0; i < o->n_skips; i++)
			add(w, "--skip", o->skips[i]);
		break;
	case GM_ROLE_PEERS:
		add(w, "--peers", o->list);
		break;
	default:
		add(w, "--driver", o->order);
		if (o->device)
			add(w, "--device", o->device);
	}
}

static bool begins(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Variables that would change which cards a driver shows, or their order. */
static bool is_misleading(const char *variable)
{
	if (begins(variable, "CUDA_CACHE_PATH=") ||
	    begins(variable, "CUDA_MPS_PIPE_DIRECTORY="))
		return false;
	return begins(variable, "CUDA_") || begins(variable, "NVIDIA_") ||
	       begins(variable, "NCCL_");
}

struct environment {
	char **variables; /* to be freed */
	char order[64];
	char visible[96];
};

static int make_environment(const struct gm_probe_options *o,
			    struct environment *env)
{
	bool has_pipes = false;
	size_t n = 0;

	while (environ[n])
		n++;
	env->variables = calloc(n + ADDED, sizeof(*env->variables));
	if (!env->variables)
		return -ENOMEM;
	n = 0;
	for (char **v = environ; *v; v++) {
		if (is_misleading(*v))
			continue;
		has_pipes |= begins(*v, "CUDA_MPS_PIPE_DIRECTORY=");
		env->variables[n++] = *v;
	}
	if (!has_pipes)
		env->variables[n++] = (char *)NO_PIPES;
	if (o->order) {
		snprintf(env->order, sizeof(env->order), "CUDA_DEVICE_ORDER=%s",
			 o->order);
		env->variables[n++] = env->order;
	}
	if (o->device) {
		snprintf(env->visible, sizeof(env->visible),
			 "CUDA_VISIBLE_DEVICES=%s", o->device);
		env->variables[n++] = env->visible;
	}
	return 0;
}

static int describe(posix_spawn_file_actions_t *files, int socket)
{
	int error;

	error = posix_spawn_file_actions_addopen(files, STDIN_FILENO,
						 "/dev/null", O_RDONLY, 0);
	if (error == 0)
		error = posix_spawn_file_actions_adddup2(files, STDERR_FILENO,
							 STDOUT_FILENO);
	if (error == 0)
		error = posix_spawn_file_actions_adddup2(files, socket,
							 GM_PROBE_FD);
	if (error == 0)
		error = posix_spawn_file_actions_addclosefrom_np(
			files, GM_PROBE_FD + 1);
	return error;
}

/* Our own file, whatever has been installed in its place since. */
static int spawn(const struct gm_probe_options *o, int socket, pid_t *ret_pid)
{
	posix_spawn_file_actions_t files;
	struct environment env;
	struct words words;
	int error;

	make_words(o, &words);
	error = make_environment(o, &env);
	if (error)
		return error;
	error = posix_spawn_file_actions_init(&files);
	if (error) {
		free(env.variables);
		return -error;
	}
	error = describe(&files, socket);
	if (error == 0)
		error = posix_spawn(ret_pid, "/proc/self/exe", &files, NULL,
				    words.argv, env.variables);
	posix_spawn_file_actions_destroy(&files);
	free(env.variables);
	return -error;
}

int gm_role_start(const struct gm_probe_options *o, uint32_t index,
		  struct gm_probe_child *ret_child)
{
	struct gm_probe_child child = { .role = o->role,
					.index = index,
					.call = "its start" };
	int pair[2], rc;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	rc = spawn(o, pair[1], &child.pid);
	close(pair[1]);
	if (rc < 0) {
		close(pair[0]);
		return rc;
	}
	child.pidfd = (int)syscall(SYS_pidfd_open, child.pid, 0);
	if (child.pidfd < 0) {
		rc = -errno;
		kill(child.pid, SIGKILL);
		waitpid(child.pid, NULL, 0);
		close(pair[0]);
		return rc;
	}
	child.socket = pair[0];
	child.began = gm_role_now();
	child.heard = child.began;
	*ret_child = child;
	return 0;
}

/* By pidfd: its pid may be another's by now. */
static void send_kill(const struct gm_probe_child *child)
{
	syscall(SYS_pidfd_send_signal, child->pidfd, SIGKILL, NULL, 0);
}

int gm_role_read(struct gm_probe_child *child, struct gm_note *ret_note)
{
	ssize_t n;

	if (child->socket < 0)
		return -EPIPE;
	n = recv(child->socket, ret_note, sizeof(*ret_note), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n != (ssize_t)sizeof(*ret_note) ||
	    gm_protocol_check(ret_note, child->role) < 0) {
		close(child->socket);
		child->socket = -1;
		/* A record that its role may not send ends the child, as a
		 * fault of its own. */
		if (n > 0)
			send_kill(child);
		return -EPIPE;
	}
	child->heard = gm_role_now();
	if (ret_note->type == GM_NOTE_CALL)
		gm_parse_copy(child->call, sizeof(child->call), ret_note->text,
			      sizeof(ret_note->text));
	else
		child->has_said = true;
	return 1;
}

void gm_role_kill(struct gm_probe_child *child)
{
	if (child->is_killed)
		return;
	child->is_killed = true;
	send_kill(child);
}

int gm_role_reap(struct gm_probe_child *child, char ret_how[32])
{
	siginfo_t info = { 0 };

	if (waitid(P_PIDFD, (id_t)child->pidfd, &info, WEXITED | WNOHANG) < 0 ||
	    info.si_pid == 0)
		return 0;
	if (info.si_code == CLD_EXITED)
		snprintf(ret_how, 32, "exit status %d", info.si_status);
	else
		snprintf(ret_how, 32, "signal %d", info.si_status);
	close(child->pidfd);
	if (child->socket >= 0)
		close(child->socket);
	*child = (struct gm_probe_child){ 0 };
	return 1;
}
