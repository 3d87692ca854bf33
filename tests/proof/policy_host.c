/* SPDX-License-Identifier: Apache-2.0 */
/*
 * E11: a match has no suffix confusion. Complete enumeration of entries and
 * hosts over the alphabet a, b, '.', of up to five characters, with and without
 * ports, against a reading by labels that shares nothing with the code: an
 * entry names a host when its labels are the host's last ones.
 */
#include <stdbool.h>
#include <string.h>

#include "nondet.h"
#include "policy/host.h"

const char proof_name[] = "a_match_has_no_suffix_confusion";

enum { LENGTH_MAX = DEPTH(5, 12), LABELS_MAX = LENGTH_MAX + 1 };

static size_t draw(char *text)
{
	size_t n = 1 + choose(LENGTH_MAX);

	for (size_t i = 0; i < n; i++)
		text[i] = "ab."[choose(3)];
	text[n] = '\0';
	return n;
}

struct labels {
	const char *at[LABELS_MAX + 1];
	size_t len[LABELS_MAX + 1];
	int n;
	bool is_name;
};

/* One trailing dot is dropped; an empty label is no name. */
static struct labels labels_of(const char *text, size_t n)
{
	struct labels l = { .is_name = true };

	if (n && text[n - 1] == '.')
		n--;
	l.is_name = n > 0;
	for (size_t i = 0; i <= n && l.is_name; l.n++) {
		size_t len = 0;
		while (i + len < n && text[i + len] != '.')
			len++;
		l.at[l.n] = text + i;
		l.len[l.n] = len;
		l.is_name = len > 0;
		i += len + 1;
	}
	return l;
}

static bool names(const struct labels *entry, const struct labels *host)
{
	if (entry->n > host->n)
		return false;
	for (int i = 0; i < entry->n; i++) {
		int e = entry->n - 1 - i, h = host->n - 1 - i;
		if (entry->len[e] != host->len[h] || memcmp(entry->at[e], host->at[h], host->len[h]))
			return false;
	}
	return true;
}

void proof(void)
{
	char te[LENGTH_MAX + 1], th[LENGTH_MAX + 1];
	struct host_entry entry, same, met;
	struct host host;
	size_t ne = draw(te), nh = draw(th);
	struct labels le = labels_of(te, ne), lh = labels_of(th, nh);
	bool is_entry = host_entry_parse(te, ne, &entry), is_host = host_parse(th, nh, &host);

	hold(is_entry == le.is_name && is_host == lh.is_name);
	if (!is_host) {
		memset(&host, 0, sizeof(host));
		hold(!host_entry_matches(&entry, &host, 443));
		return;
	}
	bool due = is_entry && names(&le, &lh);
	hold(host_entry_matches(&entry, &host, 443) == due);
	entry.port = 443;
	hold(host_entry_matches(&entry, &host, 443) == due);
	hold(!host_entry_matches(&entry, &host, 80) && !host_entry_matches(&entry, &host, 0));
	/* The narrower of both is what both name. */
	hold(host_entry_parse(th, nh, &same));
	if (is_entry && host_entry_meet(&entry, &same, &met))
		hold(met.port == 443 && (host_entry_matches(&met, &host, 443) ? due : true));
	else
		hold(!due);
}
