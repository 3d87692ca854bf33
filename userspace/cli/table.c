/* SPDX-License-Identifier: Apache-2.0 */
/* Columns of text out of JSON. */
#include "cli/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "json/json.h"

enum { CELL_MAX = 256, COLUMNS_MAX = 16, DEPTH_MAX = 4 };

const json_t *table_rows(const json_t *answer)
{
	const char *key;
	json_t *v;

	if (json_is_array(answer))
		return answer;
	json_object_foreach((json_t *)(uintptr_t)answer, key, v)
		if (json_is_array(v))
			return v;
	return NULL;
}

static const json_t *member(const json_t *o, const char *key)
{
	char first[64];
	const char *dot = strchr(key, '.');

	if (!dot)
		return json_object_get(o, key);
	snprintf(first, sizeof(first), "%.*s", (int)(dot - key), key);
	return member(json_object_get(o, first), dot + 1);
}

static void cell(const json_t *v, char ret[CELL_MAX])
{
	if (json_is_string(v))
		snprintf(ret, CELL_MAX, "%s", json_string_value(v));
	else if (json_is_integer(v))
		snprintf(ret, CELL_MAX, "%lld", (long long)json_integer_value(v));
	else if (json_is_boolean(v))
		snprintf(ret, CELL_MAX, "%s", json_is_true(v) ? "yes" : "no");
	else if (json_is_object(v) || json_is_array(v)) {
		autofree char *text = json_dump_compact(v, NULL);
		snprintf(ret, CELL_MAX, "%s", text ? text : "?");
	} else
		snprintf(ret, CELL_MAX, "-");
	for (char *p = ret; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
}

void table_print(const json_t *rows, const struct column *columns, size_t n)
{
	size_t width[COLUMNS_MAX], i;
	char text[CELL_MAX];
	const json_t *row;

	for (size_t c = 0; c < n; c++)
		width[c] = strlen(columns[c].title);
	json_array_foreach(rows, i, row)
		for (size_t c = 0; c < n; c++) {
			cell(member(row, columns[c].key), text);
			if (strlen(text) > width[c])
				width[c] = strlen(text);
		}
	for (size_t c = 0; c < n; c++)
		printf("%-*s%s", c + 1 < n ? (int)width[c] : 0, columns[c].title,
		       c + 1 < n ? "  " : "\n");
	json_array_foreach(rows, i, row)
		for (size_t c = 0; c < n; c++) {
			cell(member(row, columns[c].key), text);
			printf("%-*s%s", c + 1 < n ? (int)width[c] : 0, text,
			       c + 1 < n ? "  " : "\n");
		}
}

int table_call(const struct invocation *in, const char *path, const struct column *columns,
	       size_t n)
{
	auto_json json_t *answer = NULL;
	int status = cli_call(in, "GET", path, NULL, &answer);

	if (status)
		return status;
	if (in->common.is_json)
		return cli_print_json(answer);
	table_print(table_rows(answer), columns, n);
	return 0;
}

static void print_members(const json_t *o, const char *prefix, int depth)
{
	char text[CELL_MAX], whole[CELL_MAX];
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)o, key, v) {
		snprintf(whole, sizeof(whole), "%s%s%s", prefix, *prefix ? "." : "", key);
		if (json_is_object(v) && depth < DEPTH_MAX) {
			print_members(v, whole, depth + 1);
			continue;
		}
		cell(v, text);
		printf("%s: %s\n", whole, text);
	}
}

void table_print_object(const json_t *o)
{
	print_members(o, "", 0);
}
