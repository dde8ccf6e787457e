/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/tap.h"

#define STEP_MS 5
#define NO_CUDA "\n[cuda]\nenabled = off\n"
/* Several tests run at once, where /dev/shm may have 64 MiB. */
#define SMALL_SEGMENT "\n[segment]\nsize = 4M\n"

/* Paths that are removed at the end of this process, whatever became of the
 * struct that a test had on its stack. */
struct agent_kept {
	struct agent_kept *next;
	struct agent agent;
};

static struct agent_kept *all;
static pid_t owner;

static void __attribute__((noreturn)) die(const char *what)
{
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(99);
}

static void nap(void)
{
	struct timespec step = { .tv_nsec = STEP_MS * 1000000L };

	nanosleep(&step, NULL);
}

/* A child of the test that exits leaves its parent's agents alone. */
static void remove_all(void)
{
	if (getpid() != owner)
		return;
	while (all != NULL) {
		struct agent last = all->agent;

		agent_remove(&last);
	}
}

/* The CPUs of the first node that has any, "" on a machine of one node. */
static void first_node(char *ret_cpus, int room)
{
	const char *const nodes = "/sys/devices/system/node";
	char path[64], list[256] = "";
	FILE *file;

	ret_cpus[0] = '\0';
	snprintf(path, sizeof(path), "%s/has_cpu", nodes);
	file = fopen(path, "re");
	if (file == NULL)
		return;
	if (fgets(list, sizeof(list), file) == NULL)
		list[0] = '\0';
	fclose(file);
	if (strpbrk(list, ",-") == NULL)
		return;
	snprintf(path, sizeof(path), "%s/node%d/cpulist", nodes, atoi(list));
	file = fopen(path, "re");
	if (file == NULL || fgets(ret_cpus, room, file) == NULL)
		ret_cpus[0] = '\0';
	if (file != NULL)
		fclose(file);
}

static void drop_in(const struct agent *a, char ret_dir[128])
{
	snprintf(ret_dir, 128, "%s.d", a->config);
}

/* A row per node would be more rows than most stories count with.  Those that
 * say which CPUs get what they say. */
static void stay_on_one_node(const struct agent *a)
{
	char cpus[256], dir[128], path[160];
	FILE *file;

	first_node(cpus, sizeof(cpus));
	if (cpus[0] == '\0')
		return;
	drop_in(a, dir);
	snprintf(path, sizeof(path), "%s/one-node.conf", dir);
	if (mkdir(dir, 0755) != 0 || (file = fopen(path, "we")) == NULL)
		die(dir);
	if (fprintf(file, "[host]\ncpus = %s\n", cpus) < 0 || fclose(file) != 0)
		die(path);
}

void agent_every_node(struct agent *a)
{
	char dir[128];

	drop_in(a, dir);
	shm_names_remove_dir(dir);
}

static bool says(const char *config, const char *section)
{
	return config != NULL && strstr(config, section) != NULL;
}

void agent_configure(struct agent *a, const char *config)
{
	FILE *file = fopen(a->config, "we");

	if (file == NULL || fputs(config != NULL ? config : "", file) < 0 ||
	    (!says(config, "[cuda]") && fputs(NO_CUDA, file) < 0) ||
	    (!says(config, "[segment]") && fputs(SMALL_SEGMENT, file) < 0) ||
	    fclose(file) != 0)
		die(a->config);
	agent_every_node(a);
	if (config == NULL || strstr(config, "cpus") == NULL)
		stay_on_one_node(a);
}

void agent_configure_dummies(struct agent *a, const char *node,
			     const char *config)
{
	char path[160], text[1024];
	FILE *file;

	snprintf(path, sizeof(path), "%s/node.yaml", a->dir);
	file = fopen(path, "we");
	if (file == NULL || fputs(node, file) < 0 || fclose(file) != 0)
		die(path);
	snprintf(text, sizeof(text), "%s[dummy]\nfile = %s\n", config, path);
	agent_configure(a, text);
}

static void name_files(struct agent *a, unsigned int number)
{
	snprintf(a->instance, sizeof(a->instance), "test.%d.%u", (int)getpid(),
		 number);
	snprintf(a->dir, sizeof(a->dir), "/tmp/gpumap-%s", a->instance);
	snprintf(a->config, sizeof(a->config), "%s/gpumapd.conf", a->dir);
	snprintf(a->log, sizeof(a->log), "%s/log", a->dir);
	shm_names_file(a->segment, a->instance, "map");
	shm_names_file(a->lock, a->instance, "lock");
	snprintf(a->state_dir, sizeof(a->state_dir), "/dev/shm/gpumap-%s",
		 a->instance);
	snprintf(a->state, sizeof(a->state), "%s/%s", a->state_dir,
		 a->instance);
}

void agent_make(struct agent *a, const char *config)
{
	static unsigned int count;

	memset(a, 0, sizeof(*a));
	if (count == 0) {
		owner = getpid();
		atexit(remove_all);
	}
	/* A process of our number that was killed may have left its own. */
	do
		name_files(a, ++count);
	while (mkdir(a->dir, 0711) != 0 && errno == EEXIST);
	if (access(a->dir, F_OK) != 0)
		die(a->dir);
	a->kept = calloc(1, sizeof(*a->kept));
	if (a->kept == NULL)
		die("calloc");
	a->kept->agent = *a;
	a->kept->next = all;
	all = a->kept;
	agent_configure(a, config);
}

static const char *from_environment(const char *name)
{
	const char *value = getenv(name);

	if (value != NULL)
		return value;
	printf("Bail out! run me by make check: no %s\n", name);
	exit(99);
}

static const char *program(const char *own, const char *name)
{
	return own != NULL ? own : from_environment(name);
}

/* In the child.  Its parent's death is its own.  A parent in another pid
 * namespace has the number 0. */
static void become(const struct agent *a, const char *const args[],
		   pid_t parent)
{
	int log = open(a->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (log < 0 || (getppid() != parent && getppid() != 0))
		_exit(98);
	dup2(log, STDERR_FILENO);
	for (int i = 0; a->env[i] != NULL; i++)
		putenv((char *)(uintptr_t)a->env[i]);
	if (a->prepare)
		a->prepare();
	execv(args[0], (char **)(uintptr_t)args);
	_exit(97);
}

void agent_own(struct agent *a, pid_t pid)
{
	a->pid = pid;
	a->kept->agent.pid = pid;
}

void agent_spawn(struct agent *a, const char *option)
{
	char most[16];
	bool is_supervised = a->kept_most > 0;
	const char *const args[] = {
		is_supervised ? from_environment("GPUMAP_FDSTORE") : "",
		"--delay",
		"0",
		"--max",
		most,
		from_environment("GPUMAPD"),
		"--instance",
		a->instance,
		"--config",
		a->config,
		"--runtime-dir",
		a->dir,
		"--worker",
		program(a->worker, "GPUMAP_WORKER"),
		"--state-dir",
		a->state_dir,
		"--probe",
		program(a->probe, "GPUMAP_PROBE"),
		"--loader",
		program(a->loader, "GPUMAPCTL"),
		option,
		NULL,
	};
	pid_t parent = getpid();
	struct stat st;

	snprintf(most, sizeof(most), "%u", a->kept_most);
	a->log_from = stat(a->log, &st) == 0 ? st.st_size : 0;
	fflush(stdout);
	a->pid = fork();
	if (a->pid < 0)
		die("fork");
	if (a->pid == 0)
		become(a, is_supervised ? args : args + 5, parent);
	agent_own(a, a->pid);
}

/* The lines of this start, for the caller to free. */
static char *read_log(const struct agent *a)
{
	int fd = open(a->log, O_RDONLY | O_CLOEXEC);
	struct stat st;
	char *text;
	ssize_t n = 0;

	if (fd < 0 || fstat(fd, &st) != 0)
		return strdup("");
	text = calloc(1, (size_t)(st.st_size - a->log_from) + 1);
	if (text == NULL)
		die("calloc");
	if (st.st_size > a->log_from)
		n = pread(fd, text, (size_t)(st.st_size - a->log_from),
			  a->log_from);
	text[n > 0 ? n : 0] = '\0';
	close(fd);
	return text;
}

bool agent_logged(const struct agent *a, const char *text)
{
	char *log = read_log(a);
	bool there = strstr(log, text) != NULL;

	free(log);
	return there;
}

uint64_t agent_logged_number(const struct agent *a, const char *event,
			     const char *key)
{
	char *log = read_log(a), *rest = log, *line, says[64], before[64];
	uint64_t number = UINT64_MAX;

	snprintf(says, sizeof(says), "event=%s ", event);
	snprintf(before, sizeof(before), " %s=", key);
	while ((line = strsep(&rest, "\n")) != NULL) {
		const char *at = strstr(line, says) != NULL
					 ? strstr(line, before)
					 : NULL;

		if (at != NULL)
			number = strtoull(at + strlen(before), NULL, 10);
	}
	free(log);
	return number;
}

pid_t agent_main_pid(const struct agent *a)
{
	return (pid_t)agent_logged_number(a, "open", "pid");
}

unsigned int agent_count_log(const struct agent *a, const char *text)
{
	char *log = read_log(a);
	unsigned int n = 0;

	for (const char *at = log; (at = strstr(at, text)); at++)
		n++;
	free(log);
	return n;
}

void agent_show_log(const struct agent *a)
{
	char *log = read_log(a), *rest = log, *line;

	while ((line = strsep(&rest, "\n")) != NULL)
		printf("# %s\n", line);
	fflush(stdout);
	free(log);
}

static bool has_ended(const struct agent *a)
{
	siginfo_t info = { .si_pid = 0 };

	return a->pid == 0 ||
	       waitid(P_PID, (id_t)a->pid, &info,
		      WEXITED | WNOHANG | WNOWAIT) != 0 ||
	       info.si_pid != 0;
}

bool agent_wait_log(struct agent *a, const char *text)
{
	for (int ms = 0; ms < AGENT_LIMIT_MS; ms += STEP_MS) {
		bool ended = has_ended(a);

		if (agent_logged(a, text))
			return true;
		if (ended)
			return false;
		nap();
	}
	return false;
}

bool agent_start_until(struct agent *a, const char *event)
{
	char text[64];

	snprintf(text, sizeof(text), "event=%s ", event);
	agent_spawn(a, NULL);
	if (agent_wait_log(a, text))
		return true;
	agent_show_log(a);
	return false;
}

bool agent_start(struct agent *a)
{
	return agent_start_until(a, "ready");
}

int agent_wait(struct agent *a)
{
	int status = 0;

	if (a->pid == 0)
		return -ECHILD;
	for (int ms = 0; !has_ended(a); ms += STEP_MS) {
		if (ms >= AGENT_LIMIT_MS)
			kill(a->pid, SIGKILL);
		nap();
	}
	waitpid(a->pid, &status, 0);
	agent_own(a, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool agent_warned(const struct agent *a)
{
	static const char *const unbound[] = { "seccomp profile", "no NUMA",
					       "cpuset" };
	char *log = read_log(a), *rest = log, *line;
	bool warned = false;

	while ((line = strsep(&rest, "\n")) != NULL) {
		bool counts = strstr(line, " level=warning ") != NULL ||
			      strstr(line, " level=error ") != NULL;

		for (size_t i = 0; i < sizeof(unbound) / sizeof(*unbound); i++)
			counts &= strstr(line, unbound[i]) == NULL;
		if (counts)
			NOTE("%s", line);
		warned |= counts;
	}
	free(log);
	return warned;
}

/* Users, sessions, names, imports, descriptors; files. */
static void leaves_nothing(const struct agent *a)
{
	bool rests = shm_names_rest(a->instance);

	if (rests && !agent_logged(a, "event=left_over "))
		return;
	tap_check(false, "the agent ended with nothing left over", __FILE__,
		  __LINE__);
	agent_show_log(a);
}

int agent_kill(struct agent *a, int signal)
{
	int status;

	if (a->pid == 0)
		return agent_wait(a);
	kill(a->pid, signal);
	status = agent_wait(a);
	if (status == 0)
		leaves_nothing(a);
	return status;
}

int agent_run(struct agent *a, const char *option)
{
	agent_spawn(a, option);
	return agent_wait(a);
}

void agent_forget(const struct agent *a)
{
	shm_names_remove_dir(a->state);
}

void agent_remove(struct agent *a)
{
	if (a->pid != 0)
		agent_kill(a, SIGKILL);
	shm_names_remove(a->instance);
	agent_every_node(a);
	agent_forget(a);
	shm_names_remove_dir(a->state_dir);
	shm_names_remove_dir(a->dir);
	for (struct agent_kept **at = &all; *at != NULL; at = &(*at)->next) {
		if (*at == a->kept) {
			*at = a->kept->next;
			break;
		}
	}
	free(a->kept);
	a->kept = NULL;
}
