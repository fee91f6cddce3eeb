"""Judges Kubernetes manifests without a cluster: `python check_manifests.py FILE ...`. Exit code 1 and a line for each
finding.

Plain Kubernetes objects go through strict schemas: a field that is not there is a finding. A JobSet or TFJob goes
through the models of its own client library and back, which drops what they do not know; and what is inside it, Jobs
and pod templates, through the schemas.
"""

import sys

import kubernetes_validate
import yaml

VERSIONS = ('1.29', '1.33', '1.36')  # the oldest that has backoffLimitPerIndex by default, and newer ones


def findings(document):
    kind = document['kind']
    if kind == 'JobSet':
        from kubeflow_trainer_api import models

        yield from _differences(kind, document, models.JobsetV1alpha2JobSet.from_dict(document).to_dict())
        for job in document['spec']['replicatedJobs']:
            yield from _schema({'apiVersion': 'batch/v1', 'kind': 'Job', 'metadata': {'name': 'x'}, **job['template']})
    elif kind == 'TFJob':
        yield from _differences(kind, document, _through_training_operator(document))
        for replica in document['spec']['tfReplicaSpecs'].values():
            yield from _schema(
                {'apiVersion': 'v1', 'kind': 'PodTemplate', 'metadata': {'name': 'x'}, 'template': replica['template']}
            )
    else:
        yield from _schema(document)


def _schema(document):
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            where = '.'.join(map(str, error.path))
            yield f'{document["kind"]} of Kubernetes {version}: {where}: {error.message[:300]}'


def _through_training_operator(document):
    import json
    from types import SimpleNamespace

    import kubernetes.client
    from kubeflow.training import models
    from kubernetes.client import ApiClient

    for name in dir(models):
        if name.startswith('KubeflowOrg'):
            setattr(kubernetes.client.models, name, getattr(models, name))
    client = ApiClient()
    body = SimpleNamespace(data=json.dumps(document))
    return client.sanitize_for_serialization(client.deserialize(body, 'KubeflowOrgV1TFJob'))


def _differences(where, given, came_back):
    if isinstance(given, dict) and isinstance(came_back, dict):
        for key in given.keys() | came_back.keys():
            if key not in came_back:
                yield f'{where}.{key}: is not known'
            elif key not in given:
                if came_back[key] is not None:
                    yield f'{where}.{key}: was added: {came_back[key]!r}'
            else:
                yield from _differences(f'{where}.{key}', given[key], came_back[key])
    elif isinstance(given, list) and isinstance(came_back, list) and len(given) == len(came_back):
        for number, pair in enumerate(zip(given, came_back)):
            yield from _differences(f'{where}[{number}]', *pair)
    elif given != came_back:
        yield f'{where}: {given!r} became {came_back!r}'


def main(paths):
    found = 0
    for path in paths:
        with open(path, encoding='utf-8') as file:
            for document in yaml.safe_load_all(file):
                for finding in findings(document):
                    found += 1
                    print(f'{path}: {finding}')
                print(f'{path}: {document["kind"]} was judged')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
