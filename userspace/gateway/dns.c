/* Pure: the addresses in a DNS answer. SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns reading, not asking (resolver.c). Every offset is checked against the
 * packet; compression pointers only ever lead backwards, so that no packet can
 * make the reader walk in a circle.
 */
#include "gateway/dns.h"

#include <stdbool.h>
#include <string.h>

enum { HEADER = 12, CLASS_IN = 1, NAME_MAX_BYTES = 254 };

struct packet {
	const uint8_t *at;
	size_t len;
};

struct record {
	char owner[NAME_MAX_BYTES];
	uint16_t type;
	size_t data, data_len;
	size_t end; /* of the record */
};

static unsigned get16(const struct packet *p, size_t at)
{
	return (unsigned)p->at[at] << 8 | p->at[at + 1];
}

/* Appends one label; a byte that no name of ours has makes the name one that matches nothing. */
static void add_label(const uint8_t *label, size_t n, char *out, size_t *len)
{
	if (*len)
		out[(*len)++] = '.';
	for (size_t i = 0; i < n; i++) {
		char c = (char)label[i];
		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		out[(*len)++] = c == '.' || c == '\0' ? ' ' : c;
	}
}

/* The name at *at, in lower case; moves *at behind it. */
static bool read_name(const struct packet *p, size_t *at, char out[NAME_MAX_BYTES])
{
	size_t pos = *at, len = 0, lowest = *at;
	bool jumped = false;

	for (;;) {
		if (pos >= p->len)
			return false;
		uint8_t n = p->at[pos];
		if ((n & 0xc0) == 0xc0) {
			if (pos + 2 > p->len)
				return false;
			size_t to = get16(p, pos) & 0x3fff;
			if (!jumped)
				*at = pos + 2;
			if (to >= lowest)
				return false;
			lowest = pos = to;
			jumped = true;
			continue;
		}
		if (n & 0xc0)
			return false;
		pos++;
		if (n == 0)
			break;
		if (n > p->len - pos || len + n + 2 > NAME_MAX_BYTES)
			return false;
		add_label(p->at + pos, n, out, &len);
		pos += n;
	}
	if (!jumped)
		*at = pos;
	out[len] = '\0';
	return true;
}

static bool read_record(const struct packet *p, size_t at, struct record *ret)
{
	if (!read_name(p, &at, ret->owner) || p->len - at < 10)
		return false;
	ret->type = get16(p, at + 2) == CLASS_IN ? (uint16_t)get16(p, at) : 0;
	ret->data = at + 10;
	ret->data_len = get16(p, at + 8);
	if (ret->data_len > p->len - ret->data)
		return false;
	ret->end = ret->data + ret->data_len;
	return true;
}

/* One pass for the records of @name: its addresses, and where its alias leads. False: malformed. */
static bool scan(const struct packet *p, size_t at, unsigned records, uint16_t type,
		 const char *name, struct address *out, int *n, char alias[NAME_MAX_BYTES])
{
	struct record r;

	alias[0] = '\0';
	for (unsigned i = 0; i < records; i++, at = r.end) {
		size_t target;

		if (!read_record(p, at, &r))
			return false;
		if (strcmp(r.owner, name) != 0)
			continue;
		target = r.data;
		if (r.type == DNS_CNAME && !alias[0] && !read_name(p, &target, alias))
			return false;
		if (r.type != type || *n == DNS_ADDRESSES_MAX)
			continue;
		if (r.data_len != (type == DNS_A ? 4 : 16))
			return false;
		memset(&out[*n], 0, sizeof(out[*n]));
		out[*n].family = type == DNS_A ? 4 : 6;
		memcpy(out[*n].bytes, p->at + r.data, r.data_len);
		(*n)++;
	}
	return true;
}

int dns_read_answer(const uint8_t *msg, size_t len, enum dns_type type, const char *name,
		    struct address out[static DNS_ADDRESSES_MAX])
{
	struct packet p = { msg, len };
	char current[NAME_MAX_BYTES], alias[NAME_MAX_BYTES];
	size_t at = HEADER;
	unsigned records;
	int n = 0;

	if (len < HEADER || len > 65535 || strlen(name) >= sizeof(current))
		return -1;
	/* QR, opcode 0, not truncated; exactly our question. */
	if ((msg[2] & 0xfa) != 0x80 || get16(&p, 4) != 1)
		return -1;
	if (!read_name(&p, &at, current) || strcmp(current, name) != 0 || len - at < 4 ||
	    get16(&p, at) != (unsigned)type || get16(&p, at + 2) != CLASS_IN)
		return -1;
	at += 4;
	if (msg[3] & 0x0f)
		return 0;
	records = get16(&p, 6);
	if (records > DNS_RECORDS_MAX)
		return -1;
	for (int hop = 0; hop <= DNS_CHAIN_MAX; hop++) {
		if (!scan(&p, at, records, (uint16_t)type, current, out, &n, alias))
			return -1;
		if (n || !alias[0])
			return n;
		memcpy(current, alias, sizeof(current));
	}
	return 0;
}
