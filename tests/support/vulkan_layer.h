/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * vulkan_layer - Khronos' validation layer, where it is installed: it sees
 * every call of the process, and writes down what is wrong with it.
 */
#ifndef GM_TEST_SUPPORT_VULKAN_LAYER_H
#define GM_TEST_SUPPORT_VULKAN_LAYER_H

#include <stdbool.h>

/* Have it loaded with the first instance.  Returns whether it is there. */
bool vulkan_layer_open(void);
void vulkan_layer_close(void);

/* Lines that it has written; the first of them are shown, if that is asked
 * for. */
int vulkan_layer_complaints(void (*show)(const char *line));

#endif
