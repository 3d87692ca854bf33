#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""dsse.py ENVELOPE PUBLIC.pem - verifies a DSSE envelope by another hand.

A third party's few lines: Python for JSON and base64, the openssl command line
for Ed25519. Prints the statement when the signature is good, exits 1 otherwise.
"""
import base64, json, subprocess, sys, tempfile


def verify(envelope, pem_path):
    payload = base64.b64decode(envelope["payload"], validate=True)
    kind = envelope["payloadType"].encode()
    message = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    for s in envelope["signatures"]:
        with tempfile.NamedTemporaryFile() as m, tempfile.NamedTemporaryFile() as sig:
            m.write(message), m.flush()
            sig.write(base64.b64decode(s["sig"], validate=True)), sig.flush()
            done = subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", pem_path, "-rawin",
                                   "-in", m.name, "-sigfile", sig.name], capture_output=True)
        if done.returncode == 0:
            return json.loads(payload)
    return None


if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        statement = verify(json.load(f), sys.argv[2])
    if statement is None:
        sys.exit("dsse: the signature does not verify")
    print(json.dumps(statement))
