/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/probe/processes.h"

#include <stdlib.h>

#include "agent/probe/sysfs.h"

/* Bytes that NVML does not tell. */
#define UNTOLD UINT64_MAX

static struct gm_processes_item *find(struct gm_processes *p, uint32_t pid)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (p->items[i].pid == pid)
			return &p->items[i];
	return NULL;
}

static struct gm_processes_item *add(struct gm_processes *p, uint32_t pid)
{
	if (p->n == GM_PROBE_PROCESSES) {
		p->figures = GM_FIGURES_PARTLY;
		return NULL;
	}
	p->items[p->n] =
		(struct gm_processes_item){ .pid = pid, .is_told = true };
	return &p->items[p->n++];
}

/* A process that is listed twice has the sum. */
static void take(struct gm_processes *p, int which,
		 const struct gm_nvml_process *told)
{
	struct gm_processes_item *item = find(p, told->pid);

	if (!item)
		item = add(p, told->pid);
	if (!item)
		return;
	item->is_listed = true;
	if (told->bytes == UNTOLD) {
		item->is_told = false;
		p->figures = GM_FIGURES_PARTLY;
		return;
	}
	item->bytes[which] += told->bytes;
}

static void ask(struct gm_processes *p, int which, const struct gm_nvml *nvml,
		struct nvmlDevice_st *dev)
{
	struct gm_nvml_process told[GM_PROBE_PROCESSES] = { 0 };
	unsigned int n = GM_PROBE_PROCESSES;
	gm_nvml_result result =
		nvml->nvmlDeviceGetComputeRunningProcesses_v3(dev, &n, told);

	/* More than there is room for: the driver tells of none. */
	if (result == GM_NVML_INSUFFICIENT_SIZE) {
		p->figures = GM_FIGURES_PARTLY;
		return;
	}
	if (result != GM_NVML_SUCCESS || n > GM_PROBE_PROCESSES) {
		p->figures = GM_FIGURES_REFUSED;
		return;
	}
	for (unsigned int i = 0; i < n; i++)
		take(p, which, &told[i]);
}

/* The last look's processes are known again, if they are still there. */
static void begin_anew(struct gm_processes *p)
{
	for (uint32_t i = 0; i < p->n; i++) {
		p->items[i].is_listed = false;
		p->items[i].is_told = true;
		p->items[i].bytes[0] = p->items[i].bytes[1] = 0;
	}
}

/* Forget those that a whole list does not have, but for what they had at the
 * first question. */
static void forget_ended(struct gm_processes *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n; i++)
		if (p->items[i].is_listed || p->items[i].bytes[0] != 0)
			p->items[n++] = p->items[i];
	p->n = n;
}

void gm_processes_begin(struct gm_processes *p, const struct gm_nvml *nvml,
			struct nvmlDevice_st *dev, const char *sysfs)
{
	begin_anew(p);
	p->began = gm_lineage_now();
	p->figures = GM_FIGURES_KNOWN;
	if (!gm_sysfs_sees_all_pids(sysfs))
		p->figures = GM_FIGURES_NAMESPACE;
	else
		ask(p, 0, nvml, dev);
}

static void recognise(struct gm_processes_item *item)
{
	struct gm_lineage_member member;

	if (item->pid == 0 || gm_lineage_stat((pid_t)item->pid, &member) != 0)
		return;
	if (item->start != 0 && item->start != member.start)
		item->is_changed = true;
	item->start = member.start;
}

void gm_processes_end(struct gm_processes *p, const struct gm_nvml *nvml,
		      struct nvmlDevice_st *dev)
{
	for (uint32_t i = 0; i < p->n; i++)
		p->items[i].is_listed = false;
	if (p->figures == GM_FIGURES_KNOWN || p->figures == GM_FIGURES_PARTLY)
		ask(p, 1, nvml, dev);
	if (p->figures == GM_FIGURES_KNOWN)
		forget_ended(p);
	else if (p->figures != GM_FIGURES_PARTLY)
		p->n = 0;
	for (uint32_t i = 0; i < p->n; i++)
		recognise(&p->items[i]);
}

static bool is_recognised(const struct gm_processes *p,
			  const struct gm_processes_item *item)
{
	return item->is_told && !item->is_changed && item->start != 0 &&
	       item->start < p->began;
}

static void put_line(const struct gm_processes_item *item,
		     struct gm_probe_process *process)
{
	int n = gm_lineage_read((pid_t)item->pid, process->line, GM_PROBE_LINE);

	if (n > 0 && process->line[0].start == item->start)
		process->n = (uint32_t)n;
}

void gm_processes_note(const struct gm_processes *p, uint32_t i,
		       struct gm_probe_wire *ret_note)
{
	const struct gm_processes_item *item = &p->items[i];
	bool is_less = item->bytes[0] < item->bytes[1];

	*ret_note = (struct gm_probe_wire){ .type = GM_PROBE_PROCESS };
	ret_note->process.index = i;
	if (item->is_told) {
		ret_note->process.low_bytes = item->bytes[is_less ? 0 : 1];
		ret_note->process.high_bytes = item->bytes[is_less ? 1 : 0];
	}
	if (is_recognised(p, item) && ret_note->process.low_bytes != 0)
		put_line(item, &ret_note->process);
}
