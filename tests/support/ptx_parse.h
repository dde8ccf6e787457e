/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* ptx_parse - a kernel's text as a list of instructions, for ptx.c. */
#ifndef GM_TEST_SUPPORT_PTX_PARSE_H
#define GM_TEST_SUPPORT_PTX_PARSE_H

#include "tests/support/ptx.h"

#define PTX_WORD  24
#define PTX_PARTS 5

enum ptx_operand_kind {
	PTX_NONE,
	PTX_REGISTER,
	PTX_NUMBER,
	PTX_PARAM,
	PTX_MEMORY, /* register + number */
	PTX_PAIR,   /* of registers */
	PTX_SPECIAL,
	PTX_LABEL
};

enum ptx_special { PTX_TID, PTX_NTID, PTX_CTAID, PTX_NCTAID };

struct ptx_operand {
	enum ptx_operand_kind kind;
	uint32_t reg;  /* or the param, special or instruction */
	uint32_t high; /* PAIR */
	uint64_t number;
};

/* "@p add.rn.f32 f, f, g;" */
struct ptx_instruction {
	char part[PTX_PARTS][PTX_WORD]; /* "add" "rn" "f32" */
	uint32_t n_parts;
	bool guarded;
	uint32_t guard; /* register */
	struct ptx_operand operand[5];
	uint32_t n_operands;
	uint32_t line; /* of the kernel, for messages */
};

struct ptx_kernel {
	char param[8][PTX_WORD];
	uint32_t n_params;
	char reg[64][PTX_WORD];
	uint32_t bits[64]; /* of each register */
	uint32_t n_regs;
	char label[32][PTX_WORD];
	uint32_t target[32]; /* instruction */
	uint32_t n_labels;
	struct ptx_instruction code[1024];
	uint32_t n_code;
};

/* Returns 0, -ENOENT or -EINVAL, with the reason. */
int ptx_parse(const char *text, const char *name, struct ptx_kernel *ret_kernel,
	      char *ret_why);

#endif
