"""The providers that need more than the common grammar: PayPal, Adyen, Twilio, HubSpot, Discord, Dropbox."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from urllib.parse import quote

import pytest

from hooklane.core.profiles import find_profile
from hooklane.core.verify.handshake import Handshake
from hooklane.core.verify.open_request import Messages, open_request
from hooklane.core.verify.ring import keyring
from hooklane.errors import VerificationError
from hooklane.model.clock import Instant
from hooklane.model.message import Message, Request
from hooklane.testing.build_request import Draft, build_batch, build_request
from hooklane.testing.credentials import CERTIFIED, certificate, credentials
from hooklane.testing.sign_request import sign_request

AT = Instant(1_700_000_000_000)


def refusal(request: Request, profile, keys, now: Instant = AT) -> str | None:
    try:
        open_request(request, profile, keys, now, source="s")
    except VerificationError as found:
        return found.reason
    return None


class TestPayPal:
    """The key comes from a certificate that the request names: from PayPal's hosts, or not at all."""

    profile = find_profile("paypal")
    held = credentials(profile)

    def ring(self, **options):
        return keyring(self.profile, [self.held.secret], **{**self.held.options, **options})

    def request(self, **headers: str) -> Request:
        request = build_request(self.profile, self.held, "PAYMENT.DONE", {"id": "r1"}, id="WH-1", at=AT)
        changed = {**dict(request.headers), **{name.replace("_", "-"): value for name, value in headers.items()}}
        return replace(request, headers=tuple(changed.items()))

    def test_a_certificate_that_leads_to_a_trusted_root_is_accepted(self):
        assert refusal(self.request(), self.profile, self.ring()) is None
        assert refusal(self.request(), self.profile, self.ring(roots=None)) is None

    @pytest.mark.parametrize(
        "url",
        [
            "https://evil.test/cert.pem",
            "http://api.paypal.com/cert.pem",
            "https://api.paypal.com.evil.test/cert.pem",
            "https://evilpaypal.com/cert.pem",
            "https://api.paypal.com@evil.test/cert.pem",
            "https://api.paypal.com:8443/cert.pem",
            "https://evil.test/?https://api.paypal.com/cert.pem",
            "https://evil.test#.paypal.com/cert.pem",
            "https://evil.test\\.paypal.com/cert.pem",
            "https://api.paypal.com/../../cert?x=1",
            "file:///etc/paypal.com/x",
            "https://169.254.169.254/.paypal.com/x",
            "",
        ],
    )
    def test_no_other_host_is_ever_asked_for_a_certificate(self, url):
        asked: list[str] = []
        ring = self.ring(certificates=asked.append)

        assert refusal(self.request(paypal_cert_url=url), self.profile, ring) == "malformed"
        assert asked == []

    def test_a_certificate_that_cannot_be_had_is_a_misconfiguration_and_not_a_crash(self):
        def broken(url: str) -> bytes:
            raise OSError("no route")

        for certificates in (None, broken, lambda url: None, lambda url: b""):
            assert refusal(self.request(), self.profile, self.ring(certificates=certificates)) == "misconfigured"

    def test_a_certificate_that_is_none_is_refused(self):
        assert refusal(self.request(), self.profile, self.ring(certificates=lambda url: b"x")) == "malformed"

    def test_a_certificate_of_another_authority_is_refused(self):
        *_, other_root = certificate("other.paypal.com")

        assert refusal(self.request(), self.profile, self.ring(roots=other_root)) == "mismatch"

    def test_a_certificate_for_another_name_is_refused(self):
        _, leaf, root = certificate("paypal.com.evil.test")
        ring = self.ring(certificates=lambda url: leaf, roots=root)

        assert refusal(self.request(), self.profile, ring) == "mismatch"

    def test_a_certificate_outside_its_time_is_refused(self):
        for moment in (Instant(0), Instant(2_500_000_000_000)):
            assert refusal(self.request(), self.profile, self.ring(), moment) == "stale"

    def test_another_algorithm_webhook_id_or_body_is_refused(self):
        other_id = keyring(self.profile, ["WH-OTHER"], **self.held.options)

        assert refusal(self.request(paypal_auth_algo="SHA1withRSA"), self.profile, self.ring()) == "malformed"
        assert refusal(self.request(), self.profile, other_id) == "mismatch"
        assert refusal(replace(self.request(), body=b"{}"), self.profile, self.ring()) == "mismatch"

    def test_the_pinned_url_is_the_one_that_is_looked_up(self):
        asked: list[str] = []
        _, leaf, _ = certificate(CERTIFIED["paypal"][0])

        def certificates(url: str) -> bytes:
            asked.append(url)
            return leaf

        refusal(self.request(), self.profile, self.ring(certificates=certificates, roots=None))

        assert asked == [CERTIFIED["paypal"][1]]


class TestAdyen:
    """Every item is verified: a forged one among good ones condemns the request."""

    profile = find_profile("adyen")
    held = credentials(profile)
    keys = keyring(profile, [held.secret])

    def batch(self) -> dict:
        drafts = [Draft(type="AUTHORISATION", data={"merchantReference": f"r{n}"}, id=f"psp{n}") for n in range(3)]
        return json.loads(build_batch(self.profile, self.held, drafts, at=AT).body)

    def send(self, document: object) -> Request:
        return Request.of("POST", "/", {}, json.dumps(document).encode())

    def test_all_good_items_are_accepted(self):
        opened = open_request(self.send(self.batch()), self.profile, self.keys, AT, source="s")

        assert isinstance(opened, Messages)
        assert [f"psp{n}:AUTHORISATION:true" for n in range(3)] == [item.event_id for item in opened.items]

    @pytest.mark.parametrize("position", [0, 1, 2])
    @pytest.mark.parametrize(
        "path", ["pspReference", "merchantReference", "eventCode", "success", "merchantAccountCode"]
    )
    def test_one_forged_item_anywhere_is_refused(self, position, path):
        document = self.batch()
        document["notificationItems"][position]["NotificationRequestItem"][path] = "forged"

        assert refusal(self.send(document), self.profile, self.keys) == "mismatch"

    @pytest.mark.parametrize("position", [0, 1, 2])
    def test_one_unsigned_item_anywhere_is_refused(self, position):
        document = self.batch()
        del document["notificationItems"][position]["NotificationRequestItem"]["additionalData"]

        assert refusal(self.send(document), self.profile, self.keys) == "missing_header"

    @pytest.mark.parametrize(
        "document", [{}, [], {"notificationItems": []}, {"notificationItems": {}}, {"notificationItems": [1, None]}]
    )
    def test_a_body_without_items_is_refused(self, document):
        assert refusal(self.send(document), self.profile, self.keys) in ("malformed", "missing_header")

    def test_a_signed_text_is_cut_into_fields_in_one_way_only(self):
        """The fields are joined by colons. A reference such as `order:7` holds one, so its text can be cut elsewhere:
        naive, a captured payment for it is also one for `7`, under another id."""
        captured = self.batch()
        item = captured["notificationItems"][0]["NotificationRequestItem"]
        item["merchantReference"] = "order:7"
        genuine = sign_request(self.send(captured), self.profile, self.held, AT, event_id="x")
        document = json.loads(genuine.body)
        signed = document["notificationItems"][0]["NotificationRequestItem"]
        cut_elsewhere = {
            "pspReference": f"{signed['pspReference']}:",
            "originalReference": signed["merchantAccountCode"],
            "merchantAccountCode": "order",
            "merchantReference": "7",
        }
        forged = {"notificationItems": [{"NotificationRequestItem": signed | cut_elsewhere}]}

        assert refusal(genuine, self.profile, self.keys) is None
        assert refusal(self.send(forged), self.profile, self.keys) == "malformed"

    def test_the_official_sample_of_the_documentation_verifies(self):
        """Values from Adyen's published library tests: the HMAC of colon-joined fields under a hex key."""
        item = {
            "pspReference": "7914073381342284",
            "originalReference": "",
            "merchantAccountCode": "TestMerchant",
            "merchantReference": "TestPayment-1407325143704",
            "amount": {"value": 1130, "currency": "EUR"},
            "eventCode": "AUTHORISATION",
            "success": "true",
            "additionalData": {"hmacSignature": "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="},
        }
        document = {"notificationItems": [{"NotificationRequestItem": item}]}
        key = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"

        assert refusal(self.send(document), self.profile, keyring(self.profile, [key])) is None


class TestTwilio:
    """The public URL and the sorted form are signed; a JSON body is bound to the URL by its digest."""

    profile = find_profile("twilio")

    def test_the_default_port_may_be_written_or_not(self):
        body = b"MessageSid=SM1&MessageStatus=sent"
        headers = {"content-type": "application/x-www-form-urlencoded"}
        for signed, seen in (
            ("https://a.test/t?x=1", "https://a.test:443/t?x=1"),
            ("https://a.test:443/t?x=1", "https://a.test/t?x=1"),
            ("http://a.test:80/t", "http://a.test/t"),
        ):
            request = sign_request(Request.of("POST", signed, headers, body), self.profile, ["tok"], AT, event_id="x")

            assert refusal(replace(request, url=seen), self.profile, keyring(self.profile, ["tok"])) is None
            assert refusal(replace(request, url=seen + "2"), self.profile, keyring(self.profile, ["tok"])) == "mismatch"

    def test_repeated_fields_count_once_and_in_order(self):
        request = Request.of("POST", "https://a.test/t", {}, b"b=2&a=1&a=1&a=0")
        plain = Request.of("POST", "https://a.test/t", {}, b"a=0&a=1&b=2")
        signature = dict(sign_request(plain, self.profile, ["tok"], AT, event_id="x").headers)

        assert (
            refusal(replace(request, headers=tuple(signature.items())), self.profile, keyring(self.profile, ["tok"]))
            is None
        )

    def test_a_json_body_that_does_not_match_its_digest_is_refused(self):
        body = b'{"a":1}'
        url = f"https://a.test/t?bodySHA256={hashlib.sha256(body).hexdigest()}"
        request = sign_request(Request.of("POST", url, {}, body), self.profile, ["tok"], AT, event_id="x")
        keys = keyring(self.profile, ["tok"])

        assert refusal(request, self.profile, keys) is None
        assert refusal(replace(request, body=b'{"a":2}'), self.profile, keys) == "mismatch"
        assert refusal(replace(request, url="https://a.test/t"), self.profile, keys) in ("malformed", "mismatch")

    def test_a_relative_url_without_a_registered_one_is_a_misconfiguration(self):
        request = sign_request(
            Request.of("POST", "https://a.test/t", {}, b"a=1"), self.profile, ["tok"], AT, event_id="x"
        )
        keys = keyring(self.profile, ["tok"])

        assert refusal(replace(request, url="/t"), self.profile, keys) == "misconfigured"
        assert (
            refusal(replace(request, url="/t"), self.profile, keyring(self.profile, ["tok"], url="https://a.test/t"))
            is None
        )


def test_hubspot_decodes_some_escapes_of_the_url_and_no_others():
    profile = find_profile("hubspot")
    keys = keyring(profile, ["s"])
    decoded = "https://a.test/h?u=:/?@!$'()*,;&v=%20%26"
    request = sign_request(Request.of("POST", decoded, {}, b"[]"), profile, ["s"], AT, event_id="x")
    escaped = "https://a.test/h?u=" + quote(":/?@!$'()*,;", safe="") + "&v=%20%26"

    assert refusal(replace(request, url=escaped), profile, keys) is None
    assert refusal(replace(request, url=escaped.replace("%3A", "%3a")), profile, keys) is None
    assert refusal(replace(request, url=escaped.replace("%20", " ")), profile, keys) == "mismatch"
    assert refusal(replace(request, method="PUT"), profile, keys) == "mismatch"


def test_discords_events_are_not_taken_for_its_pings():
    profile = find_profile("discord")
    held = credentials(profile)
    keys = keyring(profile, [held.secret])

    def sent(body: bytes):
        request = sign_request(Request.of("POST", "/", {}, body), profile, held, AT, event_id="x")
        return open_request(request, profile, keys, AT, source="s")

    ping, hello = sent(b'{"type":1}'), sent(b'{"type":0}')
    event = sent(b'{"version":1,"type":1,"event":{"type":"ENTITLEMENT_CREATE","timestamp":"2024-10-18T14:42:53.06"}}')

    assert isinstance(ping, Handshake)
    assert (ping.reply.status, json.loads(ping.reply.body)) == (200, {"type": 1})
    assert isinstance(hello, Handshake)
    assert hello.reply.status == 204
    assert isinstance(event, Messages)
    assert [item.type for item in event.items if isinstance(item, Message)] == ["ENTITLEMENT_CREATE"]


def test_docusign_takes_any_of_its_numbered_headers():
    profile = find_profile("docusign")
    request = build_request(profile, ["a", "b", "c"], "envelope-sent", {}, id="x", at=AT)

    for secret in ("a", "b", "c"):
        assert refusal(request, profile, keyring(profile, [secret])) is None
    assert refusal(request, profile, keyring(profile, ["d"])) == "mismatch"


def test_docusign_takes_a_signature_from_no_other_header():
    profile = find_profile("docusign")
    request = build_request(profile, ["a"], "envelope-sent", {}, id="x", at=AT)
    elsewhere = [(name.lower().replace("-1", "-x"), value) for name, value in request.headers]

    assert refusal(replace(request, headers=tuple(elsewhere)), profile, keyring(profile, ["a"])) == "missing_header"


def test_a_mailgun_event_can_be_changed_for_who_sees_it_so_it_proves_no_id_and_no_time():
    profile = find_profile("mailgun")
    request = build_request(profile, ["s"], "opened", {"recipient": "a"}, id="e1", at=AT)

    opened = open_request(request, profile, keyring(profile, ["s"]), AT, source="s")

    assert isinstance(opened, Messages)
    (message,) = opened.items
    assert isinstance(message, Message)
    assert (message.id_signed, message.event_time) == (False, None)
    assert message.delivery_id


class TestAmazon:
    """Amazon signs for anyone, so the topic must be ours, and the certificate Amazon's."""

    profile = find_profile("sns")
    held = credentials(profile)
    keys = keyring(profile, [held.secret], **held.options)

    def document(self) -> dict:
        return json.loads(build_request(self.profile, self.held, "subject", {"n": 1}, id="m1", at=AT).body)

    def refusal(self, document: dict) -> str | None:
        return refusal(Request.of("POST", "/", {}, json.dumps(document).encode()), self.profile, self.keys)

    def test_a_notification_of_our_topic_is_accepted(self):
        assert self.refusal(self.document()) is None

    @pytest.mark.parametrize("name", ["Message", "MessageId", "Subject", "Timestamp"])
    def test_no_signed_member_can_be_changed_or_left_out(self, name):
        document = self.document()

        assert self.refusal({**document, name: document[name] + "x"}) == "mismatch"
        del document[name]
        assert self.refusal(document) in ("mismatch", "malformed")

    def test_another_topic_is_refused_though_amazon_signed(self):
        other = credentials(self.profile, "attacker")
        request = build_request(self.profile, other, "subject", {}, id="m1", at=AT)

        assert refusal(request, self.profile, self.keys) == "mismatch"

    @pytest.mark.parametrize(
        "url",
        [
            "https://evil.test/x.pem",
            "https://sns.us-east-1.amazonaws.com.evil.test/x.pem",
            "http://sns.us-east-1.amazonaws.com/x.pem",
            "https://sns.evil.test/sns.us-east-1.amazonaws.com/x.pem",
            "https://bucket.s3.amazonaws.com/x.pem",
            "https://sns.us-east-1.amazonaws.com@evil.test/x.pem",
        ],
    )
    def test_no_other_host_is_ever_asked_for_a_certificate(self, url):
        asked: list[str] = []
        keys = keyring(self.profile, [self.held.secret], certificates=asked.append)
        request = Request.of("POST", "/", {}, json.dumps({**self.document(), "SigningCertURL": url}).encode())

        assert refusal(request, self.profile, keys) == "malformed"
        assert asked == []

    @pytest.mark.parametrize(
        "change", [{"SignatureVersion": "3"}, {"Signature": "!"}, {"Type": "Other"}, {"Message": 7}, {"Type": ["x"]}]
    )
    def test_odd_members_are_refused(self, change):
        assert self.refusal({**self.document(), **change}) == "malformed"


class TestMicrosoftGraph:
    """Each notification shows the client state; the first request is a question that is answered."""

    profile = find_profile("microsoft_graph")
    keys = keyring(profile, ["state"])

    def send(self, *states: object) -> Request:
        items = [{"clientState": state, "changeType": "updated", "resource": "r"} for state in states]
        return Request.of("POST", "/", {}, json.dumps({"value": items}).encode())

    def test_every_item_must_show_the_state(self):
        assert refusal(self.send("state", "state"), self.profile, self.keys) is None
        assert refusal(self.send("state", "other"), self.profile, self.keys) == "mismatch"
        assert refusal(self.send("state", None), self.profile, self.keys) == "missing_header"
        assert refusal(self.send(), self.profile, self.keys) == "malformed"

    def test_the_validation_token_comes_back_as_text(self):
        request = Request.of("POST", "/?validationToken=a%20b", {}, b"")

        shaken = open_request(request, self.profile, self.keys, AT, source="s")

        assert isinstance(shaken, Handshake)
        assert (shaken.reply.status, shaken.reply.body) == (200, b"a b")


def test_sendgrids_published_example_verifies():
    """Key, signature and payload of the tests of SendGrid's own libraries."""
    profile = find_profile("sendgrid")
    key = (
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eN"
        "Ec6wEA3F+g=="
    )
    headers = {
        "X-Twilio-Email-Event-Webhook-Signature": (
            "MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM+uOe5W0JuG+luQAbPIqHh89M15TluLtEZtM="
        ),
        "X-Twilio-Email-Event-Webhook-Timestamp": "1600112502",
    }
    body = (
        b'[{"email":"hello@world.com","event":"dropped","reason":"Bounced Address",'
        b'"sg_event_id":"ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA",'
        b'"sg_message_id":"LRzXl_NHStOGhQ4kofSm_A.filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C-9.0",'
        b'"smtp-id":"<LRzXl_NHStOGhQ4kofSm_A@ismtpd0039p1iad1.sendgrid.net>","timestamp":1600112492}]\r\n'
    )

    request = Request.of("POST", "/", headers, body)

    assert refusal(request, profile, keyring(profile, [key])) is None
    assert refusal(replace(request, body=body.rstrip()), profile, keyring(profile, [key])) == "mismatch"
