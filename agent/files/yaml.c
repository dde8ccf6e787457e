/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/files/yaml.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BOM "\xef\xbb\xbf"

__attribute__((format(printf, 3, 0))) static int
refuse(struct gm_yaml *yaml, size_t line, const char *format, va_list args)
{
	char what[512];

	vsnprintf(what, sizeof(what), format, args);
	return gm_error_set(yaml->err, -EINVAL, yaml->expected, "%s%zu: %s",
			    yaml->place, line, what);
}

int gm_yaml_refuse_at(struct gm_yaml *yaml, size_t line, const char *format,
		      ...)
{
	va_list args;
	int r;

	va_start(args, format);
	r = refuse(yaml, line, format, args);
	va_end(args);
	return r;
}

int gm_yaml_refuse(struct gm_yaml *yaml, const char *format, ...)
{
	va_list args;
	int r;

	va_start(args, format);
	r = refuse(yaml, gm_yaml_line(yaml), format, args);
	va_end(args);
	return r;
}

size_t gm_yaml_line(const struct gm_yaml *yaml)
{
	return yaml->event.start_mark.line + 1;
}

/* The bytes of a break between lines at @at: CR, LF, or one of U+0085, U+2028
 * and U+2029.  0: there is none. */
static size_t break_at(const char *at, size_t n)
{
	static const char *const breaks[] = { "\n", "\r", "\xc2\x85",
					      "\xe2\x80\xa8", "\xe2\x80\xa9" };

	for (size_t i = 0; i < sizeof(breaks) / sizeof(breaks[0]); i++) {
		size_t bytes = strlen(breaks[i]);

		if (n >= bytes && memcmp(at, breaks[i], bytes) == 0)
			return bytes;
	}
	return 0;
}

/* The number of the first line that begins with '%', or 0. */
static size_t directive_line(const char *text, size_t n)
{
	bool is_at_start = true;
	size_t line = 1;

	for (size_t i = 0; i < n;) {
		size_t bytes = break_at(text + i, n - i);

		if (is_at_start && text[i] == '%')
			return line;
		/* CR and LF together are one. */
		if (bytes &&
		    !(text[i] == '\r' && i + 1 < n && text[i + 1] == '\n'))
			line++;
		is_at_start = bytes > 0;
		i += bytes ? bytes : 1;
	}
	return 0;
}

int gm_yaml_open(struct gm_yaml *yaml, const char *text, size_t n,
		 const char *place, const char *expected,
		 struct gm_plan_error *err)
{
	size_t directive;

	*yaml = (struct gm_yaml){ .place = place,
				  .expected = expected,
				  .err = err };
	if (n >= strlen(BOM) && memcmp(text, BOM, strlen(BOM)) == 0) {
		text += strlen(BOM);
		n -= strlen(BOM);
	}
	directive = directive_line(text, n);
	if (directive)
		return gm_yaml_refuse_at(yaml, directive,
					 "directives are not allowed");
	if (!yaml_parser_initialize(&yaml->parser))
		return gm_error_no_memory(err);
	yaml_parser_set_encoding(&yaml->parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&yaml->parser, (const unsigned char *)text,
				     n);
	return 0;
}

void gm_yaml_close(struct gm_yaml *yaml)
{
	yaml_event_delete(&yaml->event);
	yaml_parser_delete(&yaml->parser);
}

int gm_yaml_next(struct gm_yaml *yaml)
{
	const yaml_parser_t *parser = &yaml->parser;

	yaml_event_delete(&yaml->event);
	if (yaml_parser_parse(&yaml->parser, &yaml->event)) {
		if (yaml->event.type == YAML_ALIAS_EVENT)
			return gm_yaml_refuse(yaml, "aliases are not allowed");
		return 0;
	}
	if (parser->error == YAML_MEMORY_ERROR)
		return gm_error_no_memory(yaml->err);
	return gm_error_set(yaml->err, -EINVAL, "correct the YAML", "%s%zu: %s",
			    yaml->place, parser->problem_mark.line + 1,
			    parser->problem ? parser->problem
					    : "it is not YAML");
}

int gm_yaml_begin(struct gm_yaml *yaml)
{
	int r = gm_yaml_next(yaml); /* the stream starts */

	if (r == 0)
		r = gm_yaml_next(yaml);
	if (r || yaml->event.type == YAML_STREAM_END_EVENT)
		return r;
	return gm_yaml_next(yaml); /* past the start of the document */
}

int gm_yaml_each(struct gm_yaml *yaml, int (*read_item)(void *data), void *data)
{
	yaml_event_type_t end = yaml->event.type == YAML_MAPPING_START_EVENT
					? YAML_MAPPING_END_EVENT
					: YAML_SEQUENCE_END_EVENT;
	int r = gm_yaml_next(yaml);

	while (r == 0 && yaml->event.type != end) {
		r = read_item(data);
		if (r == 0)
			r = gm_yaml_next(yaml);
	}
	return r;
}

int gm_yaml_end(struct gm_yaml *yaml)
{
	int r = gm_yaml_next(yaml); /* the document ends */

	if (r == 0)
		r = gm_yaml_next(yaml);
	if (r == 0 && yaml->event.type != YAML_STREAM_END_EVENT)
		r = gm_yaml_refuse(yaml, "more than one document");
	return r;
}

int gm_yaml_word(struct gm_yaml *yaml, const char *otherwise,
		 const char **ret_text)
{
	const char *text;

	if (yaml->event.type != YAML_SCALAR_EVENT)
		return gm_yaml_refuse(yaml, "%s", otherwise);
	text = (const char *)yaml->event.data.scalar.value;
	if (strlen(text) != yaml->event.data.scalar.length)
		return gm_yaml_refuse(yaml, "a NUL byte");
	*ret_text = text;
	return 0;
}

bool gm_yaml_is_null(const struct gm_yaml *yaml)
{
	static const char *const nulls[] = { "", "~", "null", "Null", "NULL" };
	const char *value;

	if (yaml->event.type != YAML_SCALAR_EVENT ||
	    yaml->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return false;
	value = (const char *)yaml->event.data.scalar.value;
	for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++)
		if (strcmp(value, nulls[i]) == 0)
			return true;
	return false;
}
