/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon-image: the images that sandboxes stand on.
 *
 * Theory of operation. Run by an operator (`cordon image ...` execs it), does one
 * thing, ends. It is no daemon, speaks to none and holds no secret. Building needs
 * root, because a root file system has owners; the bootstrapper runs in mount and
 * pid namespaces of its own, so that its mounts and processes end with it. Work in
 * progress lives in a private directory of the store under a lock; the image
 * appears whole, under the digest of its bytes. A kill at any moment leaves only
 * what the next build removes. The one thing written outside the store is the
 * pinned digest in the instance's configuration.
 */
#include <locale.h>
#include <stdio.h>
#include <unistd.h>

#include "image/options.h"
#include "image/verbs.h"
#include "json/json.h"

enum { EXIT_NO = 1, EXIT_USAGE = 2 };

static int fail(const struct err *e, int status)
{
	fprintf(stderr, "cordon: image: %s\n", e->msg);
	return status;
}

int main(int argc, char **argv)
{
	struct image_context c;
	struct options o;
	struct err e;

	json_start();
	setlocale(LC_CTYPE, "C.UTF-8"); /* names in archives are UTF-8 */
	if (options_parse(argc, argv, &o, &e) < 0) {
		fail(&e, 0);
		fputs(OPTIONS_USAGE, stderr);
		return EXIT_USAGE;
	}
	if (o.help)
		return fputs(OPTIONS_USAGE, stdout) < 0;
	if (verbs_open(&o, &c, &e) < 0)
		return fail(&e, EXIT_NO);
	int r = verbs_run(&c, &e);
	verbs_close(&c);
	if (r < 0)
		return fail(&e, EXIT_NO);
	if (fflush(stdout) != 0)
		return EXIT_NO;
	return r == 0 ? 0 : EXIT_NO;
}
