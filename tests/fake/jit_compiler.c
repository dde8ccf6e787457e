/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The driver's compiler of PTX, which is a library of its own.  module.c looks
 * for it by its bare name, as the real driver does, and calls nothing in it.
 */

int ptxjitcompiler_stand_in(void);
int ptxjitcompiler_stand_in(void)
{
	return 0;
}
