/* SPDX-License-Identifier: Apache-2.0 */
/* Operands and files of the verbs. */
#include "cli/input.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/scope.h"
#include "json/json.h"

enum { CARRIER_MAX = 16 * 1024 };

int input_want(const struct invocation *in, int n, const char *words, int *ret_status)
{
	struct err e;

	if (in->rest.argc == n)
		return 0;
	if (in->rest.argc > n)
		err_set(&e, EINVAL, "unknown argument '%.80s'", in->rest.argv[n]);
	else
		err_set(&e, EINVAL, "%s wants %s", in->path, words);
	*ret_status = cli_refuse_options(&e);
	return 1;
}

int input_no_more(const struct invocation *in, int *ret_status)
{
	return input_want(in, 0, "nothing more", ret_status);
}

int input_add_carrier(const char *file, json_t *body)
{
	autofree char *text = NULL;
	size_t len;
	struct err e;

	/* Every process of the host may read it there, and it is not said once more (S6). */
	if (strncmp(file, "v1.", 3) == 0) {
		err_set(&e, EINVAL, "a carrier is taken from a file or standard input, never "
				    "from the command line");
		return cli_refuse_options(&e);
	}
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* from here on a core would hold it */
	if (cli_read_input(file, CARRIER_MAX, &text, &len, &e) < 0)
		return cli_refuse_options(&e);
	/* One line end is the file's, not the carrier's. */
	if (len > 0 && text[len - 1] == '\n')
		len--;
	if (json_object_set_new(body, "carrier", json_stringn(text, len)) < 0) {
		err_set(&e, EINVAL, "'%s' is not text", file);
		return cli_refuse(REASON_CARRIER_MALFORMED, &e);
	}
	return 0;
}
