/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/doctor/doctor.h"
#include "agent/plan/size_text.h"
#include "agent/reader/device_text.h"

/* Is there something the matter with the row?  Then a word about it. */
typedef bool row_fault(const struct gm_doctor *d,
		       const struct gpumap_device *row, char ret_word[96]);

/* List the rows with this fault, "2 (FAILED: no memory), 3 (LOST)".  Returns
 * how many they are. */
static uint32_t list_rows(const struct gm_doctor *d, row_fault *fault,
			  char *ret_list, size_t bytes)
{
	uint32_t n = 0;
	size_t at = 0;

	ret_list[0] = '\0';
	for (uint32_t i = 0; i < d->n_rows; i++) {
		char word[96] = "";

		if (!fault(d, &d->rows[i], word))
			continue;
		n++;
		if (at >= bytes)
			continue;
		at += (size_t)snprintf(ret_list + at, bytes - at,
				       word[0] != '\0' ? "%s%u (%s)" : "%s%u",
				       n > 1 ? ", " : "", d->rows[i].row, word);
	}
	return n;
}

static bool is_card(const struct gpumap_device *row)
{
	return row->kind == GPUMAP_DEVICE_CUDA;
}

/* ---- all rows ------------------------------------------------------------ */

/* A card that is split into instances cannot be READY itself. */
static bool is_out(const struct gm_doctor *d, const struct gpumap_device *row,
		   char ret_word[96])
{
	snprintf(ret_word, 96, "%s%s%s", gm_device_state(row->state),
		 row->reason[0] != '\0' ? ": " : "", row->reason);
	return (row->flags & GPUMAP_DEVICE_MIG) == 0 &&
	       (row->state == GPUMAP_DEVICE_FAILED ||
		row->state == GPUMAP_DEVICE_LOST);
}

static bool is_away(const struct gm_doctor *d, const struct gpumap_device *row,
		    char ret_word[96])
{
	snprintf(ret_word, 96, "%s", gm_device_state(row->state));
	return row->state == GPUMAP_DEVICE_PROBING ||
	       row->state == GPUMAP_DEVICE_RESTARTING ||
	       row->state == GPUMAP_DEVICE_DRAINING;
}

static void look_at_states(const struct gm_doctor *d, struct gm_finding *f)
{
	char list[256];

	if (d->map == NULL)
		gm_finding_skip(f, "there is no map");
	else if (d->n_rows == 0)
		gm_finding_fail(f,
				"rows in [host] of gpumapd.conf, or "
				"nvidia's driver",
				"the map has no row");
	else if (list_rows(d, is_out, list, sizeof(list)) > 0)
		gm_finding_fail(f, "gpumapctl devices; journalctl -u gpumapd",
				"out of service: %s", list);
	else if (list_rows(d, is_away, list, sizeof(list)) > 0)
		gm_finding_warn(f,
				"gpumapctl undrain ROW after a drain; the "
				"others are on their way",
				"not in service now: %s", list);
	else if (d->n_rows == 1)
		gm_finding_pass(f, "the row is in service");
	else
		gm_finding_pass(f, "all %u rows are in service", d->n_rows);
}

static bool has_died(const struct gm_doctor *d, const struct gpumap_device *row,
		     char ret_word[96])
{
	snprintf(ret_word, 96, "%u times", row->restarts);
	return row->restarts >= 3;
}

static void look_at_restarts(const struct gm_doctor *d, struct gm_finding *f)
{
	char list[256];

	if (d->map == NULL)
		gm_finding_skip(f, "there is no map");
	else if (list_rows(d, has_died, list, sizeof(list)) > 0)
		gm_finding_warn(f, "journalctl -u gpumapd | grep worker_ended",
				"workers have died: %s", list);
	else
		gm_finding_pass(f, "workers stay alive");
}

static bool is_cordoned(const struct gm_doctor *d,
			const struct gpumap_device *row, char ret_word[96])
{
	return (row->flags & GPUMAP_DEVICE_CORDONED) != 0;
}

static void look_at_cordons(const struct gm_doctor *d, struct gm_finding *f)
{
	char list[256];

	if (d->map == NULL)
		gm_finding_skip(f, "there is no map");
	else if (list_rows(d, is_cordoned, list, sizeof(list)) > 0)
		gm_finding_warn(f, "gpumapctl uncordon ROW",
				"rows take no new sessions and plans: %s",
				list);
	else
		gm_finding_pass(f, "no row is cordoned");
}

/* A process without a reservation has what was promised to another. */
static bool is_short(const struct gm_doctor *d, const struct gpumap_device *row,
		     char ret_word[96])
{
	uint64_t owed = row->reserved_bytes - row->used_by_holders;
	char needs[GM_SIZE_TEXT], room[GM_SIZE_TEXT];

	snprintf(ret_word, 96, "%s free, %s promised",
		 gm_size_text(row->free_bytes, room),
		 gm_size_text(owed, needs));
	return owed > row->free_bytes;
}

static void look_at_promises(const struct gm_doctor *d, struct gm_finding *f)
{
	char list[256];

	if (d->map == NULL)
		gm_finding_skip(f, "there is no map");
	else if (list_rows(d, is_short, list, sizeof(list)) > 0)
		gm_finding_warn(f,
				"gpumapctl who shows the holders; start other "
				"programs by gpumapctl run",
				"less is free than promised: %s", list);
	else
		gm_finding_pass(f, "what is promised is free");
}

static bool is_nowhere(const struct gm_doctor *d,
		       const struct gpumap_device *row, char ret_word[96])
{
	return is_card(row) && row->numa_node < 0;
}

static void look_at_nodes(const struct gm_doctor *d, struct gm_finding *f)
{
	char list[256];

	if (!gm_doctor_exists(d, "/sys/devices/system/node/node1"))
		gm_finding_skip(f, "the machine has one NUMA node");
	else if (list_rows(d, is_nowhere, list, sizeof(list)) > 0)
		gm_finding_warn(f,
				"a virtual machine needs PCI devices on NUMA "
				"nodes; else update the BIOS",
				"the kernel knows no NUMA node of the cards in "
				"rows %s",
				list);
	else
		gm_finding_pass(f, "each card has a NUMA node");
}

/* ---- cards --------------------------------------------------------------- */

static bool lacks_figures(const struct gm_doctor *d,
			  const struct gpumap_device *row, char ret_word[96])
{
	snprintf(ret_word, 96, "%s",
		 row->figures == GPUMAP_FIGURES_NAMESPACE
			 ? "the agent is in a pid namespace"
		 : row->figures == GPUMAP_FIGURES_REFUSED
			 ? "the driver refuses"
			 : "not of every process");
	return is_card(row) && row->state == GPUMAP_DEVICE_READY &&
	       row->figures > GPUMAP_FIGURES_KNOWN;
}

static bool has_card(const struct gm_doctor *d)
{
	for (uint32_t i = 0; i < d->n_rows; i++)
		if (is_card(&d->rows[i]))
			return true;
	return false;
}

/* Report on a fault of cards, or @fine. */
static void look_at_cards(const struct gm_doctor *d, struct gm_finding *f,
			  row_fault *fault, const char *fine,
			  const char *remedy, const char *text)
{
	char list[256];

	if (!has_card(d))
		gm_finding_skip(f, "the map has no card");
	else if (list_rows(d, fault, list, sizeof(list)) > 0)
		gm_finding_warn(f, remedy, "%s: %s", text, list);
	else
		gm_finding_pass(f, "%s", fine);
}

static void look_at_figures(const struct gm_doctor *d, struct gm_finding *f)
{
	look_at_cards(d, f, lacks_figures,
		      "the driver tells what memory processes have",
		      "run the agent with the machine's pids; in a virtual "
		      "machine with vGPU there is no remedy",
		      "the memory of processes is not known, so reservations "
		      "are charged in full");
}

static bool has_xids(const struct gm_doctor *d, const struct gpumap_device *row,
		     char ret_word[96])
{
	snprintf(ret_word, 96, "%" PRIu64 ", the last %u", row->xids,
		 row->last_xid);
	return is_card(row) && row->xids > 0;
}

static void look_at_xids(const struct gm_doctor *d, struct gm_finding *f)
{
	look_at_cards(d, f, has_xids, "no Xid was seen",
		      "look the numbers up in NVIDIA's list of Xids; dmesg | "
		      "grep Xid",
		      "the driver has reported Xids");
}

static bool wants_recovery(const struct gm_doctor *d,
			   const struct gpumap_device *row, char ret_word[96])
{
	return is_card(row) && row->recovery != GPUMAP_RECOVERY_NONE &&
	       row->recovery != UINT32_MAX;
}

static void look_at_recovery(const struct gm_doctor *d, struct gm_finding *f)
{
	look_at_cards(d, f, wants_recovery, "the driver wants no action",
		      "gpumapctl drain ROW, the action that gpumapctl devices "
		      "--json names, gpumapctl undrain ROW",
		      "the driver wants an action");
	if (f->verdict == GM_VERDICT_WARN)
		f->verdict = GM_VERDICT_FAIL;
}

static bool has_ecc(const struct gpumap_device *row)
{
	return (row->flags & GPUMAP_DEVICE_ECC) != 0;
}

/* Without ECC beside others of the same name that have it. */
static bool lacks_ecc(const struct gm_doctor *d,
		      const struct gpumap_device *row, char ret_word[96])
{
	for (uint32_t i = 0; i < d->n_rows; i++)
		if (is_card(row) && !has_ecc(row) && has_ecc(&d->rows[i]) &&
		    strcmp(row->name, d->rows[i].name) == 0)
			return true;
	return false;
}

static void look_at_ecc(const struct gm_doctor *d, struct gm_finding *f)
{
	look_at_cards(d, f, lacks_ecc, "cards of one model agree on ECC",
		      "nvidia-smi -e 1 -i GPU, and a reset of it",
		      "cards are without ECC, which others of their model "
		      "have");
}

const struct gm_check gm_doctor_rows[] = {
	{ "rows.state", look_at_states },
	{ "rows.restarts", look_at_restarts },
	{ "rows.cordoned", look_at_cordons },
	{ "rows.promised", look_at_promises },
	{ "rows.numa_node", look_at_nodes },
	{ "rows.figures", look_at_figures },
	{ "rows.xid", look_at_xids },
	{ "rows.recovery", look_at_recovery },
	{ "rows.ecc", look_at_ecc },
	{ NULL, NULL },
};
