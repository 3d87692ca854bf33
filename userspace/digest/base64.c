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

static int value(char c, char c62, char c63)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == c62)
		return 62;
	return c == c63 ? 63 : -1;
}

static ssize_t decode(const char *text, size_t len, uint8_t *out, size_t cap, char c62, char c63)
{
	uint32_t bits = 0;
	unsigned have = 0;
	size_t o = 0;

	if (len % 4 == 1)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		int v = value(text[i], c62, c63);
		if (v < 0)
			return -EINVAL;
		bits = bits << 6 | (uint32_t)v;
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
	return decode(text, len, out, cap, '-', '_');
}

ssize_t base64_decode(const char *text, size_t len, uint8_t *out, size_t cap)
{
	if (len % 4)
		return -EINVAL;
	for (int pad = 0; pad < 2 && len && text[len - 1] == '='; pad++)
		len--;
	return decode(text, len, out, cap, '+', '/');
}
