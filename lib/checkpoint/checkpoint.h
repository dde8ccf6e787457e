/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* checkpoint - the reader is in lib/model/checkpoint: for agent/plan and
 * agent/mask, until these are there, too. */
#include "lib/model/checkpoint/checkpoint.h"
