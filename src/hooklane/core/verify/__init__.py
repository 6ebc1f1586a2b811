"""Who sent this, and what does it say? Pure: the clock, the secrets and the certificates are handed in."""

from hooklane.core.verify.check import check
from hooklane.core.verify.handshake import Handshake
from hooklane.core.verify.messages import DERIVED, Poison, fingerprint
from hooklane.core.verify.profile import Budget, Dedup, Grade, Ordering, Profile, Split, When
from hooklane.core.verify.proof import Proof
from hooklane.core.verify.ring import Keyring, keyring
from hooklane.core.verify.unseal import Messages, Unsealed, unseal, unsigned

__all__ = [
    "DERIVED",
    "Budget",
    "Dedup",
    "Grade",
    "Handshake",
    "Keyring",
    "Messages",
    "Ordering",
    "Poison",
    "Profile",
    "Proof",
    "Split",
    "Unsealed",
    "When",
    "check",
    "fingerprint",
    "keyring",
    "unseal",
    "unsigned",
]
