"""Which provider sent this, and what does it say? Pure: the clock, the secrets and the certificates are handed in."""

from hooklane.core.verify.check import check
from hooklane.core.verify.handshake import Handshake
from hooklane.core.verify.messages import DERIVED, Poison, fingerprint
from hooklane.core.verify.open_request import Messages, open_request, unsigned
from hooklane.core.verify.profile import Dedup, Grade, Profile
from hooklane.core.verify.proof import Proof
from hooklane.core.verify.ring import Keyring, keyring

__all__ = [
    "DERIVED",
    "Dedup",
    "Grade",
    "Handshake",
    "Keyring",
    "Messages",
    "Poison",
    "Profile",
    "Proof",
    "check",
    "fingerprint",
    "keyring",
    "open_request",
    "unsigned",
]
