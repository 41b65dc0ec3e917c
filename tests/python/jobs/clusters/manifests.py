"""Holds the manifests of a folder to the schemas of Kubernetes, and to what a job of Ringwood needs. JobSet is no part
of Kubernetes: the jobs in it are. argv: FOLDER. Needs the package kubernetes-validate."""

import pathlib
import sys

import kubernetes_validate
import yaml

RELEASE = "1.31"


def jobs_of(document):
    """(name, spec) of each Job that it is or makes."""
    if document["kind"] == "Job":
        yield document["metadata"]["name"], document["spec"]
    if document["kind"] == "JobSet":
        for made in document["spec"]["replicatedJobs"]:
            yield made["name"], made["template"]["spec"]


def check_pods(what, template):
    spec = template["spec"]
    assert template["metadata"]["labels"]["app.kubernetes.io/name"] == "ringwood", f"{what}: the network policy's label"
    assert spec["terminationGracePeriodSeconds"] >= 60, f"{what}: time for a checkpoint"
    assert spec["securityContext"]["runAsNonRoot"], what
    (container,) = spec["containers"]
    variables = {variable["name"]: variable for variable in container["env"]}
    assert "value" not in variables["RINGWOOD_TOKEN"], f"{what}: a secret is not written down"
    return container, variables


def check_ranks(what, spec):
    container, variables = check_pods(what, spec["template"])
    assert spec["completionMode"] == "Indexed"
    assert variables["WORLD_SIZE"]["value"] == str(spec["completions"]) == str(spec["parallelism"]), what
    assert variables["RANK"]["valueFrom"]["fieldRef"]["fieldPath"].endswith("job-completion-index']"), what
    assert variables["RINGWOOD_RESUME"]["value"] == "auto", what
    return variables["RINGWOOD_COORDINATOR"]["value"]


def check_server(what, template):
    container, _ = check_pods(what, template)
    assert container["args"][0] == "server" and any(word.startswith("--store=") for word in container["args"]), what
    assert "readinessProbe" in container, what
    return {port["name"]: port["containerPort"] for port in container["ports"]}["control"]


def main(folder):
    documents = [(path, document) for path in sorted(pathlib.Path(folder).glob("*.yaml"))
                 for document in yaml.safe_load_all(path.read_text())]
    addresses, ports = [], []
    for path, document in documents:
        what = f"{path.name}: {document['kind']}"
        if document["kind"] == "Kustomization":
            assert all((path.parent / name).exists() for name in document["resources"])
            continue
        if document["kind"] != "JobSet":
            kubernetes_validate.validate(document, RELEASE, strict=True)
        if document["kind"] == "StatefulSet":
            template = document["spec"]["template"]
            assert "livenessProbe" in template["spec"]["containers"][0]
            ports.append(check_server(what, template))
        if document["kind"] == "JobSet":
            (rule,) = document["spec"]["failurePolicy"]["rules"]
            assert rule["action"] == "FailJobSet" and rule["onJobFailureReasons"] == ["PodFailurePolicy"], what
        for name, spec in jobs_of(document):
            first = spec["podFailurePolicy"]["rules"][0]
            assert first["action"] == "FailJob" and 78 in first["onExitCodes"]["values"], what
            (container,) = spec["template"]["spec"]["containers"]
            assert first["onExitCodes"]["containerName"] == container["name"], what
            job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
            kubernetes_validate.validate(job, RELEASE, strict=True)
            if spec["template"]["metadata"]["labels"]["app.kubernetes.io/component"] == "server":
                ports.append(check_server(what, spec["template"]))
            else:
                addresses.append(check_ranks(what, spec))
    assert len(addresses) == len(ports) == 2, (addresses, ports)
    assert [address.split(":")[1] for address in addresses] == [str(port) for port in ports]
    print(f"{len(documents)} manifests are sound")


if __name__ == "__main__":
    main(sys.argv[1])
