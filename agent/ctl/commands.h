/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * commands - every command of gpumapctl.
 *
 * A table without a guard, as options.h: the source that includes it defines
 *
 *	COMMAND(name, operands, what, n_args, run, offline)
 *	TOOL(name, operands, what)	gpumapctl-NAME, another program
 *
 * name		may have a blank: "mask list"
 * operands	and options: its usage
 * what		one line
 * n_args	operands it needs, or GM_ARGS_COMMAND
 * run		its function
 * offline	needs no agent: the map stays NULL
 */

/* A model on nodes of a cluster, and how it is placed there. */
#define NODES_MODEL "--model DIR | --layers N --bytes SIZE "
#define NODES_PLACING                                                      \
	"[--share MODEL] [--fingerprint HEX] [--only NODES] "              \
	"[--devices-per-node N] [--tp N] [--pp N] [--dtype DTYPE] "        \
	"[--isq TYPE] [--max-seq-len N] [--max-batch N] "                  \
	"[--kv-elements N] "                                               \
	"[--for torchrun|mpirun|vllm|sglang|llama.cpp|env] [--name NAME] " \
	"[--port PORT]"

COMMAND("status", "", "is the agent alive, and what has it published", 0,
	gm_ctl_status, false)
COMMAND("wait", "[--timeout S]", "wait until the agent serves", 0, gm_ctl_wait,
	true)
COMMAND("wait drop", "NAME",
	"end requests for a map or reservation that wait for room", 1,
	gm_ctl_wait_drop, false)
TOOL("doctor", "[--quiet] [--bundle FILE] [--root DIR]",
     "what is wrong with this node, and what helps")
COMMAND("devices", "[--node FILE]", "the device table, or a node file's", 0,
	gm_ctl_devices, true)
TOOL("topo", "[--format text|svg|dot|json|html] [--node FILE | --root DIR]",
     "the node as a picture: where the layers of each model are")
TOOL("top", "[--once] [--interval S]", "the node on a screen, as it changes")
COMMAND("choose",
	"[--prefer DEVICE] [--compute-capability V] [--cuda-version V] "
	"[--memory SIZE] [--free SIZE] [--rows LIST] "
	"[--by best|free-memory|free-compute]",
	"the devices that meet these needs, best first", 0, gm_ctl_choose, true)
COMMAND("policy", "[--rows LIST] [--reset]",
	"from which size of work each device is worth it", 0, gm_ctl_policy,
	false)
TOOL("calibrate", "[--rows LIST] [--rounds N]",
     "measure from which size of work each device is worth it")
COMMAND("drain", "ROW [--dry-run]",
	"end a row's worker and all memory there, and close its device", 1,
	gm_ctl_drain, false)
COMMAND("undrain", "ROW", "take a drained row into service again", 1,
	gm_ctl_undrain, false)
COMMAND("cordon", "ROW", "keep new sessions and plans away from a row", 1,
	gm_ctl_cordon, false)
COMMAND("uncordon", "ROW", "end that", 1, gm_ctl_uncordon, false)
COMMAND("maps", "", "all layer maps", 0, gm_ctl_maps, false)
COMMAND("layers", "NAME", "which row holds each layer of a map", 1,
	gm_ctl_layers, false)
COMMAND("publish", "NAME --spec SPEC [--model DIR | [--layers N] [--keep]]",
	"publish a layer map", 1, gm_ctl_publish, false)
COMMAND("release", "NAME", "take a layer map back", 1, gm_ctl_release, false)
COMMAND("load",
	"NAME --model DIR | --as-file FILE [--link DIR] [--map MAP] "
	"[--rows LIST] [--fingerprint HEX] [--writable] [--any-user | "
	"--users LIST] "
	"[--any-files] [--run-as USER] [--once | --detach]",
	"load a model onto the rows of a layer map, and hold it there", 1,
	gm_ctl_load, false)
COMMAND("who", "", "who has reserved what", 0, gm_ctl_who, false)
COMMAND("run",
	"[--reserve BYTES | --map NAME | --model DIR [OPTIONS OF plan]] "
	"[--rows LIST] [--any] [--wait S] [--gate] [--ready-file FILE] "
	"[--ready-tcp PORT] "
	"[--start-limit S] [--for ENGINE] [--name NAME] [--no-bind] "
	"[--cache-dir DIR] [--no-agent run|fail] [--print-env] [--] "
	"COMMAND...",
	"reserve memory, wait for it, and become COMMAND", GM_ARGS_COMMAND,
	gm_ctl_run, true)
COMMAND("sessions", "", "who has a session", 0, gm_ctl_sessions, false)
COMMAND("shares", "", "buffers that have a name, and who may open them", 0,
	gm_ctl_shares, false)
COMMAND("shares release", "NAME", "take a name of buffers back", 1,
	gm_ctl_shares_release, false)
COMMAND("scatter", "[--bytes N] [--op OP] [--rows LIST] [--rounds N]",
	"scatter a job over the rows, and check every byte of the result", 0,
	gm_ctl_scatter, false)
COMMAND("collective", "MESH GROUP [--op OP] [--bytes N] [--rounds N] [--nccl]",
	"a collective over a group, and check every element of each rank", 2,
	gm_ctl_collective, false)
TOOL("trace", "FILE [--rows LIST] [--timeout S]",
     "record jobs for some seconds, as a file for Perfetto")
TOOL("cluster nodes", "", "the nodes that gpumap-sync knows of")
TOOL("cluster devices",
     "[--node NODE] [--free SIZE] [--sort node|free|total|name]",
     "the devices of all nodes")
TOOL("cluster models", "MODEL", "which nodes have this model loaded")
TOOL("cluster topo", "", "the nodes with their devices and models")
TOOL("cluster plan", NODES_MODEL "[--nodes N|any] " NODES_PLACING,
     "on which nodes and devices a model would be")
TOOL("cluster run",
     NODES_MODEL "[--nodes N|any] " NODES_PLACING
		 " [--wait S] [--stop-when-lost] [--no-bind] "
		 "[--cache-dir DIR] [--sync SOCKET] [--] COMMAND...",
     "reserve that on all nodes or none, and become COMMAND")
TOOL("cluster leave", "",
     "forget the cluster, after its gpumap-sync was stopped")
COMMAND("completion", "bash|zsh|fish",
	"print a shell's script for the completion of gpumapctl", 1,
	gm_ctl_completion, true)
COMMAND("complete", "[--] GPUMAPCTL WORD...",
	"how the last WORD can go on, for these scripts", GM_ARGS_COMMAND,
	gm_ctl_complete, true)
COMMAND("plan",
	"--model DIR [--node FILE | --commit NAME] [--rows LIST] "
	"[--strategy fill|balance|fewest | --spec SPEC | --topology FILE | "
	"--split COUNTS | --weights WEIGHTS] [--setting SETTING] "
	"[--base-row ROW] [--dtype DTYPE] [--isq TYPE] "
	"[--max-seq-len N] [--max-batch N] "
	"[--paged-mib N | --paged-share X | --paged-tokens N] "
	"[--paged-block N] [--cache-type auto|f8e4m3] [--kv-elements N] "
	"[--engine vllm|sglang|llama.cpp|hf | --like mistral.rs]",
	"where a model's layers would go, and what that takes of each row", 0,
	gm_ctl_plan, true)
COMMAND("export",
	"NAME --for ENGINE [--format json|argv|env|yaml] [--model DIR] "
	"[--topology FILE]",
	"say a layer map in the settings of another engine", 1, gm_ctl_export,
	true)
COMMAND("mask publish",
	"NAME --kind KIND [--size N] [--past N] [--window N] [--chunk N] "
	"[--dtype DTYPE] [--map MAP | --rows LIST]",
	"publish an attention mask made by a rule", 1, gm_ctl_mask_publish,
	false)
COMMAND("mask list", "", "all masks", 0, gm_ctl_mask_list, false)
COMMAND("mask show", "NAME [--rows ROW] [--pgm FILE]",
	"what a mask is, and a picture of it", 1, gm_ctl_mask_show, false)
COMMAND("mask release", "NAME", "take a mask back", 1, gm_ctl_mask_release,
	false)
COMMAND("mesh publish",
	"NAME --topology data|tensor=N|pipeline=N|mixed=TPxPPxDP "
	"[--rows LIST] [--group NAME=RANKS]...",
	"arrange rows as ranks, and publish that", 1, gm_ctl_mesh_publish,
	false)
COMMAND("mesh list", "", "all meshes", 0, gm_ctl_mesh_list, false)
COMMAND("mesh show", "NAME", "where each rank is, and all groups", 1,
	gm_ctl_mesh_show, false)
COMMAND("mesh release", "NAME", "take a mesh back", 1, gm_ctl_mesh_release,
	false)

/* For the usage, and for takes(): find() takes the first command of
 * a name. */
COMMAND("export",
	"--node FILE --spec SPEC --for ENGINE [--format json|argv|env|yaml] "
	"[--layers N] [--base-row ROW] [--model DIR] [--topology FILE]",
	"say a spec for the rows of a node file so", 0, gm_ctl_export, true)
COMMAND("plan", "--nodes N|any " NODES_MODEL NODES_PLACING,
	"where it would be on several nodes of the cluster", 0, gm_ctl_plan,
	true)
TOOL("cluster models", "", "which node has which model loaded")
COMMAND("mask publish",
	"NAME --file FILE [--tensor NAME] [--map MAP | --rows LIST]",
	"publish an attention mask that a file holds", 1, gm_ctl_mask_publish,
	false)

#undef COMMAND
#undef TOOL
#undef NODES_MODEL
#undef NODES_PLACING
