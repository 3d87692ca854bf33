/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_PROTO_SKILLS_H
#define CORDON_PROTO_SKILLS_H

/*
 * broker <-> skills, over one SEQPACKET pair. A view is what one job sees at
 * /skills: a fixed set of versions, chosen when it is opened. @req is the
 * broker's, echoed in the one answer to every request; answers may come in
 * another order than the requests.
 *
 *   broker                          skills
 *   K_ROOT       ---------------->          descriptor: root of the skills mount in the
 *                                           worker's mount namespace (again after each W_READY)
 *   K_VIEW_OPEN  ---------------->          slugs
 *                <----------------  K_VIEW  descriptor: the view's directory, for the worker
 *   K_VIEW_BIND  ---------------->          this host uid reads for this view now; no answer
 *   K_VIEW_COUNT, K_VIEW_CLOSE ---->
 *                <----------------  K_COUNTS
 *   K_STAGE      ---------------->          descriptor: a stream (skill/stream.h) to its end
 *                <----------------  K_STAGED
 *   K_REMOVE     ---------------->
 *                <----------------  K_REMOVED
 *   K_SHOW, K_READ ---------------->
 *                <----------------  K_TEXT  descriptor: sealed memfd, a JSON object
 *
 * K_REFUSED answers any request instead. After a restart of skills alone its
 * views live on and the broker goes on using their numbers over the new pair,
 * once it has sent K_ROOT again; the views of another broker are closed then.
 */
#include <stdint.h>

enum skills_msg {
	K_ROOT = 1,
	K_VIEW_OPEN,
	K_VIEW,
	K_VIEW_BIND,
	K_VIEW_COUNT,
	K_VIEW_CLOSE,
	K_COUNTS,
	K_STAGE,
	K_STAGED,
	K_REMOVE,
	K_REMOVED,
	K_REFUSED,
	K_READY, /* skills -> broker, once, empty */
	K_SHOW,	 /* the catalog, or one skill of it */
	K_READ,	 /* one file of a skill (K5) */
	K_TEXT,
};

enum {
	K_SKILLS_MAX = 64,     /* of one view: as many as a receipt lists */
	K_SLUG_MAX = 255,
	K_SLUGS_BYTES = 20608, /* K_SKILLS_MAX longest names with their NULs, and then some */
	K_TEXT_MAX = 248,
};

struct k_root {
	uint64_t broker; /* one random number for a broker process's life, not 0 */
};

struct k_view_open {
	uint64_t req;
	uint32_t count; /* slugs */
	uint32_t bytes; /* of @slugs, each ended by NUL, back to back; the message ends there */
	/*
	 * SLUG is its current version; SLUG@HEX that one, in the catalog or not: what a job
	 * had before the broker or the worker was restarted.
	 */
	char slugs[K_SLUGS_BYTES];
};

struct k_view_skill {
	uint8_t digest[32]; /* of the manifest: the version */
	uint32_t requires_execution;
	uint32_t pad;
};

struct k_view {
	uint64_t req;
	uint64_t view; /* never used again */
	uint32_t count;
	uint32_t pad;
	struct k_view_skill skills[K_SKILLS_MAX]; /* in the order asked; the message ends after @count */
};

struct k_view_bind {
	uint64_t view; /* 0: the uid reads for nobody */
	uint32_t uid;
	uint32_t pad;
};

struct k_view_ref { /* K_VIEW_COUNT, K_VIEW_CLOSE */
	uint64_t req;
	uint64_t view;
};

struct k_counts {
	uint64_t req;
	uint64_t files_looked_up; /* names of files resolved, one by one or by a listing */
	uint64_t bytes_served;	  /* by the server; what the page cache answers it never sees */
	uint64_t corrupt;	  /* reads of this view's that were answered EIO */
};

struct k_stage {
	uint64_t req;
};

struct k_staged {
	uint64_t req;
	uint8_t digest[32];
	uint64_t files, links, bytes;
	uint32_t requires_execution;
	uint32_t front_matter_line; /* of a SKILL.md that cannot be read, else 0 */
	char slug[K_SLUG_MAX + 1];
	char front_matter_fault[120];
};

struct k_remove {
	uint64_t req;
	uint32_t has_digest; /* 0: every version */
	uint32_t pad;
	uint8_t digest[32];
	char slug[K_SLUG_MAX + 1];
};

struct k_removed {
	uint64_t req;
};

struct k_show {
	uint64_t req;
	uint32_t wants_all; /* older versions too */
	uint32_t pad;
	char slug[K_SLUG_MAX + 1]; /* "": all of them */
};

struct k_read {
	uint64_t req;
	char slug[K_SLUG_MAX + 1];
	char path[4096];
};

struct k_text {
	uint64_t req;
	uint64_t len;
};

struct k_refused {
	uint64_t req;
	uint32_t reason; /* enum reason */
	uint32_t pad;
	char text[K_TEXT_MAX];
};

#endif
