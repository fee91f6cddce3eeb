"""What a container is given when Kubernetes starts a pod from a manifest."""

import re

import tf_config

IN_EVERY_POD = {
    'PATH': '/usr/local/bin:/usr/bin:/bin',
    'KUBERNETES_SERVICE_HOST': '10.96.0.1',
    'KUBERNETES_SERVICE_PORT': '443',
    'KUBERNETES_PORT': 'tcp://10.96.0.1:443',
}


class Pod:
    """One pod. `given`: the variables that are the controller's."""

    def __init__(self, template, given, hostname='pod'):
        self.spec, self.hostname = template['spec'], hostname
        (self.container,) = self.spec['containers']
        self.environ = {**IN_EVERY_POD, 'HOSTNAME': hostname, **given}
        for variable in self.container['env']:
            self.environ[variable['name']] = _expanded(variable['value'], self.environ)
        self.argv = [_expanded(word, self.environ) for word in self.container['command'] + self.container['args']]

    def cluster(self) -> tf_config.Parsed:
        """What the trainer makes of it."""
        flags = dict(re.findall(r'^--(cluster_from|roles|base_port)=(.*)$', '\n'.join(self.argv), re.MULTILINE))
        port = flags.pop('base_port', None)
        return tf_config.resolve(self.environ, tf_config.read_layout(base_port=port and int(port), **flags))


def pods(main) -> list:
    """The pods of a Job or JobSet, in the order of their ranks."""
    name, spec = main['metadata']['name'], main['spec']
    jobs = (
        [(name, spec)]
        if main['kind'] == 'Job'
        else [
            (f'{name}-{job["name"]}-{number}', job['template']['spec'])
            for job in spec['replicatedJobs']
            for number in range(job['replicas'])
        ]
    )
    return [
        Pod(job['template'], {'JOB_COMPLETION_INDEX': str(index)}, f'{prefix}-{index}')
        for prefix, job in jobs
        for index in range(job['completions'])
    ]


def _expanded(text, environ):
    """$(NAME) is the variable, where there is one; $$ is $."""
    return re.sub(
        r'\$\$|\$\(([A-Za-z_][A-Za-z0-9_]*)\)',
        lambda found: '$' if found[0] == '$$' else environ.get(found[1], found[0]),
        text,
    )
