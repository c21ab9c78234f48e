"""Certificates of an authority of a test's own, in files."""

from pathlib import Path

import trustme


class PemFiles:
    """The files of one holder, made by an authority of its own or by another one's."""

    def __init__(self, folder: Path, *names: str, authority: trustme.CA | None = None) -> None:
        """The certificate is for `names`, which are addresses or names of hosts."""
        folder.mkdir(parents=True, exist_ok=True)
        self.authority = authority or trustme.CA()
        self.certificate, self.key, self.ca = folder / "node.pem", folder / "node-key.pem", folder / "ca.pem"
        self.authority.cert_pem.write_to_path(str(self.ca))
        self.renew(*names)

    def renew(self, *names: str) -> None:
        """Write another certificate and its key."""
        made = self.authority.issue_cert(*names)
        made.cert_chain_pems[0].write_to_path(str(self.certificate))
        made.private_key_pem.write_to_path(str(self.key))
        self.key.chmod(0o600)
