/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/holders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/sysfile.h"
#include "agent/daemon/daemon.h"
#include "shm/point.h"
#include "shm/seq.h"

#define WORDS (sizeof(struct gm_holder_image) / 8)

/* One process that holds something, watched by one pidfd. */
struct gm_holder_process {
	struct gm_source source;
	struct gm_daemon *d;
	pid_t pid;
	uint64_t start;
	uint32_t n_claims;
};

/* Field 22 of /proc/pid/stat, counted behind the name, which may hold anything
 * but ends with the last ')'. */
static int read_start(pid_t pid, uint64_t *ret_start)
{
	char path[64], text[1024];
	const char *at;
	int n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	n = gm_sysfile_read(path, text, sizeof(text));
	if (n < 0)
		return n == -ENOENT ? -ESRCH : n;
	at = strrchr(text, ')');
	for (int field = 2; at != NULL && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at == NULL)
		return -EPROTO;
	*ret_start = strtoull(at + 1, NULL, 10);
	return 0;
}

static void store(struct gm_daemon *d, uint32_t index,
		  const struct gm_holder_image *image)
{
	gm_a64 *w = d->segment.map.holders[index].w;
	uint64_t words[WORDS];

	memcpy(words, image, sizeof(words));
	gm_seq_fill(w + 1, words + 1, WORDS - 1);
	GM_POINT("pin_filled");
	gm_seq_publish(w, words[0]);
	GM_POINT("pin_visible");
}

static void forget(struct gm_holder_process *process)
{
	gm_loop_del(&process->d->loop, &process->source);
	close(process->source.fd);
	free(process);
}

/* The claim's process stays, for it may have more of them. */
static void drop(struct gm_daemon *d, uint32_t index)
{
	struct gm_holder_image *image = &d->holders.table[index];
	uint32_t unit = image->unit, bytes = (uint32_t)image->bytes;

	gm_seq_publish(d->segment.map.holders[index].w, GM_HOLDER_FREE);
	GM_POINT("unpin_visible");
	memset(image, 0, sizeof(*image));
	d->holders.of[index] = NULL;
	gm_publish_unpinned(d, unit, bytes);
}

static void drop_all(struct gm_daemon *d, const struct gm_holder_process *of)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		if (d->holders.of[i] == of) {
			drop(d, i);
			n++;
		}
	}
	gm_log(GM_LOG_INFO, "holder_gone", "holder=%d pins=%u", (int)of->pid,
	       n);
}

static void process_ended(struct gm_source *source, uint32_t events)
{
	struct gm_holder_process *process =
		gm_owner(source, struct gm_holder_process, source);

	(void)events;
	drop_all(process->d, process);
	forget(process);
}

/* The descriptor first: after it the pid cannot change hands unnoticed, and
 * the start time that is read then is of the process that we watch. */
static int watch(struct gm_daemon *d, pid_t pid,
		 struct gm_holder_process **ret_process)
{
	struct gm_holder_process *process = calloc(1, sizeof(*process));
	int ret;

	if (process == NULL)
		return -ENOMEM;
	process->d = d;
	process->pid = pid;
	process->source.ready = process_ended;
	process->source.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (process->source.fd < 0) {
		ret = errno == EINVAL ? -ESRCH : -errno;
		free(process);
		return ret;
	}
	ret = read_start(pid, &process->start);
	if (ret == 0)
		ret = gm_loop_add(&d->loop, &process->source, EPOLLIN);
	if (ret != 0) {
		close(process->source.fd);
		free(process);
		return ret;
	}
	*ret_process = process;
	return 0;
}

static struct gm_holder_process *known(const struct gm_daemon *d, pid_t pid)
{
	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		struct gm_holder_process *process = d->holders.of[i];

		if (process != NULL && process->pid == pid)
			return process;
	}
	return NULL;
}

/* One that we know may have ended just now, and its pid be another's. */
static int watched(struct gm_daemon *d, pid_t pid,
		   struct gm_holder_process **ret_process)
{
	struct gm_holder_process *process = known(d, pid);
	uint64_t start;
	int ret;

	if (process == NULL)
		return watch(d, pid, ret_process);
	ret = read_start(pid, &start);
	if (ret != 0)
		return ret;
	if (start != process->start) {
		drop_all(d, process);
		forget(process);
		return watch(d, pid, ret_process);
	}
	*ret_process = process;
	return 0;
}

static int judge_quota(const struct gm_daemon *d, uid_t uid, uint32_t bytes,
		       char *ret_why)
{
	uint64_t total = bytes;
	uint32_t n = 1;

	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		const struct gm_holder_image *image = &d->holders.table[i];

		if (image->kind == GM_HOLDER_FREE || image->uid != uid)
			continue;
		total += image->bytes;
		n++;
	}
	if (n > d->config.pins_per_uid)
		return gm_why(ret_why, -EDQUOT,
			      "uid %u has %u pins: unpin something, or raise "
			      "limits.pins-per-uid",
			      (unsigned int)uid, n - 1);
	if (total > d->config.pin_bytes_per_uid)
		return gm_why(
			ret_why, -EDQUOT,
			"uid %u would pin %llu bytes: unpin something, or "
			"raise limits.pin-bytes-per-uid",
			(unsigned int)uid, (unsigned long long)total);
	return 0;
}

static uint32_t free_place(const struct gm_daemon *d)
{
	uint32_t i = 0;

	while (i < GM_HOLDERS && d->holders.table[i].kind != GM_HOLDER_FREE)
		i++;
	return i;
}

int gm_holders_pin(struct gm_daemon *d, pid_t pid, uid_t uid, uint32_t kind,
		   const char *name, char ret_why[GM_WHY_BYTES],
		   struct gm_pin *ret_pin)
{
	const struct gm_block *block = gm_publish_find(d, kind, name);
	struct gm_holder_process *process;
	struct gm_holder_image image;
	uint32_t index = free_place(d);
	int ret;

	if (block == NULL)
		return gm_why(ret_why, -ENOENT, "nothing is published as %s",
			      name);
	ret = judge_quota(d, uid, block->bytes, ret_why);
	if (ret != 0)
		return ret;
	if (index == GM_HOLDERS)
		return gm_why(ret_why, -ENOSPC,
			      "all %u pins of this node are in use",
			      GM_HOLDERS);
	ret = pid > 0 ? watched(d, pid, &process) : -ESRCH;
	if (ret == -ESRCH)
		return gm_why(ret_why, ret,
			      "process %d cannot be watched: it is gone, or in "
			      "a pid namespace that gpumapd does not see",
			      (int)pid);
	if (ret != 0)
		return gm_why(ret_why, ret, "process %d cannot be watched: %s",
			      (int)pid, strerror(-ret));

	image = (struct gm_holder_image){ .kind = GM_HOLDER_PIN,
					  .unit = block->unit,
					  .pid = (uint32_t)pid,
					  .uid = uid,
					  .start = process->start,
					  .key = block->key,
					  .version = block->version,
					  .bytes = block->bytes,
					  .claim = ++d->holders.last_claim };
	d->holders.table[index] = image;
	d->holders.of[index] = process;
	process->n_claims++;
	store(d, index, &image);
	*ret_pin = (struct gm_pin){ .claim = image.claim,
				    .unit = image.unit,
				    .version = image.version };
	return 0;
}

int gm_holders_unpin(struct gm_daemon *d, pid_t pid, uint64_t claim)
{
	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		const struct gm_holder_image *image = &d->holders.table[i];
		struct gm_holder_process *process = d->holders.of[i];

		if (image->kind == GM_HOLDER_FREE || image->claim != claim ||
		    image->pid != (uint32_t)pid)
			continue;
		drop(d, i);
		if (--process->n_claims == 0)
			forget(process);
		return 0;
	}
	return -ENOENT;
}

bool gm_holders_have(const struct gm_daemon *d, uint32_t unit)
{
	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		if (d->holders.table[i].kind != GM_HOLDER_FREE &&
		    d->holders.table[i].unit == unit)
			return true;
	}
	return false;
}

int gm_holders_adopt(struct gm_daemon *d)
{
	struct gm_holders *holders = &d->holders;
	uint32_t n = 0, gone = 0;

	/* Later than any claim of an agent before us, for it gave them out at
	 * less than one a nanosecond. */
	holders->last_claim = gm_loop_now();
	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		const struct gm_holder_image *image = &holders->table[i];
		struct gm_holder_process *process;
		int ret;

		if (image->kind == GM_HOLDER_FREE)
			continue;
		n++;
		ret = watched(d, (pid_t)image->pid, &process);
		if (ret == -ESRCH)
			continue;
		if (ret != 0)
			return ret;
		if (process->start == image->start) {
			holders->of[i] = process;
			process->n_claims++;
		} else if (process->n_claims == 0) {
			forget(process); /* the pid is another's by now */
		}
	}
	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		if (holders->table[i].kind == GM_HOLDER_FREE ||
		    holders->of[i] != NULL)
			continue;
		drop(d, i);
		gone++;
	}
	if (n != 0)
		gm_log(GM_LOG_INFO, "holders_adopted", "pins=%u gone=%u", n,
		       gone);
	return 0;
}

void gm_holders_exit(struct gm_daemon *d)
{
	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		struct gm_holder_process *process = d->holders.of[i];

		d->holders.of[i] = NULL;
		if (process != NULL && --process->n_claims == 0)
			forget(process);
	}
}
