"""Whose platforms notify."""

from __future__ import annotations

from hooklane.core.verify.handshake import EchoQuery, Greeting, IfQuery
from hooklane.core.verify.places import InBody
from hooklane.core.verify.profile import HOURS_MS, Budget, Dedup, Ordering, Profile, Split, When
from hooklane.core.verify.scheme import TokenItems, TopicSigned

SNS = Profile(
    name="sns",
    title="Amazon SNS",
    schemes=(TopicSigned(),),
    id=(InBody("MessageId"),),
    type=(InBody("Type"),),
    key=(InBody("TopicArn"),),
    event_time=(When(InBody("Timestamp")),),
    budget=Budget(timeout_ms=15_000, window_ms=HOURS_MS),
    notes="The secret is the topic's ARN. A SubscriptionConfirmation is a message: the handler decides whether to "
    "visit its SubscribeURL. MessageAttributes are not signed.",
)

MICROSOFT_GRAPH = Profile(
    name="microsoft_graph",
    title="Microsoft Graph",
    schemes=(TokenItems(items="value", token="clientState"),),
    type=(InBody("changeType"), InBody("lifecycleEvent")),
    key=(InBody("resource"),),
    account=(InBody("tenantId"),),
    split=(Split("value"),),
    handshakes=(Greeting(IfQuery("validationToken", "POST"), EchoQuery("validationToken"), signed=False),),
    budget=Budget(timeout_ms=3_000, window_ms=4 * HOURS_MS),
    dedup=Dedup.DERIVED,
    order=Ordering.REFETCH,
    hints=True,
    notes="The secret is the subscription's clientState. A notification says that a resource changed: fetch it.",
)

PROFILES = (SNS, MICROSOFT_GRAPH)
