/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of keys: name, type, field, range, preset, readers and what the
 * manual says. A new key is a row here and a field in config.h.
 */
#include "config/config.h"

#include "base/scope.h"

static const char *const audit_words[] = { "best_effort", "required", NULL };
static const char *const voucher_words[] = { "off", "required", NULL };
static const char *const switch_words[] = { "off", "on", NULL };
static const char *const lsm_words[] = { "off", "on", "required", NULL };
static const char *const egress_words[] = { "none", "allowlist", "default_internet", NULL };

enum { ALL_DAEMONS = FOR_BROKER | FOR_WORKER | FOR_LEDGER | FOR_GATEWAY | FOR_SKILLS };

#define FIELD(f) offsetof(struct config, f), sizeof(((struct config *)0)->f)
#define GIB (1ull << 30)

static const struct config_key keys[] = {
	{ "rollout", CONFIG_ROLLOUT, FIELD(rollout), 0, 0, NULL, "off", FOR_SUPERVISOR | AT_START_ONLY,
	  "Only the exact value on lets the plane start. The environment variable CORDON_ROLLOUT, "
	  "where it is set, decides instead." },
	{ "group", CONFIG_TEXT, FIELD(group), 0, 0, NULL, "cordon", FOR_SUPERVISOR | FOR_BROKER | AT_START_ONLY,
	  "The group whose members may speak to the socket. Where the host has no such group the "
	  "socket belongs to root alone." },
	{ "peers", CONFIG_TEXT, FIELD(peers), 0, 0, NULL, "", FOR_BROKER,
	  "Roles of peers of the socket, rules separated by semicolons: WHO ROLES ORGS USERS. WHO is "
	  "uid:N, gid:N, user:NAME or group:NAME; ROLES out of issuer, runner, auditor, admin; ORGS "
	  "and USERS are names or * , USERS also self; lists have commas. The first rule that fits "
	  "counts; root may do everything; last stands the rule of the group: runner local self." },
	{ "run_registry", CONFIG_WORD, FIELD(run_registry), 0, 0, switch_words, "off", FOR_BROKER,
	  "on: the ledger's registry says which runs are alive, archived or gone, and an unknown run "
	  "is gone. off: every run is alive, unless run_probe is asked." },
	{ "run_probe", CONFIG_PATH, FIELD(run_probe), 0, 0, NULL, "", FOR_BROKER | AT_START_ONLY,
	  "Unix stream socket of a program of yours that says which runs live, instead of "
	  "run_registry. For every command of a run the broker connects twice, before the queue and "
	  "after it, sends one line {\"id\",\"runId\",\"orgId\",\"userId\",\"surface\"} and wants one "
	  "line {\"id\",\"state\",\"orgId\",\"userId\"}: the same id, alive, archived or gone, and whose "
	  "the run is by your records, not by the question; of a run that is gone the owners may be "
	  "null. gone, another organisation or another user: run_removed. No answer, any other, or "
	  "one of more than 4096 bytes: capability_unavailable. Health asks about a run "
	  "cordon:handshake. Let the broker's user connect, and nobody else replace the socket." },
	{ "run_probe_timeout", CONFIG_SECONDS, FIELD(run_probe_ms), 10, 60000, NULL, "2", FOR_BROKER,
	  "Seconds until a question to run_probe counts as not answered." },
	{ "vouchers", CONFIG_WORD, FIELD(vouchers), 0, 0, voucher_words, "off", FOR_BROKER,
	  "required: every command needs a voucher signed by one of the public keys in "
	  "ROOT/etc/cordon/voucher.pem. off: none is taken." },
	{ "voucher_audience", CONFIG_TEXT, FIELD(voucher_audience), 0, 0, NULL, "cordon", FOR_BROKER,
	  "The plane's name in vouchers." },
	{ "command_allow", CONFIG_TEXT, FIELD(command_allow), 0, 0, NULL, "", FOR_BROKER,
	  "Names of programs, separated by blanks: others are refused as command_blocked. Hygiene "
	  "against accidents, no control: a program can start another. Empty: all." },
	{ "command_block", CONFIG_TEXT, FIELD(command_block), 0, 0, NULL, "", FOR_BROKER,
	  "Names of programs that are refused as command_blocked; hygiene like command_allow." },
	{ "retain", CONFIG_PATH, FIELD(retain), 0, 0, NULL, "", FOR_BROKER | AT_START_ONLY,
	  "Unix stream socket of a program of yours that keeps what commands print. Empty: output is "
	  "kept nowhere. The broker connects once for every command that has run, sends one stream of "
	  "application/vnd.cordon.stream (jobId, commandId and orgId first; then standard output and "
	  "error within their cap; bytes, SHA-256 and truncation of both last), and wants the line "
	  "{\"retained\":true} in 10 seconds. Answers never wait for it; what was not kept is counted in "
	  "`cordon health --json`. Copies take 64 MiB of memory at most; what goes beyond is not kept. "
	  "Let the broker's user connect, and nobody else replace the socket." },
	{ "redact", CONFIG_TEXT, FIELD(redact), 0, 0, NULL, "", FOR_BROKER | AT_START_ONLY,
	  "Required by retain. Unix stream socket of a program of yours that is sent the stream first "
	  "and answers with such a stream of what may be kept, whose last frame is "
	  "{\"redacted\":true}; any other answer, or none, and nothing of the command is kept. "
	  "none: output is kept as it is." },
	{ "image", CONFIG_DIGEST, FIELD(image), 0, 0, NULL, "", FOR_BROKER | FOR_WORKER | AT_START_ONLY,
	  "The base image (L0) every command runs on, by the digest of its bytes. Set by `cordon "
	  "image build --pin`." },
	{ "image_store", CONFIG_PATH, FIELD(image_store), 0, 0, NULL, "", FOR_WORKER | AT_START_ONLY,
	  "Directory of image files; several instances may share one. Empty: "
	  "ROOT/var/lib/cordon/images." },
	{ "pool", CONFIG_COUNT, FIELD(pool), 0, 256, NULL, "2", FOR_WORKER | AT_START_ONLY,
	  "Sandboxes built ahead. 0 builds every one on the spot." },

	{ "default.memory", CONFIG_SIZE, FIELD(dflt.memory_bytes), 1, INT64_MAX, NULL, "1G",
	  FOR_BROKER, "Memory of a command that asks for none; swap is pinned to it." },
	{ "default.cpus", CONFIG_MILLI, FIELD(dflt.cpu_milli), 10, 1024000, NULL, "1", FOR_BROKER,
	  "CPUs of a command, a decimal." },
	{ "default.pids", CONFIG_COUNT, FIELD(dflt.pids), 1, 1000000, NULL, "256", FOR_BROKER,
	  "Processes and threads of a command." },
	{ "default.timeout", CONFIG_SECONDS, FIELD(dflt.timeout_ms), 1, 30ull * 86400000, NULL,
	  "120", FOR_BROKER, "Wall clock of a command in seconds, from exec." },
	{ "default.output_cap", CONFIG_SIZE, FIELD(dflt.output_bytes), 1, GIB, NULL, "1M",
	  FOR_BROKER, "Bytes kept of each output stream; a command that writes more is ended." },
	{ "default.workspace_size", CONFIG_SIZE, FIELD(dflt.workspace_bytes), 1, INT64_MAX, NULL,
	  "256M", FOR_BROKER, "Quota of a workspace." },
	{ "maximum.memory", CONFIG_SIZE, FIELD(max.memory_bytes), 1, INT64_MAX, NULL, "8G",
	  FOR_BROKER, "The most a request may ask for; beyond: limit_above_maximum." },
	{ "maximum.cpus", CONFIG_MILLI, FIELD(max.cpu_milli), 10, 1024000, NULL, "8", FOR_BROKER,
	  "The most a request may ask for." },
	{ "maximum.pids", CONFIG_COUNT, FIELD(max.pids), 1, 1000000, NULL, "4096", FOR_BROKER,
	  "The most a request may ask for." },
	{ "maximum.timeout", CONFIG_SECONDS, FIELD(max.timeout_ms), 1, 30ull * 86400000, NULL,
	  "3600", FOR_BROKER, "The most a request may ask for." },
	{ "maximum.output_cap", CONFIG_SIZE, FIELD(max.output_bytes), 1, GIB, NULL, "64M",
	  FOR_BROKER, "The most a request may ask for." },
	{ "maximum.workspace_size", CONFIG_SIZE, FIELD(max.workspace_bytes), 1, INT64_MAX, NULL,
	  "16G", FOR_BROKER, "The most a request may ask for." },

	{ "admission.running_per_org", CONFIG_COUNT, FIELD(running_per_org), 1, 4096, NULL, "2",
	  FOR_BROKER, "Commands of one organisation that run at once." },
	{ "admission.running", CONFIG_COUNT, FIELD(running), 1, 4096, NULL, "8", FOR_BROKER,
	  "Commands that run at once." },
	{ "admission.queued_per_org", CONFIG_COUNT, FIELD(queued_per_org), 0, 65536, NULL, "16",
	  FOR_BROKER, "Commands of one organisation that wait; beyond: queue_saturated." },
	{ "admission.queued", CONFIG_COUNT, FIELD(queued), 0, 65536, NULL, "128", FOR_BROKER,
	  "Commands that wait." },
	{ "admission.open_jobs_per_org", CONFIG_COUNT, FIELD(open_jobs_per_org), 1, 65536, NULL,
	  "32", FOR_BROKER, "Open jobs of one organisation; beyond: open_jobs_exhausted." },

	{ "carrier_ttl", CONFIG_SECONDS, FIELD(carrier_ttl_ms), 1000, 86400000, NULL, "900",
	  FOR_BROKER, "Seconds a sealed session stays valid, and an idle job open." },
	{ "skill_roots", CONFIG_TEXT, FIELD(skill_roots), 0, 0, NULL, "", FOR_SUPERVISOR,
	  "Directories skills are loaded from (cordon skill load), separated by colons. Looked up "
	  "anew at every load." },
	{ "skill_plugins", CONFIG_TEXT, FIELD(skill_plugins), 0, 0, NULL, "", FOR_SUPERVISOR,
	  "Directories of plugins, separated by colons. A plugin's cordon-plugin.json may name "
	  "directories of skills inside its own." },
	{ "file_allow", CONFIG_TEXT, FIELD(file_allow), 0, 0, NULL, "", FOR_SUPERVISOR,
	  "Directories a model may use with cordon file, separated by colons. Empty: none. What "
	  "belongs to the plane or to skills is never among them." },
	{ "file_deny", CONFIG_TEXT, FIELD(file_deny), 0, 0, NULL, "", FOR_SUPERVISOR,
	  "Directories and files cordon file refuses, separated by colons; wins over file_allow." },
	{ "audit", CONFIG_WORD, FIELD(audit), 0, 0, audit_words, "best_effort",
	  FOR_BROKER | FOR_LEDGER,
	  "best_effort counts and spools what the ledger cannot take; required dispatches nothing "
	  "without a durable intent." },
	{ "audit.retention", CONFIG_SECONDS, FIELD(audit_retention_ms), 0, 36525ull * 86400000, NULL,
	  "0", FOR_LEDGER,
	  "Seconds a row is kept, with its receipt; 0 is for ever. What goes leaves a signed cut; "
	  "rows an export has not acknowledged stay." },

	{ "egress.default", CONFIG_WORD, FIELD(egress_default), 0, 0, egress_words,
	  "default_internet", FOR_BROKER, "Tier of a command that asks for none." },
	{ "egress.maximum", CONFIG_WORD, FIELD(egress_maximum), 0, 0, egress_words,
	  "default_internet", FOR_BROKER,
	  "The widest tier; wider requests are narrowed and the answer says so. Without a gateway "
	  "it is none." },
	{ "egress.maximum_hosts", CONFIG_TEXT, FIELD(egress_maximum_hosts), 0, 0, NULL, "",
	  FOR_BROKER,
	  "HOST or HOST:PORT entries, separated by blanks: nothing beyond them is ever allowed." },
	{ "egress.maximum_bytes", CONFIG_SIZE, FIELD(egress_maximum_bytes), 0, INT64_MAX, NULL,
	  "0", FOR_BROKER, "Byte ceiling of every job's token; 0 is none." },

	{ "gateway", CONFIG_WORD, FIELD(gateway), 0, 0, switch_words, "on",
	  FOR_SUPERVISOR | FOR_BROKER | FOR_WORKER | FOR_GATEWAY | AT_START_ONLY,
	  "off: the instance has no gateway, and the widest tier is none." },
	{ "gateway.address", CONFIG_TEXT, FIELD(gateway_address), 0, 0, NULL, "100.64.0.1",
	  FOR_BROKER | FOR_WORKER | FOR_GATEWAY | AT_START_ONLY,
	  "The gateway's IPv4 address inside every sandbox, out of a protected range but not of "
	  "127.0.0.0/8. It exists nowhere else." },
	{ "gateway.port", CONFIG_COUNT, FIELD(gateway_port), 1, 65535, NULL, "3128",
	  FOR_BROKER | FOR_WORKER | FOR_GATEWAY | AT_START_ONLY, "Its port there." },
	{ "gateway.resolver", CONFIG_TEXT, FIELD(gateway_resolver), 0, 0, NULL, "",
	  FOR_WORKER | FOR_GATEWAY | AT_START_ONLY,
	  "ADDRESS or ADDRESS:PORT of the DNS server that names are asked from. Empty: the first "
	  "nameserver of /etc/resolv.conf; where that names none, no name resolves." },
	{ "gateway.protected", CONFIG_TEXT, FIELD(gateway_protected), 0, 0, NULL, "",
	  FOR_WORKER | FOR_GATEWAY | AT_START_ONLY,
	  "ADDRESS or ADDRESS/BITS, separated by blanks: never reached, beyond the built-in list and "
	  "the host's own addresses." },
	{ "gateway.exceptions", CONFIG_TEXT, FIELD(gateway_exceptions), 0, 0, NULL, "",
	  FOR_BROKER | FOR_WORKER | FOR_GATEWAY | AT_START_ONLY,
	  "Single addresses, separated by blanks, that sandboxes may reach although they are "
	  "protected. Said in health, and in the log at every start." },
	{ "gateway.connections", CONFIG_COUNT, FIELD(gateway_connections), 1, 60000, NULL, "1024",
	  FOR_GATEWAY | AT_START_ONLY, "Connections of one command at a time; more wait." },
	{ "gateway.head_timeout", CONFIG_SECONDS, FIELD(gateway_head_ms), 100, 3600000, NULL, "10",
	  FOR_GATEWAY | AT_START_ONLY, "Seconds a request's head may take." },
	{ "gateway.dial_timeout", CONFIG_SECONDS, FIELD(gateway_dial_ms), 100, 3600000, NULL, "10",
	  FOR_GATEWAY | AT_START_ONLY, "Seconds one name or one address may take to answer." },
	{ "gateway.idle_timeout", CONFIG_SECONDS, FIELD(gateway_idle_ms), 100, 86400000, NULL, "300",
	  FOR_GATEWAY | AT_START_ONLY, "Seconds a connection may stay silent." },

	{ "host_ids", CONFIG_IDS, FIELD(host_ids), 65536, 0x7ffffffe, NULL, "auto", FOR_WORKER | AT_START_ONLY,
	  "BASE:COUNT, the ids sandboxes have outside, one per live sandbox; no account may lie in "
	  "it. auto is a block of 4096 of the instance's own, between 1073741824 and 2147483647." },
	{ "image_ids", CONFIG_COUNT, FIELD(image_ids), 65536, 0x7ffe0000, NULL, "2140000000",
	  FOR_WORKER | AT_START_ONLY, "First of 65536 ids that own the files of images outside." },
	{ "daemon_ids", CONFIG_COUNT, FIELD(daemon_ids), 1, 0x7fffff00, NULL, "2139000000",
	  FOR_SUPERVISOR | AT_START_ONLY,
	  "First of 16 ids of the daemons: broker +1, ledger +2, gateway +3, skills +4. Not used "
	  "where the installed users cordon-broker, cordon-ledger, ... exist and ROOT is /." },
	{ "guard.lsm", CONFIG_WORD, FIELD(guard_lsm), 0, 0, lsm_words, "on", FOR_WORKER | AT_START_ONLY,
	  "A second line behind capabilities, seccomp and namespaces, by programs of the kernel's "
	  "security hooks. on: where the kernel takes them; where it does not, answers and statements "
	  "name lsm as missing. required: where it does not, the plane does not come up." },
	{ "fault", CONFIG_TEXT, FIELD(fault), 0, 0, NULL, "",
	  ALL_DAEMONS | FOR_SUPERVISOR,
	  "For tests alone: STEP:kill, STEP:delay=MS, STEP:error=ERRNO or STEP:short, with "
	  ":after=N and :times=N; the labelled step at which a daemon dies, waits or fails." },
};

const struct config_key *config_keys(size_t *ret_n)
{
	*ret_n = ARRAY_SIZE(keys);
	_Static_assert(ARRAY_SIZE(keys) <= CONFIG_KEYS_MAX, "raise CONFIG_KEYS_MAX");
	return keys;
}
