/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/cuda_agent.h"

static const char *cuda_scene_path(const struct cuda_scene *scene)
{
	return strchr(scene->hardware, '=') + 1;
}

/* Workers may use the cards, whichever user they run as. */
static void cuda_scene_open_nodes(const struct cuda_scene *scene)
{
	const struct fake_board *board = scene->hw.board;
	char path[FAKE_NODE_BYTES];

	chmod(scene->dev, 0755);
	snprintf(path, sizeof(path), "%s/nvidia-caps", scene->dev);
	chmod(path, 0755);
	for (uint32_t i = 0; i < board->n_gpus; i++) {
		for (int k = 0; k < FAKE_NODES; k++) {
			if (fake_node(scene->dev, &board->gpus[i], k, path))
				chmod(path, 0666);
		}
	}
}

bool cuda_scene_make(struct cuda_scene *scene, const char *node,
		     const char *plan)
{
	const char *source = getenv("abs_top_srcdir");
	char path[PATH_MAX];
	int fd, error;

	snprintf(scene->hardware, sizeof(scene->hardware),
		 "GPUMAP_FAKE_HARDWARE=%s/gpumap-hardware.%d",
		 shm_names_large(), (int)getpid());
	snprintf(scene->driver, sizeof(scene->driver), "/tmp/gpumap-driver.%d",
		 (int)getpid());
	snprintf(scene->kernels, sizeof(scene->kernels),
		 "GPUMAP_FAKE_KERNELS=%s/operators_kernels.so", scene->driver);
	snprintf(scene->dev, sizeof(scene->dev), "/tmp/gpumap-cards.%d",
		 (int)getpid());
	snprintf(path, sizeof(path), "%s/tests/nodes/%s", source ? source : ".",
		 node);
	if (!EQ(mkdir(scene->dev, 0755), 0) ||
	    !OK(driver_copy_make(scene->driver)))
		return false;
	fd = open(cuda_scene_path(scene), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
		  0666);
	if (!OK(fd >= 0))
		return false;
	fchmod(fd, 0666);
	error = fake_machine_make(fd, path, plan, scene->dev);
	close(fd);
	if (!EQ(error, 0) ||
	    !EQ(fake_hardware_open(cuda_scene_path(scene), &scene->hw), 0))
		return false;
	cuda_scene_open_nodes(scene);
	return true;
}

void cuda_scene_agent(struct cuda_scene *scene, struct agent *a,
		      const char *cuda, const char *more)
{
	char text[PATH_MAX + 2048];

	snprintf(text, sizeof(text),
		 "[cuda]\n"
		 "enabled = required\n"
		 "list-limit = 20s\n"
		 "library = %s\n"
		 "pass-environment = GPUMAP_FAKE_HARDWARE GPUMAP_FAKE_KERNELS "
		 "FAKE_NCCL\n"
		 "%s\n%s",
		 scene->driver, cuda, more);
	if (a->kept == NULL)
		agent_make(a, text);
	else
		agent_configure(a, text);
	a->env[0] = scene->hardware;
	a->env[1] = scene->kernels;
	a->env[2] = NULL;
}

bool cuda_scene_add(struct cuda_scene *scene, const char *format, ...)
{
	const char *where;
	char plan[256];
	va_list args;
	int error;

	va_start(args, format);
	vsnprintf(plan, sizeof(plan), format, args);
	va_end(args);
	fake_lock(&scene->hw);
	error = fake_plan_apply(&scene->hw, plan, false, &where);
	fake_unlock(&scene->hw);
	return EQ(error, 0);
}

void cuda_scene_mend(struct cuda_scene *scene)
{
	fake_lock(&scene->hw);
	scene->hw.board->plan.n_faults = 0;
	fake_unlock(&scene->hw);
}

uint32_t cuda_scene_gpu(const struct cuda_scene *scene,
			const struct gpumap_device *device)
{
	const struct fake_board *board = scene->hw.board;

	for (uint32_t i = 0; i < board->n_gpus; i++) {
		if (memcmp(board->gpus[i].uuid, device->uuid, 16) == 0)
			return i;
	}
	return UINT32_MAX;
}

uint64_t cuda_scene_launches(struct cuda_scene *scene, uint32_t gpu)
{
	uint64_t n;

	fake_lock(&scene->hw);
	n = scene->hw.board->gpus[gpu].launches;
	fake_unlock(&scene->hw);
	return n;
}

uint64_t cuda_scene_copies(struct cuda_scene *scene, uint32_t gpu)
{
	uint64_t n;

	fake_lock(&scene->hw);
	n = scene->hw.board->gpus[gpu].copies;
	fake_unlock(&scene->hw);
	return n;
}

uint64_t cuda_scene_locks(struct cuda_scene *scene, uint32_t gpu)
{
	uint64_t n;

	fake_lock(&scene->hw);
	n = scene->hw.board->gpus[gpu].locks;
	fake_unlock(&scene->hw);
	return n;
}

uint64_t cuda_scene_free(struct cuda_scene *scene, uint32_t gpu)
{
	uint64_t bytes;

	fake_lock(&scene->hw);
	fake_sweep(&scene->hw);
	bytes = fake_free_bytes(&scene->hw, gpu);
	fake_unlock(&scene->hw);
	return bytes;
}

uint32_t cuda_scene_users(struct cuda_scene *scene, uint32_t gpu)
{
	uint32_t n = 0;

	fake_lock(&scene->hw);
	fake_sweep(&scene->hw);
	for (uint32_t i = 0; i < FAKE_PROCESSES; i++) {
		const struct fake_process *p = &scene->hw.board->processes[i];

		n += p->serial != 0 && (p->holds >> gpu & 1);
	}
	fake_unlock(&scene->hw);
	return n;
}

uint32_t cuda_scene_leaks(struct cuda_scene *scene)
{
	struct fake_board *board = scene->hw.board;
	uint32_t n = 0;

	fake_lock(&scene->hw);
	fake_sweep(&scene->hw);
	for (uint32_t i = 0; i < FAKE_PROCESSES; i++) {
		if (board->processes[i].serial == 0)
			continue;
		n++;
		NOTE("pid %d still uses the driver", board->processes[i].pid);
	}
	for (uint32_t i = 0; i < FAKE_OBJECTS; i++)
		n += board->objects[i].serial != 0;
	for (uint32_t i = 0; i < board->n_notes && i < FAKE_NOTES; i++) {
		n++;
		NOTE("%s", board->notes[i]);
	}
	fake_unlock(&scene->hw);
	return n;
}

void cuda_scene_end(struct cuda_scene *scene)
{
	const struct fake_board *board = scene->hw.board;
	char path[FAKE_NODE_BYTES];

	/* A killed process may take some time to end. */
	STORY_WAIT_WHILE(cuda_scene_leaks(scene));
	EQ(cuda_scene_leaks(scene), 0);
	for (uint32_t i = 0; i < board->n_gpus; i++) {
		for (int k = 0; k < FAKE_NODES; k++) {
			if (fake_node(scene->dev, &board->gpus[i], k, path))
				unlink(path);
		}
	}
	snprintf(path, sizeof(path), "%s/nvidia-caps", scene->dev);
	rmdir(path);
	EQ(rmdir(scene->dev), 0);
	OK(driver_copy_remove(scene->driver));
	fake_hardware_leave(&scene->hw);
	unlink(cuda_scene_path(scene));
}
