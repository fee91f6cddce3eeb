"""The three kinds of errors of a store, and their messages. The errors of obstore are turned into these."""

import contextlib
import html
import re
from collections.abc import Iterator

_PERMANENT = re.compile(  # what servers say that obstore has no class for
    r'NoSuchBucket|BucketNotFound|ContainerNotFound|NotImplemented|InvalidAccessKey|QuotaExceeded|StorageFull'
    r'|InsufficientStorage|status code: (?:401|403|405|507)|redirect without LOCATION|with invalid path'
    # Not ExpiredToken: who renews the credentials does so later.
    r'|<Code>(?:PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraintException|InvalidBucketName'
    r'|InvalidToken|InvalidRequest|MethodNotAllowed)</Code>'
)
_BAD_NAME = re.compile(r'with invalid path: .*?\bPath "(.*?)"(?: contained|: Encountered)', re.DOTALL)
# What boto3 says if whoever gives out credentials (STS, the machine's metadata) does not answer. obstore takes all
# errors of boto3 for a refusal of the store. A program of the user's that gives none out is not meant.
_LATE = re.compile(
    r'credential provider: (?:\w*(?:Connection|ConnectTimeout|ReadTimeout|ConnectionClosed|HTTPClient|SSL|Retrieval)'
    r'Error(?!.*custom-process)|RuntimeError: Credentials were refreshed'
    r'|\w+: An error occurred \((?:Throttling\w*|TooManyRequests\w*|RequestLimitExceeded|RequestTimeout|SlowDown'
    r'|ServiceUnavailable|Internal(?:Failure|Error)|IDPCommunicationError)\))'
)


class StoreError(Exception):
    """The store has not done what it was asked for. The text is one line without credentials.

    Attributes:
        reason: what was said of it, without the URL and the name of the object; '' where nothing was.
    """

    def __init__(self, text: str, reason: str = ''):
        super().__init__(text)
        self.reason = reason


class StoreUnavailable(StoreError):
    """It may work later: no answer, a server error, too many requests."""


class CredentialsLate(StoreUnavailable):
    """Whoever gives out the credentials does not answer now."""


class StoreRefused(StoreError):
    """It will not work as it is: no permission, no bucket, no room."""


class Conflict(StoreError):
    """The object is not of the version that was to be replaced: somebody else has written it."""


class ObjectChanged(FileNotFoundError):
    """The object, as it was opened, is not there any more."""


@contextlib.contextmanager
def translated(what: str, passed: tuple) -> Iterator[None]:
    """A context that turns obstore's errors into ours, but for those in `passed`. `what` begins the text."""
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except (BaseError, OSError) as error:
        why = reason(error)
        text = f'{what}: {why}'
        if _LATE.search(str(error).partition('\n')[0]):
            raise CredentialsLate(text, why) from None
        denied = isinstance(error, (PermissionDeniedError, UnauthenticatedError, PermissionError))
        if denied or _PERMANENT.search(str(error)):
            raise StoreRefused(text, why) from None
        if isinstance(error, passed):
            raise
        raise StoreUnavailable(text, why) from None


def reason(error: BaseException) -> str:
    """One line: what the server says if it says something, without addresses and keys."""
    text = str(error)
    bad = _BAD_NAME.search(text)
    if bad:  # obstore ends the list there
        return (
            f'the name of the object {bad[1]!r} has an empty part, . or .., or a control character; rename or remove it'
        )
    if 'redirect without LOCATION' in text:
        return 'the bucket is in another region; set AWS_REGION to its region'
    code, message = (re.search(rf'<{tag}>(.*?)</{tag}>', text, re.DOTALL) for tag in ('Code', 'Message'))
    if code:
        return f'{code[1]}: {html.unescape(message[1]).strip().rstrip(".")}' if message and message[1] else code[1]
    status = re.search(r'status code: ([^:\n]+)', text)
    if status:
        return f'the server answers {status[1].strip()}'
    line = (text.strip().splitlines() or [type(error).__name__])[0]
    line = re.sub(r'^Generic \w+ error: |\bError performing \w+ \S+ in [^-]* - ', '', line)
    return re.sub(r'\?\S+', '', line)[:300]
