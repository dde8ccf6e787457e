/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Say what is wrong with the node, and pack that to be sent. */

#include "agent/ctl/ctl.h"
#include "agent/doctor/doctor.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *verdict_name(enum gm_verdict verdict)
{
	static const char *const names[] = {
		[GM_VERDICT_PASS] = "PASS",
		[GM_VERDICT_WARN] = "WARN",
		[GM_VERDICT_FAIL] = "FAIL",
		[GM_VERDICT_SKIP] = "SKIP",
	};

	return names[verdict];
}

static json_t *check_json(const struct gm_check *check,
			  const struct gm_finding *f)
{
	return json_pack("{s:s, s:s, s:s, s:o}", "id", check->id, "state",
			 verdict_name(f->verdict), "text", f->text, "remedy",
			 f->remedy[0] != '\0' ? json_string(f->remedy)
					      : json_null());
}

static void print_check(const struct gm_check *check,
			const struct gm_finding *f)
{
	printf("%s  %-24s  %s\n", verdict_name(f->verdict), check->id, f->text);
	if (f->remedy[0] != '\0')
		printf("      %-24s  remedy: %s\n", "", f->remedy);
}

static bool is_fault(const struct gm_finding *f)
{
	return f->verdict == GM_VERDICT_WARN || f->verdict == GM_VERDICT_FAIL;
}

/* ---- the bundle ---------------------------------------------------------- */

/* Files that say nothing of users: no environment, no command line, no key. */
static const char *const bundled[] = {
	"/proc/version",
	"/proc/cmdline",
	"/proc/meminfo",
	"/proc/modules",
	"/proc/driver/nvidia/version",
	"/proc/driver/nvidia/params",
	"/sys/devices/system/node/online",
	"/sys/kernel/mm/transparent_hugepage/shmem_enabled",
	GM_SYSCONFDIR "/gpumap/gpumapd.conf",
};

static void bundle_text(const char *folder, const char *name, const char *text)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "we");
	if (file == NULL)
		return;
	fputs(text, file);
	fclose(file);
}

/* Names have - in the place of /, as "proc-version". */
static void bundle_file(const struct gm_doctor *doctor, const char *folder,
			const char *path)
{
	static char text[1 << 20];
	char name[128];

	snprintf(name, sizeof(name), "%s", path + 1);
	for (char *c = name; *c != '\0'; c++)
		if (*c == '/')
			*c = '-';
	if (gm_doctor_file(doctor, path, text, sizeof(text)))
		bundle_text(folder, name, text);
}

static void bundle_json(const char *folder, const char *name, json_t *json)
{
	char *text = json_dumps(json, JSON_INDENT(1));

	if (text != NULL)
		bundle_text(folder, name, text);
	free(text);
	json_decref(json);
}

/* Run a program to its end.  Returns whether it ended well. */
static bool runs(char *const argv[])
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execvp(argv[0], argv);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid &&
	       WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int pack(const char *folder, const char *path)
{
	char *const tar[] = { (char *)"tar",
			      (char *)"-czf",
			      (char *)(uintptr_t)path,
			      (char *)"-C",
			      (char *)(uintptr_t)folder,
			      (char *)".",
			      NULL };
	char *const rm[] = { (char *)"rm", (char *)"-rf", (char *)"--",
			     (char *)(uintptr_t)folder, NULL };
	bool is_packed = runs(tar);

	runs(rm);
	if (is_packed)
		return GM_EXIT_OK;
	fprintf(stderr, "gpumapctl: tar cannot write %s\n", path);
	return GM_EXIT_FAILED;
}

static int bundle(const struct gm_ctl *ctl, const struct gm_doctor *doctor,
		  json_t *checks)
{
	char folder[] = "/tmp/gpumap-doctor-XXXXXX";
	json_t *rows = json_array();

	umask(0077);
	if (mkdtemp(folder) == NULL) {
		json_decref(rows);
		fprintf(stderr, "gpumapctl: /tmp: %s\n", strerror(errno));
		return GM_EXIT_FAILED;
	}
	for (uint32_t i = 0; i < doctor->n_rows; i++)
		json_array_append_new(rows,
				      gm_ctl_device_json(&doctor->rows[i]));
	bundle_json(folder, "doctor.json",
		    json_pack("{s:O}", "checks", checks));
	bundle_json(folder, "devices.json",
		    json_pack("{s:o}", "devices", rows));
	for (size_t i = 0; i < sizeof(bundled) / sizeof(bundled[0]); i++)
		bundle_file(doctor, folder, bundled[i]);
	return pack(folder, ctl->doctor.bundle);
}

/* ---- all ----------------------------------------------------------------- */

int gm_ctl_doctor(struct gm_ctl *ctl)
{
	struct gm_doctor doctor = { .root = ctl->doctor.root != NULL
						    ? ctl->doctor.root
						    : "",
				    .instance = ctl->instance,
				    .runtime_dir = ctl->runtime_dir };
	unsigned int n[4] = { 0 };
	const struct gm_check *check;
	json_t *checks = json_array();
	int ret = gm_doctor_begin(&doctor);

	for (size_t i = 0; (check = gm_doctor_check(i)) != NULL && ret == 0;
	     i++) {
		struct gm_finding f = { .verdict = GM_VERDICT_SKIP };

		check->look(&doctor, &f);
		n[f.verdict]++;
		json_array_append_new(checks, check_json(check, &f));
		if (!ctl->json && (!ctl->doctor.quiet || is_fault(&f)))
			print_check(check, &f);
	}
	if (ret != 0) {
		fprintf(stderr, "gpumapctl: doctor: %s\n", strerror(-ret));
		ret = GM_EXIT_FAILED;
	} else if (ctl->doctor.bundle != NULL) {
		ret = bundle(ctl, &doctor, checks);
	}
	if (ret == 0 && ctl->json)
		ret = gm_ctl_print(json_pack("{s:O}", "checks", checks));
	else if (ret == 0 && !ctl->doctor.quiet)
		printf("%u passed, %u warnings, %u failed, %u skipped; "
		       "-q shows warnings and failures only\n",
		       n[GM_VERDICT_PASS], n[GM_VERDICT_WARN],
		       n[GM_VERDICT_FAIL], n[GM_VERDICT_SKIP]);
	json_decref(checks);
	gm_doctor_end(&doctor);
	return ret == 0 && n[GM_VERDICT_FAIL] > 0 ? GM_EXIT_FAILED : ret;
}
