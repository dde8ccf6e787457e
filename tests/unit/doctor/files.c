/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks what gpumapctl doctor says of a machine's files: a tree of a machine
 * that is well, and each fault by its own check.
 */

#include "tests/support/sysfs_tree.h"
#include "tests/unit/doctor/examine.h"

#define NODE  "sys/devices/system/node/node1/cpulist"
#define CARD  "sys/bus/pci/devices/0000:17:00.0/"
#define HUGE  "sys/kernel/mm/transparent_hugepage/shmem_enabled"
#define CLOCK "sys/devices/system/clocksource/clocksource0/current_clocksource"
#define MEMORY                                                \
	"MemTotal:       32768000 kB\nMemFree:  1000000 kB\n" \
	"MemAvailable: "
#define SWAP   " kB\nSwapTotal: 8000000 kB\nSwapFree: "
#define LIMITS "Limit                     Soft Limit           Hard Limit\n"
#define MODULE                                                        \
	"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03 " \
	" Thu Jul 10\nGCC version:  gcc\n"

/* A file: a link, if the text begins with "->"; none, if it is NULL. */
struct file {
	const char *name;
	const char *text;
};

static const struct file well_files[] = {
	{ "proc/sys/kernel/osrelease", "6.1.0-56-amd64\n" },
	{ "proc/sys/kernel/io_uring_disabled", "0\n" },
	{ "proc/sys/kernel/numa_balancing", "0\n" },
	{ "proc/sys/vm/overcommit_memory", "0\n" },
	{ "proc/sys/vm/memfd_noexec", "1\n" },
	{ "proc/meminfo", MEMORY "20000000" SWAP "8000000 kB\n" },
	{ "proc/self/uid_map", "         0          0 4294967295\n" },
	{ "proc/self/ns/pid", "->pid:[4026531836]" },
	{ "proc/4242/limits",
	  LIMITS "Max open files            524288               524288\n"
		 "Max locked memory         unlimited            unlimited\n" },
	{ "proc/4242/cgroup", "0::/system.slice/gpumapd.service\n" },
	{ "proc/4242/oom_score_adj", "-900\n" },
	{ "sys/fs/cgroup/system.slice/gpumapd.service/memory.max", "max\n" },
	{ "sys/fs/cgroup/system.slice/gpumapd.service/pids.max", "4915\n" },
	{ NODE, "1\n" },
	{ HUGE, "always within_size [advise] never deny force\n" },
	{ CLOCK, "tsc\n" },
	{ CARD "vendor", "0x10de\n" },
	{ CARD "class", "0x030200\n" },
	{ CARD "driver", "->../../../../bus/pci/drivers/nvidia" },
	{ CARD "iommu_group/type", "identity\n" },
	{ CARD "current_link_width", "16\n" },
	{ CARD "max_link_width", "16\n" },
	/* A second card, the first one's sound, and a network card. */
	{ "sys/bus/pci/devices/0000:65:00.0/vendor", "0x10de\n" },
	{ "sys/bus/pci/devices/0000:65:00.0/class", "0x030000\n" },
	{ "sys/bus/pci/devices/0000:65:00.0/driver", "->drivers/nvidia" },
	{ "sys/bus/pci/devices/0000:17:00.1/vendor", "0x10de\n" },
	{ "sys/bus/pci/devices/0000:17:00.1/class", "0x040300\n" },
	{ "sys/bus/pci/devices/0000:01:00.0/vendor", "0x8086\n" },
	{ "sys/bus/pci/devices/0000:01:00.0/class", "0x020000\n" },
	{ "proc/driver/nvidia/version", MODULE },
	{ "usr/lib64/libcuda.so.1", "->libcuda.so.535.261.03" },
	{ "usr/lib64/libcuda.so.535.261.03", "" },
	{ "usr/lib64/libnvidia-ml.so.1", "->libnvidia-ml.so.535.261.03" },
	{ "usr/lib64/libnvidia-ml.so.535.261.03", "" },
	{ "usr/lib64/libcuda.so.550.1", "" }, /* of an upgrade */
	{ "dev/nvidiactl", "" },
	{ "dev/nvidia-uvm", "" },
	{ "dev/nvidia0", "" },
	{ "run/nvidia-persistenced/socket", "" },
};

static void put(const struct file *file)
{
	char path[512];

	tree_path(path, file->name);
	unlink(path);
	if (file->text == NULL)
		return;
	if (strncmp(file->text, "->", 2) == 0)
		tree_link(file->name, file->text + 2);
	else
		tree_file(file->name, file->text);
}

static const struct fault {
	struct file file;
	const char *id;
	enum gm_verdict verdict;
	const char *text;
	const char *remedy;
} faults[] = {
	{ { "proc/sys/kernel/osrelease", "5.4.0-1\n" },
	  "kernel.version",
	  GM_VERDICT_FAIL,
	  "5.4.0-1 is older than 5.12",
	  "5.12 or newer" },
	{ { "proc/sys/kernel/osrelease", "5.15.0\n" },
	  "kernel.version",
	  GM_VERDICT_WARN,
	  "huge pages",
	  "6.1" },
	{ { "proc/sys/kernel/osrelease", NULL },
	  "kernel.version",
	  GM_VERDICT_SKIP,
	  "",
	  "" },
	{ { "proc/sys/kernel/io_uring_disabled", "2\n" },
	  "kernel.io_uring",
	  GM_VERDICT_FAIL,
	  "io_uring_disabled is 2",
	  "sysctl kernel.io_uring_disabled=0" },
	{ { "proc/meminfo", MEMORY "1600000" SWAP "8000000 kB\n" },
	  "memory.available",
	  GM_VERDICT_WARN,
	  "1.5 GiB of 31.2 GiB",
	  "gpumapctl who" },
	{ { "proc/meminfo", MEMORY "20000000" SWAP "4000000 kB\n" },
	  "memory.swap",
	  GM_VERDICT_WARN,
	  "3.8 GiB are swapped out",
	  "swapoff" },
	{ { "proc/sys/vm/overcommit_memory", "2\n" },
	  "memory.overcommit",
	  GM_VERDICT_WARN,
	  "overcommit_memory is 2",
	  "sysctl vm.overcommit_memory=0" },
	{ { "proc/sys/vm/memfd_noexec", "2\n" },
	  "memory.memfd_noexec",
	  GM_VERDICT_FAIL,
	  "memfd_noexec is 2",
	  "sysctl vm.memfd_noexec=1" },
	{ { HUGE, "always within_size advise [never] deny force\n" },
	  "memory.huge_pages",
	  GM_VERDICT_WARN,
	  "no huge pages",
	  "echo advise" },
	{ { HUGE, "always within_size advise never [deny] force\n" },
	  "memory.huge_pages",
	  GM_VERDICT_WARN,
	  "no huge pages",
	  "echo advise" },
	{ { "proc/sys/kernel/numa_balancing", "1\n" },
	  "memory.numa_balancing",
	  GM_VERDICT_WARN,
	  "moves pages",
	  "sysctl kernel.numa_balancing=0" },
	{ { CLOCK, "hpet\n" },
	  "time.clocksource",
	  GM_VERDICT_WARN,
	  "the clock is hpet",
	  "kvm-clock" },
	{ { "proc/self/ns/pid", "->pid:[4026532205]" },
	  "container.pid_namespace",
	  GM_VERDICT_WARN,
	  "pid namespace",
	  "hostPID" },
	{ { "proc/self/uid_map", "         0       1000          1\n" },
	  "container.user_namespace",
	  GM_VERDICT_WARN,
	  "user namespace",
	  "mount the runtime directory" },
	{ { "proc/4242/limits",
	    LIMITS "Max open files            524288               524288\n"
		   "Max locked memory         8388608              8388608\n" },
	  "agent.memlock",
	  GM_VERDICT_WARN,
	  "may lock 8.0 MiB",
	  "LimitMEMLOCK=infinity" },
	{ { "proc/4242/limits", LIMITS
	    "Max open files            1024                 524288\n"
	    "Max locked memory         unlimited            unlimited\n" },
	  "agent.descriptors",
	  GM_VERDICT_WARN,
	  "1024 descriptors",
	  "LimitNOFILE=524288" },
	{ { "sys/fs/cgroup/system.slice/gpumapd.service/memory.max",
	    "4294967296\n" },
	  "agent.cgroup_memory",
	  GM_VERDICT_WARN,
	  "may have 4.0 GiB",
	  "MemoryMax=infinity" },
	{ { "sys/fs/cgroup/system.slice/gpumapd.service/pids.max", "100\n" },
	  "agent.cgroup_pids",
	  GM_VERDICT_WARN,
	  "may have 100 threads",
	  "TasksMax=infinity" },
	{ { "proc/4242/oom_score_adj", "0\n" },
	  "agent.oom_score",
	  GM_VERDICT_WARN,
	  "oom_score_adj is 0",
	  "OOMScoreAdjust=-900" },
	{ { CARD "driver", "->../drivers/nouveau" },
	  "cards.driver",
	  GM_VERDICT_FAIL,
	  "0000:17:00.0 belongs to nouveau",
	  "blacklist nouveau" },
	{ { CARD "driver", NULL },
	  "cards.driver",
	  GM_VERDICT_FAIL,
	  "0000:17:00.0 has no driver",
	  "modprobe nvidia" },
	{ { CARD "driver", "->../drivers/vfio-pci" },
	  "cards.driver",
	  GM_VERDICT_WARN,
	  "vfio-pci",
	  "virtual machine" },
	{ { "usr/lib64/libnvidia-ml.so.1", NULL },
	  "cards.libraries",
	  GM_VERDICT_FAIL,
	  "there is no libnvidia-ml.so.1",
	  "libnvidia-ml1" },
	{ { "usr/lib64/libcuda.so.1", "->libcuda.so.550.1" },
	  "cards.versions",
	  GM_VERDICT_FAIL,
	  "driver is 535.261.03 and libcuda.so.1 is 550.1",
	  "restart the machine" },
	{ { "dev/nvidia-uvm", NULL },
	  "cards.device_nodes",
	  GM_VERDICT_FAIL,
	  "there is no /dev/nvidia-uvm",
	  "nvidia-modprobe" },
	{ { "run/nvidia-persistenced/socket", NULL },
	  "cards.persistence",
	  GM_VERDICT_WARN,
	  "does not run",
	  "nvidia-persistenced" },
	{ { "tmp/nvidia-mps/control", "" },
	  "cards.mps",
	  GM_VERDICT_WARN,
	  "MPS runs",
	  "mps = yes" },
	{ { "run/nvidia-mps/control", "" },
	  "cards.mps",
	  GM_VERDICT_WARN,
	  "MPS runs",
	  "mps = yes" },
	{ { CARD "iommu_group/type", "DMA-FQ\n" },
	  "cards.iommu",
	  GM_VERDICT_WARN,
	  "card 0000:17:00.0",
	  "iommu=pt" },
	{ { CARD "current_link_width", "8\n" },
	  "cards.link_width",
	  GM_VERDICT_WARN,
	  "card 0000:17:00.0 uses 8 of 16 lanes",
	  "seat the card" },
};

static struct gpumap_device rows[2] = {
	{ .kind = GPUMAP_DEVICE_CUDA, .mig_gi = -1, .row = 0 },
	{ .kind = GPUMAP_DEVICE_CUDA, .mig_gi = -1, .row = 1 },
};
static struct gm_doctor doctor = { .root = tree.root,
				   .runtime_dir = tree.root,
				   .agent = 4242,
				   .rows = rows,
				   .n_rows = 2 };

/* All tables but that of rows, as one. */
static struct gm_check all[CHECKS_MAX];

static void gather(void)
{
	const struct gm_check *const tables[] = { gm_doctor_machine,
						  gm_doctor_service,
						  gm_doctor_cards };
	size_t n = 0;

	for (size_t k = 0; k < 3; k++)
		for (const struct gm_check *c = tables[k]; c->id != NULL; c++)
			/* The agent itself is asked in system/ctl/doctor. */
			if (strcmp(c->id, "agent.map") != 0 &&
			    strcmp(c->id, "agent.state") != 0 &&
			    strcmp(c->id, "agent.version") != 0 &&
			    strcmp(c->id, "agent.socket") != 0)
				all[n++] = *c;
}

static void put_back(const char *name)
{
	struct file none = { name, NULL };

	for (size_t i = 0; i < sizeof(well_files) / sizeof(well_files[0]); i++)
		if (strcmp(well_files[i].name, name) == 0) {
			put(&well_files[i]);
			return;
		}
	put(&none);
}

static bool can_be_skipped(const char *id)
{
	return strcmp(id, "memory.shm") == 0 ||
	       strcmp(id, "agent.state_dir") == 0;
}

/* The module's file tells two checks of each other. */
static void without_a_module(const struct examined *well)
{
	struct file none = { "proc/driver/nvidia/version", NULL };

	put(&none);
	for (size_t i = 0; i < well->n; i++) {
		struct gm_finding f = look(&well->table[i], &doctor);

		if (strcmp(well->table[i].id, "cards.module") == 0)
			OK(f.verdict == GM_VERDICT_FAIL &&
			   strstr(f.remedy, "modprobe nvidia") != NULL);
		else if (strcmp(well->table[i].id, "cards.versions") == 0)
			EQ(f.verdict, GM_VERDICT_SKIP);
		else
			EQ(f.verdict, well->verdicts[i]);
	}
	put_back(none.name);
}

static void a_card_is_missing(const struct examined *well)
{
	doctor.n_rows = 1;
	OK(breaks(well, &doctor, "cards.rows", GM_VERDICT_WARN,
		  "the bus has 2 cards, and the map 1", "[cuda]"));
	doctor.n_rows = 2;
	rows[1].state = GPUMAP_DEVICE_LOST;
	OK(breaks(well, &doctor, "cards.rows", GM_VERDICT_WARN,
		  "the bus has 2 cards, and the map 1", "[cuda]"));
	rows[1].state = GPUMAP_DEVICE_READY;
}

static void a_card_reaches_its_process(const struct examined *well)
{
	static const char lsm[] = "sys/kernel/security/lsm";
	const struct file with = { lsm, "lockdown,capability,landlock,bpf" };
	const struct file without = { lsm, "lockdown,capability,yama" };
	const struct file none = { lsm, NULL };

	rows[0].flags = GPUMAP_DEVICE_PAGEABLE;
	put(&with);
	OK(breaks(well, &doctor, "cards.reach", GM_VERDICT_PASS,
		  "may change no file", ""));
	put(&without);
	OK(breaks(well, &doctor, "cards.reach", GM_VERDICT_WARN, "(HMM or ATS)",
		  "uvm_disable_hmm=1"));
	put(&none);
	OK(breaks(well, &doctor, "cards.reach", GM_VERDICT_WARN, "(HMM or ATS)",
		  "lsm=landlock"));
	rows[0].flags = 0;
}

static void folders(const struct examined *well)
{
	EQ(chmod(tree.root, 0755), 0);
	OK(breaks(well, &doctor, "agent.runtime_dir", GM_VERDICT_WARN, "list",
		  "chmod 0711"));
	EQ(chmod(tree.root, 0733), 0);
	OK(breaks(well, &doctor, "agent.runtime_dir", GM_VERDICT_FAIL, "write",
		  "chmod 0711"));
	EQ(chmod(tree.root, 0711), 0);
	doctor.runtime_dir = "/nowhere/at/all";
	OK(breaks(well, &doctor, "agent.runtime_dir", GM_VERDICT_WARN,
		  "No such file", "mount the folder"));
	doctor.runtime_dir = tree.root;
}

TAP_CASE()
{
	struct examined well;

	if (!tree_begin())
		return tap_done();
	EQ(chmod(tree.root, 0711), 0);
	for (size_t i = 0; i < sizeof(well_files) / sizeof(well_files[0]); i++)
		put(&well_files[i]);
	doctor.map = (struct gpumap *)(uintptr_t)rows; /* not looked into */
	gather();
	well = examine(all, &doctor);
	for (size_t i = 0; i < well.n; i++)
		if (!can_be_skipped(all[i].id) &&
		    !EQ(well.verdicts[i], GM_VERDICT_PASS))
			NOTE("%s: %s", all[i].id, look(&all[i], &doctor).text);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		const struct fault *f = &faults[i];

		put(&f->file);
		if (!OK(breaks(&well, &doctor, f->id, f->verdict, f->text,
			       f->remedy)))
			NOTE("%s is %s", f->file.name,
			     f->file.text != NULL ? f->file.text : "not there");
		put_back(f->file.name);
	}
	without_a_module(&well);
	a_card_is_missing(&well);
	a_card_reaches_its_process(&well);
	folders(&well);
	tree_end();
	return tap_done();
}
