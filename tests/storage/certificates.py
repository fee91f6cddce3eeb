"""A certificate for a server of this machine, and the authority that a client has to trust for it."""

import datetime
import ipaddress


def make(folder, names=('localhost',)) -> None:
    """Writes authority.pem, server.pem and server.key into the folder: for 127.0.0.1 and these names, for a day."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    now = datetime.datetime.now(datetime.timezone.utc)
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority, server = (
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in ('tests', 'server')
    )

    def certificate(subject, key, *extensions):
        builder = (
            x509.CertificateBuilder(issuer_name=authority, subject_name=subject, public_key=key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=2))  # the clock of a test may be off
            .not_valid_after(now + datetime.timedelta(days=1))
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    of_server = [*map(x509.DNSName, names), x509.IPAddress(ipaddress.ip_address('127.0.0.1'))]
    (folder / 'authority.pem').write_bytes(
        certificate(authority, authority_key, x509.BasicConstraints(ca=True, path_length=0))
    )
    (folder / 'server.pem').write_bytes(certificate(server, server_key, x509.SubjectAlternativeName(of_server)))
    (folder / 'server.key').write_bytes(
        server_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
