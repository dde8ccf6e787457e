/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumapctl run on a machine with whole cards and MIG instances: the command
 * sees the devices of its rows and no others, an engine is told its share of a
 * card or the layers of its map, and the caller's CUDA_VISIBLE_DEVICES is
 * heeded.
 */

#include <signal.h>

#include "tests/support/cuda_shown.h"
#include "tests/support/ctl_model.h"

#define RUN(...) \
	CTL("run", "--cache-dir", agent.dir, "--name", "ours", __VA_ARGS__)

static char row_text[2][8];

/* A whole card, or an instance. */
static uint32_t find_row(bool is_part)
{
	uint32_t i = 0;

	while (i < n_rows && (devices[rows[i]].mig_gi >= 0) != is_part)
		i++;
	return i < n_rows ? rows[i] : 0;
}

static void the_command_sees_its_devices(void)
{
	char want[32], line[128];

	for (uint32_t i = 0; i < n_rows; i++) {
		snprintf(want, sizeof(want), "%u", rows[i]);
		EQ(RUN("--reserve", "1G", "--rows", want, "env"), 0);
		STR(shown(), want);
	}
	/* As in tests/nodes, where no instance has a UUID of a card. */
	EQ(RUN("--reserve", "1G", "--rows", row_text[1], "env"), 0);
	OK(prints("CUDA_VISIBLE_DEVICES=MIG-") &&
	   prints("CUDA_DEVICE_ORDER=PCI_BUS_ID"));
	EQ(RUN("--reserve", "1G", "--rows", row_text[0], "env"), 0);
	OK(prints("CUDA_VISIBLE_DEVICES=GPU-"));
	snprintf(want, sizeof(want), "%u,%u", rows[n_rows - 1], rows[0]);
	EQ(RUN("--reserve", "1G", "--rows", want, "env"), 0);
	snprintf(line, sizeof(line), "GPUMAP_ROWS=%s\n", want);
	OK(prints(line));
	snprintf(want, sizeof(want), "%u %u", rows[n_rows - 1], rows[0]);
	STR(shown(), want);
}

/* A host row beside a card is none that CUDA shows. */
static void hosts_are_no_devices(void)
{
	uint32_t host = 0;
	char want[32];

	while (devices[host].kind != GPUMAP_DEVICE_HOST)
		host++;
	snprintf(want, sizeof(want), "%u,%s", host, row_text[0]);
	EQ(RUN("--reserve", "1G", "--rows", want, "env"), 0);
	STR(shown(), row_text[0]);
	snprintf(want, sizeof(want), "%u", host);
	EQ(RUN("--reserve", "1M", "--rows", want, "env"), 0);
	STR(shown(), "");
}

/* ---- engines ------------------------------------------------------------- */

static void engines_are_told_their_share(void)
{
	uint64_t total = devices[find_row(false)].total_bytes;
	char want[64], bytes[32];

	snprintf(bytes, sizeof(bytes), "%" PRIu64, total / 4 + (1 << 20));
	EQ(RUN("--reserve", bytes, "--rows", row_text[0], "--for", "vllm", "--",
	       "echo", "serve", "m"),
	   0);
	STR(out, "serve m --gpu-memory-utilization 0.250\n");
	EQ(RUN("--reserve", bytes, "--rows", row_text[0], "--for", "sglang",
	       "--", "echo", "launch"),
	   0);
	STR(out, "launch --mem-fraction-static 0.250\n");
	/* An option that the command has stays, however it is spelt. */
	EQ(RUN("--reserve", bytes, "--rows", row_text[0], "--for", "vllm", "--",
	       "echo", "serve", "--gpu_memory_utilization=0.9"),
	   0);
	STR(out, "serve --gpu_memory_utilization=0.9\n");
	OK(strstr(err, "stays as the command has it") != NULL);
	EQ(RUN("--reserve", bytes, "--rows", row_text[0], "--for", "llama.cpp",
	       "--", "echo", "up"),
	   0);
	STR(out, "up\n");
	OK(strstr(err, "llama.cpp is not told how much memory") != NULL);
	snprintf(want, sizeof(want),
		 "\"argv\":[\"echo\",\"--gpu-memory-"
		 "utilization\",\"0.250\"]");
	EQ(RUN("--reserve", bytes, "--rows", row_text[0], "--for", "vllm",
	       "--print-env", "--json", "echo"),
	   0);
	OK(prints(want));
}

static void engines_follow_their_map(void)
{
	const uint64_t part = devices[find_row(false)].total_bytes / 4 + 1024;
	const uint64_t layer_bytes[] = { part, part, part };
	char spec[32];
	const struct gpumap_layers_request sized = { .size = sizeof(sized),
						     .name = "layers",
						     .spec = spec,
						     .n_layers = 3,
						     .layer_bytes =
							     layer_bytes };
	struct gpumap *map = story_attach(&agent);

	snprintf(spec, sizeof(spec), "%u:3", find_row(false));
	EQ(CTL("publish", "layers", "--spec", spec), DONE);
	EQ(RUN("--map", "layers", "--for", "llama.cpp", "--", "sh", "-c",
	       "echo $# $LLAMA_ARG_N_GPU_LAYERS $GPUMAP_MAP", "sh"),
	   0);
	STR(out, "0 4 ours\n");
	EQ(RUN("--map", "layers", "--for", "vllm", "--", "echo", "-pp", "1"),
	   0);
	STR(out, "-pp 1 --tensor-parallel-size 1\n");
	/* Its share is what the layers take. */
	EQ(gpumap_layers_publish(map, &sized), 0);
	gpumap_detach(map);
	EQ(RUN("--map", "layers", "--for", "vllm", "--", "echo", "-pp", "1",
	       "-tp", "1"),
	   0);
	STR(out, "-pp 1 -tp 1 --gpu-memory-utilization 0.750\n");
	snprintf(spec, sizeof(spec), "%u:1;%u:2", find_row(false),
		 find_row(true));
	EQ(CTL("publish", "layers", "--spec", spec), DONE);
	/* Refused before anything is reserved. */
	EQ(RUN("--map", "layers", "--for", "vllm", "echo"), FAILED);
	OK(complains("a MIG instance, and the ranks of vLLM need whole cards"));
	EQ(CTL("release", "layers"), DONE);
}

static uint32_t row_of_mib(uint64_t mib)
{
	uint32_t i = 0;

	while (i < n_rows && devices[rows[i]].total_bytes >> 20 != mib)
		i++;
	return i < n_rows ? rows[i] : UINT32_MAX;
}

/* An engine takes as much of each card as it is told. */
static void the_least_share_is_told(void)
{
	/* Layers of 2 GiB, on a card of 24 564 MiB and one of 15 360. */
	static const struct {
		unsigned int large, small;
		const char *share;
	} table[] = {
		{ 1, 1, "0.083" }, /* and 0.133 of the small one */
		{ 3, 1, "0.133" }, /* and 0.250 of the large one */
	};
	static const uint64_t layer_bytes[] = { UINT64_C(2) << 30,
						UINT64_C(2) << 30,
						UINT64_C(2) << 30,
						UINT64_C(2) << 30 };
	char spec[32], want[64];
	struct gpumap_layers_request sized = { .size = sizeof(sized),
					       .name = "layers",
					       .spec = spec,
					       .layer_bytes = layer_bytes };
	struct gpumap *map = story_attach(&agent);
	uint32_t large, small;

	list_rows();
	large = row_of_mib(24564);
	small = row_of_mib(15360);
	for (int i = 0; i < 4; i++) {
		snprintf(spec, sizeof(spec),
			 i % 2 ? "%2$u:%4$u;%1$u:%3$u" : "%1$u:%3$u;%2$u:%4$u",
			 large, small, table[i / 2].large, table[i / 2].small);
		sized.n_layers = table[i / 2].large + table[i / 2].small;
		EQ(gpumap_layers_publish(map, &sized), 0);
		EQ(RUN("--map", "layers", "--for", "vllm", "--", "echo"), 0);
		snprintf(want, sizeof(want), "--gpu-memory-utilization %s\n",
			 table[i / 2].share);
		OK(prints(want));
		EQ(RUN("--map", "layers", "--for", "sglang", "--", "echo"), 0);
		snprintf(want, sizeof(want), "--mem-fraction-static %s\n",
			 table[i / 2].share);
		OK(prints(want));
	}
	gpumap_detach(map);
	/* As many bytes are reserved on each. */
	snprintf(spec, sizeof(spec), "%u,%u", small, large);
	EQ(RUN("--reserve", "6G", "--rows", spec, "--for", "vllm", "--",
	       "echo"),
	   0);
	OK(prints("--gpu-memory-utilization 0.250\n"));
}

/* A part of each layer on two whole cards. */
static void engines_have_ranks(void)
{
	static const char header[] =
		"{\"model.layers.0.w\":{\"dtype\":\"BF16\",\"shape\":[512],"
		"\"data_offsets\":[0,1024]}}";
	uint32_t cards[2], n = 0;
	char list[32], want[32];

	for (uint32_t i = 0; i < n_rows && n < 2; i++)
		if (devices[rows[i]].mig_gi < 0)
			cards[n++] = rows[i];
	if (!EQ(n, 2))
		return;
	snprintf(list, sizeof(list), "%u,%u", cards[0], cards[1]);
	snprintf(want, sizeof(want), "%u %u", cards[0], cards[1]);
	snprintf(model, sizeof(model), "%s/model", agent.dir);
	write_model("{\"num_hidden_layers\":1,\"hidden_size\":64,"
		    "\"num_attention_heads\":4}",
		    header, 1024);
	EQ(RUN("--model", model, "--rows", list, "--setting", "nccl", "--for",
	       "vllm", "--", "echo", "serve"),
	   0);
	OK(prints("serve --tensor-parallel-size 2 --gpu-memory-utilization "));
	EQ(RUN("--model", model, "--rows", list, "--setting", "nccl", "--for",
	       "sglang", "--", "sh", "-c", "env", "x"),
	   0);
	STR(shown(), want);
	/* A map of ranks is exported with them. */
	EQ(CTL("plan", "--model", model, "--rows", list, "--setting", "nccl",
	       "--commit", "ranks"),
	   DONE);
	EQ(CTL("export", "ranks", "--for", "vllm", "--model", model, "--format",
	       "argv"),
	   DONE);
	STR(out, "--tensor-parallel-size 2 --pipeline-parallel-size 1 "
		 "--distributed-executor-backend mp\n");
	EQ(CTL("export", "ranks", "--for", "sglang", "--format", "env"), DONE);
	STR(shown(), want);
	EQ(CTL("export", "ranks", "--for", "llama.cpp"), FAILED);
	OK(complains("a part of every layer on each of 2 rows, and the "
		     "settings of llama.cpp are for whole layers"));
	remove_model();
	write_model("{\"num_hidden_layers\":1,\"hidden_size\":63,"
		    "\"num_attention_heads\":3}",
		    header, 1024);
	EQ(CTL("export", "ranks", "--for", "vllm", "--model", model), FAILED);
	OK(complains("The model's 3 attention heads are not to be divided by "
		     "2"));
	EQ(CTL("release", "ranks"), DONE);
	remove_model();
}

/* ---- the caller's devices ------------------------------------------------ */

/* Run it where /dev has the nodes of these cards, as a container has. */
static int run_with_nodes(const char *nodes, const char *variable)
{
	/* $0 is a folder. */
	static const char script[] =
		"mkdir -p $0 && mount -t tmpfs none $0 && mkdir $0/shm && "
		"touch $0/null && mount --bind /dev/shm $0/shm && "
		"mount --bind /dev/null $0/null && cd $0 && touch $NODES && "
		"mount --rbind $0 /dev && exec \"$@\"";
	char folder[128], list[64];
	const char *const argv[] = { "env",
				     list,
				     variable,
				     "unshare",
				     "-m",
				     "sh",
				     "-c",
				     script,
				     folder,
				     ctl_program(),
				     "--instance",
				     agent.instance,
				     "run",
				     "--runtime-dir",
				     agent.dir,
				     "--cache-dir",
				     agent.dir,
				     "--reserve",
				     "1G",
				     "--",
				     "sh",
				     "-c",
				     "echo $GPUMAP_ROWS",
				     NULL };
	int ret;

	snprintf(folder, sizeof(folder), "%s/dev", agent.dir);
	snprintf(list, sizeof(list), "NODES=%s", nodes);
	ret = run(argv);
	rmdir(folder);
	return ret;
}

static bool can_unshare(void)
{
	return run((const char *const[]){ "unshare", "-m", "true", NULL }) == 0;
}

static void the_callers_devices_are_heeded(void)
{
	const struct gpumap_device *card = &devices[find_row(false)];
	char want[32], node[32], variable[128];

	snprintf(want, sizeof(want), "%s,%s", row_text[0], row_text[1]);
	EQ(RUN("--reserve", "1G", "--rows", want, "--any", "--", "sh", "-c",
	       "echo $CUDA_VISIBLE_DEVICES | tr -dc , | wc -c"),
	   0);
	STR(out, "0\n");
	setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
	EQ(RUN("--reserve", "1G", "true"), FAILED);
	OK(complains("sees none of the node's cards, by CUDA_VISIBLE_DEVICES"));
	EQ(RUN("--reserve", "1G", "--any", "true"), 0);
	unsetenv("CUDA_VISIBLE_DEVICES");
	if (!can_unshare()) {
		SKIP(14, "a mount namespace needs root");
		return;
	}
	/* One node, and all of them with a variable that names a card. */
	snprintf(want, sizeof(want), "%u\n", card->row);
	snprintf(node, sizeof(node), "nvidia%d", card->minor_number);
	EQ(run_with_nodes(node, "A=b"), 0);
	STR(out, want);
	EQ(RUN("--reserve", "1G", "--rows", row_text[0], "--print-env", "true"),
	   0);
	snprintf(variable, sizeof(variable), "%.*s", (int)strcspn(out, "\n"),
		 out);
	EQ(run_with_nodes("nvidia0 nvidia1 nvidia2", variable), 0);
	STR(out, want);
	/* CUDA cuts a list at an entry that it does not know. */
	OK(strstr(err, "CUDA_VISIBLE_DEVICES") == NULL);
	EQ(run_with_nodes("nvidia0 nvidia1 nvidia2",
			  "CUDA_VISIBLE_DEVICES=0,9,1"),
	   0);
	OK(strstr(err, "run: CUDA_VISIBLE_DEVICES, from its byte 2: an entry "
		       "names no device") != NULL);
	/* The card is out of service, and the instance is left. */
	snprintf(want, sizeof(want), "%s,%s", row_text[0], row_text[1]);
	EQ(RUN("--reserve", "1G", "--rows", want, "--print-env", "true"), 0);
	snprintf(variable, sizeof(variable), "%.*s", (int)strcspn(out, "\n"),
		 out);
	EQ(CTL("cordon", row_text[0]), DONE);
	EQ(run_with_nodes("nvidia0 nvidia1 nvidia2", variable), 0);
	snprintf(want, sizeof(want), "%s\n", row_text[1]);
	STR(out, want);
	EQ(CTL("uncordon", row_text[0]), DONE);
	EQ(run_with_nodes("nvidia9", "A=b"), FAILED);
	OK(complains("this process sees none of the node's cards: give"));
}

/* Run the tests on this machine. */
static void on_machine(const char *node, void (*tests)(void))
{
	if (!cuda_scene_make(&scene, node, NULL))
		return;
	cuda_scene_agent(&scene, &agent, "", "[host]\nrows = 1\n");
	if (OK(agent_start(&agent))) {
		tests();
		EQ(agent_kill(&agent, SIGTERM), 0);
	}
	agent_remove(&agent);
	cuda_scene_end(&scene);
}

static void cards_and_instances(void)
{
	list_rows();
	for (int i = 0; i < 2; i++)
		snprintf(row_text[i], sizeof(row_text[i]), "%u",
			 find_row(i == 1));
	the_command_sees_its_devices();
	hosts_are_no_devices();
	engines_are_told_their_share();
	engines_follow_their_map();
	the_callers_devices_are_heeded();
}

static void two_whole_cards(void)
{
	the_least_share_is_told();
	list_rows();
	engines_have_ranks();
}

TAP_CASE()
{
	unsetenv("CUDA_DEVICE_ORDER");
	unsetenv("CUDA_VISIBLE_DEVICES");
	on_machine("split.yaml", cards_and_instances);
	on_machine("mixed.yaml", two_whole_cards);
	return tap_done();
}
