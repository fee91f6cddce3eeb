"""Google Cloud Storage's XML API, as obstore speaks it, in memory and with TLS.

    python -m tests.storage.google_xml_server FOLDER

FOLDER holds the certificate that `certificates.make` has written. It prints its port. Like Google's own server

- it names the version of an object by its generation, which a list does not tell to obstore,
- it gives an object that was written in parts an ETag that is no checksum, and another one in the answer to the upload.
"""

import pathlib
import sys
import time
import urllib.parse
from email.utils import formatdate
from xml.sax.saxutils import escape

from tests.storage import google_objects

CONDITION, GENERATION = 'x-goog-if-generation-match', 'x-goog-generation'


class Handler(google_objects.Handler):
    def do_GET(self):
        key, query = self._request()
        if 'list-type' in query:
            return self._list(key, query)
        found = self.objects.get(key)
        if found is None:
            return self._reply(404, '<Error><Code>NoSuchKey</Code><Message>It is not there.</Message></Error>')
        self.reply_content(found, _named(found))

    do_HEAD = do_GET

    def do_PUT(self):
        key, query = self._request()
        body = self.body()
        if 'uploadId' in query:
            self.uploads[query['uploadId']][int(query['partNumber'])] = body
            return self._reply(200, headers={'ETag': google_objects.md5(body)})
        if '/' not in key:  # a bucket: all are there
            return self._reply(200)
        content = self.objects.put(key, body, self.headers.get(CONDITION))
        if content is None:
            return self._reply(412, '<Error><Code>PreconditionFailed</Code><Message>no</Message></Error>')
        self._reply(200, headers=_named(content))

    def do_POST(self):
        key, query = self._request()
        self.body()
        if 'uploads' in query:
            upload = str(time.time_ns())
            self.uploads[upload] = {}
            return self._reply(
                200, f'<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>'
            )
        parts = self.uploads.pop(query['uploadId'])
        data = b''.join(parts[number] for number in sorted(parts))
        self.objects.put(key, data, e_tag='"-{}="'.format)
        tag = f'<ETag>"{len(parts)}-parts"</ETag>'
        self._reply(200, f'<CompleteMultipartUploadResult>{tag}</CompleteMultipartUploadResult>')

    def do_DELETE(self):
        key, query = self._request()
        if 'uploadId' in query:
            self.uploads.pop(query['uploadId'], None)
            return self._reply(204)
        self._reply(204 if self.objects.delete(key) else 404)

    def _request(self):
        """'bucket/name', and the query."""
        url = urllib.parse.urlsplit(self.path)
        return urllib.parse.unquote(url.path).strip('/'), dict(urllib.parse.parse_qsl(url.query, True))

    def _list(self, bucket, query):
        entries = ''.join(
            f'<Contents><Key>{escape(key.removeprefix(f"{bucket}/"))}</Key><Generation>{content.generation}</Generation>'
            f'<LastModified>{time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())}</LastModified>'
            f'<ETag>{escape(content.e_tag)}</ETag><Size>{len(content.data)}</Size></Contents>'
            for key, content in self.objects.below(f'{bucket}/{query.get("prefix", "")}')
        )
        self._reply(200, f'<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>')

    def _reply(self, status, body='', headers=()):
        self.reply(status, body.encode(), {'Last-Modified': formatdate(usegmt=True), **dict(headers)})


def _named(content):
    """The headers that name a version of an object."""
    when = formatdate(usegmt=True)
    return {'Last-Modified': when, 'ETag': content.e_tag, GENERATION: content.generation}


if __name__ == '__main__':
    google_objects.serve(Handler, pathlib.Path(sys.argv[1]))
