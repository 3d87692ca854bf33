/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one loop that reads lines by the table of keys (keys.c). Opens no file,
 * knows no place on disk and does not judge whether the rollout may start.
 */
#include "config/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"

enum { HOST_IDS_COUNT = 4096 };

/* --- One value */

static int parse_count(const char *v, uint64_t *ret)
{
	if (!isdigit((unsigned char)*v) || strlen(v) > 12 || (v[0] == '0' && v[1]))
		return -EINVAL;
	char *end;
	*ret = strtoull(v, &end, 10);
	return *end ? -EINVAL : 0;
}

static int parse_ids(const struct config_key *k, const char *v, struct id_range *ret)
{
	char copy[32];
	uint64_t base, count;

	if (strcmp(v, "auto") == 0) {
		*ret = (struct id_range){ 0, 0 };
		return 0;
	}
	if (strlen(v) >= sizeof(copy))
		return -EINVAL;
	strcpy(copy, v); /* length checked above */
	char *colon = strchr(copy, ':');
	if (!colon)
		return -EINVAL;
	*colon = '\0';
	if (parse_count(copy, &base) < 0 || parse_count(colon + 1, &count) < 0)
		return -EINVAL;
	if (base < k->min || count < 16 || base + count - 1 > k->max)
		return -ERANGE;
	*ret = (struct id_range){ (uint32_t)base, (uint32_t)count };
	return 0;
}

static int parse_digest(const char *v)
{
	if (!*v)
		return 0;
	if (strncmp(v, "sha256:", 7) != 0 || strlen(v) != 7 + 64)
		return -EINVAL;
	return strspn(v + 7, "0123456789abcdef") == 64 ? 0 : -EINVAL;
}

static int parse_word(const char *const *words, const char *v, uint32_t *ret)
{
	for (uint32_t i = 0; words[i]; i++)
		if (strcmp(words[i], v) == 0) {
			*ret = i;
			return 0;
		}
	return -EINVAL;
}

static int parse_number(const struct config_key *k, const char *v, uint64_t *ret)
{
	int rc = k->type == CONFIG_COUNT ? parse_count(v, ret) :
		 k->type == CONFIG_SIZE	 ? limits_parse_size(v, ret) :
					   limits_parse_milli(v, ret);

	if (rc < 0)
		return -EINVAL;
	return *ret < k->min || *ret > k->max ? -ERANGE : 0;
}

static const char *const expects[] = {
	[CONFIG_ROLLOUT] = "on",
	[CONFIG_TEXT] = "text",
	[CONFIG_PATH] = "an absolute path",
	[CONFIG_DIGEST] = "sha256: and 64 hexadecimal digits",
	[CONFIG_COUNT] = "a decimal integer",
	[CONFIG_SIZE] = "an integer with optional K, M or G",
	[CONFIG_SECONDS] = "seconds, a decimal",
	[CONFIG_MILLI] = "a decimal",
	[CONFIG_IDS] = "auto or BASE:COUNT",
	[CONFIG_WORD] = "one of its words",
};

static int store_number(const struct config_key *k, uint64_t n, void *field)
{
	if (k->size == sizeof(uint32_t))
		*(uint32_t *)field = (uint32_t)n;
	else
		*(uint64_t *)field = n;
	return 0;
}

static int store(const struct config_key *k, const char *v, struct config *c)
{
	void *field = (char *)c + k->offset;
	uint64_t n;
	int rc;

	switch (k->type) {
	case CONFIG_ROLLOUT:
		*(bool *)field = strcmp(v, "on") == 0;
		return 0;
	case CONFIG_WORD:
		return parse_word(k->words, v, field);
	case CONFIG_IDS:
		return parse_ids(k, v, field);
	case CONFIG_DIGEST:
		rc = parse_digest(v);
		break;
	case CONFIG_PATH:
		rc = *v && *v != '/' ? -EINVAL : 0;
		break;
	case CONFIG_TEXT:
		rc = 0;
		break;
	default:
		rc = parse_number(k, v, &n);
		return rc < 0 ? rc : store_number(k, n, field);
	}
	if (rc == 0 && strlen(v) >= k->size)
		rc = -ERANGE;
	if (rc == 0)
		strcpy(field, v); /* length checked above */
	return rc;
}

/* --- Lines */

struct line {
	unsigned number;
	char key[64];
	char value[CONFIG_VALUE_MAX];
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* The value ends at the line's end or before blank-and-`#`. */
static size_t value_len(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] == '#' && (i == 0 || is_blank(p[i - 1]))) {
			len = i;
			while (len > 0 && is_blank(p[len - 1]))
				len--;
			break;
		}
	return len;
}

/* 1: *l filled; 0: a blank or comment line. */
static int split_line(const char *p, size_t len, struct line *l, struct err *e)
{
	while (len > 0 && is_blank(*p))
		p++, len--;
	if (len == 0 || *p == '#')
		return 0;
	if (memchr(p, '\0', len))
		return err_set(e, EINVAL, "line %u: a NUL byte", l->number);
	const char *eq = memchr(p, '=', len);
	if (!eq)
		return err_set(e, EINVAL, "line %u: not 'key = value': '%.*s'", l->number,
			       (int)(len > 60 ? 60 : len), p);
	size_t klen = (size_t)(eq - p);
	const char *v = eq + 1;
	size_t vlen = len - klen - 1;
	while (klen > 0 && is_blank(p[klen - 1]))
		klen--;
	while (vlen > 0 && is_blank(*v))
		v++, vlen--;
	vlen = value_len(v, vlen);
	if (klen == 0 || klen >= sizeof(l->key))
		return err_set(e, EINVAL, "line %u: no usable key before '='", l->number);
	if (vlen >= sizeof(l->value))
		return err_set(e, EINVAL, "line %u: value of '%.*s' is longer than %d bytes",
			       l->number, (int)klen, p, CONFIG_VALUE_MAX - 1);
	memcpy(l->key, p, klen);
	l->key[klen] = '\0';
	memcpy(l->value, v, vlen);
	l->value[vlen] = '\0';
	return 1;
}

/* A blank behind the value is harmless but for the rollout, which is exact. */
static void trim_value(const struct config_key *k, char *v)
{
	size_t len = strlen(v);

	if (k->type == CONFIG_ROLLOUT)
		return;
	while (len > 0 && is_blank(v[len - 1]))
		v[--len] = '\0';
}

static const struct config_key *find_key(const char *name)
{
	size_t n;
	const struct config_key *keys = config_keys(&n);

	for (size_t i = 0; i < n; i++)
		if (strcmp(keys[i].name, name) == 0)
			return &keys[i];
	return NULL;
}

/* Walks the lines of @text; calls @each for every key line with its row. */
typedef int (*each_line)(const struct config_key *k, const struct line *l, void *arg,
			 struct err *e);

static int walk(const char *text, size_t len, each_line each, void *arg, struct err *e)
{
	unsigned seen[CONFIG_KEYS_MAX] = { 0 };
	size_t n;
	const struct config_key *keys = config_keys(&n);
	struct line l = { .number = 0 };

	if (len > CONFIG_TEXT_MAX)
		return err_set(e, EINVAL, "longer than %d bytes", CONFIG_TEXT_MAX);
	for (size_t at = 0; at < len;) {
		const char *nl = memchr(text + at, '\n', len - at);
		size_t size = nl ? (size_t)(nl - text) - at : len - at;
		l.number++;
		int rc = split_line(text + at, size, &l, e);
		at += size + 1;
		if (rc < 0)
			return rc;
		if (rc == 0)
			continue;
		const struct config_key *k = find_key(l.key);
		if (!k)
			return err_set(e, EINVAL, "line %u: unknown key '%s'", l.number, l.key);
		if (seen[k - keys])
			return err_set(e, EINVAL, "line %u: '%s' given twice, first on line %u",
				       l.number, l.key, seen[k - keys]);
		seen[k - keys] = l.number;
		trim_value(k, l.value);
		rc = each(k, &l, arg, e);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int on_store(const struct config_key *k, const struct line *l, void *arg, struct err *e)
{
	int rc = store(k, l->value, arg);

	if (rc == -ERANGE)
		return err_set(e, EINVAL, "line %u: '%s' is out of range: '%.80s'", l->number,
			       k->name, l->value);
	if (rc < 0)
		return err_set(e, EINVAL, "line %u: '%s' wants %s, not '%.80s'", l->number, k->name,
			       expects[k->type], l->value);
	return 0;
}

/* --- The whole */

void config_default(struct config *ret)
{
	size_t n;
	const struct config_key *keys = config_keys(&n);

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < n; i++)
		store(&keys[i], keys[i].preset, ret);
}

#define ABOVE(f, name) \
	if (c->dflt.f > c->max.f) \
		return err_set(e, EINVAL, "'default.%s' is above 'maximum.%s'", name, name)

static int check_whole(const struct config *c, struct err *e)
{
	ABOVE(memory_bytes, "memory");
	ABOVE(cpu_milli, "cpus");
	ABOVE(pids, "pids");
	ABOVE(timeout_ms, "timeout");
	ABOVE(output_bytes, "output_cap");
	ABOVE(workspace_bytes, "workspace_size");
	if (*c->redact && *c->redact != '/' && strcmp(c->redact, "none") != 0)
		return err_set(e, EINVAL, "'redact' wants an absolute path or none");
	if (*c->run_probe && c->run_registry)
		return err_set(e, EINVAL, "'run_probe' and 'run_registry' are two answers to one question");
	if (*c->retain && !*c->redact)
		return err_set(e, EINVAL,
			       "'retain' needs 'redact': a socket, or none to keep output as it is");
	return 0;
}

int config_parse(const char *text, size_t len, struct config *ret, struct err *e)
{
	struct config c;

	config_default(&c);
	int rc = walk(text, len, on_store, &c, e);
	if (rc == 0)
		rc = check_whole(&c, e);
	if (rc == 0)
		*ret = c;
	return rc;
}

const char *config_fixed_difference(const struct config *a, const struct config *b)
{
	size_t n;
	const struct config_key *keys = config_keys(&n);

	for (size_t i = 0; i < n; i++)
		if ((keys[i].readers & AT_START_ONLY) &&
		    memcmp((const char *)a + keys[i].offset, (const char *)b + keys[i].offset,
			   keys[i].size) != 0)
			return keys[i].name;
	return NULL;
}

void config_resolve_ids(struct config *c, const char *instance)
{
	const char *dash = strrchr(instance, '-');
	uint32_t hash = dash ? (uint32_t)strtoul(dash + 1, NULL, 16) : 0;

	if (c->host_ids.count)
		return;
	/* 2^18 blocks of 4096 between 2^30 and 2^31, less those of images and daemons. */
	c->host_ids.base = (1u << 30) + (hash % 260000u) * HOST_IDS_COUNT;
	c->host_ids.count = HOST_IDS_COUNT;
}

struct slice {
	FILE *out;
	uint32_t reader;
};

static int on_slice(const struct config_key *k, const struct line *l, void *arg, struct err *e)
{
	struct slice *s = arg;

	(void)e;
	if ((k->readers & s->reader) && k->type != CONFIG_IDS)
		fprintf(s->out, "%s = %s\n", k->name, l->value);
	return 0;
}

int config_slice(const char *text, size_t len, enum config_reader reader, const char *instance,
		 char **ret, struct err *e)
{
	struct config c;
	autofree char *buf = NULL;
	size_t size = 0;
	struct slice s = { .out = NULL, .reader = reader };
	int rc = config_parse(text, len, &c, e);

	if (rc < 0)
		return rc;
	s.out = open_memstream(&buf, &size);
	if (!s.out)
		return err_set(e, ENOMEM, "configuration: out of memory");
	rc = walk(text, len, on_slice, &s, e);
	config_resolve_ids(&c, instance);
	if (find_key("host_ids")->readers & reader)
		fprintf(s.out, "host_ids = %u:%u\n", c.host_ids.base, c.host_ids.count);
	if (fclose(s.out) != 0)
		return err_set(e, ENOMEM, "configuration: out of memory");
	if (rc == 0)
		*ret = take_ptr(buf);
	return rc;
}

uint32_t config_daemon_id(const struct config *c, enum config_reader who)
{
	static const struct {
		enum config_reader who;
		uint32_t plus;
	} ids[] = {
		{ FOR_BROKER, 1 }, { FOR_LEDGER, 2 }, { FOR_GATEWAY, 3 }, { FOR_SKILLS, 4 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		if (ids[i].who == who)
			return c->daemon_ids + ids[i].plus;
	return 0;
}
