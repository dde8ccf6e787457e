/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* A shared object, and no program. */

int not_a_program(void);

int not_a_program(void)
{
	return 0;
}
