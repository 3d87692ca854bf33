/* Pure: SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules for names and their printable form. Looks at bytes only; whether a
 * link leaves its skill is decided where the tree is known (skill/image.c).
 */
#include "skill/path.h"

#include <stdint.h>
#include <string.h>

static bool is_alphanumeric(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

const char *skill_slug_fault(const char *slug, size_t len)
{
	if (len == 0)
		return "a slug is not empty";
	if (len > SKILL_SLUG_MAX)
		return "a slug has at most 255 bytes";
	if (!is_alphanumeric((unsigned char)slug[0]))
		return "a slug begins with a letter or digit";
	for (size_t i = 1; i < len; i++) {
		unsigned char c = (unsigned char)slug[i];
		if (!is_alphanumeric(c) && c != '.' && c != '_' && c != '-')
			return "a slug holds letters, digits, '.', '_' and '-' only";
	}
	return NULL;
}

static int lower(unsigned char c)
{
	return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

int skill_slug_compare(const char *a, const char *b)
{
	for (;; a++, b++) {
		int x = lower((unsigned char)*a), y = lower((unsigned char)*b);
		if (x != y || x == 0)
			return x - y;
	}
}

static const char *part_fault(const char *part, size_t len)
{
	if (len == 0)
		return "a part is empty";
	if (len > SKILL_NAME_MAX)
		return "a part has more than 255 bytes";
	if ((len == 1 && part[0] == '.') || (len == 2 && part[0] == '.' && part[1] == '.'))
		return "a part is '.' or '..'";
	return NULL;
}

const char *skill_path_fault(const char *path, size_t len)
{
	size_t start = 0;

	if (len == 0)
		return "it is empty";
	if (len > SKILL_PATH_MAX)
		return "it has more than 4095 bytes";
	if (memchr(path, '\0', len))
		return "it holds a NUL";
	if (memchr(path, '\\', len))
		return "it holds a backslash";
	if (path[0] == '/')
		return "it is absolute";
	for (size_t i = 0; i <= len; i++) {
		if (i < len && path[i] != '/')
			continue;
		const char *fault = part_fault(path + start, i - start);
		if (fault)
			return fault;
		start = i + 1;
	}
	return NULL;
}

const char *skill_target_fault(const char *target, size_t len)
{
	if (len == 0)
		return "the link has no target";
	if (len > SKILL_PATH_MAX)
		return "the link's target has more than 4095 bytes";
	if (memchr(target, '\0', len))
		return "the link's target holds a NUL";
	if (memchr(target, '\\', len))
		return "the link's target holds a backslash";
	if (target[0] == '/')
		return "the link's target is absolute";
	return NULL;
}

/* '/' sorts before every other byte, the end before that. */
static int rank(const char *s, size_t len, size_t i)
{
	return i >= len ? -2 : s[i] == '/' ? -1 : (unsigned char)s[i];
}

int skill_path_compare(const char *a, size_t alen, const char *b, size_t blen)
{
	size_t i = 0, shorter = alen < blen ? alen : blen;

	while (i < shorter && a[i] == b[i])
		i++;
	return rank(a, alen, i) - rank(b, blen, i);
}

static const char hex_digits[] = "0123456789ABCDEF";

static bool is_plain(unsigned char c)
{
	return c > ' ' && c < 0x7f && c != '%';
}

size_t skill_escape(const char *bytes, size_t len, char *out, size_t cap)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)bytes[i];
		size_t need = is_plain(c) ? 1 : 3;
		if (need > cap - n)
			return 0;
		out[n] = is_plain(c) ? (char)c : '%';
		if (need == 3) {
			out[n + 1] = hex_digits[c >> 4];
			out[n + 2] = hex_digits[c & 15];
		}
		n += need;
	}
	return n;
}

static int hex_value(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

long skill_unescape(const char *text, size_t len, char *out, size_t cap)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		int c = (unsigned char)text[i];
		if (c == '%') {
			int high = i + 1 < len ? hex_value(text[i + 1]) : -1;
			int low = i + 2 < len ? hex_value(text[i + 2]) : -1;
			if (high < 0 || low < 0 || is_plain((unsigned char)(high << 4 | low)))
				return -1;
			c = high << 4 | low;
			i += 2;
		} else if (!is_plain((unsigned char)c)) {
			return -1;
		}
		if (n == cap)
			return -1;
		out[n++] = (char)c;
	}
	return (long)n;
}

const char *skill_show(const char *bytes, size_t len, char *out, size_t cap)
{
	size_t n = 0;

	while (len > 0 && cap - n > 7) { /* a byte, "..." and the NUL */
		n += skill_escape(bytes++, 1, out + n, 3);
		len--;
	}
	if (len > 0) {
		memcpy(out + n, "...", 3);
		n += 3;
	}
	out[n] = '\0';
	return out;
}
