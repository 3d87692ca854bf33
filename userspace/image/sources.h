/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_IMAGE_SOURCES_H
#define CORDON_IMAGE_SOURCES_H

/*
 * Which of the host's configured package sources are Debian's own, as one-line
 * `deb` entries held to Debian's archive keyring.
 */
#include <stddef.h>

enum { SOURCES_MAX = 8, SOURCE_SIZE = 512, SUITE_MAX = 32 };

struct sources {
	char entry[SOURCES_MAX][SOURCE_SIZE];
	size_t n;
};

enum sources_verdict {
	SOURCES_NONE = 0, /* nothing of Debian's for this suite */
	SOURCES_OK,
	SOURCES_TOO_MANY,
	SOURCES_TOO_LONG,
};

/* What apt is asked to say about each configured source, one per line. */
#define SOURCES_FORMAT "$(TARGET_OF)|$(COMPONENT)|$(RELEASE)|$(CODENAME)|$(ORIGIN)|$(REPO_URI)"

/*
 * Reads apt's answer @text for SOURCES_FORMAT (it is changed on the way) and
 * keeps the sources of @suite, its updates and its security, component main,
 * of origin Debian where the origin is known. Fields apt does not know stay
 * as they were written in the format.
 */
enum sources_verdict sources_choose(char *text, const char *suite, struct sources *ret);

/* The entry without user and password in its address: the form that may stay in an image. */
void sources_public(const char *entry, char ret[SOURCE_SIZE]);

#endif
