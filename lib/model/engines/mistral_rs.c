/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mistral.rs: -n ORDINAL:LAYERS;... gives each GPU one range of layers, and all
 * that remain to the CPU.  A topology file gives any layer to any device, and
 * prevails; -n beside it keeps the automatic map from being made, and refused,
 * first.  CUDA ordinal 0 has all that belongs to no layer.
 *
 * The ordinal of an only entry is ignored: its layers go to ordinal 0.  An
 * entry without layers before it makes two of them, and one alone leaves all
 * layers to the CPU.
 */

#include <stdio.h>
#include <stdlib.h>

#include "lib/model/engines/engine.h"

/* Call @visit for each range of layers on one device. */
static void for_ranges(const struct gm_engine_job *job, FILE *to,
		       void (*visit)(FILE *to, uint32_t first, uint32_t end,
				     int32_t card))
{
	uint32_t first = 0;

	for (uint32_t i = 1; i <= job->n_layers; i++) {
		int32_t card = gm_engine_card(job, first);

		if (i < job->n_layers && gm_engine_card(job, i) == card)
			continue;
		visit(to, first, i, card);
		first = i;
	}
}

static void print_topology(FILE *to, uint32_t first, uint32_t end, int32_t card)
{
	fprintf(to, "%u-%u:\n  device: ", first, end);
	if (card < 0)
		fputs("cpu\n", to);
	else
		fprintf(to, "cuda[%d]\n", card);
}

static void print_entry(FILE *to, uint32_t first, uint32_t end, int32_t card)
{
	if (card >= 0)
		fprintf(to, "%s%d:%u", ftell(to) > 0 ? ";" : "", card,
			end - first);
}

/* The text that is printed for all ranges, for free(); NULL: no memory. */
static char *print(struct gm_engine_job *job, const char *begin,
		   void (*visit)(FILE *to, uint32_t first, uint32_t end,
				 int32_t card))
{
	char *text = NULL;
	size_t n;
	FILE *to = open_memstream(&text, &n);

	if (to != NULL) {
		fputs(begin, to);
		for_ranges(job, to, visit);
		if (fclose(to) == 0)
			return text;
	}
	free(text);
	job->no_memory = true;
	return NULL;
}

/* Can -n say it: each GPU has one range, and the host what remains? */
static bool is_plain(const struct gm_engine_job *job)
{
	bool used[GPUMAP_ROWS_MAX] = { false };
	int32_t last = -2;

	for (uint32_t i = 0; i < job->n_layers; i++) {
		int32_t card = gm_engine_card(job, i);

		if (card == last)
			continue;
		if (last == -1 || (card >= 0 && used[card]))
			return false;
		if (card >= 0)
			used[card] = true;
		last = card;
	}
	return true;
}

static void set_layers(struct gm_engine_job *job)
{
	bool has_first = false;
	char *text;

	if (!is_plain(job)) {
		gm_engine_option(job, "-n", "0:%u", job->n_layers);
		gm_engine_option(job, "--topology", "%s",
				 job->request.file_name != NULL
					 ? job->request.file_name
					 : "topology.yaml");
		gm_engine_add(job, &job->notes,
			      "The topology has to be in the file that "
			      "--topology names.");
		return;
	}
	/* Ordinal 0 holds what belongs to no layer.  Does it hold no layer, and
	 * one other card or none all those that are not the host's? */
	for (uint32_t i = 0; i < job->n_layers; i++)
		has_first |= gm_engine_card(job, i) == 0;
	text = print(job, !has_first && job->n_cards <= 2 ? "0:0" : "",
		     print_entry);
	if (text != NULL)
		gm_engine_option(job, "-n", "%s", text);
	free(text);
}

int gm_engine_mistral_rs(struct gm_engine_job *job)
{
	uint32_t last;
	int ret = gm_engine_devices(job, true);

	if (ret == 0)
		ret = gm_engine_one_host(job);
	if (ret != 0)
		return ret;
	job->file = print(job, "", print_topology);
	if (job->n_cards > 1)
		gm_engine_add(job, &job->env, "MISTRALRS_NO_NCCL=1");
	if (job->n_cards == 0)
		gm_engine_add(job, &job->argv, "--cpu");
	else
		set_layers(job);
	last = job->rows[job->n_layers - 1];
	if (job->n_cards > 0 &&
	    (job->cards[0] != job->base_row || job->cards[0] != last))
		gm_engine_add(job, &job->notes,
			      "mistral.rs has what belongs to no layer and the "
			      "head on row %u; the map has them on rows %u and "
			      "%u.",
			      job->cards[0], job->base_row, last);
	return 0;
}
