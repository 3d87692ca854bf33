# SPDX-License-Identifier: Apache-2.0
# Each line of every privileges.c, held against this kernel (tests/unit/confine_table.h).
t "Landlock is on here" grep -q landlock /sys/kernel/security/lsm
for table in broker gateway ledger skills supervisor verify worker; do
	t "every line of the table of $table" /cordon/unit/${table}_privileges
done
