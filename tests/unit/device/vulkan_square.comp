/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* vulkan_square - a client's kernel, by the rule of vulkan.h: alpha times the
 * square of an element. */
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x = 64) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer element
{
	float x;
};
layout(push_constant) uniform given
{
	uint64_t dst, src, n;
	float alpha;
};

void main()
{
	uint64_t i = gl_GlobalInvocationID.x;

	if (i < n) {
		float x = element(src + i * 4).x;

		element(dst + i * 4).x = alpha * x * x;
	}
}
