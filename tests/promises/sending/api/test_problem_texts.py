"""A problem is told so that a person knows what is wrong and what to do: the thing is named, sizes have units."""

from typing import Any

from tests.promises.sending.api.conftest import Api

V1 = "/api/v1"


NOT_FOUND = {
    "events/evt_none": "there is no event with this id",
    "endpoints/ep_none": "there is no endpoint with this id",
    "dead-letters/dlv_none": "there is no dead letter with this id: it was replayed or skipped, or never existed",
    "lanes/ep_none/k": "this endpoint has no lane with this key: no event with the key was published to it",
    "inbox/7": "there is no row with this id in the inbox",
    "plans/pln_none": "there is no plan with this id",
    "jobs/job_none": "there is no job with this id",
    "nothing": "there is nothing at this path; /api/docs lists all calls",
}


async def test_what_is_not_found_is_named(api: Api):
    for path, detail in NOT_FOUND.items():
        answer = await api.call("GET", f"{V1}/{path}")

        assert (answer.status, answer.json["title"], answer.json["detail"]) == (404, "Not found", detail), path


async def test_a_body_that_is_too_large_is_told_the_bound_in_a_unit_for_people(api: Api, publish_path: str):
    answer = await api.call("POST", publish_path, b'{"type":"a","data":"%b"}' % (b"x" * 300_000))

    assert answer.code == "too_large"
    assert answer.json["detail"].startswith("the body is larger than 272 KiB, the most for")


async def test_data_that_is_too_large_is_told_both_sizes(api: Api):
    answer = await api.call("POST", f"{V1}/events", b'{"type":"a","data":"%b"}' % (b"x" * 270_000))

    assert (answer.code, answer.json["detail"]) == ("too_large", "data must be at most 256 KiB, got 263.7 KiB")


async def test_a_wrong_method_is_told_the_right_ones(api: Api):
    answer = await api.call("PUT", f"{V1}/events")

    assert (answer.status, answer.json["detail"]) == (405, "PUT is not supported here; use GET, HEAD, POST")


async def test_a_filter_of_the_other_side_is_told_where_it_belongs(api: Api):
    answer: Any = await api.call("GET", f"{V1}/dead-letters?side=inbox&endpoint=ep_1")

    assert answer.json["detail"] == "endpoint is not a filter for side=inbox; use it with side=sender"
