# SPDX-License-Identifier: Apache-2.0
"""oci.py - OCI image layouts for tests, right ones and wrong ones.

    layout(path, [layer, layer])     layer = tar bytes, or a list of entries for tar()
    tar([("usr/bin/x", b"bytes"), ("lib", link("usr/lib")), ("d", directory(0o700))])
"""
import gzip, hashlib, io, json, os, tarfile

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
CONFIG = "application/vnd.oci.image.config.v1+json"


def entry(type=tarfile.REGTYPE, data=b"", **fields):
    return {"type": type, "data": data, **fields}


def directory(mode=0o755, **f):
    return entry(tarfile.DIRTYPE, mode=mode, **f)


def link(target, **f):
    return entry(tarfile.SYMTYPE, linkname=target, **f)


def hard(target):
    return entry(tarfile.LNKTYPE, linkname=target)


def device(type=tarfile.CHRTYPE, major=1, minor=1):
    return entry(type, devmajor=major, devminor=minor, mode=0o666)


def tar(entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        for name, what in entries:
            e = {"data": what, "type": tarfile.REGTYPE} if isinstance(what, bytes) else dict(what)
            info = tarfile.TarInfo(name)
            data = e.pop("data")
            info.size, info.mode, info.mtime = len(data), 0o644, 1600000000
            for k, v in e.items():
                setattr(info, k, v)
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def blob(path, data):
    os.makedirs(f"{path}/blobs/sha256", exist_ok=True)
    digest = hashlib.sha256(data).hexdigest()
    with open(f"{path}/blobs/sha256/{digest}", "wb") as f:
        f.write(data)
    return digest


def descriptor(path, media_type, data, **more):
    return {"mediaType": media_type, "digest": f"sha256:{blob(path, data)}", "size": len(data), **more}


def manifest(path, layers, compress=False):
    """The manifest's descriptor; its layers as blobs."""
    rows = []
    for one in layers:
        data = one if isinstance(one, bytes) else tar(one)
        rows.append(descriptor(path, LAYER + "+gzip", gzip.compress(data)) if compress
                    else descriptor(path, LAYER, data))
    config = descriptor(path, CONFIG, json.dumps({"architecture": "amd64", "os": "linux", "config": {
        "Env": ["EVIL=1"], "User": "0", "Entrypoint": ["/evil"]}}).encode())
    return descriptor(path, MANIFEST, json.dumps(
        {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": rows}).encode())


def index(path, manifests):
    os.makedirs(path, exist_ok=True)
    with open(f"{path}/oci-layout", "w") as f:
        json.dump({"imageLayoutVersion": "1.0.0"}, f)
    with open(f"{path}/index.json", "w") as f:
        json.dump({"schemaVersion": 2, "manifests": manifests}, f)
    return path


def layout(path, layers, compress=False):
    return index(path, [manifest(path, layers, compress)])
