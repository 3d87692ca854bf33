/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BASE_HEX_H
#define CORDON_BASE_HEX_H

/*
 * One hexadecimal digit's value, -1 for anything else. Digests and keys are
 * written small, and only so (digest_unhex); text of others comes in both.
 */
static inline int hex_small_value(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static inline int hex_value(char c)
{
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : hex_small_value(c);
}

#endif
