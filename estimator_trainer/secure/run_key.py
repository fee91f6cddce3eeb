"""The key of a run, in a file that only its user can read, and the certificates that it signs.

Whoever has the key is a task of the run. A task's companion makes a certificate for itself when it starts: a new pair
of keys that exists in its memory only, with the name of the task and of the attempt.

    python -m estimator_trainer.secure.run_key FILE

makes a key for hosts that share no folder; the user copies it to each of them.
"""

import datetime
import hashlib
import os
import secrets
import stat
import sys
from collections.abc import Sequence

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import files
from estimator_trainer.secure.channel import Credentials

_MOST_BYTES = 64 * 1024
_OF_ANOTHER = '{}: the key of the run belongs to another user; every task has to run as its owner'
# A clock that is wrong must stop no run: what bounds a certificate is its attempt.
_FROM, _TO = datetime.datetime(2000, 1, 1), datetime.datetime(2100, 1, 1)


class KeyRefused(Exception):
    """The file of the key cannot be used. The text is one sentence that names it."""


def name_of_attempt(attempt: str) -> str:
    """The name of an attempt in certificates, which has a bounded length."""
    return hashlib.sha256(attempt.encode()).hexdigest()[:32]


class RunKey:
    """The key of a run.

    Args:
        private_key: signs certificates.
        certificate: its own, by which these are known.
    """

    def __init__(self, private_key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate):
        self._private_key, self._certificate = private_key, certificate

    @classmethod
    def new(cls) -> 'RunKey':
        private_key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f'estimator_trainer {secrets.token_hex(8)}', '')
        builder = _builder(name, name, private_key, is_authority=True, signs_with=private_key)
        return cls(private_key, builder.sign(private_key, hashes.SHA256()))

    @classmethod
    def from_pem(cls, pem: bytes) -> 'RunKey':
        """Raises ValueError if it is no key of a run."""
        private_key = serialization.load_pem_private_key(pem, password=None)
        certificate = x509.load_pem_x509_certificate(pem)
        if not isinstance(private_key, ec.EllipticCurvePrivateKey):
            raise ValueError('another kind of key')
        try:
            private_key.public_key().verify(
                certificate.signature, certificate.tbs_certificate_bytes, ec.ECDSA(hashes.SHA256())
            )
        except InvalidSignature:
            raise ValueError('the certificate of another key') from None
        return cls(private_key, certificate)

    def pem(self) -> bytes:
        return _pem_of(self._private_key) + self._certificate.public_bytes(serialization.Encoding.PEM)

    def certify(self, task: str, attempt: str) -> Credentials:
        """A new certificate.

        Args:
            task: such as 'worker:1'.
            attempt: by `name_of_attempt`; '': the task does not know it yet.
        """
        private_key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(
            _name(task, attempt),
            self._certificate.subject,
            private_key,
            is_authority=False,
            signs_with=self._private_key,
        )
        certificate = builder.sign(self._private_key, hashes.SHA256())
        pem = serialization.Encoding.PEM
        return Credentials(certificate.public_bytes(pem), _pem_of(private_key), self._certificate.public_bytes(pem))


def write(path: str) -> None:
    """Makes a key in a file with mode 0600. A file that is there is replaced.

    Raises:
        KeyRefused: it cannot be written, or the file system lets others read it.
    """
    try:
        with files.replacing(path) as temporary:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(descriptor, 'wb') as file:
                _refuse_public(os.fstat(descriptor), path)
                file.write(RunKey.new().pem())
                file.flush()
                os.fsync(descriptor)
    except OSError as error:
        raise KeyRefused(f'{path}: the key of the run cannot be written ({error.strerror})') from None


def read(path: str) -> RunKey:
    """The key in a file of this user or of root. A link of theirs is followed: Kubernetes mounts a Secret as links.

    Raises:
        FileNotFoundError: there is none.
        KeyRefused: the file is not this user's alone, is no key, or cannot be read.
    """
    try:
        if os.lstat(path).st_uid not in (0, os.geteuid()):
            raise KeyRefused(_OF_ANOTHER.format(path))
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, 'rb') as file:
            _refuse_public(os.fstat(descriptor), path)
            pem = file.read(_MOST_BYTES)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise KeyRefused(f'{path}: the key of the run cannot be read ({error.strerror})') from None
    try:
        return RunKey.from_pem(pem)
    except ValueError:
        raise KeyRefused(f'{path}: is no key of a run; move it away') from None


def _refuse_public(status: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise KeyRefused(f'{path}: is no file; move it away')
    user = os.geteuid()
    if status.st_uid not in (0, user):
        raise KeyRefused(_OF_ANOTHER.format(path))
    # A Secret belongs to root, and the group of the pod (fsGroup) may read it.
    if status.st_mode & (0o077 if status.st_uid == user else 0o037):
        mode = stat.S_IMODE(status.st_mode)
        raise KeyRefused(
            f'{path}: others may read the key of the run (mode {mode:04o}); make it 0600, or use another file system'
        )


def _pem_of(private_key: ec.EllipticCurvePrivateKey) -> bytes:
    return private_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _name(common: str, unit: str) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if unit:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit))
    return x509.Name(attributes)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    private_key: ec.EllipticCurvePrivateKey,
    is_authority: bool,
    signs_with: ec.EllipticCurvePrivateKey,
) -> x509.CertificateBuilder:
    """A certificate that is not signed yet, with the extensions that a strict reader wants."""
    usage = dict.fromkeys(
        ('digital_signature', 'content_commitment', 'key_encipherment', 'data_encipherment', 'key_agreement'), False
    ) | dict.fromkeys(('key_cert_sign', 'crl_sign', 'encipher_only', 'decipher_only'), False)
    usage['key_cert_sign' if is_authority else 'digital_signature'] = True
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(private_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(_TO)
        .add_extension(x509.BasicConstraints(is_authority, 0 if is_authority else None), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(private_key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signs_with.public_key()), critical=False)
    )
    if is_authority:
        return builder
    both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    return builder.add_extension(both, critical=False)


def main(argv: Sequence[str]) -> int:
    """Makes the key of the command line, and returns the exit code."""
    if len(argv) != 1:
        print('usage: python -m estimator_trainer.secure.run_key FILE', file=sys.stderr)
        return exit_codes.USAGE
    if os.path.lexists(argv[0]):
        print(f'{argv[0]}: is there already; name another file', file=sys.stderr)
        return exit_codes.USAGE
    try:
        write(argv[0])
    except KeyRefused as error:
        print(error, file=sys.stderr)
        return exit_codes.CANNOT_WRITE
    return exit_codes.OK


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
