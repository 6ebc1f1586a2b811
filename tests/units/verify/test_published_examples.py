"""Examples that providers print in their own documentation and SDKs, beside those of the data file."""

from __future__ import annotations

import hashlib
import hmac
import json
from urllib.parse import urlencode

import pytest

from hooklane.core.profiles import find_profile
from hooklane.core.verify.messages import DERIVED, fingerprint
from hooklane.core.verify.open_request import Messages, open_request
from hooklane.core.verify.ring import keyring
from hooklane.errors import VerificationError
from hooklane.model.clock import Instant
from hooklane.model.message import Message, Request
from hooklane.testing.sign_request import sign_request

EXAMPLES = {
    # docs.svix.com, "Verifying webhooks manually": its secret has 18 bytes, fewer than the standard asks for
    "svix": (
        "whsec_plJ3nmyCDGBKInavdOK15jsl",
        {
            "svix-id": "msg_loFOjxBNrRLzqYUf",
            "svix-timestamp": "1731705121",
            "svix-signature": "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
        },
        '{"event_type":"ping","data":{"success":true}}',
        1731705121,
    ),
    # the tests of Mux's SDK for Node
    "mux": (
        "SuperSecret123",
        {"mux-signature": "t=1565125718,v1=854ece4c22acef7c66b57d4e504153bc512595e8e9c772ece2a68150548c19a7"},
        '{"test":"body"}',
        1565125718,
    ),
    # a notification with its key, printed in the provider's developer forum ("HMAC SHA-512 hash not matching")
    "authorize_net": (
        "2679A5D5785C9B26CF921E1754765CDDB265C9C88400786923E5343B315954FA"
        "FB4B7BF608818F6A21766741E8637DC206F286C725908C777ED4127D8562163D",
        {
            "x-anet-signature": "sha512=9607C69D2734514554CE13D923D19939563F2FD6567D239F49F0DF0D08865632"
            "A0FB98061B4620CC52C47BB8BF6E2B69A15A67E4C98E81D7D65111076C515C6A"
        },
        '{"notificationId":"f813b98f-3552-4eeb-ba40-acb4704eeba3","eventType":"net.authorize.payment.authcapture.created",'
        '"eventDate":"2017-03-08T17:35:37.155999Z","webhookId":"63d6fea2-aa13-4b1d-a204-f5fbc15942b7","payload":'
        '{"responseCode":1,"authCode":"8VTPDC","avsResponse":"Y","authAmount":10.00,"entityName":"transaction",'
        '"id":"60019392075"}}',
        1489000000,
    ),
    # the worked example of Adyen's documentation and SDKs
    "adyen": (
        "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056",
        {"content-type": "application/json"},
        '{"live":"false","notificationItems":[{"NotificationRequestItem":{"additionalData":{"hmacSignature":'
        '"coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="},"amount":{"value":1130,"currency":"EUR"},"pspReference":'
        '"7914073381342284","eventCode":"AUTHORISATION","eventDate":"2019-05-06T17:15:34.121+02:00",'
        '"merchantAccountCode":"TestMerchant","merchantReference":"TestPayment-1407325143704","paymentMethod":"visa",'
        '"success":"true"}}]}',
        1700000000,
    ),
    # the tests of Sanity's SDK: its signatures do not grow old
    "sanity": (
        "test",
        {"sanity-webhook-signature": "t=1633519811129,v1=tLa470fx7qkLLEcMOcEUFuBbRSkGujyskxrNXcoh0N0"},
        '{"_id":"resume"}',
        1700000000,
    ),
    # the tests of Twilio's SDK for Python
    "twilio": (
        "12345",
        {"x-twilio-signature": "RSOYDt4T1cUTdK1PDd93/VVr8B8=", "content-type": "application/x-www-form-urlencoded"},
        "CallSid=CA1234567890ABCDE&Digits=1234&To=%2B18005551212&Caller=%2B14158675309&From=%2B14158675309",
        1700000000,
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_provider_itself_verifies_and_a_changed_one_does_not(name):
    secret, headers, body, seconds = EXAMPLES[name]
    profile = find_profile(name)
    keys, now = keyring(profile, [secret]), Instant(seconds * 1000)
    url = "https://mycompany.com/myapp.php?foo=1&bar=2"

    assert isinstance(
        open_request(Request.of("POST", url, headers, body.encode()), profile, keys, now, source="s"), Messages
    )
    with pytest.raises(VerificationError):
        open_request(
            Request.of("POST", url, headers, body.replace("1", "2", 1).encode() + b"="), profile, keys, now, source="s"
        )


@pytest.mark.parametrize("mine", ["new", "old"])
def test_persona_sends_a_whole_set_for_each_secret_while_one_is_rotated(mine):
    body, stamp = b'{"data":{"id":"evt_1"}}', "1700000000"
    sets = [
        f"t={stamp},v1={hmac.digest(each, f'{stamp}.'.encode() + body, hashlib.sha256).hex()}"
        for each in (b"new", b"old")
    ]
    profile = find_profile("persona")

    def verify(header: str) -> object:
        request = Request.of("POST", "/persona", {"persona-signature": header}, body)
        return open_request(request, profile, keyring(profile, [mine]), Instant(1_700_000_000_000), source="s")

    assert isinstance(verify(" ".join(sets)), Messages)
    with pytest.raises(VerificationError, match="more than one timestamp"):
        verify(f"{sets[0]} {sets[1].replace(stamp, '1700000001')}")


def test_supabase_shows_its_secrets_with_the_version_of_the_signature_before_them():
    secret, headers, body, seconds = EXAMPLES["svix"]
    standard = {name.replace("svix", "webhook"): value for name, value in headers.items()}
    profile = find_profile("supabase")
    request = Request.of("POST", "/supabase", standard, body.encode())

    assert isinstance(
        open_request(request, profile, keyring(profile, [f"v1,{secret}"]), Instant(seconds * 1000), source="s"),
        Messages,
    )


def read(name: str, body: bytes) -> list[Message]:
    """The messages in *body*, signed as its provider signs."""
    profile, secret, now = find_profile(name), "a secret of theirs", Instant(1_700_000_000_000)
    request = sign_request(Request.of("POST", f"/{name}", {}, body), profile, [secret], now, event_id="evt")
    opened = open_request(request, profile, keyring(profile, [secret]), now, source="s")
    assert isinstance(opened, Messages)
    return [item for item in opened.items if isinstance(item, Message)]


def test_quickbooks_sends_a_list_of_cloud_events_each_with_its_id_type_entity_and_company():
    # developer.intuit.com, "Webhooks": the format that replaced the older one in 2026; an entity's number is its
    # own only among those of its kind.
    entity = (
        b'{"specversion":"1.0","id":"%b","source":"intuit.dsnBgbseACLLRZNxo2dfc4evmEJdxde58xeeYcZliOU=",'
        b'"type":"qbo.%b.v1","datacontenttype":"application/json","time":"2025-09-10T21:31:25.179851517Z",'
        b'"intuitentityid":"1234","intuitaccountid":"310687","data":{}}'
    )
    first, second = entity % (b"88cd52aa", b"account.created"), entity % (b"99de63bb", b"invoice.updated")

    told = read("quickbooks", b"[%b,%b]" % (first, second))

    assert [(each.event_id, each.type, each.key, each.account, each.body) for each in told] == [
        ("88cd52aa", "qbo.account.created.v1", "account:1234", "310687", first),
        ("99de63bb", "qbo.invoice.updated.v1", "invoice:1234", "310687", second),
    ]
    assert {each.event_time for each in told} == {1_757_539_885_179}


def test_quickbooks_notifications_in_its_older_format_are_told_apart_by_their_digest():
    one, two = (b'{"realmId":"310687","dataChangeEvent":{"entities":[{"id":"%d"}]}}' % n for n in (1, 2))
    body = b'{"eventNotifications":[%b,%b]}' % (one, two)

    told = read("quickbooks", body)

    assert [(each.type, each.key, each.account, each.body) for each in told] == [
        ("unknown", "310687", "310687", one),
        ("unknown", "310687", "310687", two),
    ]
    assert [each.event_id[: len(DERIVED)] for each in told] == [DERIVED] * 2
    assert told[0].event_id != told[1].event_id


def test_a_thin_event_of_stripe_has_a_key_and_a_time_too():
    # docs.stripe.com, "Thin events": its time is a text, and it names the object instead of holding it.
    (thin,) = read(
        "stripe",
        b'{"id":"evt_test_65R9","object":"v2.core.event","type":"v1.billing.meter.error_report_triggered",'
        b'"livemode":false,"created":"2024-09-17T06:20:52.246Z","context":"acct_1","related_object":'
        b'{"id":"mtr_test_61R","type":"billing.meter","url":"/v1/billing/meters/mtr_test_61R"}}',
    )

    assert (thin.event_id, thin.key, thin.event_time) == ("evt_test_65R9", "mtr_test_61R", 1_726_554_052_246)


def test_a_retry_of_heroku_is_the_same_event_though_it_names_its_attempt():
    # devcenter.heroku.com, "Webhook Events": what an attempt is called is in the body, and so in what is signed.
    body = (
        b'{"action":"create","created_at":"2016-10-26T22:48:45Z","id":"7846bee9","data":{"id":"25bfb830"},'
        b'"resource":"addon-attachment","updated_at":"2016-10-26T22:48:45Z","webhook_metadata":{"attempt":{"id":"%b"},'
        b'"delivery":{"id":"%b"},"event":{"id":"7846bee9","include":"api:addon-attachment"},"webhook":{"id":"%b"}}}'
    )

    (first,) = read("heroku", body % (b"8a44f820", b"d244009a", b"b54e6a7e"))
    (again,) = read("heroku", body % (b"9b55f931", b"d244009a", b"b54e6a7e"))
    (of_another_webhook,) = read("heroku", body % (b"0c660a42", b"e355110b", b"c65f7b8f"))

    assert first.event_id == again.event_id == of_another_webhook.event_id == "7846bee9"
    assert first.fingerprint == again.fingerprint == of_another_webhook.fingerprint
    assert (first.delivery_id, of_another_webhook.delivery_id) == ("d244009a", "e355110b")


def test_an_event_of_chargebee_is_the_same_whatever_it_says_of_its_own_deliveries():
    # apidocs.chargebee.com, "Event object": it holds how each of its webhooks stands.
    profile = find_profile("chargebee")
    body = (
        b'{"id":"ev_1","event_type":"payment_failed","content":{},'
        b'"webhook_status":"%b","webhooks":[{"id":"whv2_1","webhook_status":"%b"}]}'
    )

    prints = {fingerprint(profile, body % (status, status)) for status in (b"scheduled", b"re_scheduled")}

    assert len(prints) == 1


def test_what_is_clicked_in_slack_belongs_to_its_workspace_and_channel_as_events_and_commands_do():
    # docs.slack.dev: an event, a command (a form) and a click (JSON in a form) each name them elsewhere.
    event = {
        "type": "event_callback",
        "event_id": "Ev1",
        "team_id": "T1",
        "event": {"type": "message", "channel": "C1"},
    }
    command = {"command": "/weather", "trigger_id": "1.2.a", "team_id": "T1", "channel_id": "C1"}
    click = {"type": "block_actions", "trigger_id": "1.2.b", "team": {"id": "T1"}, "channel": {"id": "C1"}}
    bodies = (json.dumps(event), urlencode(command), urlencode({"payload": json.dumps(click)}))

    told = [each for body in bodies for each in read("slack", body.encode())]

    assert [(each.event_id, each.type, each.account, each.key) for each in told] == [
        ("Ev1", "message", "T1", "C1"),
        ("1.2.a", "/weather", "T1", "C1"),
        ("1.2.b", "block_actions", "T1", "C1"),
    ]
