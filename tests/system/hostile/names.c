/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks that no other user can take the names of an agent's files, hold their
 * locks, or have a file of its own taken for one of them.  All of it happens in
 * a /dev/shm of the test's own, where no other test meets what is done to the
 * folder of root's agents.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumap.h"
#include "shm/replicas.h"
#include "tests/support/shm_names.h"
#include "tests/support/story.h"
#include "tests/support/users.h"

#define STRANGER 61357u /* a uid without other processes */
#define OTHER    61358u /* likewise */
#define ROOTS    GM_NAMES_USER "0"
#define BYTES    4096u /* of a mask */
#define RIGHT    0x11
#define FORGED   0xee
#define PAGE     4096u
#define MIB      (1u << 20)

/* Segments of one MiB, which the test copies whole. */
static const char config[] = "[socket]\nmode = 0666\n"
			     "[segment]\nsize = 1M\n"
			     "[masks]\nbytes = 1M\n";

/* ---- masks --------------------------------------------------------------- */

static int publish(struct gpumap *map, const char *name)
{
	static unsigned char data[BYTES];
	static const uint32_t rows[] = { 0 };
	struct gpumap_mask_request r = { .size = sizeof(r),
					 .name = name,
					 .kind = GPUMAP_MASK_CUSTOM,
					 .dtype = GPUMAP_DTYPE_U8,
					 .rank = 1,
					 .shape = { BYTES },
					 .data = data,
					 .rows = rows,
					 .n_rows = 1 };

	memset(data, RIGHT, sizeof(data));
	return gpumap_mask_publish(map, &r, NULL);
}

/* The first byte of a mask, or a negative error. */
static int first_byte(struct gpumap *map, const char *name)
{
	const struct gpumap_mask_view *view = NULL;
	struct gpumap_mask *mask = NULL;
	int ret = gpumap_mask_open(map, name, 0, &mask);

	if (ret != 0)
		return ret;
	ret = gpumap_mask_get(map, mask, 0, &view);
	if (ret == 0)
		ret = *(const unsigned char *)view->data;
	gpumap_mask_close(map, mask);
	return ret;
}

/* ---- names that are taken ------------------------------------------------ */

static int take_by_file(void)
{
	return open(ROOTS, O_CREAT | O_EXCL | O_CLOEXEC, 0666) < 0;
}

static int take_by_link(void)
{
	return symlink("/tmp", ROOTS) != 0;
}

static int take_by_folder(void)
{
	umask(0);
	return mkdir(ROOTS, 0777) != 0 || mkdir(ROOTS "/node", 0777) != 0 ||
	       open(ROOTS "/node/lock", O_CREAT | O_CLOEXEC, 0666) < 0;
}

/* A folder of root's that has lost its mode is no other user's. */
static int open_to_all(void)
{
	return mkdir(ROOTS, 0777) != 0 || chmod(ROOTS, 0777) != 0;
}

static void root_takes_its_names(uid_t uid, int (*take)(void))
{
	struct gpumap *map;
	struct stat st;
	struct agent a;

	EQ(user_run(uid, take), 0);
	agent_make(&a, config);
	if (!OK(agent_start(&a)))
		agent_show_log(&a);
	EQ(agent_logged(&a, "event=moved_aside path=" ROOTS " uid=61357"),
	   uid != 0);
	EQ(lstat(ROOTS, &st), 0);
	EQ(st.st_uid, 0);
	EQ(st.st_mode, S_IFDIR | 0711);
	if (OK((map = story_attach(&a)) != NULL)) {
		EQ(publish(map, "m"), 0);
		EQ(first_byte(map, "m"), RIGHT);
	}
	gpumap_detach(map);
	EQ(agent_kill(&a, SIGTERM), 0);
	agent_remove(&a);
	EQ(access(ROOTS, F_OK), -1);
}

/* ---- names in the agent's own folder ------------------------------------- */

static struct agent agent;

/* Each is 1 where it went well for the stranger. */
static int take_in_the_folder(void)
{
	static const char *const names[] = { "node0", "map.new", "row1.lock",
					     "row0.uid61357.lock" };
	char path[GM_NAMES_BYTES];
	int n = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		gm_names_file(path, 0, agent.instance, names[i]);
		n += open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0666) >= 0;
	}
	return n;
}

static int list_the_folders(void)
{
	char path[GM_NAMES_BYTES];

	gm_names_file(path, 0, agent.instance, "");
	return (opendir(ROOTS) != NULL) + (opendir(path) != NULL) +
	       (opendir(agent.dir) != NULL);
}

static void nothing_is_free_in_the_folders(void)
{
	EQ(user_run(STRANGER, take_in_the_folder), 0);
	EQ(user_run(STRANGER, list_the_folders), 0);
}

/* ---- listing for ever ---------------------------------------------------- */

/* A page that a read of the kernel's waits at, for as long as this process
 * lives. */
static void *endless_page(int *ret_fd)
{
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	range.range.start = (uintptr_t)page;
	range.range.len = PAGE;
	*ret_fd = fd;
	return fd >= 0 && page != MAP_FAILED &&
			       ioctl(fd, UFFDIO_API, &api) == 0 &&
			       ioctl(fd, UFFDIO_REGISTER, &range) == 0
		       ? page
		       : NULL;
}

struct listing {
	int fd;
	void *page;
};

static void *list_on(void *arg)
{
	struct listing *l = arg;

	syscall(SYS_getdents64, l->fd, l->page, PAGE);
	return NULL;
}

/* List a directory for ever.  Says over @fd: 'l' once the listing waits, 'n'
 * where the directory cannot be opened, 'u' without such a page. */
static void list_for_ever(const char *path, int fd)
{
	struct pollfd waits = { .events = POLLIN };
	struct listing l = { .page = endless_page(&waits.fd) };
	pthread_t thread;
	char says = 'u';

	if (l.page != NULL && user_become(STRANGER, STRANGER)) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		l.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		says = l.fd < 0 ? 'n' : 'l';
	}
	if (says == 'l' && (pthread_create(&thread, NULL, list_on, &l) != 0 ||
			    poll(&waits, 1, AGENT_LIMIT_MS) != 1))
		says = 'u';
	if (write(fd, &says, 1) == 1)
		pause();
	_exit(1);
}

static pid_t start_listing(const char *path, char *ret_says)
{
	int ends[2];
	pid_t pid;

	*ret_says = 'u';
	if (pipe(ends) != 0)
		return -1;
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		list_for_ever(path, ends[1]);
	close(ends[1]);
	if (read(ends[0], ret_says, 1) != 1)
		*ret_says = 'u';
	close(ends[0]);
	return pid;
}

/* The listing holds the directory's lock.  The agent still publishes the first
 * mask of a node, starts a worker with a new lock, removes its socket, and
 * ends. */
static void listing_holds_nothing_up(void)
{
	char folder[GM_NAMES_BYTES];
	const char *const paths[] = { "/dev/shm", ROOTS, folder, agent.dir };
	struct gpumap *map = story_attach(&agent);
	pid_t pids[4];
	char says[5] = "";

	gm_names_file(folder, 0, agent.instance, "");
	for (int i = 0; i < 4; i++)
		pids[i] = start_listing(paths[i], &says[i]);
	if (strchr(says, 'u') != NULL) {
		SKIP(5, "no userfaultfd for faults of the kernel");
	} else if (STR(says, "lnnn") && EQ(publish(map, "first"), 0)) {
		EQ(kill((pid_t)story_device(map, 0).worker_pid, SIGKILL), 0);
		OK(agent_wait_log(&agent, "event=row_back"));
		EQ(agent_kill(&agent, SIGTERM), 0);
	}
	for (int i = 0; i < 4; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	gpumap_detach(map);
}

/* ---- agents of two users ------------------------------------------------- */

static struct agent others;

/* Returns the pid of the agent whose map is found, as its last byte. */
static uint8_t found_by(const struct agent *a)
{
	struct gpumap_health health = { .size = sizeof(health) };
	struct gpumap *map = story_attach(a);

	if (map != NULL)
		gpumap_health(map, &health);
	gpumap_detach(map);
	return (uint8_t)health.agent_pid;
}

/* As a user: an agent of root's instance, in this user's own folder. */
static int run_ones_own(void)
{
	int ret;

	memcpy(others.instance, agent.instance, sizeof(others.instance));
	if (!agent_start(&others)) {
		agent_show_log(&others);
		return 1;
	}
	ret = found_by(&others) != (uint8_t)others.pid ? 2
	      : found_by(&agent) != (uint8_t)agent.pid ? 3
						       : 0;
	if (agent_kill(&others, SIGTERM) != 0)
		ret = 4;
	shm_names_remove(others.instance);
	return ret;
}

static int can_run(void)
{
	return access(getenv("GPUMAPD"), X_OK);
}

/* Its folder is another's, and this user cannot help it. */
static int run_without_a_folder(void)
{
	int ret = agent_run(&others, NULL);

	return agent_logged(&others, "have root remove it") ? ret : 1;
}

static void users_have_folders_of_their_own(void)
{
	char path[GM_NAMES_BYTES];

	agent_make(&agent, config);
	agent_make(&others, config);
	EQ(chown(others.dir, STRANGER, STRANGER), 0);
	if (user_run(STRANGER, can_run) != 0) {
		SKIP(8,
		     "other users cannot run programs in the build's folder");
		agent_remove(&others);
		agent_remove(&agent);
		return;
	}
	OK(agent_start(&agent));
	EQ(user_run(STRANGER, run_ones_own), 0);
	EQ(found_by(&agent), (uint8_t)agent.pid);
	EQ(agent_kill(&agent, SIGTERM), 0);
	gm_names_user(path, STRANGER);
	EQ(access(path, F_OK), -1);
	EQ(mkdir(path, 0777), 0);
	EQ(chown(path, OTHER, OTHER), 0);
	EQ(user_run(STRANGER, run_without_a_folder), 6);
	EQ(rmdir(path), 0);
	agent_remove(&others);
	agent_remove(&agent);
}

/* ---- forged files -------------------------------------------------------- */

/* A file of the agent's, 1 MiB; for the caller to free. */
static unsigned char *copy_of(const char *file)
{
	unsigned char *bytes = malloc(MIB);
	char path[GM_NAMES_BYTES];
	int fd;

	gm_names_file(path, 0, agent.instance, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	EQ(read(fd, bytes, MIB), (ssize_t)MIB);
	close(fd);
	return bytes;
}

static unsigned char *forged_map, *forged_node;

static bool put(const char *file, const unsigned char *bytes)
{
	char path[GM_NAMES_BYTES];
	bool good;
	int fd;

	gm_names_file(path, 0, agent.instance, file);
	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	good = fd >= 0 && write(fd, bytes, MIB) == (ssize_t)MIB;
	close(fd);
	return good;
}

static int forge(void)
{
	char folder[GM_NAMES_BYTES];
	bool good;

	umask(0);
	gm_names_file(folder, 0, agent.instance, "");
	good = mkdir(ROOTS, 0711) == 0 && mkdir(folder, 0711) == 0 &&
	       put("node0", forged_node) &&
	       (forged_map == NULL || put("map", forged_map));
	return !good;
}

/* A victim in a container, whose /dev/shm the stranger can write. */
static int read_among_forgeries(void)
{
	struct gpumap *map = NULL;
	int ret;

	if (!shm_names_own() || user_run(STRANGER, forge) != 0)
		return 99;
	map = story_attach(&agent);
	ret = map != NULL ? first_byte(map, "m") : 98;
	gpumap_detach(map);
	return ret < 0 ? -ret : ret;
}

/* The same where root's agent of long ago has left the files. */
static int read_among_leftovers(void)
{
	struct gpumap *map = NULL;
	int ret;

	if (!shm_names_own() || forge() != 0)
		return 99;
	map = story_attach(&agent);
	ret = map != NULL ? first_byte(map, "m") : 98;
	gpumap_detach(map);
	return ret < 0 ? -ret : ret;
}

static void forgeries_are_not_believed(void)
{
	struct gm_node_header *header;
	struct gpumap *map;

	agent_make(&agent, config);
	OK(agent_start(&agent));
	map = story_attach(&agent);
	EQ(publish(map, "m"), 0);
	EQ(first_byte(map, "m"), RIGHT);
	gpumap_detach(map);
	forged_node = copy_of("node0");
	memset(forged_node + GM_SPAN_UNIT, FORGED, MIB - GM_SPAN_UNIT);
	EQ(user_run(0, read_among_forgeries), RIGHT);
	/* A map in the way does not keep a client from the agent's. */
	forged_map = copy_of("map");
	EQ(user_run(0, read_among_forgeries), RIGHT);
	free(forged_map);
	forged_map = NULL;
	/* Files of the right user that are not this agent's. */
	header = (void *)forged_node;
	gm_put(&header->made, gm_get(&header->made) - 1);
	EQ(user_run(0, read_among_leftovers), RIGHT);
	gm_put(&header->magic, 0);
	EQ(user_run(0, read_among_leftovers), RIGHT);
	free(forged_node);
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent_remove(&agent);
}

TAP_CASE()
{
	if (geteuid() != 0) {
		SKIP(1, "only root has other users' processes");
		return tap_done();
	}
	if (!shm_names_own()) {
		SKIP(1, "no mount namespace with a /dev/shm of its own");
		return tap_done();
	}
	root_takes_its_names(STRANGER, take_by_file);
	root_takes_its_names(STRANGER, take_by_link);
	root_takes_its_names(STRANGER, take_by_folder);
	root_takes_its_names(0, open_to_all);
	agent_make(&agent, config);
	if (OK(agent_start(&agent))) {
		nothing_is_free_in_the_folders();
		listing_holds_nothing_up();
	}
	agent_remove(&agent);
	users_have_folders_of_their_own();
	forgeries_are_not_believed();
	return tap_done();
}
