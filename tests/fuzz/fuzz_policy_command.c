/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any lists and any argv: judging reads nothing beyond them, empty lists let
 * everything pass, and a longer block list never lets more pass.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "policy/command.h"

/* The next line of the input as text of its own. */
static char *take_line(const uint8_t **data, size_t *size)
{
	const uint8_t *end = memchr(*data, '\n', *size);
	size_t n = end ? (size_t)(end - *data) : *size;
	char *text = malloc(n + 1);

	memcpy(text, *data, n);
	text[n] = '\0';
	*data += n + (end != NULL);
	*size -= n + (end != NULL);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *allow = take_line(&data, &size), *block = take_line(&data, &size), *more = NULL;
	char *args = malloc(size + 1);
	uint32_t argc = 1;

	memcpy(args, data, size);
	args[size] = '\0';
	for (size_t i = 0; i < size; i++)
		argc += args[i] == '\0';
	assert(command_is_allowed("", "", args, size + 1, argc));
	bool passes = command_is_allowed(allow, block, args, size + 1, argc);
	more = malloc(strlen(block) + 8);
	strcpy(more, block);
	strcat(more, " curl");
	assert(passes || !command_is_allowed(allow, more, args, size + 1, argc));
	free(allow);
	free(block);
	free(more);
	free(args);
	return 0;
}
