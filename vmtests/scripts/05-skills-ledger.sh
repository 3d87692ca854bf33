# SPDX-License-Identifier: Apache-2.0
# The skills' filesystem and the ledger on this kernel.
t "the plane comes up" plane
mkdir -p /tmp/skill/scripts
printf -- '---\nname: hello\ndescription: says hello\n---\nRun scripts/hello.sh\n' >/tmp/skill/SKILL.md
printf '#!/bin/sh\necho hello from $0\n' >/tmp/skill/scripts/hello.sh
chmod 755 /tmp/skill/scripts/hello.sh
t "a skill is added" cordon skill add /tmp/skill --slug hello
t "a job sees and runs it" eval 'cordon run --skill hello -c "/skills/hello/scripts/hello.sh" | grep -q "hello from"'
t "it is read-only" eval '! cordon run --skill hello -c "echo x > /skills/hello/SKILL.md"'
t "a job without it sees nothing of it" eval '! cordon run -c "ls /skills/hello"'
t "the rows are there and the chain verifies" eval 'cordon audit list --org local | grep -q sandbox_execute; cordon audit verify'
t "the plane goes down" cordon down
t "no mount is left" eval '! grep -q /tmp/root /proc/mounts'
