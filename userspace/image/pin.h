/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_IMAGE_PIN_H
#define CORDON_IMAGE_PIN_H

/*
 * Setting one key in the text of a configuration file, everything else kept byte
 * for byte: comments, order, spacing.
 */
#include <stddef.h>

/*
 * Writes @text with `@key = @value` to @ret: in place of the line that sets
 * @key, else at the end. Gives the length (without the NUL), 0 when @size is
 * too small.
 */
size_t pin_set_key(const char *text, size_t len, const char *key, const char *value, char *ret,
		   size_t size);

#endif
