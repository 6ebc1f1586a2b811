"""Which number does an error have, and what is one to do about it? The command line prints it, the API answers it.

A number is never given to something else, and never taken away: people search for it.
"""

from __future__ import annotations

from collections.abc import Mapping

NUMBERS: Mapping[str, tuple[str, str]] = {
    # How a command ends, where nothing below says more: the names of `cli.exits.Exit`.
    "FAILED": ("HL001", "Do what the message says. With `-v` the command also shows each call that it makes."),
    "USAGE": ("HL002", "Correct the option or argument that the message names; `--help` lists all of them."),
    "NOT_FOUND": ("HL003", "Check the id, name or path. The list of the same command (`ls`) shows what is there."),
    "REFUSED": ("HL004", "Nothing was done. Look at the present state, then decide again."),
    "UNREACHABLE": ("HL005", "Check `--server`, or `HOOKLANE_SERVER`, and that the server runs: `hooklane doctor`."),
    "PARTLY": ("HL006", "The lines above name what failed. Repeat the command for those alone."),
    "UNHEALTHY": ("HL007", "Each finding has an arrow with what to do. Do that, and run the command again."),
    # What a program is told by an exception: the names of `hooklane.errors`.
    "HooklaneError": ("HL010", "Read the message: it names the thing, what was expected and what was found."),
    "UsageError": ("HL011", "Change the call as the message says; it cannot succeed as it is."),
    "ConfigError": ("HL012", "Correct each setting that is named. `hooklane config show --origin` says where it is."),
    "MissingExtra": ("HL013", "Run the `pip install` command of the message."),
    "Broken": (
        "HL014",
        "Start the process again; no event is lost. Report the line and the traceback above it: a bug.",
    ),
    "StoreError": ("HL020", "Repeat the call with the same id or `Idempotency-Key`: it counts once either way."),
    "StoreUnconfirmed": ("HL021", "Repeat the call with the same id or `Idempotency-Key`: it counts once either way."),
    "StoreUnavailable": ("HL022", "Check that the database runs and can be reached; then repeat the call."),
    "StoreBusy": ("HL023", "Find the transaction that is open for so long, and end it; then repeat the call."),
    "Overloaded": ("HL024", "Repeat the call in a moment, and publish with fewer calls at once or in batches."),
    "Overtaken": ("HL025", "Look at the event again: another call has replayed or skipped it."),
    "SearchTooLong": ("HL026", "Narrow the search: a shorter time, a key, or an endpoint."),
    "StoreFull": ("HL027", "Free space, or raise the quota; then repeat the call. Events that are stored are safe."),
    "DiskSpaceLow": ("HL028", "Free space on the disk of the database, or lower `disk_free_min`."),
    "StoreRefused": (
        "HL029",
        "Do what the message says: another file, a newer hooklane, `hooklane migrate`, a backup.",
    ),
    "SecretsSealed": ("HL030", "Set `HOOKLANE_SEAL_KEY` to the keys that sealed the secrets, the old ones as well."),
    "StoreGone": ("HL031", "Put the file back, or restore a backup; then start the server again."),
    "CommitRefused": ("HL032", "Correct what the transaction wrote: a constraint of the database refused its commit."),
    "LeaseLost": ("HL033", "Nothing: another worker does this work now. If it is frequent, the host is too slow."),
    "InvalidEvent": ("HL034", "Correct the event as the message says."),
    "VerificationError": (
        "HL035",
        "Save the request and ask `hooklane verify`: it says why the signature does not fit.",
    ),
    "TransactionMisused": ("HL036", "Take `commit` and `rollback` out of the handler; its transaction ends by itself."),
    "TransactionAborted": ("HL037", "Let the error of the database leave the handler, or use a savepoint."),
    "Retry": ("HL038", "Nothing: the handler asked for another attempt."),
    "Reject": ("HL039", "Look at the dead letter: the handler has given this event up."),
    "ProofUnavailable": ("HL040", "Look at why your `certificates` function raises; the provider sends it again."),
    # What a call of the API is answered: the codes of `server.problem.CODES`.
    "invalid_json": ("HL101", "Send valid JSON in UTF-8, without NaN or Infinity."),
    "duplicate_key": ("HL102", "Let each key of an object occur once."),
    "invalid_cursor": ("HL103", "Pass `next` of the same list on, unchanged, with the same filter."),
    "bad_request": ("HL104", "Send a well-formed HTTP/1.1 request."),
    "unauthorized": ("HL105", "Send a key that is valid: `Authorization: Bearer …`, or `HOOKLANE_API_KEY`."),
    "login_required": ("HL106", "Log in to the application in which the dashboard is mounted."),
    "forbidden": ("HL107", "Use a key with the scope that the message names (`hooklane keys ls`)."),
    "cross_site": ("HL108", "Call the API from a program, or from a page of the same site."),
    "for_all_tenants": ("HL109", "Use a key that belongs to no tenant, such as `HOOKLANE_API_KEY`."),
    "not_found": ("HL110", "Check the id and the path; what another tenant has is not found either."),
    "unknown_tenant": ("HL111", "Check the header `Hooklane-Tenant`; `hooklane tenants ls` lists all of them."),
    "method_not_allowed": ("HL112", "Use a method of the header `Allow`."),
    "request_timeout": ("HL113", "Send headers and body without pauses."),
    "changed": ("HL114", "Read it again, then repeat the call."),
    "not_dead": ("HL115", "Nothing: it was replayed or skipped already. The event's page says by whom."),
    "in_progress": ("HL116", "Wait until the handler has ended, then repeat the call."),
    "payload_purged": ("HL117", "Nothing can be replayed without a payload; keep payloads longer (`retention`)."),
    "plan_changed": ("HL118", "Make a new plan, look at it, and run that one."),
    "plan_expired": ("HL119", "Make a new plan, and run it within five minutes."),
    "tenant_exists": ("HL120", "Choose another id, or change the tenant that has it."),
    "tenant_suspended": ("HL121", "Resume the tenant first: `hooklane tenants resume`."),
    "wrong_state": ("HL122", "Do what the message says first."),
    "too_large": ("HL123", "Send less at once: an event may have 256 KiB, a batch 8 MiB."),
    "invalid_type": ("HL124", "Use 1 to 128 characters of `A-Za-z0-9_.-`."),
    "invalid_id": ("HL125", "Use 1 to 128 characters of `A-Za-z0-9_-`, or send no id."),
    "invalid_key": ("HL126", "Use 1 to 255 bytes of UTF-8 without control characters, or send no key."),
    "invalid_endpoints": ("HL127", "Send a list of ids of endpoints, or leave it out."),
    "invalid_idempotency_key": ("HL128", "Use 1 to 255 printable ASCII characters."),
    "idempotency_conflict": ("HL129", "Use a new idempotency key or id for new content."),
    "schema_violation": ("HL130", "Correct the data; `errors` says where it breaks the schema of its type."),
    "invalid_schema": ("HL131", "Send a JSON Schema of draft 2020-12 that refers to nothing outside itself."),
    "unknown_endpoint": ("HL132", "Use an id that `hooklane endpoints ls` lists."),
    "too_deep": ("HL133", "Nest less: 64 levels are the most."),
    "too_many_keys": ("HL134", "Send fewer object keys: 10,000 are the most."),
    "number_too_long": ("HL135", "Send long numbers as strings: 64 characters are the most."),
    "too_many_events": ("HL136", "Send several batches: 1,000 events are the most."),
    "invalid_body": ("HL137", "Send the shape that `/api/docs` shows for this call."),
    "invalid_parameter": ("HL138", "Correct the parameter that the message names."),
    "invalid_tenant": ("HL139", "Correct the setting that the message names."),
    "invalid_endpoint": ("HL140", "Correct the setting that the message names."),
    "immutable_field": ("HL141", "Make a new endpoint with the other value, and delete this one."),
    "url_not_allowed": ("HL142", "Use https and a public address, or have the operator widen `egress_allow`."),
    "too_many_members": ("HL143", "Narrow the filter, and make several plans."),
    "note_required": ("HL144", "Say why in `note`; it goes on record."),
    "wrong_side": ("HL145", "Use the calls of the inbox: `/api/v1/inbox/…`."),
    "quota_exceeded": ("HL146", "Repeat after `Retry-After`, or raise the tenant's quota."),
    "too_many_requests": ("HL147", "Repeat after `Retry-After`, with fewer calls at once."),
    "headers_too_large": ("HL148", "Send fewer or shorter headers."),
    "internal": ("HL149", "Report it with the traceback of the server's log: this is a bug."),
    "inbox_refused": ("HL150", "Read the server's log: it says what is wrong with the tables of the inbox."),
}
"""By name: the number, and what to do."""

SAME: Mapping[str, str] = {
    "secrets_sealed": "SecretsSealed",
    "overloaded": "Overloaded",
    "busy": "StoreBusy",
    "search_too_long": "SearchTooLong",
    "unavailable": "StoreUnavailable",
    "unknown_outcome": "StoreError",
    "storage_gone": "StoreGone",
    "storage_full": "StoreFull",
    "UrlNotAllowed": "url_not_allowed",
    "BROKEN": "Broken",
}
"""Other names of an error: what is one exception to a program is one problem to a caller of the API."""


def number_of(error: BaseException) -> str:
    """The number of *error*: of its code where it has one, else of its class or the nearest that it is a kind of."""
    exit_name = getattr(getattr(error, "exit", None), "name", "")
    names = [getattr(error, "code", ""), exit_name, *(kind.__name__ for kind in type(error).__mro__)]
    return next((number_named(name) for name in names if name in NUMBERS or name in SAME), "HL001")


def number_named(name: str) -> str:
    return NUMBERS[SAME.get(name, name)][0]
