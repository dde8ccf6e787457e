/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/worker/worker_cuda.h"

static char card_uuid[64];

bool ask_uuid(void)
{
	static struct gm_driver driver;
	char why[GM_LIBRARY_WHY_BYTES];
	struct gm_cu_uuid id;
	int pair[2], status;
	pid_t child;
	ssize_t n;

	if (pipe(pair) < 0)
		return false;
	child = fork();
	if (child == 0) {
		char text[64] = "GPU-";
		int dev, at = 4;

		if (gm_driver_open(NULL, &driver, why) < 0 ||
		    driver.cuInit(0) != 0 || driver.cuDeviceGet(&dev, 0) != 0 ||
		    driver.cuDeviceGetUuid(&id, dev) != 0)
			_exit(1);
		for (int i = 0; i < 16; i++)
			at += snprintf(text + at, sizeof(text) - (size_t)at,
				       i == 4 || i == 6 || i == 8 || i == 10
					       ? "-%02x"
					       : "%02x",
				       (unsigned char)id.bytes[i]);
		_exit(write(pair[1], text, sizeof(text)) != sizeof(text));
	}
	close(pair[1]);
	n = read(pair[0], card_uuid, sizeof(card_uuid));
	close(pair[0]);
	waitpid(child, &status, 0);
	return n == sizeof(card_uuid) && status == 0;
}

void cuda_row(struct row *row)
{
	row_make(row);
	row->more[0] = "--backend";
	row->more[1] = "cuda";
	row->more[2] = "--device";
	row->more[3] = card_uuid;
	/* A machine that stands in for one is its maker's. */
	row->more[4] = "--uid";
	row->more[5] = "0";
	row->more[6] = "--gid";
	row->more[7] = "0";
}
