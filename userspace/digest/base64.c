/* Pure: base64 and base64url, strict both ways. SPDX-License-Identifier: Apache-2.0 */
/*
 * No table lookup depends on secret data of worth: MACs and signatures are
 * public once sent. Does not know line breaks; PEM is libcrypto's.
 */
#include "digest/base64.h"

#include <errno.h>

static const char std_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static size_t encode(const uint8_t *p, size_t n, char *out, const char *digits)
{
	size_t o = 0, i = 0;

	for (; i + 3 <= n; i += 3) {
		uint32_t v = (uint32_t)p[i] << 16 | (uint32_t)p[i + 1] << 8 | p[i + 2];
		out[o++] = digits[v >> 18];
		out[o++] = digits[v >> 12 & 63];
		out[o++] = digits[v >> 6 & 63];
		out[o++] = digits[v & 63];
	}
	if (i < n) {
		uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0);
		out[o++] = digits[v >> 18];
		out[o++] = digits[v >> 12 & 63];
		if (i + 1 < n)
			out[o++] = digits[v >> 6 & 63];
	}
	return o;
}

size_t base64url_encode(const void *buf, size_t n, char *out)
{
	size_t len = encode(buf, n, out, url_digits);

	out[len] = '\0';
	return len;
}

size_t base64_encode(const void *buf, size_t n, char *out)
{
	size_t len = encode(buf, n, out, std_digits);

	while (len % 4)
		out[len++] = '=';
	out[len] = '\0';
	return len;
}

/* A digit's value plus one; 0 is no digit of that alphabet. */
#define LETTERS_AND_FIGURES \
	['A'] = 1, ['B'] = 2, ['C'] = 3, ['D'] = 4, ['E'] = 5, ['F'] = 6, ['G'] = 7, ['H'] = 8, \
	['I'] = 9, ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, \
	['P'] = 16, ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, \
	['W'] = 23, ['X'] = 24, ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, \
	['d'] = 30, ['e'] = 31, ['f'] = 32, ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36, \
	['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40, ['o'] = 41, ['p'] = 42, ['q'] = 43, \
	['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48, ['w'] = 49, ['x'] = 50, \
	['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56, ['4'] = 57, \
	['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62

static const uint8_t std_values[256] = { LETTERS_AND_FIGURES, ['+'] = 63, ['/'] = 64 };
static const uint8_t url_values[256] = { LETTERS_AND_FIGURES, ['-'] = 63, ['_'] = 64 };

static ssize_t decode(const char *text, size_t len, uint8_t *out, size_t cap,
		      const uint8_t values[256])
{
	uint32_t bits = 0;
	unsigned have = 0;
	size_t o = 0;

	if (len % 4 == 1)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		uint8_t v = values[(uint8_t)text[i]];
		if (v == 0)
			return -EINVAL;
		bits = bits << 6 | (v - 1u);
		have += 6;
		if (have < 8)
			continue;
		have -= 8;
		if (o == cap)
			return -ENOSPC;
		out[o++] = (uint8_t)(bits >> have);
		bits &= (1u << have) - 1;
	}
	return bits ? -EINVAL : (ssize_t)o;
}

ssize_t base64url_decode(const char *text, size_t len, uint8_t *out, size_t cap)
{
	return decode(text, len, out, cap, url_values);
}

ssize_t base64_decode(const char *text, size_t len, uint8_t *out, size_t cap)
{
	if (len % 4)
		return -EINVAL;
	for (int pad = 0; pad < 2 && len && text[len - 1] == '='; pad++)
		len--;
	return decode(text, len, out, cap, std_values);
}
