/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Draw the node, or that of a file. */

#include "agent/ctl/ctl.h"
#include "agent/ctl/plan.h"
#include "agent/plan/nodefile.h"
#include "agent/topo/topo.h"

#include <stdio.h>
#include <string.h>

static int read_file(const char *path, struct gm_topo *ret_topo)
{
	struct gm_plan_error error = { .code = 0 };
	struct gm_nodefile file;
	int ret;

	if (gm_nodefile_read(path, &file, &error) != 0)
		return gm_ctl_plan_error(&error);
	ret = gm_topo_of_node(&file, ret_topo);
	gm_nodefile_free(&file);
	if (ret == 0)
		return GM_EXIT_OK;
	fprintf(stderr, "gpumapctl: topo: %s\n", strerror(-ret));
	return GM_EXIT_FAILED;
}

static int read_agent(struct gm_ctl *ctl, struct gm_topo *ret_topo)
{
	const char *root = ctl->doctor.root;
	int ret = gm_ctl_attach(ctl);

	if (ret != GM_EXIT_OK)
		return ret;
	ret = gm_topo_read(ctl->map, root != NULL ? root : "", ret_topo);
	snprintf(ret_topo->name, sizeof(ret_topo->name), "%s", ctl->instance);
	return ret == 0 ? GM_EXIT_OK : gm_ctl_fail(ctl, ret, "topo");
}

static int write_json(FILE *to, const struct gm_topo *topo)
{
	json_t *json = gm_topo_json(topo);
	int ret = json_dumpf(json, to, 0) == 0 ? GM_EXIT_OK : GM_EXIT_FAILED;

	putc('\n', to);
	json_decref(json);
	return ret;
}

int gm_ctl_topo(struct gm_ctl *ctl)
{
	static const struct {
		const char *name;
		void (*write)(FILE *to, const struct gm_topo *topo);
	} formats[] = {
		{ "text", gm_topo_text }, { "svg", gm_topo_svg },
		{ "dot", gm_topo_dot },   { "html", gm_topo_html },
		{ "json", NULL },
	};
	const char *word = ctl->json                    ? "json"
			   : ctl->export.format != NULL ? ctl->export.format
							: "text";
	struct gm_topo topo = { .n_rows = 0 };
	int at = gm_ctl_find_word("--format", word, formats, sizeof(formats[0]),
				  sizeof(formats) / sizeof(formats[0]));
	int ret;

	if (at < 0)
		return GM_EXIT_USAGE;
	ret = ctl->plan.node != NULL ? read_file(ctl->plan.node, &topo)
				     : read_agent(ctl, &topo);
	if (ret == GM_EXIT_OK && formats[at].write == NULL)
		ret = write_json(stdout, &topo);
	else if (ret == GM_EXIT_OK)
		formats[at].write(stdout, &topo);
	gm_topo_free(&topo);
	return ret;
}
