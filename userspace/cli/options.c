/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options engine. Does not know any verb, prints only help.
 */
#include "cli/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/scope.h"
#include "policy/limits.h"

static const struct option common_rows[] = {
	OPTION(struct common, root, "root", 0, OPTION_TEXT, "DIR",
	       "the instance (default: CORDON_ROOT, else /)"),
	OPTION(struct common, is_json, "json", 0, OPTION_FLAG, NULL, "print JSON"),
	OPTION(struct common, wants_help, "help", 'h', OPTION_FLAG, NULL, "print this"),
};

static int parse_count(const char *v, uint64_t *ret)
{
	uint64_t n = 0;

	if (!*v)
		return -EINVAL;
	for (; *v; v++)
		if (*v < '0' || *v > '9' || __builtin_mul_overflow(n, 10u, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(*v - '0'), &n))
			return -EINVAL;
	*ret = n;
	return 0;
}

static const struct {
	int (*parse)(const char *text, uint64_t *ret);
	const char *wants;
} numbers[] = {
	[OPTION_SIZE] = { limits_parse_size, "an integer with optional K, M or G" },
	[OPTION_MILLI] = { limits_parse_milli, "a decimal with at most three places" },
	[OPTION_COUNT] = { parse_count, "a decimal integer" },
};

static int store_number(const struct option *o, const char *value, struct option_number *ret,
			struct err *e)
{
	uint64_t n;

	/* What JSON cannot carry as an integer is out of range too. */
	if (numbers[o->kind].parse(value, &n) < 0 || n > INT64_MAX)
		return err_set(e, EINVAL, "'--%s' wants %s, not '%.80s'", o->name,
			       numbers[o->kind].wants, value);
	*ret = (struct option_number){ true, n };
	return 0;
}

static int store(const struct option *o, const char *value, void *ret, struct err *e)
{
	void *field = (char *)ret + o->offset;
	struct option_list *list = field;

	switch (o->kind) {
	case OPTION_FLAG:
		*(bool *)field = true;
		return 0;
	case OPTION_TEXT:
		*(const char **)field = value;
		return 0;
	case OPTION_LIST:
		if (list->n == OPTION_LIST_MAX)
			return err_set(e, EINVAL, "'--%s' given more than %d times", o->name,
				       OPTION_LIST_MAX);
		list->at[list->n++] = value;
		return 0;
	case OPTION_LATER:
		return err_set(e, ENOSYS, "'--%s' is not built yet", o->name);
	default:
		return store_number(o, value, field, e);
	}
}

struct found {
	const struct option *o;
	void *into;
};

static struct found find(const struct option *rows, size_t n, void *ret, struct common *common,
			 const char *name, size_t len, char letter)
{
	for (size_t i = 0; i < n; i++)
		if (name ? strlen(rows[i].name) == len && strncmp(rows[i].name, name, len) == 0 :
			   rows[i].letter == letter)
			return (struct found){ &rows[i], ret };
	if (rows == common_rows)
		return (struct found){ NULL, NULL };
	return find(common_rows, ARRAY_SIZE(common_rows), common, common, name, len, letter);
}

static bool takes_value(const struct option *o)
{
	return o->arg != NULL;
}

/* One option at r->argv[*at], its value perhaps in the next one. Moves *at behind it. */
static int parse_one(const struct option *rows, size_t n, const struct rest *r, int *at, void *ret,
		     struct common *common, const struct option **ret_o, struct err *e)
{
	const char *a = r->argv[(*at)++], *value;
	struct found f;

	if (a[1] == '-') {
		size_t len = strcspn(a + 2, "=");
		f = find(rows, n, ret, common, a + 2, len, 0);
		value = a[2 + len] == '=' ? a + 3 + len : NULL;
	} else {
		f = find(rows, n, ret, common, NULL, 0, a[1]);
		value = a[2] ? a + 2 : NULL;
	}
	if (!f.o)
		return err_set(e, EINVAL, "unknown option '%.80s'", a);
	if (value && !takes_value(f.o))
		return err_set(e, EINVAL, "'--%s' takes no value", f.o->name);
	if (!value && takes_value(f.o)) {
		if (*at == r->argc)
			return err_set(e, EINVAL, "'%.80s' wants %s", a, f.o->arg);
		value = r->argv[(*at)++];
	}
	*ret_o = f.o;
	return store(f.o, value, f.into, e);
}

/* Closes the gap between the operands found and the rest, which begins at @at. */
static void close_gap(struct rest *r, int at)
{
	memmove(r->argv + r->operands, r->argv + at, (size_t)(r->argc - at) * sizeof(*r->argv));
	r->argc -= at - r->operands;
}

int options_parse(const struct option *rows, size_t n, enum option_mode mode, struct rest *r,
		  void *ret, struct common *common, struct err *e)
{
	const struct option *o = NULL;
	int at = 0;

	r->operands = 0;
	while (at < r->argc && !(o && o->is_last)) {
		char *a = r->argv[at];
		if (a[0] != '-' || a[1] == '\0') {
			if (mode == OPTIONS_STOP)
				break;
			r->argv[r->operands++] = a;
			at++;
		} else if (strcmp(a, "--") == 0) {
			r->has_dashes = true;
			at++;
			break;
		} else if (parse_one(rows, n, r, &at, ret, common, &o, e) < 0) {
			return -e->code;
		}
	}
	close_gap(r, at);
	return 0;
}

static void print_row(const struct option *o)
{
	char left[64];

	snprintf(left, sizeof(left), "%c%c%s--%s %s", o->letter ? '-' : ' ',
		 o->letter ? o->letter : ' ', o->letter ? ", " : "  ", o->name,
		 o->arg ? o->arg : "");
	printf("  %-32s %s\n", left, o->help);
}

void options_print(const struct option *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		print_row(&rows[i]);
	for (size_t i = 0; i < ARRAY_SIZE(common_rows); i++)
		print_row(&common_rows[i]);
}
