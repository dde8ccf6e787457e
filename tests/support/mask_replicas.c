/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/mask_replicas.h"

bool mask_cards_find(struct mask_cards *m, uint32_t n)
{
	uint32_t found = 0;

	for (uint32_t row = 0; row < gpumap_device_count(m->map); row++) {
		struct gpumap_device device = story_device(m->map, row);

		if (device.kind == GPUMAP_DEVICE_CUDA &&
		    device.state == GPUMAP_DEVICE_READY && found < n)
			m->rows[found++] = row;
	}
	return EQ(found, n);
}

int mask_cards_again(struct mask_cards *m, const char *name, uint32_t size,
		     uint32_t n)
{
	const struct gpumap_mask_request r = {
		.size = sizeof(r),
		.name = name,
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_SLIDING,
		.dtype = GPUMAP_DTYPE_U8,
		.tgt_len = size,
		.sliding_window = m->window,
		.rows = m->rows,
		.n_rows = n,
	};
	int ret = gpumap_mask_publish(m->map, &r, NULL);

	if (ret != 0)
		NOTE("%s: %d: %s", name, ret, gpumap_refusal(m->map));
	return ret;
}

int mask_cards_publish(struct mask_cards *m, const char *name, uint32_t size,
		       uint32_t n)
{
	m->window++;
	return mask_cards_again(m, name, size, n);
}

pid_t mask_cards_publish_from(struct mask_cards *m, const char *name,
			      uint32_t size, uint32_t n)
{
	pid_t pid;

	m->window++;
	pid = fork();
	if (pid == 0) {
		m->map = story_attach(&m->agent);
		_exit(m->map == NULL ? 255
				     : -mask_cards_again(m, name, size, n));
	}
	return pid;
}

int mask_cards_reap(pid_t pid)
{
	int status = -1;

	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -ECHILD;
	return -WEXITSTATUS(status);
}

/* ---- what is in a replica ------------------------------------------------ */

const uint8_t *mask_cards_rule(const struct mask_cards *m, uint32_t size)
{
	static uint8_t want[MASK_LARGE * MASK_LARGE];
	static uint64_t is_of;
	const struct gm_mask_spec spec = { .form = GM_MASK_SLIDING,
					   .tgt_len = size,
					   .sliding_window = m->window };

	if (is_of != (m->window << 32 | size))
		gm_mask_fill(&spec, GPUMAP_DTYPE_U8, 0, size, want);
	is_of = (m->window << 32 | size);
	return want;
}

bool mask_cards_import(struct mask_cards *m, struct gpumap *by,
		       const struct gpumap_mask_view *view,
		       struct mask_import *it)
{
	struct gpumap_export_info info = { .size = sizeof(info) };
	int fd = -1, ret = gpumap_export_fd(by, view->export_id, &info, &fd);
	void *at = MAP_FAILED;

	if (ret != 0)
		return false;
	*it = (struct mask_import){ .bytes = view->bytes };
	fake_lock(&m->scene.hw);
	ret = fake_object_from(&m->scene.hw, fd, &it->ref);
	fake_unlock(&m->scene.hw);
	close(fd);
	if (ret == 0)
		at = mmap(NULL, it->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			  m->scene.hw.fd, (off_t)it->ref.offset);
	it->at = at != MAP_FAILED ? at : NULL;
	return it->at != NULL;
}

void mask_cards_give_back(struct mask_cards *m, struct mask_import *it)
{
	munmap(it->at, it->bytes);
	fake_lock(&m->scene.hw);
	fake_object_drop(&it->ref);
	fake_unlock(&m->scene.hw);
}

uint64_t mask_cards_wrong(struct mask_cards *m, const char *name, uint32_t row,
			  uint32_t size)
{
	uint64_t until = story_now() + STORY_LIMIT_NS, n = 0;
	const struct gpumap_mask_view *view = NULL;
	const uint8_t *want = mask_cards_rule(m, size);
	struct gpumap *by = story_attach(&m->agent);
	struct gpumap_mask *mask = NULL;
	struct mask_import it = { .at = NULL };

	if (by == NULL || gpumap_mask_open(m->map, name, 0, &mask) != 0) {
		gpumap_detach(by);
		return UINT64_MAX;
	}
	/* The replica may be made anew just now. */
	while (story_now() < until &&
	       (gpumap_mask_get(m->map, mask, row, &view) != 0 ||
		!mask_cards_import(m, by, view, &it)))
		story_nap(2000);
	gpumap_mask_close(m->map, mask);
	gpumap_detach(by);
	if (it.at == NULL || it.bytes != (uint64_t)size * size)
		return UINT64_MAX;
	for (uint64_t i = 0; i < it.bytes; i++)
		n += it.at[i] != want[i];
	mask_cards_give_back(m, &it);
	return n;
}

bool mask_cards_right(struct mask_cards *m, const char *name, uint32_t size,
		      uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t wrong = mask_cards_wrong(m, name, m->rows[i], size);

		if (wrong == 0)
			continue;
		NOTE("%s: row %u: %llu bytes are wrong", name, m->rows[i],
		     (unsigned long long)wrong);
		return false;
	}
	return true;
}

/* ---- by which way -------------------------------------------------------- */

uint32_t mask_cards_made(const struct mask_cards *m, uint32_t row,
			 const char *way)
{
	FILE *file = fopen(m->agent.log, "re");
	char line[1024], of[32], by[32];
	uint32_t n = 0;

	if (file == NULL || fseeko(file, m->agent.log_from, SEEK_SET) != 0)
		return 0;
	snprintf(of, sizeof(of), "event=mask_on_device row=%u ", row);
	snprintf(by, sizeof(by), " way=%s", way);
	while (fgets(line, sizeof(line), file) != NULL)
		n += strstr(line, of) != NULL && strstr(line, by) != NULL;
	fclose(file);
	return n;
}

/* ---- copies that take long ----------------------------------------------- */

uint32_t mask_cards_gpu(const struct mask_cards *m, uint32_t i)
{
	struct gpumap_device device = story_device(m->map, m->rows[i]);

	return cuda_scene_gpu(&m->scene, &device);
}

void mask_cards_slow(struct mask_cards *m, uint32_t n, const char *time,
		     uint64_t ret_copies[MASK_CARDS])
{
	for (uint32_t i = 1; i < n; i++) {
		uint32_t gpu = mask_cards_gpu(m, i);

		ret_copies[i] = cuda_scene_copies(&m->scene, gpu);
		cuda_scene_add(&m->scene, "row %u: copies take %s", gpu, time);
	}
}

void mask_cards_at_it(struct mask_cards *m, uint32_t n,
		      const uint64_t copies[MASK_CARDS])
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	uint32_t n_at_it = 0;

	while (n_at_it < n - 1 && story_now() < until) {
		story_nap(1000);
		n_at_it = 0;
		for (uint32_t i = 1; i < n; i++)
			n_at_it += cuda_scene_copies(&m->scene,
						     mask_cards_gpu(m, i)) >
				   copies[i];
	}
	EQ(n_at_it, n - 1);
}

pid_t mask_cards_publish_slowly(struct mask_cards *m, const char *name,
				uint32_t n, const char *time)
{
	uint64_t copies[MASK_CARDS];
	pid_t pid;

	mask_cards_slow(m, n, time, copies);
	pid = mask_cards_publish_from(m, name, MASK_LARGE, n);
	mask_cards_at_it(m, n, copies);
	return pid;
}

pid_t mask_cards_drain_from(struct mask_cards *m, uint32_t i)
{
	pid_t pid = fork();

	if (pid == 0) {
		m->map = story_attach(&m->agent);
		_exit(m->map == NULL
			      ? 255
			      : -gpumap_device_drain(m->map, m->rows[i]));
	}
	return pid;
}

void mask_cards_back(struct mask_cards *m, uint32_t i)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	EQ(gpumap_device_undrain(m->map, m->rows[i]), 0);
	while (story_device(m->map, m->rows[i]).state != GPUMAP_DEVICE_READY &&
	       story_now() < until)
		story_nap(1000);
	EQ(story_device(m->map, m->rows[i]).state, GPUMAP_DEVICE_READY);
}

/* ---- links --------------------------------------------------------------- */

void mask_cards_spoil(struct mask_cards *m)
{
	for (uint32_t i = 0; i < m->scene.hw.board->n_gpus; i++)
		cuda_scene_add(&m->scene, "row %u: peer copies corrupt", i);
}

void mask_cards_link(struct mask_cards *m)
{
	cuda_scene_mend(&m->scene);
	for (uint32_t i = 0; i < m->scene.hw.board->n_gpus; i++) {
		for (uint32_t j = 0; j < i; j++)
			cuda_scene_add(&m->scene, "row %u: link to %u", i, j);
	}
}

bool mask_cards_try(struct mask_cards *m, uint32_t n)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	char line[64];
	uint32_t good = 0;

	while (good < n - 1 && story_now() < until) {
		if (!EQ(mask_cards_publish(m, "try", MASK_LARGE, n), 0) ||
		    !OK(mask_cards_right(m, "try", MASK_LARGE, n)))
			return false;
		good = 0;
		for (uint32_t i = 1; i < n; i++) {
			snprintf(line, sizeof(line),
				 "event=peers_good row=%u from=%u ", m->rows[i],
				 m->rows[0]);
			good += agent_logged(&m->agent, line);
		}
	}
	EQ(gpumap_mask_release(m->map, "try"), 0);
	return EQ(good, n - 1);
}
