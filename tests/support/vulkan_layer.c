/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/vulkan_layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char settings[64], written[64];

static int make_file(char path[64], const char *name)
{
	snprintf(path, 64, "/tmp/gpumap-test-vulkan-%s.XXXXXX", name);
	return mkstemp(path);
}

bool vulkan_layer_open(void)
{
	int fd = make_file(settings, "settings");
	int log = make_file(written, "log");
	bool is_there = access("/usr/share/vulkan/explicit_layer.d/"
			       "VkLayer_khronos_validation.json",
			       R_OK) == 0;

	if (fd < 0 || log < 0)
		return false;
	dprintf(fd,
		"khronos_validation.debug_action = "
		"VK_DBG_LAYER_ACTION_LOG_MSG\n"
		"khronos_validation.report_flags = error,warn\n"
		"khronos_validation.log_filename = %s\n",
		written);
	close(fd);
	close(log);
	setenv("VK_LAYER_SETTINGS_PATH", settings, 1);
	if (is_there)
		setenv("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation", 1);
	return is_there;
}

void vulkan_layer_close(void)
{
	unlink(settings);
	unlink(written);
}

int vulkan_layer_complaints(void (*show)(const char *line))
{
	FILE *log = fopen(written, "r");
	char line[1024];
	int n = 0;

	while (log && fgets(line, sizeof(line), log)) {
		line[strcspn(line, "\n")] = '\0';
		if (show && n < 20)
			show(line);
		n++;
	}
	if (log)
		fclose(log);
	return n;
}
