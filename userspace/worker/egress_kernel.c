/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The egress programs' userspace twin: load, attach, pin, maps. Does not know
 * commands or jobs (worker/egress.c), nor what the numbers mean (include/abi).
 */
#include "worker/egress_kernel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/scope.h"
#include "egress.skel.h"
#include "gateway.skel.h"
#include "level.skel.h"

enum { LINKS_MAX = 16, PIN_PATH_MAX = 512 };
#define PIN_PREFIX "egress_"
#define TOKENS_BYTES (EGRESS_TOKENS_MAX * sizeof(struct egress_token))

/* The links of one set of programs, all on one directory. */
struct link_set {
	struct bpf_link *links[LINKS_MAX];
	unsigned n;
};

struct egress_kernel {
	struct egress_bpf *job;
	struct gateway_bpf *ring;
	struct link_set job_links, ring_links;
	struct egress_token *tokens; /* the map itself, mapped */
	struct ring_buffer *events;
	void (*over)(void *ctx, uint64_t cgroup_id); /* during egress_kernel_events_read */
	void *over_ctx;
};

static int read_levels(uint64_t ids[32], struct err *e)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	struct level_bpf *skel = level_bpf__open_and_load();
	int rc;

	if (!skel)
		return err_set(e, errno, "load bpf/level: %s", strerror(errno));
	rc = bpf_prog_test_run_opts(bpf_program__fd(skel->progs.read_levels), &opts);
	if (rc < 0)
		rc = err_set(e, -rc, "run bpf/level: %s", strerror(-rc));
	else
		memcpy(ids, skel->bss->ids, 32 * sizeof(ids[0]));
	level_bpf__destroy(skel);
	return rc;
}

/*
 * The level of the directories below @jobs_fd: climbs from it until it meets
 * a directory that this process's own cgroup descends from, whose level the
 * kernel has told.
 */
static int slot_level(int jobs_fd, uint32_t *ret, struct err *e)
{
	char path[PIN_PATH_MAX] = ".";
	uint64_t ids[32];
	struct stat st;
	int rc = read_levels(ids, e);

	if (rc < 0)
		return rc;
	for (uint32_t up = 0; up < 32; up++) {
		if (fstatat(jobs_fd, path, &st, 0) < 0)
			return err_set(e, errno, "stat the jobs directory: %s", strerror(errno));
		for (uint32_t l = 0; l < 32; l++)
			if (ids[l] && ids[l] == st.st_ino) {
				*ret = l + up + 1;
				return 0;
			}
		strcat(path, "/..");
	}
	return err_set(e, ENOENT, "no common ancestor of the jobs directory and this process");
}

static void drop_links(struct link_set *set)
{
	while (set->n)
		bpf_link__destroy(set->links[--set->n]);
}

static int pin_path(char path[PIN_PATH_MAX], const char *dir, const char *name, struct err *e)
{
	int n = snprintf(path, PIN_PATH_MAX, "%s/" PIN_PREFIX "%s", dir, name);

	return n < PIN_PATH_MAX ? 0 : err_set(e, ENAMETOOLONG, "pin directory \"%s\"", dir);
}

/* Attached before the old pin goes: there is no moment without a guard. */
static int attach_one(struct bpf_program *prog, int dirfd, const char *pin_dir,
		      struct link_set *set, struct err *e)
{
	const char *name = bpf_program__name(prog);
	char path[PIN_PATH_MAX];
	struct bpf_link *link;
	int rc = pin_path(path, pin_dir, name, e);

	if (rc < 0)
		return rc;
	if (set->n == LINKS_MAX)
		return err_set(e, ENOSPC, "more than %d programs", LINKS_MAX);
	link = bpf_program__attach_cgroup(prog, dirfd);
	if (!link)
		return err_set(e, errno, "attach %s: %s%s", name, strerror(errno),
			       errno == EPERM ? " (is a foreign program exclusive there?)" : "");
	set->links[set->n++] = link;
	if (unlink(path) < 0 && errno != ENOENT)
		return err_set(e, errno, "remove the old pin \"%s\": %s", path, strerror(errno));
	rc = bpf_link__pin(link, path);
	return rc < 0 ? err_set(e, -rc, "pin \"%s\": %s", path, strerror(-rc)) : 0;
}

static int attach_all(struct bpf_object *obj, int dirfd, const char *pin_dir, struct link_set *set,
		      struct err *e)
{
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, obj) {
		int rc = attach_one(prog, dirfd, pin_dir, set, e);
		if (rc < 0) {
			for (unsigned i = 0; i < set->n; i++)
				bpf_link__unpin(set->links[i]);
			drop_links(set);
			return rc;
		}
	}
	return 0;
}

static int on_event(void *ctx, void *data, size_t size)
{
	struct egress_kernel *k = ctx;
	const struct egress_event *ev = data;

	if (size >= sizeof(*ev) && k->over)
		k->over(k->over_ctx, ev->cgroup_id);
	return 0;
}

static int load_job(struct egress_kernel *k, int jobs_fd, struct err *e)
{
	uint32_t level;
	int rc = slot_level(jobs_fd, &level, e);

	if (rc < 0)
		return rc;
	k->job = egress_bpf__open();
	if (!k->job)
		return err_set(e, errno, "open bpf/egress: %s", strerror(errno));
	k->job->rodata->slot_level = level;
	rc = egress_bpf__load(k->job);
	if (rc < 0)
		return err_set(e, -rc, "load bpf/egress: %s", strerror(-rc));
	k->tokens = mmap(NULL, TOKENS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			 bpf_map__fd(k->job->maps.tokens), 0);
	if (k->tokens == MAP_FAILED) {
		k->tokens = NULL;
		return err_set(e, errno, "map the tokens: %s", strerror(errno));
	}
	k->events = ring_buffer__new(bpf_map__fd(k->job->maps.events), on_event, k, NULL);
	return k->events ? 0 : err_set(e, errno, "open the events: %s", strerror(errno));
}

static int silent(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	(void)level, (void)fmt, (void)ap;
	return 0;
}

int egress_kernel_open(int jobs_fd, const char *pin_dir, struct egress_kernel **ret, struct err *e)
{
	struct egress_kernel *k = calloc(1, sizeof(*k));
	int rc;

	if (!k)
		return err_set(e, ENOMEM, "out of memory");
	libbpf_set_print(silent); /* errors travel as struct err */
	rc = load_job(k, jobs_fd, e);
	if (rc == 0)
		rc = attach_all(k->job->obj, jobs_fd, pin_dir, &k->job_links, e);
	if (rc < 0) {
		egress_kernel_free(k);
		return rc;
	}
	*ret = k;
	return 0;
}

/* Sixteen bytes, IPv4 as ::ffff:a.b.c.d: how the ring's maps spell an address. */
static void spread(const struct address *a, uint8_t out[16])
{
	memset(out, 0, 16);
	if (a->family == 6) {
		memcpy(out, a->bytes, 16);
		return;
	}
	out[10] = out[11] = 0xff;
	memcpy(out + 12, a->bytes, 4);
}

static int put_exempt(struct egress_kernel *k, const struct address *a, uint16_t port,
		      struct err *e)
{
	struct egress_exempt key = { .port = port };
	uint32_t one = 1;
	int rc;

	spread(a, key.address);
	rc = bpf_map_update_elem(bpf_map__fd(k->ring->maps.gateway_exempt), &key, &one, BPF_ANY);
	return rc < 0 ? err_set(e, -rc, "exempt an address: %s", strerror(-rc)) : 0;
}

static int put_range(struct egress_kernel *k, const struct address_range *r, struct err *e)
{
	struct egress_range key = { .bits = r->bits + (r->net.family == 4 ? 96u : 0) };
	uint32_t one = 1;
	int rc;

	spread(&r->net, key.address);
	rc = bpf_map_update_elem(bpf_map__fd(k->ring->maps.gateway_ranges), &key, &one, BPF_ANY);
	return rc < 0 ? err_set(e, -rc, "protect a range: %s", strerror(-rc)) : 0;
}

static int fill_ring(struct egress_kernel *k, const struct address *resolvers, unsigned nresolvers,
		     uint16_t resolver_port, const struct address_rules *rules, struct err *e)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < nresolvers; i++)
		rc = put_exempt(k, &resolvers[i], resolver_port, e);
	for (unsigned i = 0; rc == 0 && i < rules->nexempt; i++)
		rc = put_exempt(k, &rules->exempt[i], 0, e);
	for (unsigned i = 0; rc == 0 && i < rules->nranges; i++)
		rc = put_range(k, &rules->ranges[i], e);
	return rc;
}

int egress_kernel_open_ring(struct egress_kernel *k, int gateway_fd, const char *pin_dir,
			    const struct address *resolvers, unsigned nresolvers,
			    uint16_t resolver_port, const struct address_rules *rules,
			    struct err *e)
{
	int rc;

	k->ring = gateway_bpf__open_and_load();
	if (!k->ring)
		return err_set(e, errno, "load bpf/gateway: %s", strerror(errno));
	rc = fill_ring(k, resolvers, nresolvers, resolver_port, rules, e);
	if (rc == 0)
		rc = attach_all(k->ring->obj, gateway_fd, pin_dir, &k->ring_links, e);
	if (rc < 0) {
		gateway_bpf__destroy(k->ring);
		k->ring = NULL;
	}
	return rc;
}

void egress_kernel_free(struct egress_kernel *k)
{
	if (!k)
		return;
	drop_links(&k->job_links);
	drop_links(&k->ring_links);
	ring_buffer__free(k->events);
	if (k->tokens)
		munmap(k->tokens, TOKENS_BYTES);
	gateway_bpf__destroy(k->ring);
	egress_bpf__destroy(k->job);
	free(k);
}

int egress_kernel_unpin(const char *pin_dir, struct err *e)
{
	DIR *dir = opendir(pin_dir);
	struct dirent *d;
	int rc = 0;

	if (!dir)
		return errno == ENOENT ? 0 : err_set(e, errno, "open \"%s\": %s", pin_dir,
						     strerror(errno));
	while (rc == 0 && (d = readdir(dir)))
		if (strncmp(d->d_name, PIN_PREFIX, strlen(PIN_PREFIX)) == 0 &&
		    unlinkat(dirfd(dir), d->d_name, 0) < 0)
			rc = err_set(e, errno, "unpin \"%s\": %s", d->d_name, strerror(errno));
	closedir(dir);
	return rc;
}

void egress_kernel_token_set(struct egress_kernel *k, uint32_t index, uint64_t budget,
			     uint64_t used)
{
	__atomic_store_n(&k->tokens[index].used, used, __ATOMIC_SEQ_CST);
	__atomic_store_n(&k->tokens[index].budget, budget, __ATOMIC_SEQ_CST);
}

void egress_kernel_token_budget(struct egress_kernel *k, uint32_t index, uint64_t budget)
{
	__atomic_store_n(&k->tokens[index].budget, budget, __ATOMIC_SEQ_CST);
}

void egress_kernel_token_charge(struct egress_kernel *k, uint32_t index, uint64_t bytes)
{
	__atomic_fetch_add(&k->tokens[index].used, bytes, __ATOMIC_SEQ_CST);
}

uint64_t egress_kernel_token_used(const struct egress_kernel *k, uint32_t index)
{
	return __atomic_load_n(&k->tokens[index].used, __ATOMIC_SEQ_CST);
}

int egress_kernel_slot_add(struct egress_kernel *k, uint64_t cgroup_id, uint32_t token,
			   uint32_t gateway, const uint16_t ports[EGRESS_PORTS], struct err *e)
{
	struct egress_slot slot = { .token = token, .gateway = gateway };
	int rc;

	if (token == 0 || token >= EGRESS_TOKENS_MAX)
		return err_set(e, ERANGE, "token index %u", token);
	memcpy(slot.ports, ports, sizeof(slot.ports));
	rc = bpf_map_update_elem(bpf_map__fd(k->job->maps.slots), &cgroup_id, &slot, BPF_NOEXIST);
	return rc < 0 ? err_set(e, -rc, "open a slot's door: %s", strerror(-rc)) : 0;
}

int egress_kernel_slot_read(const struct egress_kernel *k, uint64_t cgroup_id,
			    struct egress_slot *ret)
{
	return bpf_map_lookup_elem(bpf_map__fd(k->job->maps.slots), &cgroup_id, ret);
}

int egress_kernel_slot_take(struct egress_kernel *k, uint64_t cgroup_id, struct egress_slot *ret,
			    struct err *e)
{
	int rc = bpf_map_lookup_and_delete_elem(bpf_map__fd(k->job->maps.slots), &cgroup_id, ret);

	return rc < 0 ? err_set(e, -rc, "shut a slot's door: %s", strerror(-rc)) : 0;
}

int egress_kernel_events_fd(const struct egress_kernel *k)
{
	return ring_buffer__epoll_fd(k->events);
}

void egress_kernel_events_read(struct egress_kernel *k, void (*over)(void *ctx, uint64_t cgroup_id),
			       void *ctx)
{
	k->over = over;
	k->over_ctx = ctx;
	ring_buffer__consume(k->events);
	k->over = NULL;
}

uint64_t egress_kernel_ring_denied(const struct egress_kernel *k)
{
	uint64_t denied = 0;
	uint32_t zero = 0;

	if (k->ring)
		bpf_map_lookup_elem(bpf_map__fd(k->ring->maps.gateway_denied), &zero, &denied);
	return denied;
}
