/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/fake_machine.h"

#include <time.h>

void scene_find_libraries(void)
{
	const char *build = getenv("abs_top_builddir");
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/tests/fake/.libs",
		 build ? build : ".");
	setenv("LD_LIBRARY_PATH", path, 1);
	snprintf(path, sizeof(path), "%s/tests/fake/.libs/extra-kernels.so",
		 build ? build : ".");
	setenv("GPUMAP_FAKE_KERNELS", path, 1);
	unsetenv("CONTRACT_UNDER");
	unsetenv("CUDA_VISIBLE_DEVICES");
}

bool scene_set(struct scene *scene, const char *node, const char *plan)
{
	const char *source = getenv("abs_top_srcdir");
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/tests/nodes/%s", source ? source : ".",
		 node);
	scene->fd = memfd_create("scene", MFD_CLOEXEC);
	strcpy(scene->dev, "/tmp/gpumap-scene.XXXXXX");
	if (!OK(mkdtemp(scene->dev) != NULL))
		return false;
	if (!EQ(fake_machine_make(scene->fd, path, plan, scene->dev), 0)) {
		rmdir(scene->dev);
		return false;
	}
	snprintf(scene->path, sizeof(scene->path), "/proc/%d/fd/%d", getpid(),
		 scene->fd);
	return EQ(fake_hardware_open(scene->path, &scene->hw), 0);
}

void scene_clear(struct scene *scene)
{
	const struct fake_board *board = scene->hw.board;
	char path[FAKE_NODE_BYTES];

	for (uint32_t i = 0; i < board->n_gpus; i++)
		for (int k = 0; k < FAKE_NODES; k++)
			if (fake_node(scene->dev, &board->gpus[i], k, path))
				unlink(path);
	snprintf(path, sizeof(path), "%s/nvidia-caps", scene->dev);
	rmdir(path);
	EQ(rmdir(scene->dev), 0);
	fake_hardware_leave(&scene->hw);
	close(scene->fd);
}

pid_t scene_begin(struct scene *scene, const char *part, const char *plan)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	setenv("GPUMAP_FAKE_HARDWARE", scene->path, 1);
	if (plan)
		setenv("GPUMAP_FAKE_PLAN", plan, 1);
	execl("/proc/self/exe", "part", part, (char *)NULL);
	_exit(253);
}

int scene_end(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

uint64_t scene_left(struct scene *scene, uint32_t gpu)
{
	uint64_t bytes;

	fake_lock(&scene->hw);
	bytes = fake_free_bytes(&scene->hw, gpu);
	fake_unlock(&scene->hw);
	return bytes;
}

bool scene_add(struct scene *scene, const char *plan)
{
	const char *where;
	int r;

	fake_lock(&scene->hw);
	r = fake_plan_apply(&scene->hw, plan, false, &where);
	fake_unlock(&scene->hw);
	return EQ(r, 0);
}

int scene_nodes_of(const struct scene *scene, pid_t pid)
{
	char path[64], target[PATH_MAX];
	struct dirent *entry;
	DIR *fds;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	fds = opendir(path);
	while (fds != NULL && (entry = readdir(fds)) != NULL) {
		ssize_t length = readlinkat(dirfd(fds), entry->d_name, target,
					    sizeof(target) - 1);

		if (length < 0)
			continue;
		target[length] = '\0';
		n += strncmp(target, scene->dev, strlen(scene->dev)) == 0;
	}
	if (fds != NULL)
		closedir(fds);
	return n;
}

bool scene_holds(const struct scene *scene, pid_t pid, int n)
{
	const struct timespec rest = { .tv_nsec = 2000000 };

	for (int i = 0; i < 15000 && scene_nodes_of(scene, pid) != n; i++)
		nanosleep(&rest, NULL);
	return scene_nodes_of(scene, pid) == n;
}

int scene_play(const char *name, const struct scene_part *parts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(name, parts[i].name) == 0)
			return parts[i].play();
	return 252;
}

void scene_run(const char *node, const char *plan, const char *part)
{
	struct scene scene;

	if (!scene_set(&scene, node, plan))
		return;
	NOTE("%s: %s", part, plan ? plan : "a sound machine");
	EQ(scene_end(scene_begin(&scene, part, NULL)), 0);
	EQ(scene.hw.board->n_notes, 0);
	for (uint32_t k = 0; k < scene.hw.board->n_notes; k++)
		NOTE("%s", scene.hw.board->notes[k]);
	scene_clear(&scene);
}

int scene_main(int argc, char **argv, const char *kernels,
	       const struct scene_part *parts, size_t n)
{
	const char *build = getenv("abs_top_builddir");
	char path[PATH_MAX];

	if (argc == 2)
		return scene_play(argv[1], parts, n);
	scene_find_libraries();
	snprintf(path, sizeof(path), "%s/%s", build ? build : ".",
		 kernels ? kernels : "");
	if (kernels)
		setenv("GPUMAP_FAKE_KERNELS", path, 1);
	for (size_t i = 0; i < n; i++)
		scene_run("mixed.yaml", parts[i].plan, parts[i].name);
	return tap_done();
}
