#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""carrier.py - carriers and vouchers' payloads by an independent hand (SPEC S2).

Shares no code with the plane, so that tests compare two implementations. As a
program it reads one JSON object per line and prints one answer per line:
    seal  {secret, orgId, userId, surface, runId?, iat, exp}   -> the carrier
    open  {secret, carrier}                                    -> the payload, or null
"""
import base64, hashlib, hmac, json, sys


def b64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64url(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def escape(text):
    out = "".join(f"\\u{ord(c):04x}" if ord(c) < 0x20 else "\\" + c if c in '"\\' else c for c in text)
    return f'"{out}"'


def compact(pairs):
    """A compact JSON object with its keys in the order given."""
    return "{" + ",".join(f"{escape(k)}:{escape(v) if isinstance(v, str) else json.dumps(v)}" for k, v in pairs) + "}"


def sign(secret, body, version="v1"):
    mac = hmac.new(secret, f"{version}.{body}".encode(), hashlib.sha256).digest()
    return f"{version}.{body}.{b64url(mac)}"


def seal_payload(secret, payload):
    """Seals any payload bytes: what a hostile holder of the secret could."""
    return sign(secret, b64url(payload))


def seal(secret, org, user, surface, run=None, iat=0, exp=0):
    pairs = [("orgId", org), ("userId", user), ("surface", surface)]
    if run:
        pairs.append(("runId", run))
    return seal_payload(secret, compact(pairs + [("iat", iat), ("exp", exp)]).encode())


def open_carrier(secret, text):
    version, body, mac = text.split(".")
    good = hmac.new(secret, f"{version}.{body}".encode(), hashlib.sha256).digest()
    if version != "v1" or not hmac.compare_digest(good, unb64url(mac)):
        return None
    return json.loads(unb64url(body))


def main():
    for line in sys.stdin:
        r = json.loads(line)
        secret = r["secret"].encode()
        if sys.argv[1] == "seal":
            print(seal(secret, r["orgId"], r["userId"], r["surface"], r.get("runId"), r["iat"], r["exp"]), flush=True)
        else:
            print(json.dumps(open_carrier(secret, r["carrier"]), ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
