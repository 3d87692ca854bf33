/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon-worker: the only program that starts sandboxes (B1).
 *
 * Theory of operation. It takes orders from the broker alone, in messages of
 * fixed size, and parses no byte a caller sent: argv passes through it as a
 * sealed memory file. It lives in a mount namespace of its own where the images
 * and recently used workspaces are mounted; a slot (slot.c) is cloned from it
 * with every namespace fresh, execs the static launcher, and is used once.
 *
 *   phase      holds                                      opens
 *   start      root                                       S_START, configuration
 *   mounts     root                                       private namespace, /dev, image
 *   confine    the capabilities of privileges.c           - after this we cannot gain privilege
 *   loop       the same                                   slots
 *
 * Its death, however it comes, is the death of every sandbox: launchers carry
 * PDEATHSIG and their pid namespaces end with them; mounts end with the
 * namespace; cordond removes what directories are left (B9, B10).
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/scope.h"
#include "config/places.h"
#include "config/start.h"
#include "worker/dev.h"
#include "worker/guard.h"
#include "worker/loop.h"
#include "worker/mount.h"
#include "worker/privileges.h"
#include "wire/msg.h"

enum { TMP_BYTES = 128 << 20, SHM_BYTES = 64 << 20 }; /* B4 */

static const uint32_t always_on = GUARD_USERNS | GUARD_SECCOMP | GUARD_NO_NEW_PRIVS |
				  GUARD_MEMORY | GUARD_PIDS | GUARD_CPU | GUARD_IDMAP |
				  GUARD_MOUNT_CHECK;

static struct cgroup_base cgroups;
static char mounts[PLACES_PATH_MAX + 16], dev_path[PLACES_PATH_MAX + 32];

/* The worker's own corner for mounts: a tmpfs in its private namespace. */
static int open_mounts(const struct places *p, const struct config *c, struct err *e)
{
	snprintf(mounts, sizeof(mounts), "%s/worker", p->run);
	snprintf(dev_path, sizeof(dev_path), "%s/dev", mounts);
	if (mkdir(mounts, 0700) < 0 && errno != EEXIST)
		return err_set(e, errno, "mkdir '%s': %s", mounts, strerror(errno));
	if (mount_private(e) < 0)
		return -e->code;
	autoclose int fd = mount_tmpfs(1 << 20, 4096, 0, "700", MOUNT_NODEV | MOUNT_NOEXEC, e);
	if (fd < 0 || mount_attach(fd, mounts, e) < 0)
		return -e->code;
	return dev_make(dev_path, c->image_ids, e);
}

static int open_stores(struct loop *l, const struct places *p, const struct config *c,
		       struct err *e)
{
	char store[PLACES_PATH_MAX], workspaces[PLACES_PATH_MAX + 16];

	places_image_store(p, c, store);
	snprintf(workspaces, sizeof(workspaces), "%s/workspaces", p->state);
	if (images_open(store, mounts, c->image, &l->images, e) < 0 ||
	    workspaces_open(workspaces, mounts, &l->workspaces, e) < 0)
		return -e->code;
	/* Verified and mounted before anyone is served. */
	return images_get(&l->images, "", e) ? 0 : -e->code;
}

/* The skills' mount, attached where only this program and its slots can see it. */
static int open_skills(struct loop *l, struct start *s, struct err *e)
{
	char path[sizeof(mounts) + 16];
	autoclose int fd = start_take_fd(s, SFD_SKILLS_MOUNT);

	l->skills.root_fd = -1;
	if (fd < 0)
		return 0;
	snprintf(path, sizeof(path), "%s/skills", mounts);
	return skills_attach(&l->skills, fd, path, e);
}

/*
 * Egress whole, or none of it: without its guards no gateway slot is given, and
 * the broker is told that they are missing (B12). Tier none needs none of it.
 */
static void open_egress(struct loop *l, struct start *s, const struct places *p)
{
	char pins[PLACES_PATH_MAX + 16];
	struct err e = { 0 };
	autoclose int gateway = openat(cgroups.trees[0].jobs_fd, "../gateway",
				       O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (!s->config.gateway)
		return;
	snprintf(pins, sizeof(pins), "%s/bpf", p->run);
	if (gateway < 0)
		err_set(&e, errno, "the gateway's cgroup: %s", strerror(errno));
	else if (egress_open(cgroups.trees[0].jobs_fd, gateway, pins, &s->config,
			     &l->maker.egress, &e) == 0)
		egress_set_gateway(l->maker.egress, start_take_fd(s, SFD_GATEWAY));
	if (l->maker.egress) {
		l->guards |= GUARD_EGRESS_BPF | GUARD_NFT;
	} else {
		l->guards_missing |= GUARD_EGRESS_BPF | GUARD_NFT;
		log_error("egress", "error=\"%s\"", e.msg);
	}
}

/* The second line: where it is not required its absence is told (B12), else it is the end. */
static int open_guard(struct loop *l, const struct config *c, const struct places *p, struct err *e)
{
	char pins[PLACES_PATH_MAX + 16];

	if (c->guard_lsm == LSM_OFF)
		return 0;
	snprintf(pins, sizeof(pins), "%s/bpf", p->run);
	if (guard_open(cgroups.trees[0].jobs_fd, pins, &l->maker.guard, e) == 0) {
		l->guards |= GUARD_LSM;
		return 0;
	}
	if (c->guard_lsm == LSM_REQUIRED)
		return err_wrap(e, "guard.lsm is required");
	l->guards_missing |= GUARD_LSM;
	log_error("guard", "missing=lsm error=\"%s\"", e->msg);
	return 0;
}

static int send_ready(const struct loop *l, struct err *e)
{
	struct w_ready r = { .guards = l->guards, .pool = l->pool };

	memcpy(r.image_digest, l->images.list[0].digest, sizeof(r.image_digest));
	if (msg_send(l->broker_fd, W_READY, &r, sizeof(r), &l->skills.root_fd,
		     l->skills.root_fd >= 0, e) < 0)
		return -e->code;
	return start_ready(e);
}

static int open_all(struct loop *l, struct start *s, struct err *e)
{
	struct places p;

	if (confine_early(&worker_privileges, e) < 0 || places_init(s->s.root, &p, e) < 0 ||
	    open_mounts(&p, &s->config, e) < 0 || open_skills(l, s, e) < 0 ||
	    cgroup_open_base(s->s.instance, &cgroups, e) < 0)
		return -e->code;
	cgroup_sweep(&cgroups);
	l->broker_fd = start_take_fd(s, SFD_BROKER);
	l->supervisor_fd = SUPERVISOR_FD;
	l->host_ids = s->config.host_ids;
	l->pool = s->config.pool;
	l->guards = always_on | (cgroups.has_swap_limit ? GUARD_SWAP : 0);
	l->guards_missing = cgroups.has_swap_limit ? 0 : GUARD_SWAP;
	l->maker = (struct slot_maker){
		.cgroups = &cgroups,
		.launcher_fd = start_take_fd(s, SFD_LAUNCHER),
		.dev_path = dev_path,
		.image_ids = s->config.image_ids,
		.tmp_bytes = TMP_BYTES,
		.shm_bytes = SHM_BYTES,
	};
	if (l->broker_fd < 0 || l->maker.launcher_fd < 0)
		return err_set(e, EINVAL, "started without a broker or a launcher");
	open_egress(l, s, &p);
	if (open_guard(l, &s->config, &p, e) < 0)
		return -e->code;
	malloc_trim(0); /* libbpf read the kernel's types: 10 MiB that nobody needs again */
	return open_stores(l, &p, &s->config, e);
}

int main(void)
{
	static struct loop loop; /* large, and zero is its empty state */
	struct start s;
	struct err e = { 0 };
	uint32_t missing;

	log_open("cordon-worker");
	if (start_receive(&s, &e) < 0 || open_all(&loop, &s, &e) < 0 ||
	    confine_final(&worker_privileges, &(struct confine_as){ .uid = 0 }, &missing, &e) < 0 ||
	    send_ready(&loop, &e) < 0) {
		start_fatal(&e);
		log_error("start", "error=\"%s\"", e.msg);
		return 1;
	}
	/* After this no error may stop us but the end of broker or cordond. */
	if (loop_run(&loop, &e) < 0) {
		log_error("loop", "error=\"%s\"", e.msg);
		return 1;
	}
	return 0;
}
