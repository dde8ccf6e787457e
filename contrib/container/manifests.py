# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Check that the files for container engines agree, one line of TAP for each.

What they have to agree with is what build puts into the image, and the
capabilities of gpumapd.service.
"""

import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import yaml

HERE = Path(__file__).resolve().parent
RUNTIME = "/run/gpumap"

# What the specification of CDI says of the parts that are used here.  Debian 12's
# podman reads no version above 0.5.0.
STRING = {"type": "string", "minLength": 1}
MOUNT = {
    "type": "object",
    "required": ["hostPath", "containerPath"],
    "properties": {
        "hostPath": {"type": "string", "pattern": "^/"},
        "containerPath": {"type": "string", "pattern": "^/"},
        "options": {"type": "array", "items": STRING},
        "type": STRING,
    },
    "additionalProperties": False,
}
EDITS = {
    "type": "object",
    "minProperties": 1,
    "properties": {
        "env": {
            "type": "array",
            "items": {"type": "string", "pattern": "^[^=]+="},
        },
        "mounts": {"type": "array", "items": MOUNT},
    },
    "additionalProperties": False,
}
CDI = {
    "type": "object",
    "required": ["cdiVersion", "kind", "devices"],
    "properties": {
        "cdiVersion": {"const": "0.5.0"},
        "kind": {
            "type": "string",
            "pattern": "^[a-z][a-z0-9.-]*[a-z0-9]/[a-zA-Z][a-zA-Z0-9_-]*$",
        },
        "devices": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["name", "containerEdits"],
                "properties": {
                    "name": {
                        "type": "string",
                        "pattern": "^[a-zA-Z0-9][a-zA-Z0-9_.:-]*$",
                    },
                    "containerEdits": EDITS,
                },
                "additionalProperties": False,
            },
        },
        "containerEdits": EDITS,
    },
    "additionalProperties": False,
}


def tell(what: str, good: bool, got: object = "") -> None:
    print(f"{'ok' if good else 'not ok'} - {what}")
    if not good:
        print(f"# {got}")


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((HERE / name).read_text()))


def words(pattern: str, path: Path) -> set[str]:
    found = re.findall(pattern, path.read_text(), re.MULTILINE)
    return set(" ".join(found).split())


def check_cdi() -> None:
    (spec,) = documents("cdi.yaml")
    errors = [
        error.message
        for error in jsonschema.Draft7Validator(CDI).iter_errors(spec)
    ]
    tell("cdi.yaml is a specification of CDI", not errors, errors)
    mounts = spec["devices"][0]["containerEdits"]["mounts"]
    tell(
        "it mounts the runtime directory, read-only",
        [mount["hostPath"] for mount in mounts] == [RUNTIME]
        and mounts[0]["containerPath"] == RUNTIME
        and "ro" in mounts[0]["options"],
        mounts,
    )


def check_sync() -> None:
    config_map, daemon_set = documents("kubernetes/gpumap-sync.yaml")
    pod = daemon_set["spec"]["template"]["spec"]
    sync, security = pod["containers"][0], pod["securityContext"]
    build = HERE / "build"
    tell(
        "gpumap-sync is the image's user, in its group",
        {str(security["runAsUser"])} == words(r"^sync=(\d+)", build)
        and {str(security["runAsGroup"])} == words(r"^workers=(\d+)", build)
        and {sync["image"]} == words(r"^name=(\S+)$", build),
        security,
    )
    tell(
        "it may write its socket's directory alone",
        [
            mount["mountPath"]
            for mount in sync["volumeMounts"]
            if not mount.get("readOnly")
        ]
        == [f"{RUNTIME}-sync"]
        and sync["securityContext"]["readOnlyRootFilesystem"]
        and sync["securityContext"]["capabilities"] == {"drop": ["ALL"]},
        sync,
    )
    (text,) = config_map["data"].values()
    paths = re.findall(r"^(?:ca|password-file) = (\S+)/\S+$", text, re.M)
    mounted = {mount["mountPath"] for mount in sync["volumeMounts"]}
    tell(
        "its configuration names files that are mounted",
        len(paths) == 2 and set(paths) <= mounted,
        paths,
    )


def check_agreement() -> None:
    (compose,) = documents("compose.yaml")
    (nvidia,) = documents("compose.nvidia.yaml")
    daemon_set = documents("kubernetes/gpumapd.yaml")[-1]
    (client_pod,) = documents("kubernetes/client.yaml")
    pod = daemon_set["spec"]["template"]["spec"]
    agent, client = pod["containers"][0], client_pod["spec"]["containers"][0]
    services = compose["services"]
    build = HERE / "build"

    images = {
        agent["image"],
        client["image"],
        *(service["image"] for service in services.values()),
    }
    tell(
        "all name the image that build makes",
        images == words(r"^name=(\S+)$", build),
        images,
    )
    # The unit's is the list that tests run with.
    bounded = words(
        r"^CapabilityBoundingSet=(.*)$",
        HERE.parent / "systemd/gpumapd.service.in",
    )
    for what, added in (
        ("compose.yaml", services["gpumapd"]["cap_add"]),
        ("the DaemonSet", agent["securityContext"]["capabilities"]["add"]),
    ):
        tell(
            f"{what} has the capabilities of gpumapd.service",
            {f"CAP_{name}" for name in added} == bounded,
            added,
        )
    groups = [
        *services["client"]["group_add"],
        *map(str, client_pod["spec"]["securityContext"]["supplementalGroups"]),
    ]
    tell(
        "clients are in the image's group",
        set(groups) == words(r"^workers=(\d+)", build),
        groups,
    )
    tell(
        "they mount the runtime directory alone, read-only",
        services["client"]["volumes"] == [f"{RUNTIME}:{RUNTIME}:ro"]
        and client["volumeMounts"]
        == [{"name": "gpumap", "mountPath": RUNTIME, "readOnly": True}]
        and [v["hostPath"]["path"] for v in client_pod["spec"]["volumes"]]
        == [RUNTIME],
    )
    writable = {
        mount["mountPath"]: mount["name"]
        for mount in agent["volumeMounts"]
        if not mount.get("readOnly")
    }
    paths = {
        volume["name"]: volume["hostPath"]["path"]
        for volume in pod["volumes"]
        if "hostPath" in volume
    }
    tell(
        "the agent has its folders of the node at their own paths",
        {path for path, name in writable.items() if paths.get(name) == path}
        == {RUNTIME, "/dev/shm", "/var/lib/gpumap"},
        writable,
    )
    tell(
        "compose.nvidia.yaml adds to a service of compose.yaml",
        set(nvidia["services"]) <= set(services),
        list(nvidia["services"]),
    )


if __name__ == "__main__":
    check_cdi()
    check_agreement()
    check_sync()
    sys.exit(0)
