/* SPDX-License-Identifier: Apache-2.0 */
/* From the store to text; who may ask, the broker has judged. */
#include "show.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/scope.h"
#include "json/json.h"
#include "skill/describe.h"

/* Takes @v. */
static int seal(json_t *v, uint64_t *ret_len, struct err *e)
{
	size_t len = 0;
	autofree char *text = v ? json_dump_compact(v, &len) : NULL;

	json_decref(v);
	if (!text)
		return err_set(e, ENOMEM, "out of memory");
	*ret_len = len;
	return fd_sealed("skills", text, len, e);
}

int show_catalog(struct views *v, const struct k_show *in, uint64_t *ret_len, struct err *e)
{
	const struct catalog *c;
	int rc = views_catalog(v, &c, e);

	if (rc < 0)
		return rc;
	if (!in->slug[0])
		return seal(json_pack("{s:o}", "skills", skill_describe_all(&v->store, c, in->wants_all)),
			    ret_len, e);
	const struct catalog_entry *entry = catalog_find(c, in->slug);
	if (!entry)
		return err_set(e, ENOENT, "no such skill");
	return seal(skill_describe(&v->store, entry, true), ret_len, e);
}

int show_file(struct views *v, const struct k_read *in, uint64_t *ret_len, struct err *e)
{
	auto_(skill_image) image = NULL;
	const struct catalog *c;
	json_t *o = NULL;
	uint32_t node = 0;
	int rc = views_catalog(v, &c, e);

	if (rc == 0)
		rc = skill_find_file(&v->store, c, in->slug, in->path, &image, &node, e);
	if (rc == 0)
		rc = skill_file_to_json(&v->store, image, node, in->path, &o, e);
	return rc < 0 ? rc : seal(o, ret_len, e);
}
