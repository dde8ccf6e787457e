/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The command line: one table of commands, one of options. */

#include "agent/ctl/ctl.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ctl/parse.h"

static const struct gm_command commands[] = {
	{ "status", "", "is the agent alive, and what has it published", 0, 0,
	  gm_ctl_status, false },
	{ "devices", "", "the device table", 0, 0, gm_ctl_devices, false },
	{ "maps", "", "all layer maps", 0, 0, gm_ctl_maps, false },
	{ "layers", "NAME", "which row holds each layer of a map", 0, 1,
	  gm_ctl_layers, false },
	{ "publish", "NAME --spec SPEC [--model DIR | --layers N]",
	  "publish a layer map", GM_OPT_MODEL | GM_OPT_SPEC | GM_OPT_LAYERS, 1,
	  gm_ctl_publish, false },
	{ "release", "NAME", "take a layer map back", 0, 1, gm_ctl_release,
	  false },
	{ "sessions", "", "who has a session", 0, 0, gm_ctl_sessions, false },
	{ "scatter", "[--bytes N] [--op OP] [--rows LIST] [--rounds N]",
	  "scatter a job over the rows, and check every byte of the result",
	  GM_OPT_BYTES | GM_OPT_OP | GM_OPT_ROWS | GM_OPT_ROUNDS, 0,
	  gm_ctl_scatter, false },
	{ "bench", "[--only PREFIX] [--rounds N]",
	  "measure this instance beside what the machine can do",
	  GM_OPT_ONLY | GM_OPT_ROUNDS, 0, gm_ctl_bench, false },
	{ "split", "--batch", "share units out over devices, by request",
	  GM_OPT_BATCH, 0, gm_ctl_split, true },
	{ "spec", "--batch", "read specs, by request", GM_OPT_BATCH, 0,
	  gm_ctl_spec, true },
	{ "plan", "--batch", "plan layer maps, by request", GM_OPT_BATCH, 0,
	  gm_ctl_plan, true },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* Values of long options that have no letter; the bits follow GM_OPT_*. */
enum { OPT_INSTANCE = 256, OPT_RUNTIME_DIR, OPT_JSON, OPT_VERSION, OPT_OWN };

static const struct option options[] = {
	{ "instance", required_argument, NULL, OPT_INSTANCE },
	{ "runtime-dir", required_argument, NULL, OPT_RUNTIME_DIR },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ "model", required_argument, NULL, OPT_OWN + 0 },
	{ "spec", required_argument, NULL, OPT_OWN + 1 },
	{ "layers", required_argument, NULL, OPT_OWN + 2 },
	{ "bytes", required_argument, NULL, OPT_OWN + 3 },
	{ "rows", required_argument, NULL, OPT_OWN + 4 },
	{ "op", required_argument, NULL, OPT_OWN + 5 },
	{ "rounds", required_argument, NULL, OPT_OWN + 6 },
	{ "only", required_argument, NULL, OPT_OWN + 7 },
	{ "batch", no_argument, NULL, OPT_OWN + 8 },
	{ NULL, 0, NULL, 0 },
};

static void usage(FILE *to)
{
	fprintf(to, "usage: gpumapctl [--instance NAME] [--runtime-dir DIR] "
		    "[--json] COMMAND ...\n\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(to, "  %s%s%s\n        %s\n", commands[i].name,
			commands[i].operands[0] != '\0' ? " " : "",
			commands[i].operands, commands[i].what);
	fprintf(to, "\nSizes take K, M and G.  See gpumapctl(1).\n");
}

/* "@what" is wrong, because @why. */
static int bad(const char *what, const char *why)
{
	fprintf(stderr, "gpumapctl: \"%s\" %s; see gpumapctl --help\n", what,
		why);
	return GM_EXIT_USAGE;
}

/* One option of a command's own; returns GM_EXIT_OK or GM_EXIT_USAGE. */
static int own_option(struct gm_ctl *ctl, uint32_t bit, const char *value)
{
	int ret = 0;

	ctl->given |= bit;
	switch (bit) {
	case GM_OPT_MODEL:
		ctl->model = value;
		break;
	case GM_OPT_SPEC:
		ctl->spec = value;
		break;
	case GM_OPT_OP:
		ctl->op = value;
		break;
	case GM_OPT_ONLY:
		ctl->only = value;
		break;
	case GM_OPT_LAYERS:
		ret = gm_parse_number(value, &ctl->layers);
		break;
	case GM_OPT_BYTES:
		ret = gm_parse_size(value, &ctl->bytes);
		break;
	case GM_OPT_ROUNDS:
		ret = gm_parse_number(value, &ctl->rounds);
		break;
	case GM_OPT_ROWS:
		ret = gm_parse_rows(value, ctl->rows, &ctl->n_rows);
		break;
	}
	return ret == 0 ? GM_EXIT_OK : bad(value, "is not a number that fits");
}

static int parse(int argc, char **argv, struct gm_ctl *ctl)
{
	int c, ret = GM_EXIT_OK;

	while (ret == GM_EXIT_OK &&
	       (c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (c) {
		case OPT_INSTANCE:
			ctl->instance = optarg;
			break;
		case OPT_RUNTIME_DIR:
			ctl->runtime_dir = optarg;
			break;
		case OPT_JSON:
			ctl->json = true;
			break;
		case 'h':
			usage(stdout);
			exit(GM_EXIT_OK);
		case OPT_VERSION:
			puts("gpumapctl " PACKAGE_VERSION);
			exit(GM_EXIT_OK);
		case '?':
			ret = GM_EXIT_USAGE;
			break;
		default:
			ret = own_option(ctl, UINT32_C(1) << (c - OPT_OWN),
					 optarg);
		}
	}
	ctl->args = argv + optind + 1;
	ctl->n_args = argc - optind - 1;
	return ret;
}

static const struct gm_command *find(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static int attach(struct gm_ctl *ctl)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = ctl->instance,
					   .runtime_dir = ctl->runtime_dir };
	int error = gpumap_attach(&opts, &ctl->map);

	if (error == 0)
		return GM_EXIT_OK;
	if (error == -ENOENT) {
		fprintf(stderr,
			"gpumapctl: no agent has published \"%s\": start "
			"gpumapd, or say which with --instance and "
			"--runtime-dir\n",
			ctl->instance);
		return GM_EXIT_NO_AGENT;
	}
	return gm_ctl_fail(ctl, error, "instance \"%s\"", ctl->instance);
}

int main(int argc, char **argv)
{
	struct gm_ctl ctl = { .instance = "node" };
	const struct gm_command *command;
	int ret;

	ret = parse(argc, argv, &ctl);
	if (ret != GM_EXIT_OK)
		return ret;
	if (ctl.n_args < 0) {
		usage(stderr);
		return GM_EXIT_USAGE;
	}
	command = find(argv[optind]);
	if (command == NULL)
		return bad(argv[optind], "is no command");
	if (ctl.n_args != command->n_args)
		return bad(command->name, "takes another number of operands");
	if ((ctl.given & ~command->options) != 0)
		return bad(command->name, "does not take one of these options");
	if (!command->offline)
		ret = attach(&ctl);
	if (ret == GM_EXIT_OK)
		ret = command->run(&ctl);
	gpumap_detach(ctl.map);
	if (fflush(stdout) != 0 && ret == GM_EXIT_OK) {
		fprintf(stderr, "gpumapctl: cannot write: %s\n",
			strerror(errno));
		ret = GM_EXIT_FAILED;
	}
	return ret;
}
