/* Pure: the head of an HTTP answer, read strictly. SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts what the broker sends: a status line, fields without folding, CRLF
 * everywhere. Transfer codings and doubled lengths are refused: this client
 * would misjudge where such an answer ends.
 */
#include <errno.h>
#include <string.h>

#include "cli/http.h"

static bool is_word(const char *p, size_t len, const char *word)
{
	if (strlen(word) != len)
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = p[i] >= 'A' && p[i] <= 'Z' ? (char)(p[i] + 32) : p[i];
		if (c != word[i])
			return false;
	}
	return true;
}

/* The end of the line at @p: where its CRLF stands. NULL: none before @end. */
static const char *line_end(const char *p, const char *end)
{
	while (p < end) {
		const char *cr = memchr(p, '\r', (size_t)(end - p));
		if (!cr || cr + 1 >= end)
			return NULL;
		if (cr[1] == '\n')
			return cr;
		p = cr + 1;
	}
	return NULL;
}

static int read_status(const char *p, size_t len, struct http_head *ret)
{
	if (len < 12 || memcmp(p, "HTTP/1.", 7) != 0 || (p[7] != '0' && p[7] != '1') ||
	    p[8] != ' ' || (len > 12 && p[12] != ' '))
		return -EPROTO;
	ret->status = 0;
	for (int i = 9; i < 12; i++) {
		if (p[i] < '0' || p[i] > '9')
			return -EPROTO;
		ret->status = ret->status * 10 + (p[i] - '0');
	}
	return ret->status < 100 ? -EPROTO : 0;
}

static int read_length(const char *p, size_t len, struct http_head *ret)
{
	int64_t n = 0;

	if (len == 0 || len > 15 || ret->length >= 0)
		return -EPROTO;
	for (size_t i = 0; i < len; i++) {
		if (p[i] < '0' || p[i] > '9')
			return -EPROTO;
		n = n * 10 + (p[i] - '0');
	}
	ret->length = n;
	return 0;
}

static bool is_name(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] <= ' ' || p[i] >= 0x7f || p[i] == ':')
			return false;
	return len > 0;
}

static int read_field(const char *p, size_t len, struct http_head *ret)
{
	const char *colon = memchr(p, ':', len);
	size_t name = colon ? (size_t)(colon - p) : 0;

	if (!colon || !is_name(p, name) || memchr(p, '\0', len) || memchr(p, '\n', len) ||
	    memchr(p, '\r', len))
		return -EPROTO;
	const char *v = colon + 1;
	size_t vlen = len - name - 1;
	while (vlen > 0 && (*v == ' ' || *v == '\t'))
		v++, vlen--;
	while (vlen > 0 && (v[vlen - 1] == ' ' || v[vlen - 1] == '\t'))
		vlen--;
	if (is_word(p, name, "content-length"))
		return read_length(v, vlen, ret);
	if (is_word(p, name, "transfer-encoding"))
		return -EPROTO;
	if (is_word(p, name, "cordon-receipt")) {
		if (vlen >= sizeof(ret->receipt) || ret->receipt[0])
			return -EPROTO;
		memcpy(ret->receipt, v, vlen);
		ret->receipt[vlen] = '\0';
		return 0;
	}
	if (is_word(p, name, "content-type"))
		ret->is_stream = is_word(v, vlen, "application/vnd.cordon.stream");
	return 0;
}

int http_parse_head(const char *buf, size_t len, struct http_head *ret)
{
	struct http_head h = { .length = -1 };
	const char *end = buf + len, *p = buf;

	for (int line = 0;; line++) {
		const char *eol = line_end(p, end);
		if (!eol)
			return len >= HTTP_HEAD_MAX ? -EPROTO : 0;
		size_t n = (size_t)(eol - p);
		if (line > 0 && n == 0)
			break;
		int rc = line == 0 ? read_status(p, n, &h) : read_field(p, n, &h);
		if (rc < 0)
			return rc;
		p = eol + 2;
	}
	*ret = h;
	return (int)(p - buf) + 2;
}
