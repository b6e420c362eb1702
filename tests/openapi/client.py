"""Makes every call of openapi.json with a client that openapi-python-client generated from it.

Usage: client.py FOLDER-OF-THE-PACKAGE URL TOKEN. The server has an event `evt_1` and a message of it.
Fails when a call is answered with a status that the document does not list, or with a body that the client cannot
read; when a call cannot be written; or when a route has none.
"""

import importlib
import inspect
import json
import pathlib
import pkgutil
import sys
import typing
import uuid

folder, url, token = sys.argv[1:]
sys.path.insert(0, folder)
package = importlib.import_module("generated")
models = importlib.import_module("generated.models")
client = package.AuthenticatedClient(base_url=url, token=token, raise_on_unexpected_status=True)

# What is answered with a problem, because of what the server has: no secret was received in pairing, the destination
# is paused, no operation waits for a second person.
REFUSED = {
    "post_providers_name_pairing": {404, 409},
    "post_destinations_name_decide": {409},
    "post_operations_operation_id_approve": {409},
    "post_operations_operation_id_continue": {409},
    "post_operations_operation_id_cancel": {200, 409},
    "post_messages_message_id_decide": {200, 409},
    "post_events_provider_event_id_decide": {200, 409, 428},
}


def module(name):
    return next(one for one in modules if one.__name__.endswith("." + name))


def call(name, **arguments):
    return module(name).sync_detailed(client=client, **arguments)


modules = [
    importlib.import_module(found.name)
    for found in pkgutil.walk_packages(package.api.__path__ if hasattr(package, "api") else importlib.import_module("generated.api").__path__, "generated.api.")
    if not found.ispkg
]

message_filter = models.MessageFilter(state=models.MessageState.HELD)
preview = call("post_operations_preview", body=models.OperationChoiceMessages(messages=message_filter)).parsed
subject = models.OperationSubjectMessages(
    messages=models.OperationSubjectMessagesContent(act=models.MessageAct.DISCARD, filter_=message_filter)
)
begun = call(
    "post_operations",
    body=models.OperationOrder(subject=subject, counted_n=preview.counted_n, set_=preview.set_, reason="r"),
    idempotency_key="operation",
).parsed
made = call(
    "post_tokens",
    body=models.TokenOrder(name="generated", role=models.Role.VIEWER, valid_for_s=60, reason="r"),
    idempotency_key="token",
).parsed
assert made.facts.role is models.Role.VIEWER, made
messages = call("get_messages").parsed
event = call("get_events_provider_event_id", provider="stripe", event_id="evt_1")
unchanged = call("get_events_provider_event_id", provider="stripe", event_id="evt_1", if_none_match=event.headers["etag"])
assert (event.status_code, unchanged.status_code) == (200, 304), (event, unchanged)
assert {type(entry).__name__ for entry in event.parsed.entries} >= {"LedgerEntryReceived", "LedgerEntryLatched"}, event
missing = call("get_events_provider_event_id", provider="stripe", event_id="nope")
assert (missing.status_code, missing.parsed.code) == (404, models.ProblemCode.NOT_FOUND), missing

ARGUMENTS = {
    "provider": "stripe",
    "event_id": "evt_1",
    "message_id": messages.items[0].message_id,
    "operation_id": begun.operation_id,
    "token_id": made.facts.token_id,
    "id": "evt_1",
    "id_query": "evt_1",
}
REASON = models.ReasonOrder(reason="r")
BODIES = {
    "EventOrder": models.EventOrder(act=models.EventAct.RERUN, reason="r"),
    "MessageOrder": models.MessageOrder(act=models.MessageAct.SEND, reason="r"),
    "PauseOrder": models.PauseOrder(act=models.PauseAct.PAUSE, reason="r"),
    "ReasonOrder": REASON,
    "TestEventOrder": models.TestEventOrder(reason="r"),
    "WhatIfOrder": models.WhatIfOrder(),
    "ExplainOrder": models.ExplainOrder(request="POST /webhooks/stripe\n\n{}", provider="stripe"),
    "TokenOrder": models.TokenOrder(name="another", role=models.Role.OPERATOR, valid_for_s=60, reason="r"),
    "OperationOrder": models.OperationOrder(subject=subject, counted_n=0, set_="none", reason="r", again=True),
    "OperationChoice": models.OperationChoiceEvents(events=models.EventFilter(state=models.EventState.HANDLED)),
}
REFUSED["post_operations"] = {409}


def argument(operation, name, parameter):
    if name == "name":
        return "billing" if "destinations" in operation else "stripe"
    if name == "idempotency_key":
        return str(uuid.uuid4())
    if name == "state":
        return models.EventState.HANDLED if "events" in operation else models.MessageState.HELD
    if name == "body":
        kinds = typing.get_args(parameter.annotation) or (parameter.annotation,)
        names = {getattr(kind, "__name__", str(kind)) for kind in kinds}
        wanted = [body for body in BODIES if any(kind == body or kind.startswith(body) for kind in names)]
        return BODIES[wanted[0]]
    return ARGUMENTS[name]


called = {}
for one in modules:
    operation = one.__name__.rsplit(".", 1)[1]
    given = {
        name: argument(operation, name, parameter)
        for name, parameter in inspect.signature(one.sync_detailed).parameters.items()
        if name != "client" and parameter.default is inspect.Parameter.empty or name == "body"
    }
    answer = one.sync_detailed(client=client, **given)
    status = answer.status_code.value
    called[operation] = status
    wanted = REFUSED.get(operation, {200, 201, 202})
    assert status in wanted, f"{operation} answered {status}: {answer.content[:500]}"
    assert answer.parsed is not None or operation.endswith("_body"), f"{operation}: {answer.content[:500]}"

document = json.loads((pathlib.Path(folder) / "openapi.json").read_text())
wanted = {one["operationId"] for path in document["paths"].values() for one in path.values()}
assert wanted == set(called), wanted ^ (set(called))
print(f"{len(called)} operations were called")
