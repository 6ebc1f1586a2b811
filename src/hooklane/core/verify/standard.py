"""Is it signed as nearly everything is? Standard Webhooks, one secret, one signature: a short way that only says yes.

What it does not accept goes the long way (`check.py`), which may still accept it, and tells what is wrong if not.
"""

from __future__ import annotations

import hmac
from binascii import b2a_base64

from hooklane.core.verify.proof import Proof
from hooklane.core.verify.reading import is_number
from hooklane.core.verify.ring import Held
from hooklane.core.verify.scheme import Signed, Standard
from hooklane.core.verify.shared_secret import HmacKey
from hooklane.model.clock import Instant
from hooklane.model.message import Request


def check_standard(
    scheme: Signed, form: Standard, request: Request, held: Held, tolerance_ms: int | None, now: Instant
) -> Proof | None:
    """The proof that the only secret signed *request* in the *form* that *scheme* has, if that can be seen at once."""
    headers = request.by_name()
    id, stamp, signature = headers.get(form.id_header), headers.get(form.stamp), headers.get(form.signature)
    if id is None or stamp is None or signature is None or not signature.isascii():
        return None
    if not is_number(stamp) or not form.id.pattern.fullmatch(id):
        return None
    key = held.key
    if not isinstance(key, HmacKey):
        return None
    mac = b2a_base64(key.mac((f"{id}.{stamp}.".encode(), request.body)), newline=False)
    if not hmac.compare_digest(form.mark + mac.decode("ascii"), signature):
        return None
    at = Instant(int(stamp) * 1000)
    if abs(now - at) > (form.tolerance_ms if tolerance_ms is None else tolerance_ms):
        return None
    return Proof(scheme, held.secret, {form.id.name: id}, at)
