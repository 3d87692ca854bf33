/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CONFIG_MOUNTINFO_H
#define CORDON_CONFIG_MOUNTINFO_H

/*
 * One line of /proc/PID/mountinfo (proc(5)) and one of /proc/PID/cgroup
 * (cgroups(7)), for whoever looks for cgroup hierarchies (Q5) or for what a
 * dead instance left (B10). The launcher judges its own table by a stricter
 * reader of its own (launcher/plan.c): it is built without this room.
 */
#include <stdbool.h>
#include <stddef.h>

struct mount_line {
	const char *root;    /* what of the filesystem is mounted */
	const char *target;  /* where */
	const char *type;
	const char *source;  /* may be "" */
	const char *options; /* of the filesystem: "rw,memory" */
};

/*
 * Cuts @line up in place, its newline or none at the end; *ret points into it,
 * with \ooo undone in root, target and source. Fields are parted by one blank
 * each. 0, or -1 for what is no such line: *ret is then not to be read.
 */
int mount_line_parse(char *line, struct mount_line *ret);

/*
 * The controllers among a v1 mount's options, comma-separated and in their
 * order ("cpu,cpuacct", "name=systemd"); what is no controller is left out. 0,
 * or -1 when they do not all fit into @size.
 */
int cgroup_controllers(const char *options, char *ret, size_t size);

/* True when @word stands in the comma-separated @list. */
bool cgroup_has_controller(const char *list, const char *word);

/*
 * The path in /proc/PID/cgroup's @text of the hierarchy with @controllers, ""
 * for the v2 one, into @ret of @size. "/" where no line is of it. -1 when the
 * path does not fit.
 */
int cgroup_own_path(const char *text, const char *controllers, char *ret, size_t size);

#endif
