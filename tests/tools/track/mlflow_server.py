"""A server with as much of MLflow's REST interface as a run needs, which can also misbehave."""

import contextlib
import http.server
import json
import threading
import urllib.parse


class Server(http.server.ThreadingHTTPServer):
    """Attributes:
    does: 'answers', 'fails' (500), 'babbles' (a page), 'hangs' (until `close`), 'loses' (does it, and hangs up).
    runs: id -> {'info', 'data', 'points'}.
    """

    daemon_threads = True

    def __init__(self, port=0):
        super().__init__(('127.0.0.1', port), _Handler)
        self.does, self.runs, self.experiments, self.asked, self.over = 'answers', {}, [], [], threading.Event()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def uri(self):
        return f'http://127.0.0.1:{self.server_port}'

    def close(self):
        self.over.set()
        self.shutdown()
        self.server_close()

    def answer(self, what, given):
        """The reply to a request, and its code."""
        if what == 'experiments/get-by-name':
            if given['experiment_name'] not in self.experiments:
                return _missing
            return 200, {'experiment': {'experiment_id': '1', 'name': given['experiment_name']}}
        if what == 'experiments/create':
            self.experiments.append(given['name'])
            return 200, {'experiment_id': '1'}
        if what == 'runs/search':
            found = [run for run in self.runs.values() if run['data']['tags'][0]['value'] in given['filter']]
            return 200, {'runs': [{'info': run['info'], 'data': run['data']} for run in found]}
        if what == 'runs/create':
            ident = f'run{len(self.runs)}'
            info = {'run_id': ident, 'experiment_id': '1', 'status': 'RUNNING', 'lifecycle_stage': 'active'}
            self.runs[ident] = {'info': info, 'data': {'tags': given['tags'], 'params': []}, 'points': []}
            return 200, {'run': {'info': info, 'data': self.runs[ident]['data']}}
        run = self.runs.get(given['run_id'])
        if run is None:
            return _missing
        if what == 'runs/update':
            run['info']['status'] = given['status']
        if what == 'runs/log-batch':
            run['points'] += [(each['key'], each['step'], each['timestamp']) for each in given.get('metrics', ())]
            for kind in ('params', 'tags'):
                run['data'][kind] += given.get(kind, ())
        return 200, {'run': {'info': run['info'], 'data': run['data']}}


_missing = (404, {'error_code': 'RESOURCE_DOES_NOT_EXIST', 'message': 'not there'})


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        parts = urllib.parse.urlsplit(self.path)
        self._reply(parts.path, {name: values[0] for name, values in urllib.parse.parse_qs(parts.query).items()})

    def do_POST(self):
        self._reply(self.path, json.loads(self.rfile.read(int(self.headers['Content-Length']))))

    do_PATCH = do_POST

    def _reply(self, path, given):
        server, what = self.server, path.partition('/mlflow/')[2]
        server.asked.append(what)
        if server.does == 'hangs':
            server.over.wait(60)
            return
        code, reply = server.answer(what, given) if server.does in ('answers', 'loses') else (200, {})
        if server.does == 'loses':
            return
        text = b'<html>a page</html>' if server.does == 'babbles' else json.dumps(reply).encode()
        with contextlib.suppress(OSError):
            self.send_response(500 if server.does == 'fails' else code)
            self.send_header('Content-Length', str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    def log_message(self, *args):
        pass
